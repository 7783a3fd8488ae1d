//! The files in a session's DICOM directory: their number, depth and age.
//!
//! Walks a whole subtree, so it is used for single sessions, never for the whole study in each pass. Also finds input that
//! is newer than the attempt that used it.

use std::ffi::OsStr;
use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};

use crate::gather::disk::reader::{Reader, is_directory, modified};
use crate::gather::disk::{Dir, EntryKind, Unreadable};
use crate::model::bids::{Dicom, Session};
use crate::model::config::Config;

/// Why a session is held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// Data is still arriving; the newest file has settled at this time.
    Settling {
        until: DateTime<Utc>,
    },
    TooFewFiles {
        files: u64,
        needed: u64,
    },
    Unreadable(Unreadable),
}

/// Checks the directory by which a session was found. Below `bids_root` (`discover: bids`), only its age counts.
pub fn hold_session(
    config: &Config,
    reader: &Reader,
    session: &Session,
    now: DateTime<Utc>,
) -> Option<Hold> {
    let settle = config.dicom_settle;
    let held = || {
        let (directory, needed) = match &session.dicom {
            // A session needs at least one file.
            Dicom::At(path) if !config.dicom_gate => (path.to_path_buf(), 1),
            Dicom::At(path) => (path.to_path_buf(), config.audit.dicom_min_files.max(1)),
            Dicom::NotNeeded if settle.is_some() => {
                let subject = config.bids_root.join(&session.subject);
                (subject.join(&session.session), 0)
            }
            Dicom::NotNeeded | Dicom::Missing => return Ok(None),
        };
        // Finding the newest file requires all of them.
        let enough = settle.map_or(needed, |_| u64::MAX);
        let (files, newest) = look(reader, &directory, enough, settle.is_some())?;
        let settled = newest.zip(settle).map(|(newest, settle)| {
            let settled = TimeDelta::from_std(settle).ok();
            let settled = settled.and_then(|settle| newest.checked_add_signed(settle));
            settled.unwrap_or(DateTime::<Utc>::MAX_UTC)
        });
        Ok(match settled.filter(|settled| *settled > now) {
            _ if files < needed => Some(Hold::TooFewFiles { files, needed }),
            until => until.map(|until| Hold::Settling { until }),
        })
    };
    held().unwrap_or_else(|unreadable| Some(Hold::Unreadable(unreadable)))
}

/// The number of files at any depth below a DICOM directory, up to `enough` (links to files count, hidden files do not),
/// and with `wants_age` the newest modification time of files (also hidden ones, to which rsync writes) and empty
/// directories. Follows links, but no loops.
///
/// # Errors
/// The first directory or file that could not be read, unless there are enough without it.
fn look(
    reader: &Reader,
    directory: &Path,
    enough: u64,
    wants_age: bool,
) -> Result<(u64, Option<DateTime<Utc>>), Unreadable> {
    let (mut files, mut newest, mut problem) = (0, None, None);
    let unread = walk(reader, directory, &mut |path, is_data| {
        match wants_age.then(|| reader.stat(path)) {
            None => files += u64::from(is_data),
            Some(Ok(Some(stat))) => {
                files += u64::from(is_data);
                newest = newest.max(modified(&stat));
            }
            Some(Ok(None)) => {}
            Some(Err(unreadable)) => problem = Some(unreadable),
        }
        problem.is_none() && files < enough
    });
    let problem = problem.or(unread).filter(|_| files < enough);
    problem.map_or(Ok((files, newest)), Err)
}

/// Counts the files below a DICOM directory, up to `enough`.
///
/// # Errors
/// As the walk, unless there are enough files.
pub fn count_files(reader: &Reader, directory: &Path, enough: u64) -> Result<u64, Unreadable> {
    Ok(look(reader, directory, enough, false)?.0)
}

/// Calls `see` for the files below `top` until it returns false; also for hidden files and empty directories, which have
/// an age but are not data. Skips hidden directories and the files of file managers. If `top` is a file (an archive), it
/// is the only one. Returns the first path that could not be read.
fn walk(
    reader: &Reader,
    top: &Path,
    see: &mut dyn FnMut(&Path, bool) -> bool,
) -> Option<Unreadable> {
    let mut problem = None;
    let mut open = vec![top.to_owned()];
    while let Some(directory) = open.pop() {
        let listing = match reader.dir(&directory) {
            Dir::There(listing) => listing,
            Dir::Absent if directory == top => match reader.stat(top) {
                Ok(Some(_)) => {
                    see(top, true);
                    return None;
                }
                Ok(None) => return None,
                Err(unreadable) => return Some(unreadable),
            },
            Dir::Absent => continue,
            Dir::Failed(unreadable) => {
                problem.get_or_insert(unreadable);
                continue;
            }
        };
        if listing.is_empty() && !see(&directory, false) {
            return problem;
        }
        for entry in listing.iter().filter(|entry| !is_litter(entry.name)) {
            let path = directory.join(entry.name);
            if entry.name.as_encoded_bytes().starts_with(b".") {
                if entry.kind == EntryKind::File && !see(&path, false) {
                    return problem;
                }
                continue;
            }
            let kind = match entry.kind {
                EntryKind::Link => match reader.stat(&path) {
                    Ok(Some(stat)) if !is_directory(&stat) => EntryKind::File,
                    Ok(Some(_)) if !leads_back(&directory, &path) => EntryKind::Directory,
                    Ok(_) => continue,
                    Err(unreadable) => {
                        problem.get_or_insert(unreadable);
                        continue;
                    }
                },
                kind => kind,
            };
            match kind {
                EntryKind::Directory => open.push(path),
                EntryKind::File if !see(&path, true) => return problem,
                _ => {}
            }
        }
    }
    problem
}

/// True for files that file managers leave in any directory.
fn is_litter(name: &OsStr) -> bool {
    const LEFT_BEHIND: [&str; 4] = [".DS_Store", "Thumbs.db", "desktop.ini", "__MACOSX"];
    let mut left = LEFT_BEHIND.iter();
    left.any(|left| name.eq_ignore_ascii_case(left))
}

/// True if a link leads to a directory that contains it.
fn leads_back(directory: &Path, link: &Path) -> bool {
    match (directory.canonicalize(), link.canonicalize()) {
        (Ok(directory), Ok(target)) => directory.starts_with(target),
        _ => true,
    }
}

/// True if a file below a directory (or the file itself, for an archive) is newer than `since`. Does not follow links
/// to directories.
///
/// A new file changes its directory's time, so only newer directories are searched. Files newer than `now` have a wrong
/// time and do not count, nor do unreadable ones.
pub fn has_newer(reader: &Reader, top: &Path, since: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    let time = |path: &Path| modified(&reader.stat(path).ok()??);
    let mut open = vec![top.to_owned()];
    while let Some(directory) = open.pop() {
        let Some(changed) = time(&directory) else {
            continue;
        };
        let has_changed = changed > since;
        let listing = match reader.dir(&directory) {
            Dir::There(listing) => listing,
            Dir::Absent if has_changed && changed <= now => return true,
            Dir::Absent | Dir::Failed(_) => continue,
        };
        for entry in listing.iter() {
            if is_litter(entry.name) || entry.name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = directory.join(entry.name);
            match entry.kind {
                EntryKind::Directory => open.push(path),
                EntryKind::File | EntryKind::Link if has_changed => {
                    if time(&path).is_some_and(|time| time > since && time <= now) {
                        return true;
                    }
                }
                EntryKind::File | EntryKind::Link | EntryKind::Other => {}
            }
        }
    }
    false
}

#[cfg(test)]
mod tests;
