//! Tables of the commands: totals first, then the rows.
//!
//! Tables are for people and may change; CSV and JSON are for scripts (`docs/output.md`).

use std::collections::HashSet;
use std::path::Path;

use itertools::Itertools as _;
use polars::prelude::{Column, DataFrame, IntoColumn, StringChunked};

use super::{Format, Printer, TableError, TaskRow, TaskStatus, sys};
use crate::decide::manifest::Manifest;
use crate::model::bids::Session;
use crate::model::procedure::{ProcedureDag, Scope};
use crate::show::tables::{self, RowOrder, SessionOrder, first_word, short_cell};

/// Columns of the table of rows.
const STATUS_COLUMNS: &str = "procedure subject session status reason attempt job_id submitted_at";

/// Columns if all rows are failed: the failure is more informative than the time of submission.
const FAILURE_COLUMNS: &str = "procedure subject session reason attempt job_id failure";

/// Selection and layout of the rows of `status`.
#[derive(Debug, Clone, Copy, Default)]
pub struct RowsView<'a> {
    pub log_dir: Option<&'a Path>,
    /// Whether a selection omits procedures without rows from the counts.
    pub is_filtered: bool,
    /// Whether the time of change replaces the time of submission.
    pub shows_changes: bool,
    /// Empty for the default columns.
    pub columns: &'a [String],
    pub order: Option<RowOrder>,
    pub is_reversed: bool,
    /// Zero: all. `None`: all or, on a terminal, [`TERMINAL_ROWS`].
    pub limit: Option<usize>,
    pub format: Format,
}

/// Selection and layout of the rows of `session-status`.
#[derive(Debug, Clone, Copy, Default)]
pub struct SessionsView<'a> {
    /// Columns of procedures that were not selected.
    pub hidden: &'a [String],
    pub order: Option<SessionOrder>,
    pub is_reversed: bool,
    /// As in [`RowsView`].
    pub limit: Option<usize>,
    pub format: Format,
}

/// Default number of rows on a terminal: two or three screens.
pub const TERMINAL_ROWS: usize = 50;

/// Prints rows of the state; as a table, first the counts of all of them per procedure and status.
pub fn print_status(
    printer: &mut Printer,
    mut rows: Vec<&TaskRow>,
    dag: &ProcedureDag,
    view: &RowsView<'_>,
) -> Result<(), TableError> {
    let is_table = view.format == Format::Table;
    if is_table && rows.is_empty() {
        printer.note(if view.is_filtered {
            "no row matches (`snbb-scheduler session-status` also shows tasks without a row)"
        } else {
            "no tasks on record (`snbb-scheduler manifest` lists the tasks that are due)"
        });
        return Ok(());
    }
    if is_table {
        print_counts(printer, rows.iter().copied(), dag, view.is_filtered)?;
        printer.line("");
    }
    let is_all_failed = rows.iter().all(|row| row.status == TaskStatus::Failed);
    let (cut, order) = arrange(&mut rows, dag, view, printer);
    let (columns, optional) = columns(view, order, is_all_failed);
    let time = match is_table {
        true => sys::local_time,
        false => tables::utc_time,
    };
    let frame = tables::rows_frame_of(&rows, view.log_dir, &columns, time)?;
    printer.frame(&frame, view.format, &["status"], &optional)?;
    Cut::report(cut, printer, "rows");
    Ok(())
}

/// Sorts rows and truncates a long list. Also returns the order.
pub fn arrange(
    rows: &mut Vec<&TaskRow>,
    dag: &ProcedureDag,
    view: &RowsView<'_>,
    printer: &Printer,
) -> (Option<Cut>, RowOrder) {
    let cut = Cut::of(rows.len(), view.limit, view.format, printer);
    // Of too many rows, those that need attention are shown.
    let order = view.order.unwrap_or(match cut {
        Some(Cut { asked: false, .. }) => RowOrder::Status,
        _ => RowOrder::Procedure,
    });
    tables::sort_rows(rows, dag, order);
    Cut::apply(cut, rows, view.is_reversed);
    (cut, order)
}

