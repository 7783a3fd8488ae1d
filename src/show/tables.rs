//! Tables for people and scripts: from values to polars frames, and from frames to text. Pure.
//!
//! Only [`words`] turns decisions into words. Scripts rely on the columns, which `docs/output.md` documents.

pub mod exit;
pub mod rows;
pub mod task_state;
pub mod words;

use std::cmp::Reverse;
use std::path::PathBuf;

use itertools::Itertools as _;
use polars::prelude::*;
use polars_io::SerWriter;
use polars_io::csv::write::{CsvWriter, QuoteStyle};
use polars_io::json::{JsonFormat, JsonWriter};

pub use exit::{failure_text, row_text, used_text};
pub use rows::{
    decision_counts, in_sessions, ordered_rows_frame, row_columns, row_json, rows_frame_of,
    selected, session_status, session_status_json, status_counts, utc_time, with_words,
};
pub use task_state::{Group, Tally, TaskState, count_states, first_word, short_cell, tallies};
pub use words::{decision_cell, decision_text, job_of, reason_of, reason_summary};

use crate::base::parallel;
use crate::base::words::words;
use crate::decide::manifest::{Manifest, Planned};
use crate::model::bids::Session;
use crate::model::procedure::ProcedureDag;
use crate::model::state::TaskRow;

/// Why a table could not be made. No cause is the user's.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("cannot make a table: {0}")]
    Frame(#[from] PolarsError),
    #[error("cannot write a table as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The system refuses threads for polars, because of a limit on processes.
    #[error("cannot make a table: {0}")]
    Threads(String),
}

/// Due tasks: `subject, session, procedure, priority` (0 is first).
pub fn manifest_frame(manifest: &Manifest, dag: &ProcedureDag) -> Result<DataFrame, TableError> {
    let due: Vec<&Planned> = manifest.due().collect();
    let priorities = due.iter().map(|t| Some(t.procedure.index() as i64));
    let mut columns = task_columns(&due, dag);
    columns.push(numbers("priority", priorities));
    frame(columns)
}

/// One row per path of a task's outputs.
pub fn outputs(rows: &[(&Planned, PathBuf)], dag: &ProcedureDag) -> Result<DataFrame, TableError> {
    let paths = rows.iter().map(|(_, path)| Some(path.to_string_lossy()));
    let tasks: Vec<&Planned> = rows.iter().map(|(task, _)| *task).collect();
    let mut columns = task_columns(&tasks, dag);
    columns.push(texts("path", paths));
    frame(columns)
}

fn task_columns(tasks: &[&Planned], dag: &ProcedureDag) -> Vec<Column> {
    let procedures = tasks.iter().map(|t| Some(&*dag.get(t.procedure).name));
    vec![
        texts("subject", tasks.iter().map(|t| Some(t.subject.as_str()))),
        texts("session", tasks.iter().map(|t| Some(t.session.as_str()))),
        texts("procedure", procedures),
    ]
}

/// Writes a frame as CSV (RFC 4180 quoting, line ends `\n`) with a line of column names. A missing
/// value and an empty text are an empty field.
pub fn to_csv(frame: &DataFrame) -> Result<Vec<u8>, TableError> {
    let mut bytes = Vec::new();
    let columns = frame.columns().iter().map(|column| match column.str() {
        Ok(cells) => texts(
            column.name(),
            cells.iter().map(|cell| cell.filter(|it| !it.is_empty())),
        ),
        Err(_) => column.clone(),
    });
    let mut frame = DataFrame::new(frame.height(), columns.collect())?;
    with_threads(|| {
        CsvWriter::new(&mut bytes)
            .with_quote_style(QuoteStyle::Necessary)
            .finish(&mut frame)
    })?;
    Ok(bytes)
}

/// Writes a frame as a JSON array with one object per row, one row per line.
pub fn to_json(frame: &DataFrame) -> Result<Vec<u8>, TableError> {
    let mut lines = Vec::new();
    with_threads(|| {
        JsonWriter::new(&mut lines)
            .with_json_format(JsonFormat::JsonLines)
            .finish(&mut frame.clone())
    })?;
    // A line end inside a value is written as `\n`, so each line is one object.
    let lines = lines.split(|&byte| byte == b'\n');
    Ok(json_array(lines.filter(|line| !line.is_empty())))
}

fn json_array<'a>(objects: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut bytes = b"[".to_vec();
    for (at, object) in objects.enumerate() {
        bytes.extend_from_slice(if at == 0 { b"\n" } else { b",\n" });
        bytes.extend_from_slice(object);
    }
    bytes.extend_from_slice(if bytes.len() == 1 { b"]\n" } else { b"\n]\n" });
    bytes
}

/// A column of texts; `None` becomes null.
pub(crate) fn texts<S: AsRef<str>>(name: &str, values: impl Iterator<Item = Option<S>>) -> Column {
    StringChunked::from_iter_options(name.into(), values).into_column()
}

/// A column of integers; `None` becomes null.
pub(crate) fn numbers(name: &str, values: impl Iterator<Item = Option<i64>>) -> Column {
    Int64Chunked::from_iter_options(name.into(), values).into_column()
}

