//! Tables of the `state` commands: findings, repairs and the paths of the files.

use polars::prelude::*;

use super::{TableError, frame, numbers, texts};
use crate::model::state::TaskRow;
use crate::store::verify::Finding;

/// A row that a repair adds, changes or removes.
#[derive(Debug, Clone, PartialEq)]
pub struct Repaired {
    /// `+`, `~` or `-`.
    pub sign: &'static str,
    pub row: TaskRow,
    pub origin: &'static str,
}

/// One row per finding: `level, part, finding, todo`.
pub fn findings_frame(findings: &[Finding]) -> Result<DataFrame, TableError> {
    let text =
        |name: &str, get: fn(&Finding) -> Option<&str>| texts(name, findings.iter().map(get));
    frame(vec![
        text("level", |f| Some(f.level.as_str())),
        text("part", |f| Some(f.part)),
        text("finding", |f| Some(&f.text)),
        text("todo", |f| f.todo.as_deref()),
    ])
}

/// One row per file: `file, path`.
pub fn paths_frame(files: &[(String, String)]) -> Result<DataFrame, TableError> {
    let text = |name: &str, get: fn(&(String, String)) -> &String| {
        texts(name, files.iter().map(|file| Some(get(file))))
    };
    frame(vec![
        text("file", |file| &file.0),
        text("path", |file| &file.1),
    ])
}

/// One row per task: `change, procedure, subject, session, status, reason, attempt, job_id, from`.
pub fn repair_frame(rows: &[Repaired]) -> Result<DataFrame, TableError> {
    let text = |name: &str, get: fn(&Repaired) -> Option<&str>| texts(name, rows.iter().map(get));
    frame(vec![
        text("change", |r| Some(r.sign)),
        text("procedure", |r| Some(&r.row.key.procedure)),
        text("subject", |r| Some(&r.row.key.subject)),
        text("session", |r| Some(&r.row.key.session)),
        text("status", |r| Some(r.row.status.as_str())),
        text("reason", |r| r.row.reason.map(|reason| reason.as_str())),
        numbers("attempt", rows.iter().map(|r| r.row.attempt.map(i64::from))),
        text("job_id", |r| r.row.job_id.as_ref().map(|id| id.as_str())),
        text("from", |r| Some(r.origin)),
    ])
}
