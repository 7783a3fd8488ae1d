//! One event of the log, as a value.

use chrono::{DateTime, Utc};

use super::facts::extras_of;
use crate::base::words::words;
use crate::model::job::JobId;
use crate::model::state::{TaskKey, TaskRow, TaskStatus};

/// Is one event. Texts of `extra` become further keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub at: DateTime<Utc>,
    pub kind: EventKind,
    /// None for events of the whole study: subject, session and procedure are then empty.
    pub key: Option<TaskKey>,
    pub job_id: Option<JobId>,
    pub old_status: Option<TaskStatus>,
    pub new_status: Option<TaskStatus>,
    pub detail: Option<String>,
    pub extra: Vec<(&'static str, serde_json::Value)>,
}

words! {
    /// The kinds of events.
    pub enum EventKind {
        Submitted = "submitted",
        StatusChange = "status_change",
        /// Same status, another reason.
        ReasonChange = "reason_change",
        Error = "error",
        RetryCleared = "retry_cleared",
        Adopted = "adopted",
        Released = "released",
        Cancelled = "cancelled",
        Paused = "paused",
        Resumed = "resumed",
        SafetyStop = "safety_stop",
        Pruned = "pruned",
        /// The state was rebuilt by `state repair`.
        Repaired = "repaired",
    }
}

impl Event {
    /// Makes an event of the whole study.
    pub fn new(at: DateTime<Utc>, kind: EventKind) -> Self {
        Self {
            at,
            kind,
            key: None,
            job_id: None,
            old_status: None,
            new_status: None,
            detail: None,
            extra: Vec::new(),
        }
    }

    /// Makes an event of a row, with all that is known of it.
    pub fn of(row: &TaskRow, at: DateTime<Utc>, kind: EventKind) -> Self {
        Self {
            key: Some(row.key.clone()),
            job_id: row.job_id.clone(),
            old_status: Some(row.status),
            extra: extras_of(row),
            ..Self::new(at, kind)
        }
    }
}
