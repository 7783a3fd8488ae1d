//! Tables of the state's rows: all of them, and how many there are of each status.

use std::collections::BTreeSet;
use std::path::Path;

use chrono::{DateTime, SecondsFormat, Utc};
use polars::prelude::*;

use super::order::{RowOrder, sort_rows};
use super::{TableError, counts, failure_text, numbers, texts};
use crate::gather::logs::log_path;
use crate::model::procedure::ProcedureDag;
use crate::model::state::{TaskRow, TaskStatus};

/// Returns all rows with the columns of the state file in its order, without those that only the program needs
/// (`replaces_outputs`, `retry_state`, `input_sessions`), and `log_path` where `log_dir` is known and there is a job, and
/// `failure`: what a failure means, in words. Sorted by procedure (the
/// configuration's order, then others by name), subject, session. Times are texts in UTC to the second:
/// `2026-01-02T03:04:05Z`.
pub fn rows_frame(
    rows: &[TaskRow],
    dag: &ProcedureDag,
    log_dir: Option<&Path>,
) -> Result<DataFrame, TableError> {
    let mut rows: Vec<&TaskRow> = rows.iter().collect();
    sort_rows(&mut rows, dag, RowOrder::Procedure);
    ordered_rows_frame(&rows, log_dir)
}

/// The columns of [`rows_frame`].
pub const ROW_COLUMNS: [&str; 26] = [
    "subject",
    "session",
    "procedure",
    "status",
    "submitted_at",
    "job_id",
    "reason",
    "attempt",
    "slurm_state",
    "exit_code",
    "started_at",
    "ended_at",
    "updated_at",
    "missing_since",
    "node_list",
    "req_mem_mb",
    "max_rss_mb",
    "time_limit_s",
    "elapsed_s",
    "cpu_time_s",
    "alloc_cpus",
    "job_name",
    "cluster",
    "submission_id",
    "log_path",
    "failure",
];

/// Returns the same of rows in the order that they come in.
pub fn ordered_rows_frame(
    rows: &[&TaskRow],
    log_dir: Option<&Path>,
) -> Result<DataFrame, TableError> {
    rows_frame_of(rows, log_dir, &ROW_COLUMNS, utc_time)
}

/// Returns only some of these columns, in this order: what is not shown is not made. `time` writes times.
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
    Ok(DataFrame::new(rows.len(), columns)?)
}

fn column(
    name: &str,
    rows: &[&TaskRow],
    log_dir: Option<&str>,
    time_text: fn(DateTime<Utc>) -> String,
) -> PolarsResult<Column> {
    let text = |get: fn(&TaskRow) -> Option<&str>| texts(name, rows.iter().map(|row| get(row)));
    let number = |get: fn(&TaskRow) -> Option<i64>| numbers(name, rows.iter().map(|row| get(row)));
    let time = |get: fn(&TaskRow) -> Option<DateTime<Utc>>| {
        texts(name, rows.iter().map(|row| get(row).map(time_text)))
    };
    Ok(match name {
        "subject" => text(|r| Some(&r.key.subject)),
        "session" => text(|r| Some(&r.key.session)),
        "procedure" => text(|r| Some(&r.key.procedure)),
        "status" => text(|r| Some(r.status.as_str())),
        "submitted_at" => time(|r| r.submitted_at),
        "job_id" => text(|r| r.job_id.as_ref().map(|id| id.as_str())),
        "reason" => text(|r| r.reason.map(|reason| reason.as_str())),
        "attempt" => number(|r| r.attempt.map(i64::from)),
        "slurm_state" => text(|r| r.facts.slurm_state.as_deref()),
        "exit_code" => text(|r| r.facts.exit_code.as_deref()),
        "started_at" => time(|r| r.facts.started_at),
        "ended_at" => time(|r| r.facts.ended_at),
        "updated_at" => time(|r| r.updated_at),
        "missing_since" => time(|r| r.missing_since),
        "node_list" => text(|r| r.facts.node_list.as_deref()),
        "req_mem_mb" => number(|r| r.facts.req_mem_mb),
        "max_rss_mb" => number(|r| r.facts.max_rss_mb),
        "time_limit_s" => number(|r| r.facts.time_limit_s),
        "elapsed_s" => number(|r| r.facts.elapsed_s),
        "cpu_time_s" => number(|r| r.facts.cpu_time_s),
        "alloc_cpus" => number(|r| r.facts.alloc_cpus),
        "job_name" => text(|r| r.job_name.as_deref()),
        "cluster" => text(|r| r.facts.cluster.as_deref()),
        "submission_id" => text(|r| r.submission_id.as_deref()),
        "log_path" => texts(
            name,
            rows.iter()
                .map(|row| log_dir.and_then(|dir| log_path(row, dir))),
        ),
        "failure" => texts(name, rows.iter().map(|row| failure_text(row))),
        _ => return Err(PolarsError::ColumnNotFound(name.to_owned().into())),
    })
}

/// Is what the logs and the rules say of a failed row, beside the row itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FailureNote {
    /// What becomes of it by itself.
    pub outlook: String,
    /// What to set first, if it would fail again as it is.
    pub remedy: Option<String>,
    /// What it may mean that its logs say nothing.
    pub silence: Option<String>,
    /// The line of its logs that tells most.
    pub line: Option<String>,
    /// Of the error log, if there is no line.
    pub line_path: Option<String>,
    /// Name of the known error that the line shows.
    pub pattern: Option<String>,
    /// What that means and what to do.
    pub meaning: Option<String>,
}

/// Returns failed rows as [`ordered_rows_frame`] does, with the columns `outlook`, `log_line`,
/// `log_line_path` and `log_pattern` after the others.
pub fn failures_frame(
    rows: &[(TaskRow, FailureNote)],
    log_dir: Option<&Path>,
) -> Result<DataFrame, TableError> {
    let only: Vec<&TaskRow> = rows.iter().map(|(row, _)| row).collect();
    let frame = ordered_rows_frame(&only, log_dir)?;
    let mut columns = frame.columns().to_vec();
    let column = |name: &str, get: fn(&FailureNote) -> Option<&str>| {
        texts(name, rows.iter().map(|(_, note)| get(note)))
    };
    columns.extend([
        column("outlook", |note| Some(&note.outlook)),
        column("log_line", |note| note.line.as_deref()),
        column("log_line_path", |note| note.line_path.as_deref()),
        column("log_pattern", |note| note.pattern.as_deref()),
    ]);
    Ok(DataFrame::new(rows.len(), columns)?)
}

/// Counts rows: `procedure, pending, running, complete, failed, total`. Procedures of the
/// configuration come first, in its order and also without any row, then others by name.
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

/// Writes a time for scripts: `2026-01-02T03:04:05Z`.
pub fn utc_time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}
