//! The journal beside the state file: each submission and its result, synced before anything relies
//! on it, until the state file has it.
//!
//! Append only, one JSON line per entry. Each line has a checksum, and the offset at which its
//! append began, to distinguish what a crash cut or left as zeros from damage. Nothing happens
//! before [`Journal::append`] has returned, so an append that a crash cut never counts.
//!
//! Readers without the lock read the journal before the state file: entries that are folded in between
//! are then in both, and [`replay()`] applies nothing twice. Each fold removes the journal once the rows are saved
//! ([`crate::store::state_file::LockedStore::save`]); a run then begins a new one with its remaining intents.

mod line;
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

pub use replay::{is_later, replay};

use crate::base::durable;
use crate::base::regular::{FileError, identity, open_for_appending, require_regular};
use crate::model::job::JobId;
use crate::model::state::table::Metadata;
use crate::model::state::{RetryState, TaskKey};

/// The readable part of a journal.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Salvaged {
    /// All readable lines; if there is damage, also those after it.
    pub entries: Vec<Entry>,
    /// Numbers of damaged lines, from 1, with the problem. A line that a crash cut is not damaged.
    pub damaged: Vec<(usize, String)>,
    /// Length of the complete lines at the start, in bytes.
    pub(crate) complete: usize,
    /// True if the last line is complete except for its newline.
    pub(crate) lacks_newline: bool,
}

impl Salvaged {
    fn require_intact(self, path: &Path) -> Result<Self, JournalError> {
        match self.damaged.first() {
            None => Ok(self),
            Some((line, problem)) => Err(JournalError::Damaged {
                path: path.to_owned(),
                line: *line,
                problem: problem.clone(),
            }),
        }
    }
}

/// Why the journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error(transparent)]
    Io(#[from] FileError),
    /// The entries may not be on disk, so nothing may rely on them.
    #[error("{0}; nothing was submitted after this")]
    NotRecorded(FileError),
    #[error("the journal {} had an error earlier in this run, so nothing more was written to it", .0.display())]
    FailedBefore(PathBuf),
    #[error("the journal {} was removed or replaced by another process; nothing was submitted after this", .0.display())]
    Replaced(PathBuf),
    #[error("another process writes to the journal {} at the same time; nothing was submitted after this", .0.display())]
    Shared(PathBuf),
    #[error("the journal {} is damaged at line {line}: {problem}", .path.display())]
    Damaged {
        path: PathBuf,
        /// Counted from 1.
        line: usize,
        problem: String,
    },
}

impl JournalError {
    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Io(error) | Self::NotRecorded(error) => durable::hint(&error.source).unwrap_or(
                "check the file system of the state file and run again; earlier entries are kept",
            ),
            Self::FailedBefore(_) => "see the first error of this run",
            Self::Replaced(_) | Self::Shared(_) => {
                "wait for the other process to end and run again; locks do not work between the two"
            }
            Self::Damaged { .. } => {
                "run `snbb-scheduler state repair` to see what can be rebuilt; keep the file, since it may list jobs that Slurm accepted"
            }
        }
    }
}

/// One line of the journal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The run is about to submit a task. Without a `Sending` it never did.
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
    /// Fills the study into the metadata of a state whose file is gone.
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
    /// The study, as in the metadata of its state file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_file: Option<Arc<str>>,
}

/// An open journal; the caller holds the lock.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    extent: Extent,
    failed: bool,
}

/// The known part of an open [`Journal`]; follows its appends.
#[derive(Debug, Clone)]
pub struct Extent {
    inode: u64,
    /// Bytes that this process read or wrote.
    size: Arc<AtomicU64>,
}

impl Extent {
    /// Inode and length.
    pub fn mark(&self) -> (u64, u64) {
        (self.inode, self.size.load(Ordering::Relaxed))
    }
}

