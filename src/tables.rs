//! The tables that people and scripts see: from our values to polars frames, from frames to text.
//!
//! Pure. Nothing here knows the terminal, colour or files; [`words`] is the one place where
//! decisions become words. The columns are documented in `docs/output.md`; scripts rely on them.

pub mod attempt;
pub mod check;
pub mod exit;
pub mod health;
pub mod history;
pub mod order;
pub mod sessions;
pub mod tasks;
pub mod words;

use std::sync::Arc;

use polars::frame::PivotColumnNaming;
use polars::prelude::*;
use polars_io::SerWriter;
use polars_io::csv::write::{CsvWriter, QuoteStyle};
use polars_io::json::{JsonFormat, JsonWriter};

pub use attempt::{row_text, used_text};
pub use exit::failure_text;
pub use history::history_frame;
pub use order::{RowOrder, SessionOrder, sort_rows, sort_sessions};
pub use sessions::{decision_counts, in_sessions, session_status, session_status_json, with_words};
pub use tasks::{failures_frame, ordered_rows_frame, rows_frame, rows_frame_of, status_counts};
pub use words::{decision_cell, decision_text, decision_word, reason_summary};

use crate::manifest::{Decision, Manifest};
use crate::procedure::ProcedureDag;
use crate::threads;

/// Says that a table could not be made. It has no cause that a user can remove.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error("cannot make a table: {0}")]
    Frame(#[from] PolarsError),
    #[error("cannot write a table as JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// The system gives polars no threads (a limit on processes).
    #[error("cannot make a table: {0}")]
    Threads(String),
}

/// Returns the tasks that are due: `subject, session, procedure, priority` (0 is first).
pub fn manifest_frame(manifest: &Manifest, dag: &ProcedureDag) -> Result<DataFrame, TableError> {
    let due: Vec<_> = manifest
        .tasks
        .iter()
        .filter(|task| matches!(task.decision, Decision::Submit(_)))
        .collect();
    Ok(DataFrame::new(
        due.len(),
        vec![
            texts("subject", due.iter().map(|t| Some(t.subject.as_str()))),
            texts("session", due.iter().map(|t| Some(t.session.as_str()))),
            texts(
                "procedure",
                due.iter().map(|t| Some(&*dag.get(t.procedure).name)),
            ),
            numbers(
                "priority",
                due.iter().map(|t| Some(t.procedure.index() as i64)),
            ),
        ],
    )?)
}

/// Writes a list of outputs, `subject, session, procedure, path`, as JSON or CSV. All have one length.
pub fn outputs(
    subjects: &[String],
    sessions: &[String],
    procedures: &[String],
    paths: &[String],
    json: bool,
) -> Result<Vec<u8>, TableError> {
    let column = |name: &str, values: &[String]| texts(name, values.iter().map(Some));
    let frame = DataFrame::new(
        paths.len(),
        vec![
            column("subject", subjects),
            column("session", sessions),
            column("procedure", procedures),
            column("path", paths),
        ],
    )?;
    if json {
        to_json(&frame)
    } else {
        to_csv(&frame)
    }
}

/// Writes a frame as CSV (RFC 4180 quoting, line ends `\n`) with a line of column names. A missing
/// value is an empty field, an empty text is `""`.
pub fn to_csv(frame: &DataFrame) -> Result<Vec<u8>, TableError> {
    let mut bytes = Vec::new();
    with_threads(|| {
        CsvWriter::new(&mut bytes)
            .with_quote_style(QuoteStyle::Necessary)
            .finish(&mut frame.clone())
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
    Ok(json_array(
        lines
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty()),
    ))
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

/// Makes a column of texts; none is null.
fn texts<S: AsRef<str>>(name: &str, values: impl Iterator<Item = Option<S>>) -> Column {
    StringChunked::from_iter_options(name.into(), values).into_column()
}

/// Makes a column of whole numbers; none is null.
fn numbers(name: &str, values: impl Iterator<Item = Option<i64>>) -> Column {
    Int64Chunked::from_iter_options(name.into(), values).into_column()
}

/// Counts how often each of `columns` occurs as `on` for each `index`, in the order of both lists;
/// a last column `total` adds them up. What `columns` does not list is not counted.
fn counts<R: AsRef<str>, C: AsRef<str>>(
    long: DataFrame,
    index: &str,
    on: &str,
    rows: &[R],
    columns: &[C],
) -> Result<DataFrame, TableError> {
    let order = DataFrame::new(rows.len(), vec![texts(index, rows.iter().map(Some))])?;
    let wide = pivot(
        long.lazy()
            .with_column(lit(1).cast(DataType::Int64).alias("n")),
        on,
        columns,
        index,
        "n",
        element().sum(),
    )?;
    let counts = columns.iter().map(|name| col(name.as_ref()));
    let total = counts
        .clone()
        .fold(lit(0).cast(DataType::Int64), |sum, count| sum + count);
    let counted = order
        .lazy()
        .join(wide, [col(index)], [col(index)], keep_left_order())
        .with_columns(
            counts
                .map(|count| count.fill_null(lit(0)))
                .collect::<Vec<_>>(),
        )
        .with_column(total.alias("total"));
    with_threads(|| counted.collect())
}

fn with_threads<T>(work: impl FnOnce() -> PolarsResult<T>) -> Result<T, TableError> {
    Ok(threads::with_threads(work).map_err(TableError::Threads)??)
}

/// Turns a long frame into a wide one: a row per `index`, a column per value of `on` that is in
/// `columns`, in that order.
fn pivot<S: AsRef<str>>(
    long: LazyFrame,
    on: &str,
    columns: &[S],
    index: &str,
    values: &str,
    aggregate: Expr,
) -> Result<LazyFrame, TableError> {
    let on_columns = DataFrame::new(columns.len(), vec![texts(on, columns.iter().map(Some))])?;
    let one = |name: &str| by_name([name], true, false);
    Ok(long.pivot(
        one(on),
        Arc::new(on_columns),
        one(index),
        one(values),
        aggregate,
        false,
        PlSmallStr::EMPTY,
        PivotColumnNaming::Auto,
    ))
}

/// Describes a left join that keeps the left frame's order.
fn keep_left_order() -> JoinArgs {
    let mut how = JoinArgs::new(JoinType::Left);
    how.maintain_order = MaintainOrderJoin::Left;
    how
}
