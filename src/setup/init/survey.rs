//! Surveys a site's data for `init`: sessions, missing directories. Changes nothing.

use std::path::Path;

use super::{InitError, shown};
use crate::base::text::{few, printable};
use crate::config::Overrides;
use crate::config::load::interpret;
use crate::gather::sessions::discover::discover;
use crate::model::bids::suggest::nearest;
use crate::model::bids::{Session, SessionSource};
use crate::model::config::Config;
use crate::setup::place::{self, Place};

/// The result of a survey.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Data {
    /// Sorted by subject.
    pub sessions: Vec<Session>,
    /// Subjects in `dicom_root` have no `ses-*` directories.
    pub is_sessionless: bool,
    /// Remarks, one line each.
    pub notes: Vec<String>,
}

/// Checks a directory that exists or can be created in an existing one.
///
/// # Errors
/// Neither is possible. Names a similar directory that exists.
pub fn target(option: &'static str, path: &Path) -> Result<(), InitError> {
    match place::inspect(path) {
        Place::Directory => Ok(()),
        Place::Missing if first_missing(path) == path => Ok(()),
        Place::Missing => Err(missing(option, path)),
        Place::Unreadable(error) => Err(unreadable(option, path, &error)),
        Place::Other => Err(InitError::wrong(
            option,
            format!("{} is not a directory", shown(path)),
            "use a directory",
        )),
    }
}

/// Checks a directory with data.
///
/// # Errors
/// It does not exist or cannot be read.
pub fn source(option: &'static str, path: &Path) -> Result<(), InitError> {
    if !place::is_there(path) {
        return Err(missing(option, path));
    }
    target(option, path)?;
    let read = place::is_empty(path).map(drop);
    read.map_err(|error| unreadable(option, path, &error.to_string()))
}

/// Finds sessions in `dicom_root`.
///
/// # Errors
/// It does not exist, cannot be read, or contains directories, but no subjects.
pub fn dicom(root: &Path) -> Result<Data, InitError> {
    source("--dicom-root", root)?;
    let search = |sessionless| {
        sessions(|config| {
            config.dicom_root = root.to_owned();
            config.sessions = SessionSource::Dicom;
            config.sessionless = sessionless;
        })
    };
    let mut data = search(false)?;
    if !data.sessions.is_empty() {
        return Ok(data);
    }
    let mut other = search(true)?;
    if !other.sessions.is_empty() {
        other.notes.push("subjects have no ses-* directories: each is one session without label (sessionless: yes)".to_owned());
        return Ok(other);
    }
    let names = names_of_directories(root);
    if names.is_empty() || names.iter().any(|name| name.starts_with("sub-")) {
        let root = root.display();
        data.notes.push(format!(
            "{root} does not contain any sessions yet, so no tasks are due"
        ));
        return Ok(data);
    }
    let (root, names) = (shown(root), printable(&few(&names, 3)).into_owned());
    Err(InitError::wrong(
        "",
        format!("dicom_root {root} contains no directories named sub-<label>, but {names}"),
        "rename the directories to <dicom_root>/sub-<label>/ses-<label> (or create links), or list them in a CSV file with \
         the columns UID, ScanID and dicom_path and pass it with --sessions-file FILE (--subject-col and --session-col \
         for other columns)",
    ))
}

/// Finds sessions in `bids_root`. With `is_source`, there must be sessions.
///
/// # Errors
/// It does not exist, cannot be read, or has no sessions.
pub fn bids(root: &Path, is_source: bool) -> Result<Data, InitError> {
    const OPTION: &str = "--bids-root";
    if is_source {
        source(OPTION, root)?;
    } else {
        target(OPTION, root)?;
        if !place::is_there(root) {
            return Ok(Data::default());
        }
    }
    let data = sessions(|config| {
        config.bids_root = root.to_owned();
        config.sessions = SessionSource::Bids;
    })?;
    if data.sessions.is_empty() && is_source {
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
    let mut config = built_in("")?;
    set(&mut config);
    let found =
        discover(&config).map_err(|error| InitError::wrong("", error.to_string(), error.hint()))?;
    let unreadable = found.unreadable.iter().map(ToString::to_string);
    Ok(Data {
        notes: found.notes.into_iter().chain(unreadable).collect(),
        is_sessionless: config.sessionless,
        sessions: found.sessions,
    })
}

/// The built-in configuration with these lines.
///
/// # Errors
/// A bug.
pub fn built_in(text: &str) -> Result<Config, InitError> {
    let none = Overrides::default();
    interpret(
        text.as_bytes(),
        None,
        false,
        &|_| None,
        &none,
        Path::new("/"),
    )
    .map_err(|error| InitError::wrong("", error.to_string(), "report this as a bug"))
}

/// The first ancestor of a path that does not exist.
pub fn first_missing(path: &Path) -> &Path {
    let missing = path.ancestors().take_while(|part| !place::is_there(part));
    missing.last().unwrap_or(path)
}

/// The names of directories that are not hidden, sorted; empty if they cannot be read.
fn names_of_directories(dir: &Path) -> Vec<String> {
    let mut names = place::names(dir);
    names.retain(|name| place::inspect(&dir.join(name)) == Place::Directory);
    names
}

/// The error for a missing path, with a name beside it that is similar.
fn missing(option: &'static str, path: &Path) -> InitError {
    let first = first_missing(path);
    let similar = || {
        let (parent, name) = (first.parent()?, first.file_name()?.to_str()?);
        let names = names_of_directories(parent);
        Some(parent.join(nearest(name, names.iter().map(String::as_str))?))
    };
    let hint = similar().map_or_else(
        || {
            "check that its file system is mounted, create the directory, or correct the path"
                .to_owned()
        },
        |similar| format!("did you mean {}?", shown(&similar)),
    );
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