/// The columns of `status`, and those that a narrow terminal omits.
fn columns<'a>(
    view: &RowsView<'a>,
    order: RowOrder,
    is_all_failed: bool,
) -> (Vec<&'a str>, Vec<&'a str>) {
    if !view.columns.is_empty() {
        let columns = view.columns.iter().map(String::as_str);
        return (columns.unique().collect(), vec![]);
    }
    if view.format != Format::Table {
        return (tables::row_columns(), vec![]);
    }
    let (columns, optional) = match is_all_failed {
        true => (FAILURE_COLUMNS, "attempt job_id"),
        false => (STATUS_COLUMNS, "attempt submitted_at job_id"),
    };
    let mut columns: Vec<&str> = columns.split(' ').collect();
    let mut optional: Vec<&str> = optional.split(' ').collect();
    // The column by which the rows are sorted replaces the time of submission.
    let sorted_by = match order {
        RowOrder::Updated => "updated_at",
        RowOrder::Elapsed => "elapsed_s",
        RowOrder::Submitted => "submitted_at",
        _ if view.shows_changes => "updated_at",
        _ => return (columns, optional),
    };
    columns.retain(|column| *column != "submitted_at");
    optional.retain(|column| *column != sorted_by);
    columns.insert(columns.len() - usize::from(is_all_failed), sorted_by);
    (columns, optional)
}

/// The shown part of a long list.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    shown: usize,
    all: usize,
    /// Whether the limit was given on the command line.
    asked: bool,
}

impl Cut {
    /// `None` if all are shown.
    pub fn of(all: usize, limit: Option<usize>, format: Format, printer: &Printer) -> Option<Self> {
        let is_on_terminal = printer.is_terminal() && format == Format::Table;
        let shown = limit.or(is_on_terminal.then_some(TERMINAL_ROWS));
        let shown = shown.filter(|shown| (1..all).contains(shown))?;
        let asked = limit.is_some();
        Some(Self { shown, all, asked })
    }

    pub fn apply<T>(cut: Option<Self>, rows: &mut Vec<T>, is_reversed: bool) {
        if is_reversed {
            rows.reverse();
        }
        rows.truncate(cut.map_or(usize::MAX, |cut| cut.shown));
    }

    pub fn report(cut: Option<Self>, printer: &mut Printer, what: &str) {
        if let Some(Self { shown, all, asked }) = cut {
            let first = if asked { "" } else { ", the most urgent first" };
            printer.note(&format!(
                "{shown} of {all} {what}{first}: `--limit 0` shows all"
            ));
        }
    }
}

/// Prints the counts per procedure and status; `is_filtered` omits procedures without rows.
pub fn print_counts<'a>(
    printer: &mut Printer,
    rows: impl IntoIterator<Item = &'a TaskRow> + Clone,
    dag: &ProcedureDag,
    is_filtered: bool,
) -> Result<(), TableError> {
    let mut counts = with_totals(tables::status_counts(rows, dag, !is_filtered)?)?;
    // Tasks that were never submitted have no row.
    let counted = if is_filtered { "selected" } else { "on record" };
    counts.rename("total", counted.into())?;
    let statuses = TaskStatus::ALL.map(TaskStatus::as_str);
    printer.frame(&counts, Format::Table, &statuses, &[])
}

