//! What can go wrong with the journal, and what to do then.

use std::io;
use std::path::{Path, PathBuf};

use crate::base::durable;

/// Says why the journal cannot be written or read. Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("cannot {action} the journal {}: {source}", .path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// What was to be recorded may not be on disk, so nothing may rely on it.
    #[error("cannot {action} the journal {}: {source}; nothing was submitted after this", .path.display())]
    NotRecorded {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("the journal {} failed earlier in this run and takes no more entries", .path.display())]
    FailedBefore { path: PathBuf },
    #[error("the journal {} was removed or replaced by another call; nothing was submitted after this", .path.display())]
    Replaced { path: PathBuf },
    #[error("another call writes to the journal {} at the same time; nothing was submitted after this", .path.display())]
    Shared { path: PathBuf },
    #[error("the journal {} is not a regular file", .path.display())]
    NotAFile { path: PathBuf },
    #[error("the journal {} is damaged at line {line}: {problem}", .path.display())]
    Damaged {
        path: PathBuf,
        /// Counts from 1.
        line: usize,
        problem: String,
    },
}

impl JournalError {
    /// Says what a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Io { source, .. } | Self::NotRecorded { source, .. } => durable::hint(source)
                .unwrap_or("check the file system of the state file and run again; what was recorded before is kept"),
            Self::FailedBefore { .. } => "see the first error of this run",
            Self::Replaced { .. } | Self::Shared { .. } => {
                "another call works on this state without a working lock; run again once it has ended"
            }
            Self::NotAFile { .. } => "move it away and run again",
            Self::Damaged { .. } => {
                "keep the file, it may name jobs that Slurm accepted; `snbb-scheduler state repair` shows what can be rebuilt"
            }
        }
    }
}

pub(super) fn io_error(action: &'static str, path: &Path, source: io::Error) -> JournalError {
    JournalError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
