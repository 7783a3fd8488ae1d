//! Rows and times for tests.
#![cfg(test)]

use chrono::{DateTime, Duration, TimeZone, Utc};

use super::{Reason, TaskKey, TaskRow, TaskStatus};
use crate::model::job::JobId;

/// A fixed time plus minutes.
pub fn at(minutes: i64) -> DateTime<Utc> {
    Utc.timestamp_opt(1_767_225_600, 0).unwrap() + Duration::minutes(minutes)
}

/// A row of `sub-01`, `ses-01` and this procedure, submitted at minute 0 as job 100.
pub fn row(procedure: &str, status: TaskStatus, reason: Reason) -> TaskRow {
    TaskRow {
        submitted_at: Some(at(0)),
        job_id: Some(JobId::new("100")),
        reason: Some(reason),
        attempt: Some(1),
        updated_at: Some(at(0)),
        job_name: Some(format!("{procedure}_sub-01_ses-01").into()),
        submission_id: Some("0123456789abcdef".into()),
        replaces_outputs: Some(false),
        ..TaskRow::new(TaskKey::new("sub-01", "ses-01", procedure), status)
    }
}
