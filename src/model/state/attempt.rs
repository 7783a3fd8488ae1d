//! Which attempt a row is about. Pure.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{TaskKey, TaskRow};
use crate::model::job::JobId;

/// Tells attempts of all tasks apart: by the submission, or (rows of other programs) by time and job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AttemptId {
    key: TaskKey,
    by: By,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum By {
    Submission(Arc<str>),
    TimeAndJob(Option<DateTime<Utc>>, Option<JobId>),
}

impl AttemptId {
    pub fn of(row: &TaskRow) -> Self {
        Self {
            key: row.key.clone(),
            by: match &row.submission_id {
                Some(id) => By::Submission(Arc::clone(id)),
                None => By::TimeAndJob(row.submitted_at, row.job_id.clone()),
            },
        }
    }
}
