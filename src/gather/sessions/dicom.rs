//! The files in a session's DICOM directory: their number, depth and age.
//!
//! Walks a whole subtree, so it is used for single sessions, never for the whole study in each pass.

use std::ffi::OsStr;
use std::path::Path;

use chrono::{DateTime, Utc};

use crate::gather::disk::Unreadable;
use crate::gather::disk::listing::{Dir, EntryKind};
use crate::gather::disk::reader::{Reader, is_directory, modified};
use crate::model::bids::{Dicom, Gate, Session};

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
    gate: &Gate,
    reader: &Reader,
    session: &Session,
    bids_root: &Path,
    now: DateTime<Utc>,
) -> Option<Hold> {
    let held = || {
        let (directory, needed) = match &session.dicom {
            // A session needs at least one file.
            Dicom::At(path) => (path.to_path_buf(), gate.min_files.max(1)),
            Dicom::NotNeeded if gate.settle.is_some() => {
                let subject = bids_root.join(&session.subject);
                (subject.join(&session.session), 0)
            }
            Dicom::NotNeeded | Dicom::Missing => return Ok(None),
        };
        let (files, newest) = match gate.settle {
            // Finding the newest file requires all of them.
            Some(_) => dicom_files(reader, &directory)?,
            None => (count_files(reader, &directory, needed)?, None),
        };
        Ok(match files < needed {
            true => Some(Hold::TooFewFiles { files, needed }),
            false => settling(gate, newest, now),
        })
    };
    held().unwrap_or_else(|unreadable| Some(Hold::Unreadable(unreadable)))
}

fn settling(gate: &Gate, newest: Option<DateTime<Utc>>, now: DateTime<Utc>) -> Option<Hold> {
    let until = newest?
        .checked_add_signed(gate.settle?)
        .unwrap_or(DateTime::<Utc>::MAX_UTC);
    (until > now).then_some(Hold::Settling { until })
}

/// The number of files at any depth below a DICOM directory (links to files count, hidden files do not), and the newest
/// modification time of files (also hidden ones, to which rsync writes) and empty directories. Follows links, but no
/// loops.
///
/// # Errors
/// The first directory or file that could not be read: a count without it would be wrong.
fn dicom_files(
    reader: &Reader,
    directory: &Path,
) -> Result<(u64, Option<DateTime<Utc>>), Unreadable> {
    let (mut files, mut newest) = (0, None);
    let mut problem = None;
    let unread = walk(reader, directory, &mut |path, is_data| {
        match reader.stat(path) {
            Ok(Some(stat)) => {
                files += u64::from(is_data);
                newest = newest.max(modified(&stat));
            }
            Ok(None) => {}
            Err(unreadable) => problem = Some(unreadable),
        }
        problem.is_none()
    });
    problem.or(unread).map_or(Ok((files, newest)), Err)
}