impl Journal {
    /// Opens the journal for appending, and creates it if needed. An end that a crash cut is removed
    /// first.
    ///
    /// A new file takes its mode from the umask and its group from the directory.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let file = open_for_appending(path).map_err(FileError::of("open", path))?;
        require_regular(&file).map_err(FileError::of("open", path))?;
        let inode = file.metadata().map_err(FileError::of("stat", path))?.ino();
        let mut journal = Self {
            path: path.to_owned(),
            file,
            extent: Extent {
                inode,
                size: Arc::default(),
            },
            failed: false,
        };
        journal.remove_torn_end()?;
        // Also for an existing file: the run that created it may have crashed before syncing it.
        let synced = journal.file.sync_all();
        synced.map_err(FileError::of("sync", path))?;
        durable::sync_directory_of(path).map_err(FileError::of("sync the directory of", path))?;
        Ok(journal)
    }

    /// Appends entries in one write and syncs them. After an error nothing more may be appended,
    /// because a later sync may succeed although the entries are lost.
    ///
    /// Refuses, before anything is written, if another process has written to the journal meanwhile:
    /// then the lock does not work, and that process may submit the same tasks.
    pub fn append(&mut self, entries: &[Entry]) -> Result<(), JournalError> {
        self.append_if(entries, true)
    }

    /// Appends what has already happened, even if another process writes too.
    pub fn append_facts(&mut self, entries: &[Entry]) -> Result<(), JournalError> {
        self.append_if(entries, false)
    }

    fn append_if(&mut self, entries: &[Entry], alone: bool) -> Result<(), JournalError> {
        if self.failed {
            return Err(JournalError::FailedBefore(self.path.clone()));
        }
        if entries.is_empty() {
            return Ok(());
        }
        let result = self.try_append(entries, alone);
        self.failed = matches!(&result, Err(error) if !matches!(error, JournalError::Shared(_)));
        result
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn extent(&self) -> Extent {
        self.extent.clone()
    }

    /// True if the path still leads to this file, and every append succeeded.
    pub fn is_in_place(&self) -> bool {
        !self.failed && matches!(self.named_file(), Ok(Some(_)))
    }

    fn try_append(&mut self, entries: &[Entry], alone: bool) -> Result<(), JournalError> {
        let path = &self.path;
        let not_recorded =
            |source| JournalError::NotRecorded(FileError::of("write to", path)(source));
        let start = self.file.metadata().map_err(not_recorded)?.len();
        if alone && start != self.extent.mark().1 {
            return Err(JournalError::Shared(path.clone()));
        }
        let mut text = Vec::with_capacity(entries.len() * 400);
        for entry in entries {
            line::write(&mut text, start, entry);
        }
        let (written, outcome) = write_counting(&mut self.file, &text);
        // Also if a full disk cut the line: these bytes are not another process's.
        self.extent.size.fetch_add(written, Ordering::Relaxed);
        outcome
            .and_then(|()| self.file.sync_data())
            .map_err(not_recorded)?;
        // Shorter: another process found the line half written, and removed it as the end of a crash.
        let end = start + text.len() as u64;
        let named = self.named_file().unwrap_or(None);
        if named.is_none_or(|named| named.len() < end) {
            return Err(JournalError::Replaced(path.clone()));
        }
        Ok(())
    }

    /// The metadata of the file at the path; `None` if it is not the open one.
    fn named_file(&self) -> io::Result<Option<std::fs::Metadata>> {
        let open = identity(&self.file.metadata()?);
        let named = std::fs::metadata(&self.path)?;
        Ok((identity(&named) == open).then_some(named))
    }

    fn remove_torn_end(&mut self) -> Result<(), JournalError> {
        let mut bytes = Vec::new();
        let path = &self.path;
        let read = self.file.read_to_end(&mut bytes);
        read.map_err(FileError::of("read", path))?;
        let found = line::scan(&bytes).require_intact(path)?;
        let complete = found.complete as u64;
        self.extent.size.store(complete, Ordering::Relaxed);
        if found.complete < bytes.len() {
            // A file that grows was not left by a crash.
            let metadata = self.file.metadata().map_err(FileError::of("stat", path))?;
            if metadata.len() != bytes.len() as u64 {
                return Err(JournalError::Shared(path.clone()));
            }
            let cut = self.file.set_len(complete);
            cut.map_err(FileError::of("remove the end of", path))?;
        }
        if found.lacks_newline {
            let written = self.file.write_all(b"\n");
            written.map_err(FileError::of("write to", path))?;
            self.extent.size.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Writes all bytes; also returns the number of bytes written before an error.
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

/// Reads all entries. A missing file has none, an end that a crash cut is ignored, and any other
/// unreadable line is an error.
pub fn read(path: &Path) -> Result<Vec<Entry>, JournalError> {
    let found = salvage(path)?.unwrap_or_default();
    Ok(found.require_intact(path)?.entries)
}

/// Reads all readable entries and skips damage; `None` without a file.
pub fn salvage(path: &Path) -> Result<Option<Salvaged>, JournalError> {
    Ok(durable::read(path)?.map(|bytes| line::scan(&bytes)))
}
