//! Reads the values of options. An error lists the words that are known.

use std::time::Duration;

use crate::procedure::MemSize;
use crate::state::{Reason, TaskStatus};
use crate::tables::words::WORDS;
use crate::tables::{RowOrder, SessionOrder};

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    crate::config::duration::parse(text).map_err(|error| error.to_string())
}

pub(super) fn mem(text: &str) -> Result<MemSize, String> {
    MemSize::parse(text).map_err(|error| error.to_string())
}

pub(super) fn status(text: &str) -> Result<TaskStatus, String> {
    text.parse()
        .map_err(|_| format!("one of {}", words(TaskStatus::ALL.map(TaskStatus::as_str))))
}

/// Tells the words that `--status` takes.
pub(super) fn status_help() -> String {
    format!(
        "Only rows of this status: {}; repeatable",
        words(TaskStatus::ALL.map(TaskStatus::as_str))
    )
}

/// Tells the words that `--reason` takes.
pub(super) fn reason_help() -> String {
    format!(
        "Only rows with this reason: {}; repeatable",
        words(Reason::ALL.iter().map(|reason| reason.as_str()))
    )
}

pub(super) fn reason(text: &str) -> Result<Reason, String> {
    text.parse()
        .map_err(|_| format!("one of {}", words(Reason::ALL.iter().map(|r| r.as_str()))))
}

pub(super) fn row_order(text: &str) -> Result<RowOrder, String> {
    text.parse()
        .map_err(|_| format!("one of {}", words(RowOrder::ALL.map(RowOrder::as_str))))
}

pub(super) fn session_order(text: &str) -> Result<SessionOrder, String> {
    text.parse().map_err(|_| {
        format!(
            "one of {}",
            words(SessionOrder::ALL.map(SessionOrder::as_str))
        )
    })
}

pub(super) fn decision_word(text: &str) -> Result<&'static str, String> {
    let mut known = WORDS.into_iter();
    known
        .find(|word| *word == text)
        .ok_or_else(|| format!("one of {}", words(WORDS)))
}

pub(super) fn words<'a>(list: impl IntoIterator<Item = &'a str>) -> String {
    list.into_iter().collect::<Vec<_>>().join(", ")
}
