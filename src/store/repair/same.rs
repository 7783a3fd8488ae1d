//! Compares and merges rows of one task. Pure.

use crate::model::state::columns::About;
use crate::model::state::{Reason, TaskRow};

/// True if two rows may be the same attempt of their task. Unlike [`crate::model::state::AttemptId`], a row without
/// submission id equals a row with the same job.
pub fn is_same(a: &TaskRow, b: &TaskRow) -> bool {
    if a.key != b.key {
        return false;
    }
    match (&a.submission_id, &b.submission_id) {
        (Some(a), Some(b)) => a == b,
        _ => match (&a.job_id, &b.job_id) {
            (Some(a), Some(b)) => a == b,
            _ => a.submitted_at == b.submitted_at,
        },
    }
}

/// True if `a` is a later attempt than `b`.
pub(super) fn is_later(a: &TaskRow, b: &TaskRow) -> bool {
    match (a.attempt, b.attempt) {
        (Some(a), Some(b)) if a != b => a > b,
        _ => a.submitted_at > b.submitted_at,
    }
}

/// Merges the values of a later event into a row; other values stay.
pub(super) fn merge_rows(old: &TaskRow, news: &TaskRow) -> TaskRow {
    let mut row = news.clone();
    row.other_columns = old.other_columns;
    let has_ended = !row.is_in_flight() || row.reason == Some(Reason::AwaitingOutput);
    row.take_from(old, |about, is_known| match about {
        About::Row => false,
        About::Submission => true,
        About::Job => !is_known,
        About::End => !is_known && has_ended,
    });
    row
}
