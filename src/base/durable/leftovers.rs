//! Temporary files that dead processes left behind, and copies of damaged files that were kept.
#![expect(
    clippy::disallowed_methods,
    reason = "lists a file's directory to find leftovers beside it"
)]

use std::ffi::OsString;
use std::fs::DirEntry;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{
    TEMPORARY, Temporary, content, directory_of, has_no_links, open_again, prefixed,
    sync_directory_of,
};

/// The age from which a leftover of a dead process is removed.
pub const LEFTOVER_AGE: Duration = Duration::from_secs(24 * 3600);

const KEPT: &str = ".damaged-";

/// Removes temporary files that dead processes left beside files of one directory. The first file was just written:
/// its time is the file server's clock, by which ages are measured.
pub fn remove_leftovers(files: &[&Path], older_than: Duration) {
    let Some(Ok(now)) = files
        .first()
        .map(|file| file.metadata().and_then(|metadata| metadata.modified()))
    else {
        return;
    };
    for entry in beside(files, TEMPORARY) {
        // The second name of an old file has that file's modification time; only its ctime is its own.
        let age = || {
            let metadata = entry.metadata().ok()?;
            let linked = Duration::from_secs(u64::try_from(metadata.ctime()).ok()?);
            let now = now.duration_since(std::time::UNIX_EPOCH).ok()?;
            now.checked_sub(linked)
        };
        if age().is_some_and(|age| age > older_than) {
            // A file that cannot be removed does no harm; the next save tries again.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Lists temporary files beside files of one directory, and copies that a repair has kept.
pub fn list_leftovers(files: &[&Path]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let [temporary, kept] = [TEMPORARY, KEPT].map(|mark| {
        let mut paths: Vec<PathBuf> = beside(files, mark).map(|entry| entry.path()).collect();
        paths.sort();
        paths
    });
    (temporary, kept)
}

/// The entries of the first file's directory whose names begin with one of the files' names and `mark`.
fn beside(files: &[&Path], mark: &str) -> impl Iterator<Item = DirEntry> {
    let prefixes: Vec<OsString> = files.iter().map(|file| prefixed(file, mark)).collect();
    let directory = files.first().and_then(|file| directory_of(file));
    directory
        .and_then(|directory| std::fs::read_dir(directory).ok())
        .into_iter()
        .flatten()
        .flatten()
        .filter(move |entry| {
            let name = entry.file_name();
            prefixes.iter().any(|prefix| {
                name.as_encoded_bytes()
                    .starts_with(prefix.as_encoded_bytes())
            })
        })
}

/// Links a file to an unused name `<file>.damaged-<stamp>`, or copies it where links cannot be made. Returns the name.
pub fn keep(path: &Path, stamp: &str) -> io::Result<PathBuf> {
    for count in 1..1000 {
        let mut name = prefixed(path, KEPT);
        name.push(stamp);
        if count > 1 {
            name.push(format!("-{count}"));
        }
        let kept = path.with_file_name(name);
        let is_kept = match std::fs::hard_link(path, &kept) {
            Err(error) if has_no_links(&error) => {
                let old = open_again(path)?;
                Temporary::write(&kept, &content(&old)?, Some(&old))?.put(&kept)?
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            outcome => outcome.map(|()| true)?,
        };
        if is_kept {
            return sync_directory_of(path).map(|()| kept);
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
