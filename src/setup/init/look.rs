//! What stands at the places that a site gives: sessions, kinds of data, roots that are missing. Changes nothing.
#![expect(
    clippy::disallowed_methods,
    reason = "the given roots are looked at here, before there is a configuration"
)]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::error::InitError;
use crate::config::Overrides;
use crate::config::load::interpret;
use crate::gather::sessions::discover::{DiscoverError, Discovery, discover};
use crate::model::bids::near::nearest;
use crate::model::bids::{Session, SessionSource};
use crate::model::config::Config;

/// So many sessions are looked into, spread over the dataset.
const SAMPLE: usize = 50;

/// So many names are shown of what is no subject.
const SHOWN: usize = 3;

/// Holds what is known of the data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Data {
    pub subjects: usize,
    pub sessions: usize,
    /// Of the subject that has the most.
    pub most_sessions: usize,
    /// BIDS datatypes, and how many of the sessions looked at have them.
    pub datatypes: BTreeMap<String, usize>,
    /// 0: there is no converted dataset yet.
    pub looked_at: usize,
    /// Subjects have no `ses-*` below `dicom_root`.
    pub is_sessionless: bool,
    /// What is odd, a line each.
    pub notes: Vec<String>,
}

/// Says what stands at a path.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    Directory,
    /// Something else.
    Other,
    Missing,
    Unreadable(String),
}

/// Looks at a path, through links.
pub fn place(path: &Path) -> Place {
    match std::fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => Place::Directory,
        Ok(_) => Place::Other,
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
            ) =>
        {
            Place::Missing
        }
        Err(error) => Place::Unreadable(error.to_string()),
    }
}

