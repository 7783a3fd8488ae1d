//! What can be wrong with the files of the state, and the way out of it.

use std::io;
use std::path::{Path, PathBuf};

use crate::base::durable::{self, ReplaceError};
use crate::base::regular::{FileError, is_local};
use crate::base::sys;
use crate::store::journal::JournalError;
use crate::store::lock::LockError;
use crate::store::schema::{FORMAT_VERSION, ReadError};

/// Says what is wrong with the state. Each names the file.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error(transparent)]
    Io(#[from] FileError),
    #[error("{} is damaged: {error}", .path.display())]
    Damaged { path: PathBuf, error: ReadError },
    #[error("{} is not a state file that can be read: {error}", .path.display())]
    NotUnderstood { path: PathBuf, error: ReadError },
    #[error("{} has format version {found}, this program writes {FORMAT_VERSION}", .path.display())]
    Newer { path: PathBuf, found: u32 },
    #[error("{} was changed by another process meanwhile; nothing was overwritten", .path.display())]
    Conflict { path: PathBuf },
    /// All rows were saved all the same.
    #[error("another call wrote to {} at the same time; it was left for the next call", .path.display())]
    Shared { path: PathBuf },
    #[error("{} belongs to {}, this is {}", .path.display(), sys::user(*.owner), sys::user(*.user))]
    OtherOwner {
        path: PathBuf,
        owner: u32,
        user: u32,
    },
    #[error("{} is a copy of {}: the jobs in it are those of the study there", .path.display(), .original.display())]
    Copied {
        path: PathBuf,
        /// What begins another study here once it is gone.
        files: String,
        original: PathBuf,
    },
    #[error("state file {} cannot be used: {reason}", .path.display())]
    Path { path: PathBuf, reason: &'static str },
    #[error("{} is a file of git-annex", .path.display())]
    Annexed { path: PathBuf },
    #[error("{} and {} would share their lock and journal", .path.display(), .twin.display())]
    Twin { path: PathBuf, twin: PathBuf },
    #[error("cannot write {}: {message}", .path.display())]
    Encode { path: PathBuf, message: String },
    #[error("{} cannot be used: {message}", .path.display())]
    Control { path: PathBuf, message: String },
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Lock(#[from] LockError),
}

impl StateError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl Fn(io::Error) -> Self {
        let failed = FileError::of(action, path);
        move |source| failed(source).into()
    }

    /// Says what to do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Io(FileError { source, .. }) if source.kind() == io::ErrorKind::IsADirectory => {
                Some("state_file must be a file".to_owned())
            }
            Self::Io(FileError { source, .. }) => durable::hint(source).map(str::to_owned),
            Self::Damaged { path, .. } if !is_local(path) => Some(format!(
                "run again in a minute, because another node may have just replaced it; if it stays damaged: {DAMAGE_HINT}"
            )),
            Self::Damaged { .. } => Some(DAMAGE_HINT.to_owned()),
            Self::NotUnderstood { path, .. } => Some(format!(
                "correct {} with the program that wrote it (for example pandas); it was not changed",
                path.display()
            )),
            Self::Newer { .. } => Some(
                "use the newer snbb-scheduler that wrote it; this one can read it, and does not write it"
                    .to_owned(),
            ),
            Self::Conflict { .. } => Some("run the command again".to_owned()),
            Self::Shared { .. } => Some(
                "nothing is lost, but the lock beside the state does not work between these calls: let one host only call this program, then run again"
                    .to_owned(),
            ),
            Self::OtherOwner { .. } => Some(
                "run the command as that user; --as-owner goes on all the same (Slurm may hide the owner's jobs from you)"
                    .to_owned(),
            ),
            Self::Copied { files, original, .. } => Some(format!(
                "to continue that study here, move {} away; to begin another study here, remove {files}",
                original.display(),
            )),
            Self::Path { .. } => Some("set state_file to the path of a file, such as .scheduler_state.parquet".to_owned()),
            Self::Annexed { path } => Some(format!(
                "it must not be changed: `git annex unlock {}`, and keep the state's files out of the dataset by .gitignore",
                path.display()
            )),
            Self::Twin { .. } => Some("keep only one of them in this directory".to_owned()),
            Self::Journal(error) => Some(error.hint().to_owned()),
            Self::Lock(error) => Some(error.hint().to_owned()),
            Self::Control { path, .. } => Some(format!(
                "it says what is paused, so nothing is submitted without it; correct it, or move {} away and call `snbb-scheduler pause` for what is to stay paused",
                path.display()
            )),
            Self::Encode { .. } => None,
        }
    }

    pub(crate) fn from_replacement(target: &Path, error: ReplaceError) -> Self {
        match error {
            ReplaceError::Changed => Self::Conflict {
                path: target.to_owned(),
            },
            ReplaceError::Io {
                action,
                path,
                source,
                ..
            } => Self::Io(FileError {
                action,
                path,
                source,
            }),
        }
    }
}

/// What to do about a file that is damaged.
const DAMAGE_HINT: &str = "it was not changed; `snbb-scheduler state repair` shows what can be rebuilt from the copy before it, \
     the journal, the audit log and Slurm";
