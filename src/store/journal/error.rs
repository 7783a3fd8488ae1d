//! Errors of the journal, with remedies.

use std::io;
use std::path::{Path, PathBuf};

use crate::base::durable;

/// Why the journal cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    #[error("cannot {action} the journal {}: {source}", .path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The entries may not be on disk, so nothing may rely on them.
    #[error("cannot {action} the journal {}: {source}; nothing was submitted after this", .path.display())]
    NotRecorded {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("the journal {} had an error earlier in this run, so nothing more was written to it", .path.display())]
    FailedBefore { path: PathBuf },
    #[error("the journal {} was removed or replaced by another process; nothing was submitted after this", .path.display())]
    Replaced { path: PathBuf },
    #[error("another process writes to the journal {} at the same time; nothing was submitted after this", .path.display())]
    Shared { path: PathBuf },
    #[error("the journal {} is not a regular file", .path.display())]
    NotAFile { path: PathBuf },
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
            Self::Io { source, .. } | Self::NotRecorded { source, .. } => durable::hint(source)
                .unwrap_or("check the file system of the state file and run again; earlier entries are kept"),
            Self::FailedBefore { .. } => "see the first error of this run",
            Self::Replaced { .. } | Self::Shared { .. } => {
                "wait for the other process to end and run again; locks do not work between the two"
            }
            Self::NotAFile { .. } => "move it away and run again",
            Self::Damaged { .. } => {
                "run `snbb-scheduler state repair` to see what can be rebuilt; keep the file, since it may list jobs that Slurm accepted"
            }
        }
    }
}

pub(super) fn io_error(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(io::Error) -> JournalError {
    move |source| JournalError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
