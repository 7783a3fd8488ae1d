//! The error of a command, with its hint and exit code.

use std::io::ErrorKind;

use super::output::without_error_numbers;
use super::{Exit, Printer, TableError, sys};
use crate::act::pass::PassError;
use crate::base::regular::FileError;
use crate::config::ConfigError;
use crate::decide::manifest::selection::SelectionError;
use crate::executor::ExecutorError;
use crate::gather::completion::probe::apps::SpecError;
use crate::gather::sessions::discover::DiscoverError;
use crate::gather::sessions::lists::CohortError;
use crate::setup::init::InitError;
use crate::show::mail::MailError;
use crate::store::lock::LockError;
use crate::store::state_file::StateError;

/// The result of a command or of a part of it.
pub type Result<T, E = Failure> = std::result::Result<T, E>;

/// Any error that ends a command.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Selection(#[from] SelectionError),
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
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{message}")]
    Other {
        message: String,
        hint: String,
        exit: Exit,
    },
}

impl From<PassError> for Failure {
    fn from(error: PassError) -> Self {
        match error {
            PassError::QueueUnknown(message) => Self::queue_unknown(&message),
            PassError::Unnamed(_) => Self::safety(
                &error.to_string(),
                "run again once accounting responds and lists the job, or once the job has ended; if it belongs to another \
                 study, `accounting: off` for one run starts this study beside it",
            ),
            PassError::State(error) => Self::State(error),
            PassError::Write(error) => error.into(),
            PassError::LogDir(FileError { path, source, .. }) => Self::other(
                format!(
                    "jobs could not write their logs to {}: {source}; nothing was submitted",
                    path.display()
                ),
                "make the directory writable, or set `slurm_log_dir` to another one",
                Exit::Error,
            ),
        }
    }
}

impl Failure {
    fn other(message: impl Into<String>, hint: impl Into<String>, exit: Exit) -> Self {
        Self::Other {
            message: message.into(),
            hint: hint.into(),
            exit,
        }
    }

    pub fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::other(message, hint, Exit::Usage)
    }

    /// A requested item that does not exist.
    pub fn not_found(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::other(message, hint, Exit::Error)
    }

    pub fn safety(message: &str, hint: impl Into<String>) -> Self {
        let message = format!("safety stop: {message}; nothing was submitted");
        Self::other(message, hint, Exit::Safety)
    }

    pub fn queue_unknown(message: &str) -> Self {
        Self::other(
            format!("the queue is not responding: {message}; nothing was done"),
            "running jobs cannot be seen now, so nothing is submitted, to avoid duplicates; the next run tries again",
            Exit::Unreachable,
        )
    }

    pub fn exit(&self) -> Exit {
        match self {
            Self::Other { exit, .. } => *exit,
            Self::Config(_)
            | Self::Selection(_)
            | Self::Spec(_)
            | Self::Cohort(_)
            | Self::Mail(MailError { key: Some(_), .. }) => Exit::Usage,
            Self::Init(error) if error.is_usage => Exit::Usage,
            Self::Lock(LockError::Held { .. }) => Exit::Locked,
            Self::Discover(DiscoverError::RootMissing { .. }) => Exit::Safety,
            Self::Executor(ExecutorError::ProgramMissing { .. } | ExecutorError::Failed { .. }) => {
                Exit::Unreachable
            }
            Self::Executor(
                ExecutorError::ScriptMissing { .. } | ExecutorError::ScriptUnfit { .. },
            ) => Exit::Refused,
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
            Self::Selection(error) => return error.hint.clone(),
            Self::State(error) => return error.hint(),
            Self::Executor(error) => return error.hint(),
            Self::Table(_) => return None,
            Self::Other { hint, .. } => hint.clone(),
            Self::Discover(error) => error.hint(),
            Self::Cohort(error) => error.hint.clone(),
            Self::Init(error) => error.hint.clone(),
            Self::Spec(error) => error.hint().to_owned(),
            Self::Lock(error) => error.hint().to_owned(),
            Self::Mail(error) => error.hint.to_owned(),
            Self::File(FileError { action: "read", .. }) => "make it readable for the user of this command".to_owned(),
            Self::File(error) => match error.source.kind() {
                ErrorKind::FileTooLarge => "a limit on file sizes is in effect: run `ulimit -f unlimited` before the program",
                _ => "make the directory writable and check that the disk has free space, then run the command again",
            }
            .to_owned(),
        })
    }
}
