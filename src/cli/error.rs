//! The error of a command, with its hint and exit code.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::act::pass::PassError;
use crate::base::exit::Exit;
use crate::base::sys;
use crate::config::ConfigError;
use crate::decide::manifest::selection::SelectionError;
use crate::executor::ExecutorError;
use crate::gather::completion::probe::qsirecon::SpecError;
use crate::gather::sessions::discover::DiscoverError;
use crate::gather::sessions::lists::CohortError;
use crate::setup::init::InitError;
use crate::show::mail::MailError;
use crate::show::tables::TableError;
use crate::store::lock::LockError;
use crate::store::state_file::StateError;

use super::output::{Printer, without_error_numbers};

/// For files that a command writes at the user's request.
const TOO_LARGE_OUTPUT_HINT: &str =
    "a limit on file sizes is in effect: run `ulimit -f unlimited` before the program";

/// The result of a command or of a part of it.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Any error that ends a command.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Selection(#[from] SelectionError),
    #[error("{message}")]
    Usage { message: String, hint: String },
    /// A requested item that does not exist.
    #[error("{message}")]
    NotFound { message: String, hint: String },
    #[error("cannot read {}: {source}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Discover(#[from] DiscoverError),
    #[error(transparent)]
    Spec(#[from] SpecError),
    #[error(transparent)]
    Cohort(#[from] CohortError),
    #[error(transparent)]
    Init(#[from] InitError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    #[error(transparent)]
    Table(#[from] TableError),
    #[error("the mail was not sent: {0}")]
    Mail(#[from] MailError),
    #[error("cannot write {}: {source}", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("jobs could not write their logs to {}: {source}; nothing was submitted", .path.display())]
    LogDir { path: PathBuf, source: io::Error },
    #[error("safety stop: {message}; nothing was submitted")]
    Safety { message: String, hint: String },
    #[error("the queue is not responding: {message}; nothing was done")]
    QueueUnknown { message: String },
}

impl From<PassError> for Failure {
    fn from(error: PassError) -> Self {
        match error {
            PassError::QueueUnknown(message) => Self::QueueUnknown { message },
            PassError::Unnamed(_) => Self::Safety {
                message: error.to_string(),
                hint: "run again once accounting responds and lists the job, or once the job has ended; if it belongs to another \
                       study, `accounting: off` for one run starts this study beside it"
                    .to_owned(),
            },
            PassError::State(error) => Self::State(error),
            PassError::Write { path, source } => Self::Write { path, source },
            PassError::LogDir { path, source } => Self::LogDir { path, source },
        }
    }
}

impl From<(PathBuf, io::Error)> for Failure {
    fn from((path, source): (PathBuf, io::Error)) -> Self {
        Self::Write { path, source }
    }
}

impl Failure {
    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage {
            message: message.into(),
            hint: hint.into(),
        }
    }

    pub fn not_found(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::NotFound {
            message: message.into(),
            hint: hint.into(),
        }
    }

    /// For `map_err`: the failure to read a path.
    pub fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Read {
            path: path.to_owned(),
            source,
        }
    }

    /// For `map_err`: the failure to write a path.
    pub fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |source| Self::Write {
            path: path.to_owned(),
            source,
        }
    }

    pub fn exit(&self) -> Exit {
        match self {
            Self::Config(_)
            | Self::Selection(_)
            | Self::Usage { .. }
            | Self::Spec(_)
            | Self::Cohort(_)
            | Self::Mail(MailError { key: Some(_), .. }) => Exit::Usage,
            Self::Init(error) if error.is_usage => Exit::Usage,
            Self::Lock(LockError::Held { .. }) => Exit::Locked,
            Self::Discover(DiscoverError::RootMissing { .. }) => Exit::Safety,
            Self::Executor(ExecutorError::ProgramMissing { .. } | ExecutorError::Failed { .. })
            | Self::QueueUnknown { .. } => Exit::Unreachable,
            Self::Executor(
                ExecutorError::ScriptMissing { .. } | ExecutorError::ScriptUnfit { .. },
            ) => Exit::Refused,
            Self::Safety { .. } => Exit::Safety,
            _ => Exit::Error,
        }
    }

    pub fn print(&self, printer: &mut Printer) {
        printer.error(&self.sentence());
        printer.hints(self.hint());
    }

    /// The error without the numbers of system errors.
    pub fn sentence(&self) -> String {
        without_error_numbers(&self.to_string(), sys::file_size_limit())
    }

    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Config(error) => return error.hint.clone(),
            Self::Selection(error) => return error.hint(),
            Self::State(error) => return error.hint(),
            Self::Executor(error) => return error.hint(),
            Self::Table(_) => return None,
            Self::Usage { hint, .. } | Self::NotFound { hint, .. } | Self::Safety { hint, .. } => {
                hint.clone()
            }
            Self::Discover(error) => error.hint(),
            Self::Cohort(error) => error.hint(),
            Self::Init(error) => error.hint(),
            Self::Spec(error) => error.hint().to_owned(),
            Self::Lock(error) => error.hint().to_owned(),
            Self::Mail(error) => error.hint.to_owned(),
            Self::Read { .. } => "make it readable for the user of this command".to_owned(),
            Self::Write { source, .. } if source.kind() == ErrorKind::FileTooLarge => {
                TOO_LARGE_OUTPUT_HINT.to_owned()
            }
            Self::Write { .. } => {
                "make the directory writable and check that the disk has free space, then run the command again"
                    .to_owned()
            }
            Self::LogDir { .. } => {
                "make the directory writable, or set `slurm_log_dir` to another one"
                    .to_owned()
            }
            Self::QueueUnknown { .. } => {
                "running jobs cannot be seen now, so nothing is submitted, to avoid duplicates; the next run tries again"
                    .to_owned()
            }
        })
    }
}
