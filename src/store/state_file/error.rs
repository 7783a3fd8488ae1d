//! Errors of the files of the state, with remedies.

use std::io;
use std::path::{Path, PathBuf};

use crate::base::durable::{self, ReplaceError};
use crate::base::regular::{FileError, is_local};
use crate::base::sys;
use crate::store::journal::JournalError;
use crate::store::lock::LockError;
use crate::store::schema::{FORMAT_VERSION, ReadError};

/// An error of a file of the state.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error(transparent)]
    Io(#[from] FileError),
    #[error("{} is damaged: {error}", .path.display())]
    Damaged { path: PathBuf, error: ReadError },
    #[error("cannot read {} as a state file: {error}", .path.display())]
    NotUnderstood { path: PathBuf, error: ReadError },
    #[error("{} has format version {found}, but this program writes version {FORMAT_VERSION}", .path.display())]
    Newer { path: PathBuf, found: u32 },
    #[error("{} was changed by another process meanwhile; nothing was overwritten", .0.display())]
    Conflict(PathBuf),
    /// All rows were saved.
    #[error("another process wrote to {} at the same time; the file was kept for the next run", .0.display())]
    Shared(PathBuf),
    #[error("{} belongs to {}, but this command runs as {}", .path.display(), sys::user(*.owner), sys::user(*.user))]
    OtherOwner {
        path: PathBuf,
        owner: u32,
        user: u32,
    },
    #[error("{} is a copy of {}, and its jobs belong to the study there", .path.display(), .original.display())]
    Copied {
        path: PathBuf,
        /// The files to remove for a new study here.
        files: String,
        original: PathBuf,
    },
    #[error("cannot use {} as state file: {reason}", .path.display())]
    Path { path: PathBuf, reason: &'static str },
    #[error("{} is a file of git-annex", .0.display())]
    Annexed(PathBuf),
    #[error("{} and {} would share their lock and journal", .path.display(), .twin.display())]
    Twin { path: PathBuf, twin: PathBuf },
    #[error("cannot use {}: {message}", .path.display())]
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

    /// How to fix it.
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
                "use the newer snbb-scheduler that wrote it; this version can read the file, but not write it"
                    .to_owned(),
            ),
            Self::Conflict { .. } => Some("run the command again".to_owned()),
            Self::Shared { .. } => Some(
                "run snbb-scheduler on one host only, since locks do not work between these processes; then run again (nothing is lost)"
                    .to_owned(),
            ),
            Self::OtherOwner { .. } => Some(
                "run the command as that user, or add --as-owner to continue anyway (Slurm may hide the owner's jobs from you)"
                    .to_owned(),
            ),
            Self::Copied { files, original, .. } => Some(format!(
                "to continue that study here, move {} away; to start a new study here, remove {files}",
                original.display(),
            )),
            Self::Path { .. } => Some("set state_file to the path of a file, such as .scheduler_state.parquet".to_owned()),
            Self::Annexed(path) => Some(format!(
                "run `git annex unlock {}`, since git-annex files must not change, and add the state's files to .gitignore",
                path.display()
            )),
            Self::Twin { .. } => Some("keep only one of them in this directory".to_owned()),
            Self::Journal(error) => Some(error.hint().to_owned()),
            Self::Lock(error) => Some(error.hint().to_owned()),
            Self::Control { path, .. } => Some(format!(
                "correct it, or move {} away and run `snbb-scheduler pause` for everything that should stay paused; until then nothing is submitted",
                path.display()
            )),
        }
    }
}

impl From<ReplaceError> for StateError {
    fn from(error: ReplaceError) -> Self {
        match error {
            ReplaceError::Changed(path) => Self::Conflict(path),
            ReplaceError::Io { error, .. } => Self::Io(error),
        }
    }
}

/// The remedy for a damaged file.
const DAMAGE_HINT: &str = "run `snbb-scheduler state repair` to see what can be rebuilt from its backup, \
     the journal, the audit log and Slurm; the file was not changed";
