//! What stands at the places that a site gives: sessions, kinds of data, roots that are missing. Changes nothing.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::error::{InitError, shown};
use crate::config::Overrides;
use crate::config::load::interpret;
use crate::gather::sessions::discover::{Discovery, discover};
use crate::model::bids::suggest::nearest;
use crate::model::bids::{Session, SessionSource};
use crate::model::config::Config;
use crate::setup::catalogue::{App, DESCRIPTION};
use crate::setup::place::{self, Place};

/// So many sessions are looked into, spread over the dataset.
const SAMPLE: usize = 50;

/// So many names are shown of what is no subject.
const SHOWN: usize = 3;

/// What is known of the data.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Data {
    /// All of them.
    pub cohort: Vec<Session>,
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

impl Data {
    /// Says why an app would never have anything to do; none if it fits, or if nothing is known.
    pub fn obstacle(&self, app: &App) -> Option<String> {
        let needed = app.min_sessions();
        if self.sessions > 0 && self.most_sessions < needed {
            return Some(format!("no subject has {needed} sessions"));
        }
        if self.looked_at == 0 {
            return None;
        }
        let is_there = |kind: &&str| self.datatypes.contains_key(*kind);
        let missing = app.reads.iter().find(|group| !group.iter().any(is_there))?;
        let among = match self.looked_at {
            count if count == self.sessions => "no session has".to_owned(),
            count => format!("none of {count} sessions looked at has"),
        };
        Some(format!("{among} {}", missing.join(" or ")))
    }
}

/// Expects a directory that is there.
///
/// # Errors
/// What stands in the way, with a name nearby that may have been meant.
pub fn source(option: &'static str, path: &Path) -> Result<(), InitError> {
    match place::look(path) {
        Place::Missing => Err(missing(option, path)),
        _ => target(option, path).and_then(|_| {
            let read = place::is_empty(path).map(drop);
            read.map_err(|error| unreadable(option, path, &error.to_string()))
        }),
    }
}

/// Expects a directory that is there, or can be made in one that is. True: it is to be made.
///
/// # Errors
/// As [`source`].
pub fn target(option: &'static str, path: &Path) -> Result<bool, InitError> {
    match place::look(path) {
        Place::Directory => Ok(false),
        Place::Missing if first_missing(path) == path => Ok(true),
        Place::Missing => Err(missing(option, path)),
        Place::Unreadable(error) => Err(unreadable(option, path, &error)),
        Place::Other => Err(InitError::wrong(
            option,
            format!("{} is not a directory", shown(path)),
            "give a directory",
        )),
    }
}

