//! What stands between the answers and a study that works, and the way out.

use std::io;
use std::path::{Path, PathBuf};

use crate::base::printable::printable;

/// Says why nothing was written, and what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}{text}", option_before(.option))]
pub struct InitError {
    /// The option that has the value in question; empty if there is none.
    option: &'static str,
    text: String,
    hint: String,
    /// The way out for somebody who is asked and typed no option, if it is another one.
    dialogue_hint: Option<String>,
    /// What was probably meant.
    pub meant: Option<String>,
    /// Other words on the command line would help.
    pub is_usage: bool,
}

fn option_before(option: &str) -> String {
    match option {
        "" => String::new(),
        option => format!("{option} "),
    }
}

impl InitError {
    /// A value of an option that cannot be used, or a choice.
    pub fn wrong(option: &'static str, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            option,
            text: text.into(),
            hint: hint.into(),
            dialogue_hint: None,
            meant: None,
            is_usage: true,
        }
    }

    pub fn meaning(self, meant: Option<String>) -> Self {
        Self { meant, ..self }
    }

    pub fn or_in_dialogue(self, hint: impl Into<String>) -> Self {
        Self {
            dialogue_hint: Some(hint.into()),
            ..self
        }
    }

    /// What cannot be said in a configuration.
    pub fn unfit_path(key: &'static str, path: &Path, why: &str) -> Self {
        Self::wrong(
            key,
            format!("{} {why}", shown(path)),
            "rename the directory, or give a link to it that has a plain name",
        )
    }

    pub fn missing(options: &'static str) -> Self {
        Self::wrong(
            "",
            format!("it is not said where the data is: {options} is missing"),
            "name them, such as: snbb-scheduler init /data/study --dicom-root /data/dicom --bids-root /data/bids; \
             --bids-root alone is for a dataset that is converted already. In a terminal, and without --yes, init asks for \
             what is missing",
        )
    }

    pub fn exists(paths: &[PathBuf]) -> Self {
        let names: Vec<String> = paths.iter().map(|path| shown(path)).collect();
        let verb = if names.len() == 1 { "is" } else { "are" };
        let text = format!(
            "{} {verb} there already; nothing was written",
            names.join(", ")
        );
        Self {
            is_usage: false,
            ..Self::wrong(
                "",
                text,
                "edit what is there, or set up another directory: snbb-scheduler init DIR; `init --dry-run` prints the \
                 new configuration, to take parts of it",
            )
        }
    }

    pub fn io(action: &str, path: &Path, source: &io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "choose a directory that you may write to: snbb-scheduler init DIR"
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "make room or choose another directory; nothing was left behind"
            }
            io::ErrorKind::NotADirectory => {
                "a part of the path is a file; choose another directory"
            }
            _ => "nothing was left behind; try again, or choose another directory",
        };
        Self {
            is_usage: false,
            ..Self::wrong(
                "",
                format!("cannot {action} {}: {source}", shown(path)),
                hint,
            )
        }
    }

    /// Says what to do.
    pub fn hint(&self) -> String {
        self.hint.clone()
    }

    /// The error and what to do, to somebody who is asked and typed no option.
    pub fn in_dialogue(&self) -> String {
        let hint = self.dialogue_hint.as_ref().unwrap_or(&self.hint);
        format!("{} ({hint})", self.text)
    }
}

/// Shows a path on one line, whatever it holds.
pub fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}
