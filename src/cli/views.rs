//! What each command shows: totals first, then the rows.
//!
//! Tables are for people and may change; CSV and JSON are for scripts (`docs/output.md`).

use std::path::Path;

use polars::prelude::{Column, DataFrame, IntoColumn, StringChunked};

use super::output::{Format, Printer};
use crate::bids::Session;
use crate::manifest::{Decision, Manifest, Skip};
use crate::procedure::ProcedureDag;
use crate::state::{TaskRow, TaskStatus};
use crate::tables::words::{first_word, short_cell};
use crate::tables::{self, TableError};

/// Holds the figures of a `run`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunSummary {
    pub sessions: usize,
    pub tasks: usize,
    pub complete: usize,
    /// Of the complete ones, those of subject scope that a session came after.
    pub stale: usize,
    /// Limits and pauses aside: such tasks are due, and held back.
    pub due: usize,
    /// With `dry_run`: how many would be.
    pub submitted: usize,
    /// Certainly not accepted, by cause.
    pub refused: Vec<(String, usize)>,
    /// May have been accepted; looked for at the next pass.
    pub in_doubt: usize,
    /// Neither complete nor submitted, by reason.
    pub held_back: Vec<(String, usize)>,
    pub dry_run: bool,
}

impl RunSummary {
    /// Counts what a manifest holds; what came of the submissions is filled in later.
    pub fn of(sessions: usize, manifest: &Manifest) -> Self {
        let count = |is: fn(&Decision) -> bool| {
            let tasks = manifest.tasks.iter();
            tasks.filter(|task| is(&task.decision)).count()
        };
        Self {
            sessions,
            tasks: count(|decision| !matches!(decision, Decision::Skip(Skip::NotSelected))),
            complete: count(|decision| {
                matches!(decision, Decision::Skip(Skip::Complete | Skip::Stale(_)))
            }),
            stale: count(|decision| matches!(decision, Decision::Skip(Skip::Stale(_)))),
            due: count(|decision| {
                matches!(
                    decision,
                    Decision::Submit(_) | Decision::Skip(Skip::OverLimit(_) | Skip::Paused(_))
                )
            }),
            held_back: tables::reason_summary(manifest),
            ..Self::default()
        }
    }
}

/// What the table of rows shows.
const STATUS_COLUMNS: [&str; 8] = [
    "procedure",
    "subject",
    "session",
    "status",
    "reason",
    "attempt",
    "job_id",
    "submitted_at",
];

/// The same if all of them failed: what happened says more than when it began.
const FAILURE_COLUMNS: [&str; 7] = [
    "procedure",
    "subject",
    "session",
    "reason",
    "attempt",
    "job_id",
    "failure",
];

/// Prints the rows of the state; as a table, first the counts per procedure and status.
/// `selected`: there are other rows, which were not asked for.
pub fn print_status(
    printer: &mut Printer,
    rows: &[TaskRow],
    dag: &ProcedureDag,
    log_dir: Option<&Path>,
    selected: bool,
    format: Format,
) -> Result<(), TableError> {
    let frame = tables::rows_frame(rows, dag, log_dir)?;
    if format != Format::Table {
        return printer.frame(&frame, format, &[], &[]);
    }
    if rows.is_empty() {
        printer.note(if selected {
            "no row matches"
        } else {
            "no tasks on record"
        });
        return Ok(());
    }
    print_counts(printer, rows, dag)?;
    printer.line("");
    let failed = rows.iter().all(|row| row.status == TaskStatus::Failed);
    let (columns, optional): (&[&str], &[&str]) = if failed {
        (&FAILURE_COLUMNS, &["attempt", "job_id"])
    } else {
        (&STATUS_COLUMNS, &["attempt", "submitted_at"])
    };
    let rows = frame.select(columns.iter().copied())?;
    printer.frame(&rows, format, &["status"], optional)
}

/// Prints the counts per procedure and status.
pub fn print_counts(
    printer: &mut Printer,
    rows: &[TaskRow],
    dag: &ProcedureDag,
) -> Result<(), TableError> {
    let counts = with_totals(tables::status_counts(rows, dag)?)?;
    printer.frame(&counts, Format::Table, &[], &[])
}