/// A table of counts of pairs: the column `index` with `rows`, one column per word of `columns`, and their
/// sum `total`. Pairs that are in neither list are not counted.
fn counts<'a, R: AsRef<str>, C: AsRef<str>>(
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
    index: &str,
    rows: &[R],
    columns: &[C],
) -> Result<DataFrame, TableError> {
    let found = pairs.counts();
    let count = |row: &R, column: &C| {
        let pair = (row.as_ref(), column.as_ref());
        found.get(&pair).copied().unwrap_or_default() as i64
    };
    let total = |row: &R| columns.iter().map(|column| count(row, column)).sum();
    let mut table = vec![texts(index, rows.iter().map(Some))];
    for column in columns {
        let counts = rows.iter().map(|row| Some(count(row, column)));
        table.push(numbers(column.as_ref(), counts));
    }
    table.push(numbers("total", rows.iter().map(|row| Some(total(row)))));
    frame(table)
}

/// A table of columns of equal length.
pub(crate) fn frame(columns: Vec<Column>) -> Result<DataFrame, TableError> {
    let height = columns.first().map_or(0, Column::len);
    Ok(DataFrame::new(height, columns)?)
}

fn with_threads<T>(work: impl FnOnce() -> PolarsResult<T>) -> Result<T, TableError> {
    Ok(parallel::with_threads(work).map_err(TableError::Threads)??)
}

words! {
    /// The orders of rows.
    #[derive(Default)]
    pub enum RowOrder {
        /// Procedure (the configuration's order, then others by name), subject, session.
        #[default]
        Procedure = "procedure",
        /// Subject, session, procedure.
        Subject = "subject",
        /// Session, subject, procedure.
        Session = "session",
        /// Failed, running, pending, complete; within each, the latest change first.
        Status = "status",
        /// Latest submission first.
        Submitted = "submitted",
        /// Latest change first.
        Updated = "updated",
        /// Longest run time first.
        Elapsed = "elapsed",
    }
}

words! {
    /// The orders of sessions.
    #[derive(Default)]
    pub enum SessionOrder {
        /// Subject, session.
        #[default]
        Subject = "subject",
        /// Session, subject.
        Session = "session",
        /// Most urgent first.
        Status = "status",
    }
}

/// Sorts rows. Rows that compare equal are sorted by [`RowOrder::Procedure`], so the result is always the same.
pub fn sort_rows(rows: &mut [&TaskRow], dag: &ProcedureDag, order: RowOrder) {
    rows.sort_by_cached_key(|row| {
        let key = &row.key;
        (
            dag.rank(&key.procedure),
            &*key.procedure,
            &*key.subject,
            &*key.session,
        )
    });
    match order {
        RowOrder::Procedure => {}
        RowOrder::Subject => rows.sort_by_key(|row| (&*row.key.subject, &*row.key.session)),
        RowOrder::Session => rows.sort_by_key(|row| (&*row.key.session, &*row.key.subject)),
        RowOrder::Status => {
            let urgency = |row: &TaskRow| TaskState::of_status(row.status).style().urgency;
            rows.sort_by_key(|row| (urgency(row), Reverse(row.updated_at)));
        }
        RowOrder::Submitted => rows.sort_by_key(|row| Reverse(row.submitted_at)),
        RowOrder::Updated => rows.sort_by_key(|row| Reverse(row.updated_at)),
        RowOrder::Elapsed => rows.sort_by_key(|row| Reverse(row.facts.elapsed_s)),
    }
}

/// Sorts sessions, which must already be sorted by subject and session.
pub fn sort_sessions(
    sessions: &mut [Session],
    manifest: &Manifest,
    dag: &ProcedureDag,
    order: SessionOrder,
) {
    match order {
        SessionOrder::Subject => {}
        SessionOrder::Session => sessions.sort_by(|a, b| a.session.cmp(&b.session)),
        SessionOrder::Status => {
            let rows = rows::by_session(&*sessions, &manifest.tasks, dag);
            let ranked = rows.into_iter().map(|(session, tasks)| {
                let states = tasks.iter().map(|task| TaskState::of(&task.decision));
                let urgency = states.map(|state| state.style().urgency).min();
                (urgency.unwrap_or(u8::MAX), session.clone())
            });
            let ranked = ranked.sorted_by_key(|(rank, _)| *rank);
            for (place, (_, session)) in sessions.iter_mut().zip(ranked) {
                *place = session;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d23_an_empty_text_is_an_empty_field_of_csv() {
        let columns = vec![
            texts("a", [Some("x"), Some(""), None].into_iter()),
            texts("b", [Some("1,2"), Some("y"), Some("\"")].into_iter()),
        ];
        let frame = DataFrame::new(3, columns).unwrap();
        let csv = String::from_utf8(to_csv(&frame).unwrap()).unwrap();
        assert_eq!(csv, "a,b\nx,\"1,2\"\n,y\n,\"\"\"\"\n");
    }

    #[test]
    fn order_names_are_parsed_back() {
        for order in RowOrder::ALL {
            assert_eq!(order.as_str().parse(), Ok(order));
        }
        for order in SessionOrder::ALL {
            assert_eq!(order.as_str().parse(), Ok(order));
        }
        assert!("size".parse::<RowOrder>().is_err());
    }
}
