//! Errors of `init` with their hints.

use std::io;
use std::path::{Path, PathBuf};

use crate::base::printable::printable;

/// Why nothing was written, and the remedy.
#[derive(Debug, thiserror::Error)]
#[error("{}", format!("{} {}", .option, .text).trim_start())]
pub struct InitError {
    /// The option with the wrong value, or empty.
    option: &'static str,
    text: String,
    hint: String,
    /// True if the command line is wrong.
    pub is_usage: bool,
}

impl InitError {
    /// An invalid value of an option.
    pub fn wrong(option: &'static str, text: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            option,
            text: text.into(),
            hint: hint.into(),
            is_usage: true,
        }
    }

    /// A path that a configuration cannot contain.
    pub fn unfit_path(key: &'static str, path: &Path, why: &str) -> Self {
        Self::wrong(
            key,
            format!("{} {why}", shown(path)),
            "rename the directory, or use a link to it with a plain name",
        )
    }

    pub fn missing(options: &'static str) -> Self {
        Self::wrong(
            "",
            format!("missing {options}"),
            "pass the data directories, such as: snbb-scheduler init /data/study --dicom-root /data/dicom --bids-root \
             /data/bids (only --bids-root for a dataset that is already converted). In a terminal and without --yes, init \
             asks for them",
        )
    }

    pub fn exists(paths: &[PathBuf]) -> Self {
        let names: Vec<String> = paths.iter().map(|path| shown(path)).collect();
        let verb = if names.len() == 1 { "exists" } else { "exist" };
        let text = format!("{} already {verb}; nothing was written", names.join(", "));
        Self {
            is_usage: false,
            ..Self::wrong(
                "",
                text,
                "edit the existing files, or set up another directory: snbb-scheduler init DIR; `init --dry-run` prints \
                 the new configuration, so that you can copy parts of it",
            )
        }
    }

    pub fn io(action: &str, path: &Path, source: &io::Error) -> Self {
        let hint = match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                "choose a directory with write permission: snbb-scheduler init DIR"
            }
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                "free space or choose another directory; no files were left behind"
            }
            io::ErrorKind::NotADirectory => {
                "a part of the path is a file; choose another directory"
            }
            _ => "try again, or choose another directory; no files were left behind",
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

    pub fn hint(&self) -> String {
        self.hint.clone()
    }

    /// The error and its hint for the dialogue, where no option was typed.
    pub fn in_dialogue(&self) -> String {
        format!("{} ({})", self.text, self.hint)
    }
}

/// A path for messages, without control characters.
pub fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}
