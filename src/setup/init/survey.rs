//! Surveys a site's data for `init`: sessions, missing directories. Changes nothing.

use std::io;
use std::path::Path;

use super::error::{InitError, shown};
use crate::config::Overrides;
use crate::config::load::interpret;
use crate::gather::sessions::discover::discover;
use crate::model::bids::suggest::nearest;
use crate::model::bids::{Session, SessionSource};
use crate::model::config::Config;
use crate::setup::place::{self, Place};

/// Number of invalid names to show.
const SHOWN: usize = 3;

/// The result of a survey.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Data {
    pub cohort: Vec<Session>,
    pub subjects: usize,
    pub sessions: usize,
    /// Subjects in `dicom_root` have no `ses-*` directories.
    pub is_sessionless: bool,
    /// Remarks, one line each.
    pub notes: Vec<String>,
}

/// Checks an existing directory.
///
/// # Errors
/// It does not exist (with a similar name that does) or cannot be read.
pub fn source(option: &'static str, path: &Path) -> Result<(), InitError> {
    match place::inspect(path) {
        Place::Missing => Err(missing(option, path)),
        _ => target(option, path).and_then(|_| {
            let read = place::is_empty(path).map(drop);
            read.map_err(|error| unreadable(option, path, &error.to_string()))
        }),
    }
}

/// Checks a directory that exists or can be created in an existing one. Returns true if it must be created.
///
/// # Errors
/// As [`source`].
pub fn target(option: &'static str, path: &Path) -> Result<bool, InitError> {
    match place::inspect(path) {
        Place::Directory => Ok(false),
        Place::Missing if first_missing(path) == path => Ok(true),
        Place::Missing => Err(missing(option, path)),
        Place::Unreadable(error) => Err(unreadable(option, path, &error)),
        Place::Other => Err(InitError::wrong(
            option,
            format!("{} is not a directory", shown(path)),
            "use a directory",
        )),
    }
}

/// Finds sessions in `dicom_root`.
///
/// # Errors
/// It does not exist, cannot be read, or contains directories, but no subjects.
pub fn dicom(root: &Path) -> Result<Data, InitError> {
    const OPTION: &str = "--dicom-root";
    source(OPTION, root)?;
    let search = |sessionless| {
        sessions(|config| {
            config.dicom_root = root.to_owned();
            config.sessions = SessionSource::Dicom;
            config.sessionless = sessionless;
        })
    };
    let mut data = search(false)?;
    if data.sessions == 0 {
        let other = search(true)?;
        if other.sessions > 0 {
            return Ok(Data {
                is_sessionless: true,
                ..other
            });
        }
        let names = names_of_directories(root);
        let names = names.map_err(|error| unreadable(OPTION, root, &error.to_string()))?;
        if !names.is_empty() && !names.iter().any(|name| name.starts_with("sub-")) {
            return Err(not_in_bids_layout(root, &names));
        }
        data.notes.push(format!(
            "{} does not contain any sessions yet, so no tasks are due",
            root.display()
        ));
    }
    Ok(data)
}

fn not_in_bids_layout(root: &Path, names: &[String]) -> InitError {
    let few = names
        .iter()
        .take(SHOWN)
        .map(|name| name.escape_debug().to_string());
    let more = (names.len() > SHOWN).then(|| "...".to_owned());
    let few: Vec<String> = few.chain(more).collect();
    InitError::wrong(
        "",
        format!(
            "dicom_root {} contains no directories named sub-<label>, but {}",
            shown(root),
            few.join(", ")
        ),
        "rename the directories to <dicom_root>/sub-<label>/ses-<label> (or create links), or list them in a CSV file with \
         the columns UID, ScanID and dicom_path and pass it with --sessions-file FILE (--subject-col and --session-col \
         for other columns)",
    )
}

