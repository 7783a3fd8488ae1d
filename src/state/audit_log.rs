//! The audit log: JSON lines, append only, one event each.

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use super::{TaskKey, TaskStatus};
use crate::executor::JobId;

/// Appends events of one command to the log.
#[derive(Debug)]
pub struct AuditLog {}

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

/// Names the kinds of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    Submitted,
    StatusChange,
    Error,
    RetryCleared,
    Adopted,
    Released,
    Cancelled,
    Paused,
    Resumed,
    SafetyStop,
    Pruned,
}

impl AuditLog {
    /// Opens the log for appending and makes it and its directory if need be.
    pub fn open(path: &Path, run_id: &str) -> Result<Self, (PathBuf, std::io::Error)> {
        let _ = (path, run_id);
        Ok(Self {})
    }

    /// Appends events, one line each, in one write.
    pub fn append(&mut self, events: &[Event]) -> Result<(), (PathBuf, std::io::Error)> {
        let _ = events;
        Ok(())
    }
}