/// Prints one row per session and one column per procedure; as a table, first the counts per decision
/// and procedure. A narrow terminal gets shortened cells.
pub fn print_session_status(
    printer: &mut Printer,
    mut sessions: Vec<Session>,
    manifest: &Manifest,
    dag: &ProcedureDag,
    view: &SessionsView<'_>,
) -> Result<(), TableError> {
    let format = view.format;
    if format == Format::Table && sessions.is_empty() {
        printer.note("no sessions to show");
        return Ok(());
    }
    let cut = Cut::of(sessions.len(), view.limit, format, printer);
    let order = view.order.unwrap_or(match cut {
        Some(Cut { asked: false, .. }) => SessionOrder::Status,
        _ => SessionOrder::Subject,
    });
    tables::sort_sessions(&mut sessions, manifest, dag, order);
    Cut::apply(cut, &mut sessions, view.is_reversed);
    match format {
        Format::Json => printer.data(&tables::session_status_json(&sessions, manifest, dag)?),
        Format::Csv => {
            let frame = tables::session_status(&sessions, manifest, dag)?;
            printer.frame(&frame.drop_many(view.hidden), format, &[], &[])?;
        }
        Format::Table => {
            let mut counts = tables::decision_counts(manifest, dag)?.drop_many(view.hidden);
            counts.rename("decision", "status".into())?;
            printer.frame(&with_totals(counts)?, format, &["status"], &[])?;
            printer.line("");
            let frame = tables::session_status(&sessions, manifest, dag)?;
            let mut frame = frame.drop_many(view.hidden);
            // Marks the columns of subject-scoped procedures, if a subject has several rows.
            let subjects: HashSet<_> = sessions.iter().map(|session| &session.subject).collect();
            let mut is_marked = false;
            for (_, procedure) in dag.iter().filter(|(_, one)| one.scope == Scope::Subject) {
                let name = &*procedure.name;
                let titles = frame.get_column_names();
                if subjects.len() < sessions.len()
                    && titles.iter().skip(LABELS).any(|it| *it == name)
                {
                    frame.rename(name, format!("{name}*").into())?;
                    is_marked = true;
                }
            }
            let names = frame.get_column_names();
            let painted: Vec<String> = names.iter().skip(LABELS).map(ToString::to_string).collect();
            let painted: Vec<&str> = painted.iter().map(String::as_str).collect();
            for shorter in [first_word, short_cell] {
                if !printer.fits(&frame, false) {
                    frame = with_cells(&frame, shorter, |at| at >= LABELS)?;
                }
            }
            if !printer.fits(&frame, true) {
                frame = with_cells(&frame, without_prefix, |at| at < LABELS)?;
            }
            printer.frame(&frame, Format::Table, &painted, &[])?;
            if is_marked {
                printer.line("* one task per subject, shown in each of its sessions");
            }
        }
    }
    Cut::report(cut, printer, "sessions");
    Ok(())
}

/// Prints the tasks that are due.
pub fn print_manifest(
    printer: &mut Printer,
    manifest: &Manifest,
    dag: &ProcedureDag,
    format: Format,
) -> Result<(), TableError> {
    let frame = tables::manifest_frame(manifest, dag)?;
    match frame.height() {
        0 if format == Format::Table => printer.info("nothing is due"),
        _ => printer.frame(&frame, format, &[], &[])?,
    }
    for (reason, count) in tables::reason_summary(manifest) {
        printer.detail(&format!("{count:>8}  {reason}"));
    }
    Ok(())
}

/// The number of label columns of a session table, which come first.
const LABELS: usize = 2;

/// Shortens the cells of some columns of a session table.
fn with_cells(
    frame: &DataFrame,
    shorter: fn(&str) -> &str,
    is_meant: fn(usize) -> bool,
) -> Result<DataFrame, TableError> {
    let columns = frame.columns().iter().enumerate();
    let columns = columns.map(|(at, column)| match column.str() {
        Ok(cells) if is_meant(at) => {
            let cells: StringChunked = cells.iter().map(|cell| cell.map(shorter)).collect();
            cells.with_name(column.name().clone()).into_column()
        }
        _ => column.clone(),
    });
    Ok(DataFrame::new(frame.height(), columns.collect())?)
}

/// A label without its prefix, which the column's name implies.
fn without_prefix(label: &str) -> &str {
    label.split_once('-').map_or(label, |(_, label)| label)
}

/// Adds a last row with the sum of each column of numbers.
fn with_totals(counts: DataFrame) -> Result<DataFrame, TableError> {
    let totals: Vec<Column> = counts
        .columns()
        .iter()
        .map(|column| match column.i64() {
            Ok(numbers) => {
                let sum: i64 = numbers.iter().flatten().sum();
                Column::new(column.name().clone(), [sum])
            }
            Err(_) => Column::new(column.name().clone(), ["total"]),
        })
        .collect();
    Ok(counts.vstack(&DataFrame::new(1, totals)?)?)
}
