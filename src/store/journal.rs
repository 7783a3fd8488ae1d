//! The journal beside the state file: what a run has begun and what came of it, synced before
//! anything relies on it, until the state file holds it.
//!
//! Append only, one JSON line per entry. Each line carries a checksum, and the offset at which its
//! append began, so that what a crash cut or left as zeros is told from damage. Nothing is acted
//! on before [`Journal::append`] has returned, so an append that a crash cut never counts.
//!
//! Who reads without the lock reads the journal before the state file: what is folded in between
//! is then in both, and [`replay()`] does nothing twice. Each fold removes it, once the rows are saved
//! ([`crate::store::state_file::LockedStore::save`]); what goes on begins a new one with the intents that are left.

mod error;
mod line;
mod reading;
mod replay;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

pub use error::JournalError;
pub use reading::{read, salvage};
pub use replay::{Effect, Replayed, SubmissionState, replay, settle};

use crate::base::durable;
use crate::base::regular::open_for_appending;
use crate::model::job::JobId;
use crate::model::state::table::Metadata;
use crate::model::state::{RetryState, TaskKey};
use error::io_error;

/// Holds what can still be read of a damaged journal.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Salvaged {
    /// All readable lines, those after a damage included.
    pub entries: Vec<Entry>,
    /// Lines that are damaged, counted from 1, with what is wrong. What a crash may cut is none.
    pub damaged: Vec<(usize, String)>,
}

/// One line of the journal, as it is written.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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

impl Entry {
    /// Adds what an entry knows of its study to the metadata of a state whose file is gone.
    pub fn fill(&self, meta: &mut Metadata) {
        if let (Self::Intent(intent), None) = (self, &meta.project) {
            meta.project = intent.project.as_deref().map(str::to_owned);
            meta.path = intent.state_file.as_deref().map(str::to_owned);
        }
    }

    pub fn submission_id(&self) -> &Arc<str> {
        match self {
            Self::Intent(Intent { submission_id, .. })
            | Self::Sending { submission_id, .. }
            | Self::Accepted { submission_id, .. }
            | Self::Refused { submission_id, .. }
            | Self::InDoubt { submission_id, .. } => submission_id,
        }
    }
}

/// The attempt that a run is about to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    pub submission_id: Arc<str>,
    #[serde(flatten)]
    pub key: TaskKey,
    pub job_name: Arc<str>,
    pub attempt: i32,
    pub submitted_at: DateTime<Utc>,
    pub replaces_outputs: bool,
    pub req_mem_mb: Option<i64>,
    pub time_limit_s: Option<i64>,
    #[serde(default, skip_serializing_if = "RetryState::is_default")]
    pub retry: RetryState,
    /// See [`crate::model::state::TaskRow::input_sessions`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_sessions: Option<Arc<str>>,
    /// The study that submits, as the metadata of its state file names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_file: Option<Arc<str>>,
}

/// Is an open journal; the caller holds the lock.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    extent: Extent,
    failed: bool,
}

/// Says how much of which file an open [`Journal`] knows, also while it goes on.
#[derive(Debug, Clone)]
pub struct Extent {
    inode: u64,
    /// Bytes that this process found or wrote itself.
    size: Arc<AtomicU64>,
}

impl Extent {
    /// Returns inode and length.
    pub fn mark(&self) -> (u64, u64) {
        (self.inode, self.size.load(Ordering::Relaxed))
    }
}