/// Prints a row per session and a column per procedure; as a table, first the counts per
/// decision and procedure. Where the terminal has no room, cells are shortened.
pub fn print_session_status(
    printer: &mut Printer,
    sessions: &[Session],
    manifest: &Manifest,
    dag: &ProcedureDag,
    format: Format,
) -> Result<(), TableError> {
    if format == Format::Json {
        printer.data(&tables::session_status_json(sessions, manifest, dag)?);
        return Ok(());
    }
    let frame = tables::session_status(sessions, manifest, dag)?;
    if format == Format::Csv {
        return printer.frame(&frame, format, &[], &[]);
    }
    if sessions.is_empty() {
        printer.note("no sessions found");
        return Ok(());
    }
    let counts = with_totals(tables::decision_counts(manifest, dag)?)?;
    printer.frame(&counts, format, &[], &[])?;
    printer.line("");
    let mut frame = frame;
    for shorter in [first_word, short_cell] {
        if !printer.fits(&frame) {
            frame = with_cells(&frame, shorter)?;
        }
    }
    let names = frame.get_column_names();
    let painted: Vec<&str> = names.iter().skip(2).map(|name| name.as_str()).collect();
    printer.frame(&frame, format, &painted, &[])
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
        0 if format == Format::Table => printer.talk("nothing is due"),
        _ => printer.frame(&frame, format, &[], &[])?,
    }
    for (reason, count) in tables::reason_summary(manifest) {
        printer.detail(&format!("{count:>8}  {reason}"));
    }
    Ok(())
}

/// Tells what a run found and did. With `-q` only what went wrong.
pub fn print_run_summary(printer: &mut Printer, summary: &RunSummary) {
    let refused: usize = summary.refused.iter().map(|(_, count)| count).sum();
    let held_back: usize = summary.held_back.iter().map(|(_, count)| count).sum();
    let went_wrong = refused > 0 || summary.in_doubt > 0;
    let mut head = format!(
        "{}, {}: {} complete, {} due, {} {}",
        plural(summary.sessions, "session"),
        plural(summary.tasks, "task"),
        summary.complete,
        summary.due,
        summary.submitted,
        if summary.dry_run {
            "would be submitted"
        } else {
            "submitted"
        },
    );
    for (count, what) in [(refused, "refused"), (summary.in_doubt, "in doubt")] {
        if count > 0 {
            head.push_str(&format!(", {count} {what}"));
        }
    }
    if printer.is_quiet() {
        if went_wrong {
            printer.warning(&head);
        }
        return;
    }
    printer.talk(&head);
    if summary.stale > 0 {
        printer.note(&format!(
            "{} complete, but stale: sessions have come since ('session-status' shows where; \
             rerun_when_stale runs them again)",
            plural(summary.stale, "task")
        ));
    }
    print_group(printer, "refused", refused, &summary.refused);
    print_group(printer, "held back", held_back, &summary.held_back);
}

fn print_group(printer: &mut Printer, name: &str, total: usize, counts: &[(String, usize)]) {
    if counts.is_empty() {
        return;
    }
    printer.talk(&format!("{name}: {total}"));
    for (reason, count) in counts {
        printer.talk(&format!("{count:>8}  {reason}"));
    }
}

fn plural(count: usize, word: &str) -> String {
    match count {
        1 => format!("1 {word}"),
        _ => format!("{count} {word}s"),
    }
}

/// Shortens the cells of a session table; the first two columns are labels.
fn with_cells(frame: &DataFrame, shorter: fn(&str) -> &str) -> Result<DataFrame, TableError> {
    let columns = frame.columns().iter().enumerate();
    let columns = columns.map(|(at, column)| match column.str() {
        Ok(cells) if at >= 2 => {
            let cells: StringChunked = cells.iter().map(|cell| cell.map(shorter)).collect();
            cells.with_name(column.name().clone()).into_column()
        }
        _ => column.clone(),
    });
    Ok(DataFrame::new(frame.height(), columns.collect())?)
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