/// Counts the files below a DICOM directory, up to `enough`.
///
/// # Errors
/// The first directory or file that could not be read, unless there are enough without it.
pub fn count_files(reader: &Reader, directory: &Path, enough: u64) -> Result<u64, Unreadable> {
    let mut files = 0;
    let unread = walk(reader, directory, &mut |_, is_data| {
        files += u64::from(is_data);
        files < enough
    });
    match unread {
        Some(unreadable) if files < enough => Err(unreadable),
        _ => Ok(files),
    }
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
pub(super) fn is_litter(name: &OsStr) -> bool {
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

#[cfg(test)]
mod tests {
    use chrono::Duration;

    use super::*;
    use crate::model::bids::{SessionLabel, SubjectLabel};
    use std::fs;

    fn hold_below(gate: &Gate, directory: &Path, now: DateTime<Utc>) -> Option<Hold> {
        let session = Session {
            subject: SubjectLabel::new("sub-01").unwrap(),
            session: SessionLabel::none(),
            dicom: Dicom::At(directory.into()),
        };
        hold_session(gate, &Reader::default(), &session, Path::new(""), now)
    }

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
        let hold = |gate: Gate, minutes| {
            let now = written + Duration::minutes(minutes);
            hold_below(&gate, tmp.path(), now)
        };
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

    #[test]
    fn attack_a_session_below_bids_root_settles_but_needs_no_minimum() {
        let tmp = tempfile::tempdir().unwrap();
        let session = Session {
            subject: SubjectLabel::new("sub-01").unwrap(),
            session: SessionLabel::new("ses-01").unwrap(),
            dicom: Dicom::NotNeeded,
        };
        let anat = tmp.path().join("sub-01/ses-01/anat");
        fs::create_dir_all(&anat).unwrap();
        let written = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
        let hold = |settle: Option<i64>, minutes| {
            let gate = Gate {
                settle: settle.map(Duration::minutes),
                min_files: 10,
            };
            let now = written + Duration::minutes(minutes);
            hold_session(&gate, &Reader::default(), &session, tmp.path(), now)
        };
        let touch = |path: &Path| {
            let file = fs::File::open(path).unwrap();
            file.set_modified(written.into()).unwrap();
        };
        let until = written + Duration::minutes(30);
        let settles = |what: &str| {
            let held = Some(Hold::Settling { until });
            assert_eq!(hold(Some(30), 29), held, "{what}");
            assert_eq!(hold(Some(30), 30), None, "{what}");
        };
        touch(&anat);
        settles("empty");
        // rsync writes to a hidden file first.
        let temporary = anat.join(".sub-01_ses-01_T1w.nii.gz.Xy12ab");
        fs::write(&temporary, "x").unwrap();
        touch(&temporary);
        settles("hidden");
        let image = anat.join("sub-01_ses-01_T1w.nii.gz");
        fs::rename(&temporary, &image).unwrap();
        settles("image");
        fs::File::open(&image)
            .unwrap()
            .set_modified((written - Duration::days(1)).into())
            .unwrap();
        assert_eq!(hold(Some(30), 0), None);
        let next = tmp.path().join("sub-01/ses-01/func");
        fs::create_dir(&next).unwrap();
        touch(&next);
        settles("next directory");
        assert_eq!(hold(None, 0), None, "dicom_settle is not set");
    }

    use std::os::unix::fs::symlink;

    #[test]
    fn files_are_counted_at_any_depth() {
        let tmp = tempfile::tempdir().unwrap();
        let at = |name: &str| tmp.path().join("ses-1").join(name);
        let reader = &Reader::default();
        let look = |path: &Path| dicom_files(reader, path);
        let count = |path: &Path, enough| count_files(reader, path, enough);
        assert_eq!(look(&at("")), Ok((0, None)), "none is none");
        fs::create_dir_all(at("series/deep")).unwrap();
        for name in [
            "1.dcm",
            "series/2.dcm",
            "series/deep/3.dcm",
            ".hidden",
            "series/.4.dcm.Xy",
            "Thumbs.db",
        ] {
            fs::write(at(name), "x").unwrap();
        }
        symlink("1.dcm", at("5.dcm")).unwrap();
        symlink("..", at("series/loop")).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(4_000_000_000);
        let file = fs::File::options()
            .append(true)
            .open(at("series/2.dcm"))
            .unwrap();
        file.set_modified(time).unwrap();
        assert_eq!(look(&at("")), Ok((4, Some(time.into()))));
        assert_eq!(count(&at(""), 100), Ok(4));
        assert_eq!(count(&at(""), 2), Ok(2));
        assert_eq!(count(&at("none"), 2), Ok(0));
        assert_eq!(count(&at("1.dcm"), 9), Ok(1), "an archive");
        symlink("nowhere", at("6.dcm")).unwrap();
        assert_eq!(count(&at(""), 4), Ok(4), "enough without it");
        assert_eq!(count(&at(""), 5).unwrap_err().path, at("6.dcm"));
        assert_eq!(look(&at("")).unwrap_err().path, at("6.dcm"));
    }

    #[test]
    fn b4_a_directory_without_a_real_file_is_held_without_any_gate() {
        let tmp = tempfile::tempdir().unwrap();
        let hold = || hold_below(&Gate::default(), tmp.path(), DateTime::UNIX_EPOCH);
        let empty = Some(Hold::TooFewFiles {
            files: 0,
            needed: 1,
        });
        assert_eq!(hold(), empty);
        for name in [".DS_Store", "Thumbs.db", ".nfs0001"] {
            fs::write(tmp.path().join(name), "x").unwrap();
        }
        fs::create_dir(tmp.path().join("series")).unwrap();
        assert_eq!(hold(), empty);
        symlink("/nonexistent/1.dcm", tmp.path().join("series/1.dcm")).unwrap();
        assert!(matches!(hold(), Some(Hold::Unreadable(_))));
        fs::write(tmp.path().join("series/2.dcm"), "x").unwrap();
        assert_eq!(hold(), None);
    }
}
