//! Compares rows with submissions of the journal, and fills them.

use super::SubmissionState;
use crate::model::state::columns::About;
use crate::model::state::{JobFacts, Reason, TaskRow, TaskStatus};
use crate::store::journal::Intent;

/// True if the row belongs to this submission.
pub(super) fn is_of(row: &TaskRow, intent: &Intent, outcome: &SubmissionState) -> bool {
    if let Some(id) = &row.submission_id {
        return *id == intent.submission_id;
    }
    // A row without submission id was adopted from the queue after the state file was lost.
    match outcome {
        SubmissionState::Accepted {
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

/// True if the row's attempt was made after the intent. The attempt number decides if possible: clocks of
/// two login nodes differ.
pub(super) fn is_later(row: &TaskRow, intent: &Intent) -> bool {
    match row.attempt {
        Some(attempt) if attempt != intent.attempt => attempt > intent.attempt,
        _ => row
            .submitted_at
            .is_some_and(|submitted_at| submitted_at > intent.submitted_at),
    }
}

impl Intent {
    /// The row of this submission before there is an answer.
    pub fn row(&self) -> TaskRow {
        TaskRow {
            submitted_at: Some(self.submitted_at),
            reason: Some(Reason::Submitting),
            attempt: Some(self.attempt),
            facts: JobFacts {
                req_mem_mb: self.req_mem_mb,
                time_limit_s: self.time_limit_s,
                ..JobFacts::default()
            },
            job_name: Some(self.job_name.clone()),
            submission_id: Some(self.submission_id.clone()),
            replaces_outputs: Some(self.replaces_outputs),
            retry: self.retry.clone(),
            input_sessions: self.input_sessions.clone(),
            ..TaskRow::new(self.key.clone(), TaskStatus::Pending)
        }
    }
}

pub(super) fn new_row(
    intent: &Intent,
    outcome: &SubmissionState,
    other_columns: Option<u32>,
) -> TaskRow {
    let mut row = intent.row();
    row.other_columns = other_columns;
    if let SubmissionState::InDoubt { since } = outcome {
        row.updated_at = Some(*since);
    }
    fill_job(&mut row, outcome);
    row
}

/// Fills values of the intent that the row lacks.
pub(super) fn fill_intent(row: &mut TaskRow, intent: &Intent) {
    row.take_from(&intent.row(), |about, is_known| {
        about != About::Row && !is_known
    });
}

/// Adds the accepted job to a row without one. Returns whether it did.
pub(super) fn fill_job(row: &mut TaskRow, outcome: &SubmissionState) -> bool {
    let SubmissionState::Accepted {
        job_id,
        cluster,
        at,
    } = outcome
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
