//! Rows compared with what the journal says of a submission, and filled from it.

use super::SubmissionState;
use crate::model::state::columns::About;
use crate::model::state::{JobFacts, Reason, TaskRow, TaskStatus};
use crate::store::journal::Intent;

/// True if the row is that of this very submission.
pub(super) fn is_of(row: &TaskRow, intent: &Intent, fate: &SubmissionState) -> bool {
    if let Some(id) = &row.submission_id {
        return *id == intent.submission_id;
    }
    // A row that was made from the queue alone, after the state file was lost.
    match fate {
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

impl Intent {
    /// Returns the row of this submission before there is an answer.
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

/// Makes the row of a submission.
pub(super) fn new_row(
    intent: &Intent,
    fate: &SubmissionState,
    other_columns: Option<u32>,
) -> TaskRow {
    let mut row = intent.row();
    row.other_columns = other_columns;
    if let SubmissionState::InDoubt { since } = fate {
        row.updated_at = Some(*since);
    }
    fill_job(&mut row, fate);
    row
}

/// Fills in what the row does not say yet of its intent.
pub(super) fn fill_intent(row: &mut TaskRow, intent: &Intent) {
    row.take_from(&intent.row(), |about, is_known| {
        about != About::Row && !is_known
    });
}

/// Gives the row the job that was accepted, if it has none. Returns whether it did.
pub(super) fn fill_job(row: &mut TaskRow, fate: &SubmissionState) -> bool {
    let SubmissionState::Accepted {
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
