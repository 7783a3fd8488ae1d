//! Rows compared with what the journal says of a submission, and filled from it.

use super::Fate;
use crate::model::state::{JobFacts, Reason, RetryState, TaskRow, TaskStatus};
use crate::store::journal::Intent;

/// True if the row is that of this very submission.
pub(super) fn is_of(row: &TaskRow, intent: &Intent, fate: &Fate) -> bool {
    if let Some(id) = &row.submission_id {
        return *id == intent.submission_id;
    }
    // A row that was made from the queue alone, after the state file was lost.
    match fate {
        Fate::Accepted {
            job_id, cluster, ..
        } => {
            let row_cluster = &row.facts.cluster;
            row.is_in_flight()
                && row.job_id.as_ref() == Some(job_id)
                && (row_cluster == cluster || row_cluster.is_none() || cluster.is_none())
        }
        _ => false,
    }
}

/// True if the row's attempt was made after the intent. The count decides where it can: clocks of
/// two login nodes differ.
pub(super) fn is_later(row: &TaskRow, intent: &Intent) -> bool {
    match row.attempt {
        Some(attempt) if attempt != intent.attempt => attempt > intent.attempt,
        _ => row
            .submitted_at
            .is_some_and(|submitted_at| submitted_at > intent.submitted_at),
    }
}

/// Makes the row of a submission.
pub(super) fn new_row(intent: &Intent, fate: &Fate, other_columns: Option<u32>) -> TaskRow {
    let mut row = TaskRow {
        key: intent.key.clone(),
        status: TaskStatus::Pending,
        submitted_at: None,
        job_id: None,
        reason: Some(Reason::Submitting),
        attempt: None,
        facts: JobFacts::default(),
        updated_at: match fate {
            Fate::InDoubt { since } => Some(*since),
            _ => None,
        },
        missing_since: None,
        job_name: None,
        submission_id: None,
        replaces_outputs: None,
        retry: RetryState::default(),
        input_sessions: None,
        other_columns,
    };
    fill_intent(&mut row, intent);
    fill_job(&mut row, fate);
    row
}

/// Fills in what the row does not say yet of its intent.
pub(super) fn fill_intent(row: &mut TaskRow, intent: &Intent) {
    row.submitted_at.get_or_insert(intent.submitted_at);
    row.attempt.get_or_insert(intent.attempt);
    row.job_name.get_or_insert_with(|| intent.job_name.clone());
    row.submission_id
        .get_or_insert_with(|| intent.submission_id.clone());
    row.replaces_outputs.get_or_insert(intent.replaces_outputs);
    if row.input_sessions.is_none() {
        row.input_sessions = intent.input_sessions.clone();
    }
    if row.retry == RetryState::default() {
        row.retry = intent.retry.clone();
    }
    row.facts.req_mem_mb = row.facts.req_mem_mb.or(intent.req_mem_mb);
    row.facts.time_limit_s = row.facts.time_limit_s.or(intent.time_limit_s);
}

/// Gives the row the job that was accepted, if it has none. Returns whether it did.
pub(super) fn fill_job(row: &mut TaskRow, fate: &Fate) -> bool {
    let Fate::Accepted {
        job_id,
        cluster,
        at,
    } = fate
    else {
        return false;
    };
    if row.job_id.is_some() {
        return false;
    }
    if row.is_in_doubt() {
        row.reason = Some(Reason::Queued);
        row.missing_since = None;
    }
    row.job_id = Some(job_id.clone());
    row.facts.cluster = row.facts.cluster.take().or_else(|| cluster.clone());
    row.updated_at = Some(row.updated_at.map_or(*at, |before| before.max(*at)));
    true
}
