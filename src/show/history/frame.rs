//! The table of what happened to tasks.

use chrono::{DateTime, Utc};
use polars::prelude::*;

use super::Entry;
use crate::show::tables::{TableError, frame, numbers, texts};

/// Returns one row per event: `time, subject, session, procedure, event, attempt, job_id, old_status,
/// new_status, reason, by, detail, source`. `time` writes times.
pub fn history_frame(
    entries: &[Entry],
    time: fn(DateTime<Utc>) -> String,
) -> Result<DataFrame, TableError> {
    let text = |name: &str, get: fn(&Entry) -> Option<&str>| {
        texts(name, entries.iter().map(|entry| get(entry)))
    };
    let columns = vec![
        texts("time", entries.iter().map(|entry| entry.at.map(time))),
        text("subject", |e| Some(&e.key.subject)),
        text("session", |e| Some(&e.key.session)),
        text("procedure", |e| Some(&e.key.procedure)),
        text("event", |e| Some(e.event.as_str())),
        numbers("attempt", entries.iter().map(|e| e.attempt.map(i64::from))),
        text("job_id", |e| e.job_id.as_ref().map(|id| id.as_str())),
        text("old_status", |e| e.old_status.map(|status| status.as_str())),
        text("new_status", |e| e.new_status.map(|status| status.as_str())),
        text("reason", |e| e.reason.map(|reason| reason.as_str())),
        text("by", |e| e.by.as_deref()),
        text("detail", |e| e.detail.as_deref()),
        text("source", |e| Some(if e.from_row { "state" } else { "log" })),
    ];
    frame(columns)
}
