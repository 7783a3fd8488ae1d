//! What stands between the answers and a study that works, and the way out.

use crate::base::printable::printable;
use std::io;
use std::path::{Path, PathBuf};

/// Says why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    #[error("it is not said where the data is: {} is missing", .0)]
    Missing(&'static str),
    #[error("{option} {} does not exist", shown(.path))]
    RootMissing {
        option: &'static str,
        path: PathBuf,
        /// A name beside it that is nearly the same.
        near: Option<PathBuf>,
    },
    #[error("{option} {} does not exist, nor does the directory that it would lie in", shown(.path))]
    ParentMissing {
        option: &'static str,
        path: PathBuf,
        /// The first part of the path that is not there.
        first: PathBuf,
        near: Option<PathBuf>,
    },
    #[error("{option} {} is not a directory", shown(.path))]
    NotADirectory { option: &'static str, path: PathBuf },
    #[error("{option} {} is a directory", shown(.path))]
    IsADirectory { option: &'static str, path: PathBuf },
    #[error("{option} {} cannot be read: {error}", shown(.path))]
    Unreadable {
        option: &'static str,
        path: PathBuf,
        error: String,
    },
    #[error(
        "nothing below dicom_root {} is named sub-<label>: there are {}",
        shown(.path),
        .names.join(", ")
    )]
    NotInBidsLayout { path: PathBuf, names: Vec<String> },
    #[error("no subject of bids_root {} has data: nothing in it is named sub-<label>", shown(.path))]
    NoDataset { path: PathBuf },
    #[error("{what} {} would lie in {key} {}, where the program writes nothing of its own",
        shown(.path), shown(.root))]
    InsideRoot {
        what: &'static str,
        option: &'static str,
        path: PathBuf,
        key: &'static str,
        root: PathBuf,
    },
    #[error("{key} {} is not UTF-8, which a configuration must be", shown(.path))]
    NotUtf8 { key: &'static str, path: PathBuf },
    #[error("{key} {} holds a line break or another control character", shown(.path))]
    ControlCharacter { key: &'static str, path: PathBuf },
    #[error("{option} '{}': {why}", .value.escape_debug())]
    Value {
        option: &'static str,
        value: String,
        why: String,
        hint: String,
    },
    #[error("there is no procedure '{}' in the catalogue", .name.escape_debug())]
    UnknownProcedure {
        name: String,
        near: Vec<String>,
        all: Vec<String>,
    },
    #[error("{name} needs one of {} before it", .one_of.join(", "))]
    Needs { name: String, one_of: Vec<String> },
    #[error("Slurm has no default partition; there are: {}", .0.join(", "))]
    NoDefaultPartition(Vec<String>),
    #[error("{first} and {second} both convert DICOM files into the same bids_root")]
    TwoConverters { first: String, second: String },
    #[error("the catalogue's entry of {name} cannot be used: {why}")]
    Entry { name: String, why: String },
    #[error("{} there already; nothing was written", is(.0))]
    Exists(Vec<PathBuf>),
    #[error("cannot {action} {}: {source}", shown(.path))]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl InitError {
    /// True if other words on the command line would help.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::Exists(_) | Self::Io { .. })
    }

    /// The error and what to do, to somebody who is asked and typed no option.
    pub fn in_dialogue(&self) -> String {
        let hint = match self {
            Self::NotInBidsLayout { .. } => "name the directories sub-<label>/ses-<label> (links will do); for another \
                layout, begin again and choose a CSV file"
                .to_owned(),
            Self::NoDataset { .. } => "a dataset that is converted already holds sub-<label> directories with anat, \
                func, dwi, ...; if it is still to be made from DICOM files, begin again and choose those"
                .to_owned(),
            Self::Needs { one_of, .. } => format!("add {}", one_of.join(" or ")),
            Self::Value { option: "--procedures", .. } => "leave it out".to_owned(),
            _ => self.hint(),
        };
        let text = self.to_string();
        let without_option = text
            .strip_prefix("--")
            .and_then(|rest| rest.split_once(' '))
            .map_or(text.as_str(), |(_, rest)| rest);
        format!("{without_option} ({hint})")
    }

    /// The path that was probably meant.
    pub fn meant(&self) -> Option<String> {
        match self {
            Self::RootMissing { near, .. } => Some(near.as_ref()?.to_str()?.to_owned()),
            Self::ParentMissing {
                path, first, near, ..
            } => {
                let rest = path.strip_prefix(first).ok()?;
                Some(near.as_ref()?.join(rest).to_str()?.to_owned())
            }
            _ => None,
        }
    }

    /// Says what to do.
    pub fn hint(&self) -> String {
        match self {
            Self::Missing(_) => "name them, such as: snbb-scheduler init /data/study --dicom-root /data/dicom \
                --bids-root /data/bids; --bids-root alone is for a dataset that is converted already. In a \
                terminal, and without --yes, init asks for what is missing"
                .to_owned(),
            Self::RootMissing { near, .. } => match near {
                Some(near) => format!("did you mean {}?", shown(near)),
                None => "is its file system mounted? give the directory where the data is".to_owned(),
            },
            Self::ParentMissing { first, near, .. } => match near {
                Some(near) => format!("{} is not there; did you mean {}?", shown(first), shown(near)),
                None => format!("{} is not there; make it, or correct the path", shown(first)),
            },
            Self::NotADirectory { .. } => "give a directory".to_owned(),
            Self::IsADirectory { .. } => "give the name of a file".to_owned(),
            Self::Unreadable { .. } => {
                "the user who runs the scheduler needs read and search permission on it".to_owned()
            }
            Self::NotInBidsLayout { .. } => "either name the directories <dicom_root>/sub-<label>/ses-<label> (links \
                will do), or list them in a CSV file with the columns UID, ScanID and dicom_path and give it by \
                --sessions-file FILE (--subject-col, --session-col for other names)"
                .to_owned(),
            Self::NoDataset { .. } => "a dataset that is converted already holds sub-<label> directories with anat, \
                func, dwi, ...; if it is still to be made from DICOM files, give them by --dicom-root"
                .to_owned(),
            Self::InsideRoot { option, what, .. } => match *option {
                "DIR" => format!("set the study up elsewhere: snbb-scheduler init DIR (the {what} is beside it)"),
                option => format!(
                    "set the study up in another directory (snbb-scheduler init DIR), or say where it is to be: {option} PATH"
                ),
            },
            Self::NotUtf8 { .. } | Self::ControlCharacter { .. } => {
                "rename the directory, or give a link to it that has a plain name".to_owned()
            }
            Self::Value { hint, .. } => hint.clone(),
            Self::UnknownProcedure { near, all, .. } => match (near.as_slice(), all.as_slice()) {
                ([], []) => "the catalogue is empty: leave --procedures out for an example".to_owned(),
                ([], all) => format!("there are: {}", all.join(", ")),
                (near, _) => format!("did you mean {}? `snbb-scheduler init --list` shows all", near.join(" or ")),
            },
            Self::Needs { one_of, .. } => format!(
                "add one of them to --procedures ({}); a dataset that is converted already needs no converter: leave \
                 --dicom-root out",
                one_of.join(" or ")
            ),
            Self::NoDefaultPartition(_) => "choose one: --partition NAME".to_owned(),
            Self::TwoConverters { .. } => "choose one of them".to_owned(),
            Self::Entry { .. } => "leave it out, and tell the maintainers".to_owned(),
            Self::Exists(_) => "edit what is there, or set up another directory: snbb-scheduler init DIR; \
                `init --dry-run` prints the new configuration, to take parts of it"
                .to_owned(),
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "choose a directory that you may write to: snbb-scheduler init DIR".to_owned()
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "make room or choose another directory; nothing was left behind".to_owned()
                }
                io::ErrorKind::NotADirectory => {
                    "a part of the path is a file; choose another directory".to_owned()
                }
                _ => "nothing was left behind; try again, or choose another directory".to_owned(),
            },
        }
    }
}

/// Shows a path on one line, whatever it holds.
pub fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

fn is(paths: &[PathBuf]) -> String {
    let names: Vec<String> = paths.iter().map(|path| shown(path)).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", names.join(", "))
}
