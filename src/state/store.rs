//! The files of the state: reading, and replacing them so that a crash leaves the old or the new.
//!
//! Only a [`LockedStore`] can write.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::journal::{Journal, JournalError};
use super::lock::{Lock, LockError};
use super::{State, TaskRow};

/// Names the files of one study's state. All stand in the directory of the state file itself
/// (links are followed, so that the link stays).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatePaths {
    /// `<state_file>`
    pub state: PathBuf,
    /// `<state_file>.bak`
    pub backup: PathBuf,
    /// `<stem>.attempts.parquet`
    pub attempts: PathBuf,
    /// `<stem>.journal.jsonl`
    pub journal: PathBuf,
    /// `<stem>.lock`
    pub lock: PathBuf,
    /// `<stem>.control.json`
    pub control: PathBuf,
    /// `<stem>.local`: directory of the local executor's records.
    pub local: PathBuf,
}

/// Reads the state of one study.
#[derive(Debug, Clone)]
pub struct Store {
    pub paths: StatePaths,
}

/// Reads and writes it, while the lock is held.
#[derive(Debug)]
pub struct LockedStore {
    pub store: Store,
    lock: Lock,
}

/// Says what is wrong with the state. Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error("todo")]
    Todo,
    #[error(transparent)]
    Journal(#[from] JournalError),
}

impl Store {
    pub fn at(state_file: &Path) -> Result<Self, StateError> {
        let _ = state_file;
        Err(StateError::Todo)
    }

    /// Reads the state file and the journal. A missing file is an empty state; one that cannot be
    /// read never is.
    pub fn read(&self) -> Result<State, StateError> {
        Err(StateError::Todo)
    }

    /// Reads earlier attempts.
    pub fn read_attempts(&self) -> Result<Vec<TaskRow>, StateError> {
        Err(StateError::Todo)
    }

    /// Waits for the lock.
    pub fn lock(self, command: &str, timeout: Duration) -> Result<LockedStore, LockError> {
        let lock = Lock::acquire(&self.paths.lock, command, timeout)?;
        Ok(LockedStore { store: self, lock })
    }
}

impl LockedStore {
    /// Saves the attempts, then the rows, then removes the journal. Does nothing if nothing changed.
    /// Returns whether a file was written.
    pub fn save(&self, state: &mut State) -> Result<bool, StateError> {
        let _ = state;
        Err(StateError::Todo)
    }

    /// Opens the journal.
    pub fn journal(&self) -> Result<Journal, StateError> {
        Ok(Journal::open(&self.store.paths.journal)?)
    }

    /// Looks whether the lock is still this process's own.
    pub fn check_lock(&self) -> Result<(), LockError> {
        self.lock.check()
    }
}
