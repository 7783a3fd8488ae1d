//! Rows of one task compared: the same attempt, a later one, and what both say together. Pure.

use crate::model::state::{Reason, RetryState, TaskRow};

/// True if two rows are the same attempt of their task, as far as they tell: unlike
/// [`crate::model::state::AttemptId`], it takes a row without submission id for the one with the same job.
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

/// Takes over what a later event says of a row. What it does not say stays.
pub(super) fn merge_rows(old: &TaskRow, news: &TaskRow) -> TaskRow {
    let mut row = news.clone();
    row.other_columns = old.other_columns;
    macro_rules! prefer {
        ($first:ident, $($field:ident).+) => {
            row.$($field).+ = $first.$($field).+.clone().or_else(|| row.$($field).+.take());
        };
    }
    macro_rules! keep {
        ($($field:ident).+) => {
            row.$($field).+ = row.$($field).+.take().or_else(|| old.$($field).+.clone());
        };
    }
    prefer!(old, job_name);
    prefer!(old, submission_id);
    prefer!(old, submitted_at);
    prefer!(old, attempt);
    prefer!(old, replaces_outputs);
    prefer!(old, input_sessions);
    if old.retry != RetryState::default() {
        row.retry = old.retry.clone();
    }
    keep!(job_id);
    keep!(facts.slurm_state);
    keep!(facts.started_at);
    keep!(facts.node_list);
    keep!(facts.req_mem_mb);
    keep!(facts.max_rss_mb);
    keep!(facts.time_limit_s);
    keep!(facts.elapsed_s);
    keep!(facts.cpu_time_s);
    keep!(facts.alloc_cpus);
    keep!(facts.cluster);
    if !row.is_in_flight() || row.reason == Some(Reason::AwaitingOutput) {
        keep!(facts.exit_code);
        keep!(facts.ended_at);
    }
    row
}
