//! What lies in a session's DICOM directory: how many files, how deep, how new.
//!
//! Walks a whole subtree, so it is asked for single sessions, never for a whole study at each pass.

use std::path::Path;

use chrono::{DateTime, Duration, Utc};
use walkdir::WalkDir;

use crate::disk::Unreadable;
use crate::disk::reader::{Reader, words};

/// Describes a DICOM directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DicomFiles {
    /// Files at any depth, hidden ones apart; links to files count.
    pub files: u64,
    /// There is at least one directory directly below (a series per directory).
    pub has_subdirectories: bool,
    /// Modification time of the newest file; none without files.
    pub newest: Option<DateTime<Utc>>,
}

/// Says which sessions are held back although their DICOM directory is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gate {
    /// A session waits while its newest file is younger than this.
    pub settle: Option<Duration>,
    /// A session with fewer files waits; one without any always does.
    pub min_files: u64,
}

/// Says why a session is held back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hold {
    /// Data still arrives; the newest file is settled at this time.
    Settling {
        until: DateTime<Utc>,
    },
    TooFewFiles {
        files: u64,
        needed: u64,
    },
    Unreadable(Unreadable),
}

impl Gate {
    /// Looks at a session's directory. Without a single file no session is worked on.
    pub fn hold(&self, directory: &Path, now: DateTime<Utc>) -> Option<Hold> {
        let needed = self.min_files.max(1);
        let looked = match self.settle {
            // Which file is the newest shows only once all are seen.
            Some(_) => look(directory),
            None => count(directory, needed).map(|files| DicomFiles {
                files,
                ..DicomFiles::default()
            }),
        };
        let found = match looked {
            Ok(found) => found,
            Err(unreadable) => return Some(Hold::Unreadable(unreadable)),
        };
        if found.files < needed {
            return Some(Hold::TooFewFiles {
                files: found.files,
                needed,
            });
        }
        let until = found
            .newest?
            .checked_add_signed(self.settle?)
            .unwrap_or(DateTime::<Utc>::MAX_UTC);
        (until > now).then_some(Hold::Settling { until })
    }
}

/// Looks at all files below a DICOM directory. Links are followed, loops are not.
///
/// # Errors
/// The first directory or file that could not be looked at: a count without it would be wrong.
pub fn look(directory: &Path) -> Result<DicomFiles, Unreadable> {
    let mut found = DicomFiles::default();
    for entry in entries(directory) {
        let looked = entry.and_then(|entry| Ok((entry.metadata()?, entry.depth())));
        let Some((metadata, depth)) = present(directory, looked)? else {
            continue;
        };
        found.has_subdirectories |= depth == 1 && metadata.is_dir();
        if metadata.is_file() {
            found.files += 1;
            let modified = metadata.modified().ok().map(DateTime::<Utc>::from);
            found.newest = found.newest.max(modified);
        }
    }
    Ok(found)
}

/// Counts the files below a DICOM directory as [`look`] does, but not further than to `enough`.
///
/// # Errors
/// The first directory or file that could not be looked at, unless there is enough without it.
pub fn count(directory: &Path, enough: u64) -> Result<u64, Unreadable> {
    let mut files = 0;
    let mut problem = None;
    for entry in entries(directory) {
        match present(directory, entry) {
            Ok(Some(entry)) => files += u64::from(entry.file_type().is_file()),
            Ok(None) => {}
            Err(unreadable) => problem = problem.or(Some(unreadable)),
        }
        if files >= enough {
            return Ok(files);
        }
    }
    problem.map_or(Ok(files), Err)
}

/// Walks over what counts: neither hidden entries nor what desktops leave behind. A path that is a file (an archive)
/// counts itself.
fn entries(directory: &Path) -> impl Iterator<Item = walkdir::Result<walkdir::DirEntry>> {
    let walk = WalkDir::new(directory).follow_links(true);
    walk.into_iter().filter_entry(|entry| {
        let name = entry.file_name().as_encoded_bytes();
        entry.depth() == 0
            || !(name.starts_with(b".") || LITTER.iter().any(|it| name.eq_ignore_ascii_case(it)))
    })
}

/// Files that file managers leave in any directory.
const LITTER: [&[u8]; 3] = [b"Thumbs.db", b"desktop.ini", b"__MACOSX"];

/// Takes loops and what has vanished meanwhile for nothing. A link that leads nowhere may be any file.
fn present<T>(directory: &Path, found: walkdir::Result<T>) -> Result<Option<T>, Unreadable> {
    let error = match found {
        Ok(found) => return Ok(Some(found)),
        Err(error) if error.loop_ancestor().is_some() => return Ok(None),
        Err(error) => error,
    };
    let path = error.path().unwrap_or(directory).to_owned();
    match error.into_io_error() {
        Some(error) if error.kind() == std::io::ErrorKind::NotFound => {
            // Files of git-annex are there as far as this machine can tell.
            Reader::default().stat(&path).map(|_| None)
        }
        Some(error) => Err(Unreadable {
            path,
            error: words(&error),
        }),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_session_is_held_back_while_it_arrives_and_while_it_is_too_small() {
        let tmp = tempfile::tempdir().unwrap();
        let file = fs::File::create(tmp.path().join("1.dcm")).unwrap();
        let written = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        file.set_modified(written.into()).unwrap();
        let gate = |settle: i64, min_files| Gate {
            settle: (settle > 0).then(|| Duration::minutes(settle)),
            min_files,
        };
        let hold =
            |gate: Gate, minutes| gate.hold(tmp.path(), written + Duration::minutes(minutes));
        assert_eq!(hold(gate(0, 0), 0), None);
        let until = written + Duration::minutes(30);
        assert_eq!(hold(gate(30, 0), 29), Some(Hold::Settling { until }));
        assert_eq!(hold(gate(30, 0), 30), None);
        assert_eq!(hold(gate(0, 1), 0), None);
        let few = Hold::TooFewFiles {
            files: 1,
            needed: 2,
        };
        assert_eq!(hold(gate(30, 2), 60), Some(few));
    }

    use std::os::unix::fs::symlink;

    #[test]
    fn files_are_counted_at_any_depth() {
        let tmp = tempfile::tempdir().unwrap();
        let at = |name: &str| tmp.path().join("ses-1").join(name);
        assert_eq!(look(&at("")), Ok(DicomFiles::default()), "none is none");
        fs::create_dir_all(at("series/deep")).unwrap();
        for name in [
            "1.dcm",
            "series/2.dcm",
            "series/deep/3.dcm",
            ".hidden",
            "series/.4.dcm.Xy",
        ] {
            fs::write(at(name), "x").unwrap();
        }
        symlink("1.dcm", at("5.dcm")).unwrap();
        symlink("nowhere", at("6.dcm")).unwrap();
        symlink("..", at("series/loop")).unwrap();
        symlink("self", at("self")).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(4_000_000_000);
        let file = fs::File::options()
            .append(true)
            .open(at("series/2.dcm"))
            .unwrap();
        file.set_modified(time).unwrap();
        let found = look(&at("")).unwrap();
        assert_eq!(found.files, 4);
        assert_eq!(count(&at(""), 100), Ok(4));
        assert_eq!(count(&at(""), 2), Ok(2));
        assert_eq!(count(&at("none"), 2), Ok(0));
        assert!(found.has_subdirectories);
        assert_eq!(found.newest, Some(time.into()));
    }
}
