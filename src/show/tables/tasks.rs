//! Tables of the state's rows, and their counts by status.

use std::collections::BTreeSet;
use std::path::Path;

use chrono::{DateTime, SecondsFormat, Utc};
use polars::prelude::*;
use serde_json::{Map, Value};

use super::{TableError, counts, failure_text, frame, numbers, texts};
use crate::gather::logs::log_path;
use crate::model::procedure::ProcedureDag;
use crate::model::state::columns::{COLUMNS, Kind};
use crate::model::state::{TaskRow, TaskStatus};

/// Columns of the state file that only the program needs.
const INTERNAL: [&str; 3] = ["replaces_outputs", "retry_state", "input_sessions"];

/// The columns of [`ordered_rows_frame`].
pub fn row_columns() -> Vec<&'static str> {
    let own = COLUMNS.iter().map(|column| column.name);
    own.filter(|name| !INTERNAL.contains(name))
        .chain(["log_path", "failure"])
        .collect()
}

/// Rows in the given order: the public columns of the state file, then `log_path` (if the row has a job and
/// `log_dir` is known) and `failure` (the failure in words). Times are in UTC, as in `2026-01-02T03:04:05Z`.
pub fn ordered_rows_frame(
    rows: &[&TaskRow],
    log_dir: Option<&Path>,
) -> Result<DataFrame, TableError> {
    rows_frame_of(rows, log_dir, &row_columns(), utc_time)
}

/// Rows with only these columns. `time` formats times.
pub fn rows_frame_of(
    rows: &[&TaskRow],
    log_dir: Option<&Path>,
    names: &[&str],
    time: fn(DateTime<Utc>) -> String,
) -> Result<DataFrame, TableError> {
    let log_dir = log_dir.map(Path::to_string_lossy);
    let columns = names
        .iter()
        .map(|name| column(name, rows, log_dir.as_deref(), time))
        .collect::<PolarsResult<_>>()?;
    frame(columns)
}

fn column(
    name: &str,
    rows: &[&TaskRow],
    log_dir: Option<&str>,
    time_text: fn(DateTime<Utc>) -> String,
) -> PolarsResult<Column> {
    let row_texts =
        |get: &dyn Fn(&TaskRow) -> Option<String>| texts(name, rows.iter().map(|row| get(row)));
    match name {
        "log_path" => return Ok(row_texts(&|row| log_path(row, log_dir?))),
        "failure" => return Ok(texts(name, rows.iter().map(|row| failure_text(row)))),
        _ => {}
    }
    let own = COLUMNS.iter().find(|own| own.name == name);
    let own = own.ok_or_else(|| PolarsError::ColumnNotFound(name.to_owned().into()))?;
    Ok(match own.kind {
        Kind::Int32 | Kind::Int64 => numbers(name, rows.iter().map(|row| (own.get)(row)?.number())),
        Kind::Time => row_texts(&|row| (own.get)(row)?.time().map(time_text)),
        _ => row_texts(&|row| (own.get)(row)?.text().map(str::to_owned)),
    })
}

/// Details about a failed row from its logs and the retry rules.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailureNote {
    /// What happens next without a user.
    pub outlook: String,
    /// What to change first, if an unchanged retry would fail again.
    pub remedy: Option<String>,
    /// What missing or empty logs may mean.
    pub silence: Option<String>,
    /// The log excerpt.
    pub line: Option<String>,
    /// The file of `line`, or the error log if there is no line.
    pub line_path: Option<String>,
    /// Name of the known error that the line shows.
    pub pattern: Option<String>,
    /// Meaning and remedy of that error.
    pub meaning: Option<String>,
}

/// Failed rows as in [`ordered_rows_frame`], then `outlook`, `log_line`, `log_line_path` and `log_pattern`.
pub fn failures_frame(
    rows: &[(TaskRow, FailureNote)],
    log_dir: Option<&Path>,
) -> Result<DataFrame, TableError> {
    let only: Vec<&TaskRow> = rows.iter().map(|(row, _)| row).collect();
    let own = ordered_rows_frame(&only, log_dir)?;
    let mut columns = own.columns().to_vec();
    let column = |name: &str, get: fn(&FailureNote) -> Option<&str>| {
        texts(name, rows.iter().map(|(_, note)| get(note)))
    };
    columns.extend([
        column("outlook", |note| Some(&note.outlook)),
        column("log_line", |note| note.line.as_deref()),
        column("log_line_path", |note| note.line_path.as_deref()),
        column("log_pattern", |note| note.pattern.as_deref()),
    ]);
    frame(columns)
}

/// Row counts: `procedure, pending, running, complete, failed, total`. Procedures of the configuration come
/// first, in its order, then others by name. `with_empty` includes procedures without rows.
pub fn status_counts<'a>(
    rows: impl IntoIterator<Item = &'a TaskRow> + Clone,
    dag: &ProcedureDag,
    with_empty: bool,
) -> Result<DataFrame, TableError> {
    let pairs = rows
        .clone()
        .into_iter()
        .map(|row| (&*row.key.procedure, row.status.as_str()));
    let with_rows: BTreeSet<&str> = rows.into_iter().map(|row| &*row.key.procedure).collect();
    let others = with_rows.iter().filter(|name| dag.find(name).is_none());
    let procedures: Vec<String> = dag
        .iter()
        .map(|(_, procedure)| &*procedure.name)
        .filter(|name| with_empty || with_rows.contains(name))
        .chain(others.copied())
        .map(str::to_owned)
        .collect();
    counts(
        pairs,
        "procedure",
        &procedures,
        &TaskStatus::ALL.map(TaskStatus::as_str),
    )
}

/// A row as JSON with some columns of the state file (names separated by spaces). Times are in UTC.
pub fn row_json(row: &TaskRow, names: &str) -> Map<String, Value> {
    let columns = names.split_whitespace().filter_map(|name| {
        let own = COLUMNS.iter().find(|own| own.name == name)?;
        let value = (own.get)(row);
        let value = value.as_ref().and_then(|value| match own.kind {
            Kind::Int32 | Kind::Int64 => value.number().map(Value::from),
            Kind::Time => value.time().map(|at| utc_time(at).into()),
            _ => value.text().map(Value::from),
        });
        Some((name.to_owned(), value.unwrap_or_default()))
    });
    columns.collect()
}

/// A time for scripts: `2026-01-02T03:04:05Z`.
pub fn utc_time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}
