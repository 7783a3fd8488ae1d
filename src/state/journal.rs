//! The journal beside the state file: what a run has begun and what came of it, synced line by
//! line, until the state file holds it.

use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{State, TaskKey};
use crate::executor::JobId;

/// Is one line of the journal.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// A task is about to be submitted in this run. Without a `Sending` it never was.
    Intent(Intent),
    /// sbatch is about to be started. Without a result the submission is in doubt.
    Sending {
        submission_id: Arc<str>,
        at: DateTime<Utc>,
    },
    Accepted {
        submission_id: Arc<str>,
        job_id: JobId,
        cluster: Option<Arc<str>>,
        at: DateTime<Utc>,
    },
    Refused {
        submission_id: Arc<str>,
        message: String,
        at: DateTime<Utc>,
    },
    InDoubt {
        submission_id: Arc<str>,
        message: String,
        at: DateTime<Utc>,
    },
}

/// Describes the attempt that a run is about to make.
#[derive(Debug, Clone, PartialEq)]
pub struct Intent {
    pub key: TaskKey,
    pub submission_id: Arc<str>,
    pub job_name: Arc<str>,
    pub attempt: i32,
    pub submitted_at: DateTime<Utc>,
    pub replaces_outputs: bool,
    pub req_mem_mb: Option<i64>,
    pub time_limit_s: Option<i64>,
}

/// Is an open journal; the caller holds the lock.
#[derive(Debug)]
pub struct Journal {}

/// Says why the journal cannot be written or read. Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("journal")]
    Todo,
}

impl Journal {
    /// Opens the journal for appending, and makes it if need be. A cut last line is cut off first.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let _ = path;
        Err(JournalError::Todo)
    }

    /// Appends entries in one write and syncs them. After an error nothing more may be appended.
    pub fn append(&mut self, entries: &[Entry]) -> Result<(), JournalError> {
        let _ = entries;
        Err(JournalError::Todo)
    }
}

/// Reads all entries. A missing file has none; a cut last line is left out; any other line that
/// cannot be read is an error.
pub fn read(path: &Path) -> Result<Vec<Entry>, JournalError> {
    let _ = path;
    Err(JournalError::Todo)
}

/// Applies entries to the rows. Doing it twice, or on a state that holds them already and has
/// gone on, changes nothing.
pub fn replay(entries: &[Entry], state: &mut State) {
    let _ = (entries, state);
}
