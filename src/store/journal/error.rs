//! Errors of the journal, with remedies.

use std::path::PathBuf;

use crate::base::durable;
use crate::base::regular::FileError;

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