/// Looks for sessions below `dicom_root`.
///
/// # Errors
/// It is not there, cannot be read, or holds directories of which none is a subject's.
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
    let mut data = search(false)?.0;
    if place::is_there(&root.join(DESCRIPTION)) {
        data.notes.push(format!(
            "there is a {DESCRIPTION} in {}: a dataset that is converted already is given as --bids-root alone",
            root.display()
        ));
    }
    if data.sessions == 0 {
        let other = search(true)?.0;
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
            "there are no sessions below {} yet: nothing is due until there are",
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
            "nothing below dicom_root {} is named sub-<label>: there are {}",
            shown(root),
            few.join(", ")
        ),
        "either name the directories <dicom_root>/sub-<label>/ses-<label> (links will do), or list them in a CSV file with \
         the columns UID, ScanID and dicom_path and give it by --sessions-file FILE (--subject-col, --session-col for \
         other names)",
    )
    .or_in_dialogue(
        "name the directories sub-<label>/ses-<label> (links will do); for another layout, begin again and choose a CSV \
         file",
    )
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
    let (mut data, found) = sessions(|config| {
        config.bids_root = root.to_owned();
        config.sessions = SessionSource::Bids;
    })?;
    if data.sessions == 0 && is_source {
        const HOLDS: &str = "a dataset that is converted already holds sub-<label> directories with anat, func, dwi, ...; \
             if it is still to be made from DICOM files,";
        let root = shown(root);
        return Err(InitError::wrong(
            "",
            format!("no subject of bids_root {root} has data: nothing in it is named sub-<label>"),
            format!("{HOLDS} give them by --dicom-root"),
        )
        .or_in_dialogue(format!("{HOLDS} begin again and choose those")));
    }
    for session in place::sample(&found.sessions, SAMPLE) {
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

/// Reads a CSV or TSV file of sessions.
///
/// # Errors
/// It cannot be understood.
pub fn list(file: &Path, subject_col: &str, session_col: &str) -> Result<Data, InitError> {
    let (data, _) = sessions(|config| {
        config.sessions = SessionSource::Csv {
            file: file.to_owned(),
            subject_col: subject_col.to_owned(),
            session_col: session_col.to_owned(),
        };
    })?;
    Ok(data)
}

/// Looks for sessions as a configuration says that differs in these points from the built-in defaults.
fn sessions(set: impl FnOnce(&mut Config)) -> Result<(Data, Discovery), InitError> {
    let mut config = defaults()?;
    set(&mut config);
    let found = discover(&config.search())
        .map_err(|error| InitError::wrong("", error.to_string(), error.hint()))?;
    let subjects = || found.sessions.chunk_by(|a, b| a.subject == b.subject);
    let unreadable = found.unreadable.iter();
    let unreadable =
        unreadable.map(|what| format!("cannot read {}: {}", what.path.display(), what.error));
    let data = Data {
        cohort: found.sessions.clone(),
        subjects: subjects().count(),
        sessions: found.sessions.len(),
        most_sessions: subjects().map(<[Session]>::len).max().unwrap_or_default(),
        notes: found.notes.iter().cloned().chain(unreadable).collect(),
        ..Data::default()
    };
    Ok((data, found))
}

/// Returns the built-in configuration.
///
/// # Errors
/// It has some, so that no caller needs to know better.
pub fn defaults() -> Result<Config, InitError> {
    let none = Overrides::default();
    interpret(b"", None, false, &|_| None, &none, Path::new("/"))
        .map_err(|error| InitError::wrong("", error.to_string(), "report this as a bug"))
}

/// Returns the first part of a path that is not there.
pub fn first_missing(path: &Path) -> &Path {
    let missing = path.ancestors().take_while(|part| !place::is_there(part));
    missing.last().unwrap_or(path)
}

/// Returns the names of directories that are not hidden, sorted.
fn names_of_directories(dir: &Path) -> io::Result<Vec<String>> {
    let paths = place::entries(dir)?.into_iter();
    let directories = paths.filter(|path| place::look(path) == Place::Directory);
    let names =
        directories.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    Ok(names.filter(|name| !name.starts_with('.')).collect())
}

/// A path that is not there, with a directory beside it whose name is nearly the same.
fn missing(option: &'static str, path: &Path) -> InitError {
    let first = first_missing(path);
    let near = || {
        let (parent, name) = (first.parent()?, first.file_name()?.to_str()?);
        let names = names_of_directories(parent).ok()?;
        nearest(name, names.iter().map(String::as_str)).map(|nearest| parent.join(nearest))
    };
    let rest = path.strip_prefix(first).unwrap_or(Path::new(""));
    let meant: Option<PathBuf> = near().map(|near| near.join(rest).components().collect());
    let hint = match &meant {
        Some(meant) => format!("did you mean {}?", shown(meant)),
        None => "is its file system mounted? make it, or correct the path".to_owned(),
    };
    let nor = match first == path {
        true => "",
        false => ", nor does the directory that it would lie in",
    };
    InitError::wrong(option, format!("{} does not exist{nor}", shown(path)), hint)
        .meaning(meant.and_then(|meant| Some(meant.to_str()?.to_owned())))
}

fn unreadable(option: &'static str, path: &Path, error: &str) -> InitError {
    InitError::wrong(
        option,
        format!("{} cannot be read: {error}", shown(path)),
        "the user who runs the scheduler needs read and search permission on it",
    )
}

#[cfg(test)]
mod tests;