impl Journal {
    /// Opens the journal for appending, and makes it if need be. What a crash cut at its end is
    /// cut off first.
    ///
    /// A new file takes its mode from the umask and its group from the directory.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let file = open_file(path)?;
        let inode = file
            .metadata()
            .map_err(|source| io_error("look at", path, source))?
            .ino();
        let mut journal = Self {
            path: path.to_owned(),
            file,
            extent: Extent {
                inode,
                size: Arc::default(),
            },
            failed: false,
        };
        journal.mend()?;
        // Also for a file that was there: who made it may have crashed before it was safe.
        journal
            .file
            .sync_all()
            .map_err(|source| io_error("sync", path, source))?;
        durable::sync_directory_of(path)
            .map_err(|source| io_error("sync the directory of", path, source))?;
        Ok(journal)
    }

    /// Appends entries in one write and syncs them. After an error nothing more may be appended: a
    /// failed sync says nothing about a second one.
    ///
    /// Refuses, before anything is written, if another call has written to the journal meanwhile: the
    /// lock lies, and what is to be submitted now may be submitted by that call.
    pub fn append(&mut self, entries: &[Entry]) -> Result<(), JournalError> {
        self.append_if(entries, true)
    }

    /// Appends what has happened already, whoever else writes.
    pub fn append_facts(&mut self, entries: &[Entry]) -> Result<(), JournalError> {
        self.append_if(entries, false)
    }

    fn append_if(&mut self, entries: &[Entry], alone: bool) -> Result<(), JournalError> {
        if self.failed {
            return Err(JournalError::FailedBefore {
                path: self.path.clone(),
            });
        }
        if entries.is_empty() {
            return Ok(());
        }
        let result = self.try_append(entries, alone);
        self.failed =
            matches!(&result, Err(error) if !matches!(error, JournalError::Shared { .. }));
        result
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn extent(&self) -> Extent {
        self.extent.clone()
    }

    /// True if the path still leads to this file, and all that was appended is in it.
    pub fn is_in_place(&self) -> bool {
        !self.failed && matches!(self.named_file(), Ok(Some(_)))
    }

    fn try_append(&mut self, entries: &[Entry], alone: bool) -> Result<(), JournalError> {
        let not_recorded = |action, source| JournalError::NotRecorded {
            action,
            path: self.path.clone(),
            source,
        };
        let start = self
            .file
            .metadata()
            .map_err(|source| not_recorded("look at", source))?
            .len();
        if alone && start != self.extent.mark().1 {
            return Err(JournalError::Shared {
                path: self.path.clone(),
            });
        }
        let mut text = Vec::with_capacity(entries.len() * 400);
        for entry in entries {
            line::write(&mut text, start, entry);
        }
        let (written, outcome) = write_counting(&mut self.file, &text);
        // Of a line that was cut by a full disk too: what stands there is not another call's.
        self.grow(written);
        outcome.map_err(|source| not_recorded("write to", source))?;
        self.file
            .sync_data()
            .map_err(|source| not_recorded("sync", source))?;
        // Shorter: another call took the line that it found half written for the end of a crash.
        let whole = |named: &std::fs::Metadata| named.len() >= start + text.len() as u64;
        if !self
            .named_file()
            .unwrap_or(None)
            .is_some_and(|named| whole(&named))
        {
            return Err(JournalError::Replaced {
                path: self.path.clone(),
            });
        }
        Ok(())
    }

    fn grow(&self, bytes: u64) {
        self.extent.size.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Looks at the file that the path leads to; none if it is another one than the open one.
    fn named_file(&self) -> io::Result<Option<std::fs::Metadata>> {
        let open = self.file.metadata()?;
        let named = std::fs::metadata(&self.path)?;
        Ok(((open.dev(), open.ino()) == (named.dev(), named.ino())).then_some(named))
    }

    fn mend(&mut self) -> Result<(), JournalError> {
        let mut bytes = Vec::new();
        self.file
            .read_to_end(&mut bytes)
            .map_err(|source| io_error("read", &self.path, source))?;
        let found = line::scan(&bytes).map_err(|damage| damage.at(&self.path))?;
        self.extent
            .size
            .store(found.whole as u64, Ordering::Relaxed);
        if found.whole < bytes.len() {
            // What grows was not left by a crash.
            let length = self
                .file
                .metadata()
                .map_err(|source| io_error("look at", &self.path, source))?
                .len();
            if length != bytes.len() as u64 {
                return Err(JournalError::Shared {
                    path: self.path.clone(),
                });
            }
            self.file
                .set_len(found.whole as u64)
                .map_err(|source| io_error("cut the end off", &self.path, source))?;
        }
        if found.lacks_newline {
            self.file
                .write_all(b"\n")
                .map_err(|source| io_error("write to", &self.path, source))?;
            self.grow(1);
        }
        Ok(())
    }
}

/// Writes all bytes, and tells how many were taken if not all.
fn write_counting(file: &mut File, bytes: &[u8]) -> (u64, io::Result<()>) {
    let mut rest = bytes;
    let outcome = loop {
        if rest.is_empty() {
            break Ok(());
        }
        match file.write(rest) {
            Ok(0) => break Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => rest = rest.get(taken..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
    };
    ((bytes.len() - rest.len()) as u64, outcome)
}

fn open_file(path: &Path) -> Result<File, JournalError> {
    let file = open_for_appending(path).map_err(|source| io_error("open", path, source))?;
    require_file(path, &file)?;
    Ok(file)
}

/// Refuses what would block or swallow entries (a pipe, a device).
fn require_file(path: &Path, file: &File) -> Result<(), JournalError> {
    let metadata = file
        .metadata()
        .map_err(|source| io_error("look at", path, source))?;
    if metadata.is_file() {
        Ok(())
    } else {
        Err(JournalError::NotAFile {
            path: path.to_owned(),
        })
    }
}