/// True if this user may make files in a directory.
pub fn is_writable(dir: &Path) -> bool {
    access(dir, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

/// Expects a directory that is there.
///
/// # Errors
/// What stands in the way, with a name nearby that may have been meant.
pub fn source(option: &'static str, path: &Path) -> Result<(), InitError> {
    match place(path) {
        Place::Directory => std::fs::read_dir(path)
            .map(drop)
            .map_err(|error| unreadable(option, path, &error)),
        Place::Missing => match first_missing(path) {
            first if first == path => Err(InitError::RootMissing {
                option,
                near: near(path),
                path: path.to_owned(),
            }),
            first => Err(InitError::ParentMissing {
                option,
                path: path.to_owned(),
                near: near(&first),
                first,
            }),
        },
        found => Err(unfit(option, path, found)),
    }
}

/// Expects a directory that is there, or can be made in one that is. True: it is to be made.
///
/// # Errors
/// As [`source`].
pub fn target(option: &'static str, path: &Path) -> Result<bool, InitError> {
    match place(path) {
        Place::Directory => Ok(false),
        Place::Missing => match first_missing(path) {
            first if first == path => Ok(true),
            first => Err(InitError::ParentMissing {
                option,
                path: path.to_owned(),
                near: near(&first),
                first,
            }),
        },
        found => Err(unfit(option, path, found)),
    }
}

/// Looks for sessions below `dicom_root`.
///
/// # Errors
/// It is not there, cannot be read, or holds directories of which none is a subject's.
pub fn dicom(root: &Path) -> Result<Data, InitError> {
    const OPTION: &str = "--dicom-root";
    source(OPTION, root)?;
    let config = |sessionless| {
        let mut config = empty(OPTION, root)?;
        config.dicom_root = root.to_owned();
        config.sessions = SessionSource::Dicom;
        config.sessionless = sessionless;
        Ok::<_, InitError>(config)
    };
    let mut found = ask(OPTION, root, &config(false)?)?;
    let mut is_sessionless = false;
    if found.sessions.is_empty() {
        let other = ask(OPTION, root, &config(true)?)?;
        is_sessionless = !other.sessions.is_empty();
        if is_sessionless {
            found = other;
        }
    }
    if found.sessions.is_empty() {
        let names = names_of_directories(root).map_err(|error| unreadable(OPTION, root, &error))?;
        if !names.is_empty() && !names.iter().any(|name| name.starts_with("sub-")) {
            return Err(InitError::NotInBidsLayout {
                path: root.to_owned(),
                names: few(&names),
            });
        }
    }
    let mut data = counted(&found);
    data.is_sessionless = is_sessionless;
    if found.sessions.is_empty() {
        data.notes.push(format!(
            "there are no sessions below {} yet: nothing is due until there are",
            root.display()
        ));
    }
    Ok(data)
}

/// Looks for sessions below `bids_root`, and for what kinds of data they have. `is_source`: they must be there.
///
/// # Errors
/// It is not there or cannot be read; or there are none.
pub fn bids(root: &Path, is_source: bool) -> Result<Data, InitError> {
    const OPTION: &str = "--bids-root";
    if is_source {
        source(OPTION, root)?;
    } else if target(OPTION, root)? {
        return Ok(Data::default());
    }
    let mut config = empty(OPTION, root)?;
    config.bids_root = root.to_owned();
    config.sessions = SessionSource::Bids;
    let found = ask(OPTION, root, &config)?;
    if found.sessions.is_empty() && is_source {
        return Err(InitError::NoDataset {
            path: root.to_owned(),
        });
    }
    let mut data = counted(&found);
    for session in sample(&found.sessions) {
        data.looked_at += 1;
        let dir = root.join(&session.subject).join(&session.session);
        for name in names_of_directories(&dir).unwrap_or_default() {
            *data.datatypes.entry(name).or_default() += 1;
        }
    }
    if !is_source {
        data.notes.clear();
    }
    Ok(data)
}

/// Reads a CSV file of sessions.
///
/// # Errors
/// It cannot be understood.
pub fn list(file: &Path, subject_col: &str, session_col: &str) -> Result<Data, DiscoverError> {
    let mut config = match empty("--sessions-file", file) {
        Ok(config) => config,
        // The defaults are always a configuration.
        Err(_) => return Ok(Data::default()),
    };
    config.sessions = SessionSource::Csv {
        file: file.to_owned(),
        subject_col: subject_col.to_owned(),
        session_col: session_col.to_owned(),
    };
    Ok(counted(&discover(&config.search())?))
}

/// Returns the first part of a path that is not there.
pub fn first_missing(path: &Path) -> PathBuf {
    let mut parts: Vec<&Path> = path.ancestors().collect();
    parts.reverse();
    parts
        .into_iter()
        .find(|part| place(part) == Place::Missing)
        .unwrap_or(path)
        .to_owned()
}

/// Returns the built-in defaults, of which the roots are then replaced.
fn empty(option: &'static str, path: &Path) -> Result<Config, InitError> {
    let cwd = Path::new("/");
    interpret(b"", None, false, &|_| None, &Overrides::default(), cwd).map_err(|error| {
        InitError::Unreadable {
            option,
            path: path.to_owned(),
            error: error.to_string(),
        }
    })
}

fn ask(option: &'static str, root: &Path, config: &Config) -> Result<Discovery, InitError> {
    discover(&config.search()).map_err(|error| match error {
        DiscoverError::RootUnreadable { error, .. } => InitError::Unreadable {
            option,
            path: root.to_owned(),
            error,
        },
        other => InitError::Unreadable {
            option,
            path: root.to_owned(),
            error: other.to_string(),
        },
    })
}

fn counted(found: &Discovery) -> Data {
    let subjects = || found.sessions.chunk_by(|a, b| a.subject == b.subject);
    let unreadable = found
        .unreadable
        .iter()
        .map(|what| format!("cannot read {}: {}", what.path.display(), what.error));
    Data {
        subjects: subjects().count(),
        sessions: found.sessions.len(),
        most_sessions: subjects().map(<[Session]>::len).max().unwrap_or_default(),
        notes: found.notes.iter().cloned().chain(unreadable).collect(),
        ..Data::default()
    }
}

fn sample(sessions: &[Session]) -> impl Iterator<Item = &Session> {
    let step = sessions.len().div_ceil(SAMPLE).max(1);
    sessions.iter().step_by(step)
}

/// Returns the names of directories that are not hidden, sorted.
fn names_of_directories(dir: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && place(&entry.path()) == Place::Directory {
            names.push(name);
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn few(names: &[String]) -> Vec<String> {
    let mut few: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| name.escape_debug().to_string())
        .collect();
    if names.len() > SHOWN {
        few.push("...".to_owned());
    }
    few
}

/// Returns a directory beside a missing one whose name is nearly the same.
fn near(missing: &Path) -> Option<PathBuf> {
    let (parent, name) = (missing.parent()?, missing.file_name()?.to_str()?);
    let names = names_of_directories(parent).ok()?;
    nearest(name, names.iter().map(String::as_str)).map(|nearest| parent.join(nearest))
}

fn unfit(option: &'static str, path: &Path, found: Place) -> InitError {
    match found {
        Place::Unreadable(error) => InitError::Unreadable {
            option,
            path: path.to_owned(),
            error,
        },
        _ => InitError::NotADirectory {
            option,
            path: path.to_owned(),
        },
    }
}

fn unreadable(option: &'static str, path: &Path, error: &io::Error) -> InitError {
    InitError::Unreadable {
        option,
        path: path.to_owned(),
        error: error.to_string(),
    }
}

#[cfg(test)]
mod tests;
