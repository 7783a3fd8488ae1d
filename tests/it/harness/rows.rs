//! Makers of rows for tests: the bare row, to be completed by what a test is about.

use std::sync::Arc;

use snbb_scheduler::model::job::JobId;
use snbb_scheduler::model::state::{Reason, TaskKey, TaskRow, TaskStatus};

/// Makes a row with nothing but what it must have.
pub fn bare(key: TaskKey, status: TaskStatus) -> TaskRow {
    TaskRow::new(key, status)
}

/// Makes the row of a first attempt, as the program itself would.
pub fn attempt(
    key: TaskKey,
    status: TaskStatus,
    reason: Reason,
    job_id: &str,
    submitted_at: chrono::DateTime<chrono::Utc>,
) -> TaskRow {
    TaskRow {
        submitted_at: Some(submitted_at),
        job_id: Some(JobId::new(job_id)),
        reason: Some(reason),
        attempt: Some(1),
        updated_at: Some(submitted_at),
        job_name: Some(Arc::from(key.job_name())),
        submission_id: Some(Arc::from(format!("s{job_id}"))),
        replaces_outputs: Some(false),
        ..bare(key, status)
    }
}
