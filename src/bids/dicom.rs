//! What lies in a session's DICOM directory: how many files, how deep, how new.
//!
//! Walks a whole subtree, so it is asked for single sessions, never for a whole study at each pass.

use std::path::Path;

use chrono::{DateTime, Utc};
use walkdir::WalkDir;

use crate::completion::Unreadable;
use crate::completion::listing::words;

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

/// Looks at all files below a DICOM directory. Links are followed, loops and links to nothing are
/// not.
///
/// # Errors
/// The first directory or file that could not be looked at: a count without it would be wrong.
pub fn look(directory: &Path) -> Result<DicomFiles, Unreadable> {
    let mut found = DicomFiles::default();
    let walk = WalkDir::new(directory).min_depth(1).follow_links(true);
    let is_visible =
        |entry: &walkdir::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
    for entry in walk.into_iter().filter_entry(is_visible) {
        let metadata = match entry.and_then(|entry| Ok((entry.metadata()?, entry.depth()))) {
            Ok((metadata, depth)) => {
                found.has_subdirectories |= depth == 1 && metadata.is_dir();
                metadata
            }
            Err(error) if is_absence(&error) => continue,
            Err(error) => return Err(unreadable(directory, error)),
        };
        if metadata.is_file() {
            found.files += 1;
            let modified = metadata.modified().ok().map(DateTime::<Utc>::from);
            found.newest = found.newest.max(modified);
        }
    }
    Ok(found)
}

/// True for loops, links to nothing and what has vanished meanwhile.
fn is_absence(error: &walkdir::Error) -> bool {
    const TOO_MANY_LINKS: i32 = rustix::io::Errno::LOOP.raw_os_error();
    error.loop_ancestor().is_some()
        || error.io_error().is_some_and(|error| {
            error.kind() == std::io::ErrorKind::NotFound
                || error.raw_os_error() == Some(TOO_MANY_LINKS)
        })
}

fn unreadable(directory: &Path, error: walkdir::Error) -> Unreadable {
    let path = error.path().unwrap_or(directory).to_owned();
    let error = match error.into_io_error() {
        Some(error) => words(&error),
        None => "cannot be read".to_owned(),
    };
    Unreadable { path, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
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
        assert!(found.has_subdirectories);
        assert_eq!(found.newest, Some(time.into()));
    }
}