/// Finds sessions in `bids_root`. With `is_source`, there must be sessions.
///
/// # Errors
/// It does not exist, cannot be read, or has no sessions.
pub fn bids(root: &Path, is_source: bool) -> Result<Data, InitError> {
    const OPTION: &str = "--bids-root";
    if is_source {
        source(OPTION, root)?;
    } else if target(OPTION, root)? {
        return Ok(Data::default());
    }
    let mut data = sessions(|config| {
        config.bids_root = root.to_owned();
        config.sessions = SessionSource::Bids;
    })?;
    if data.sessions == 0 && is_source {
        return Err(InitError::wrong(
            "",
            format!(
                "bids_root {} contains no directories named sub-<label>",
                shown(root)
            ),
            "a converted dataset contains sub-<label> directories with anat, func, dwi, ...; to convert DICOM files, pass \
             them with --dicom-root",
        ));
    }
    if !is_source {
        data.notes.clear();
    }
    Ok(data)
}

/// Reads a CSV or TSV file of sessions.
///
/// # Errors
/// It is not valid.
pub fn list(file: &Path, subject_col: &str, session_col: &str) -> Result<Data, InitError> {
    sessions(|config| {
        config.sessions = SessionSource::Csv {
            file: file.to_owned(),
            subject_col: subject_col.to_owned(),
            session_col: session_col.to_owned(),
        };
    })
}

/// Finds sessions with changes to the default configuration.
fn sessions(set: impl FnOnce(&mut Config)) -> Result<Data, InitError> {
    let mut config = defaults()?;
    set(&mut config);
    let found = discover(&config.search())
        .map_err(|error| InitError::wrong("", error.to_string(), error.hint()))?;
    let subjects = found.sessions.chunk_by(|a, b| a.subject == b.subject);
    let unreadable = found.unreadable.iter();
    let unreadable =
        unreadable.map(|what| format!("cannot read {}: {}", what.path.display(), what.error));
    Ok(Data {
        subjects: subjects.count(),
        sessions: found.sessions.len(),
        notes: found.notes.iter().cloned().chain(unreadable).collect(),
        is_sessionless: false,
        cohort: found.sessions,
    })
}

/// The built-in configuration.
///
/// # Errors
/// A bug in the defaults.
pub fn defaults() -> Result<Config, InitError> {
    let none = Overrides::default();
    interpret(b"", None, false, &|_| None, &none, Path::new("/"))
        .map_err(|error| InitError::wrong("", error.to_string(), "report this as a bug"))
}

/// The first ancestor of a path that does not exist.
pub fn first_missing(path: &Path) -> &Path {
    let missing = path.ancestors().take_while(|part| !place::is_there(part));
    missing.last().unwrap_or(path)
}

/// The names of directories that are not hidden, sorted.
fn names_of_directories(dir: &Path) -> io::Result<Vec<String>> {
    let paths = place::entries(dir)?.into_iter();
    let directories = paths.filter(|path| place::inspect(path) == Place::Directory);
    let names =
        directories.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    Ok(names.filter(|name| !name.starts_with('.')).collect())
}

/// The error for a missing path, with a name beside it that is similar.
fn missing(option: &'static str, path: &Path) -> InitError {
    let first = first_missing(path);
    let similar = || {
        let (parent, name) = (first.parent()?, first.file_name()?.to_str()?);
        let names = names_of_directories(parent).ok()?;
        nearest(name, names.iter().map(String::as_str)).map(|nearest| parent.join(nearest))
    };
    let hint = match similar() {
        Some(similar) => format!("did you mean {}?", shown(&similar)),
        None => "check that its file system is mounted, create the directory, or correct the path"
            .to_owned(),
    };
    let nor = match first == path {
        true => "",
        false => ", and neither does its parent directory",
    };
    InitError::wrong(option, format!("{} does not exist{nor}", shown(path)), hint)
}

fn unreadable(option: &'static str, path: &Path, error: &str) -> InitError {
    InitError::wrong(
        option,
        format!("{} cannot be read: {error}", shown(path)),
        "give the user who runs the scheduler read and search permission on it",
    )
}

#[cfg(test)]
mod tests;
