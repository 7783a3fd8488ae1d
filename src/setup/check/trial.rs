//! Tests a directory for the operations that the state needs: syncing a file, a hard link, renaming over another file,
//! and the lock. Works in a temporary directory.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use chrono::DateTime;

use super::{ClockReading, Findings};
use crate::base::durable::sync_directory_of;
use crate::base::regular::error_text;
use crate::base::sys;
use crate::store::lock::{Lock, LockError};

/// A description of the failed step, and the reason.
type Failed = (&'static str, io::Error);

const WRITE: &str = "cannot write a file";
const SYNC: &str = "cannot sync a file";
const LINK: &str = "cannot create a hard link";
const LOCK: &str = "cannot acquire, keep and release the lock";

/// Tests a directory and removes all test files. Also returns the file server's time.
pub(super) fn run(dir: &Path) -> Result<Option<ClockReading>, Failed> {
    let own = tempfile::Builder::new()
        .prefix(".snbb-check-")
        .tempdir_in(dir);
    let own = own.map_err(|error| {
        // tempfile adds its random path to the error.
        let plain = error.raw_os_error().map(io::Error::from_raw_os_error);
        let plain = plain.unwrap_or_else(|| error.kind().into());
        ("cannot create files in it", plain)
    })?;
    let tried = steps(own.path());
    let removed = own.close();
    let reading = tried?;
    removed.map_err(|error| ("cannot remove the test files", error))?;
    Ok(reading)
}

fn steps(own: &Path) -> Result<Option<ClockReading>, Failed> {
    let at = |step: &'static str| move |error: io::Error| (step, error);
    let [first, second, third] = ["first", "second", "third"].map(|name| own.join(name));
    let before = sys::now();
    let file = write(&first)?;
    let after = sys::now();
    let metadata = file.metadata().map_err(at(WRITE))?;
    let nanos = u32::try_from(metadata.mtime_nsec()).unwrap_or_default();
    let modified = DateTime::from_timestamp(metadata.mtime(), nanos);
    sync_directory_of(&first).map_err(at("cannot sync a directory"))?;
    fs::hard_link(&first, &second).map_err(at(LINK))?;
    write(&third)?;
    fs::rename(&third, &first).map_err(at("cannot replace a file by renaming"))?;
    lock(&own.join("lock")).map_err(at(LOCK))?;
    Ok(modified.map(|other| [before, other, after]))
}

fn lock(path: &Path) -> io::Result<()> {
    let reason = |error: LockError| match error {
        LockError::Io(error) => error.source,
        other => io::Error::other(other.to_string()),
    };
    let held = Lock::acquire(path, "check", Duration::from_secs(1)).map_err(reason)?;
    held.check().map_err(reason)?;
    // A second attempt must fail.
    match Lock::acquire(path, "check", Duration::ZERO) {
        Err(LockError::Held { .. }) => {}
        Err(error) => return Err(reason(error)),
        Ok(_) => return Err(io::Error::other("two processes held it at the same time")),
    }
    drop(held);
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => Err(io::Error::other("it was not released")),
    }
}

fn write(path: &Path) -> Result<File, Failed> {
    let write = || {
        let mut file = File::create_new(path)?;
        file.write_all(b"the state of a study")?;
        Ok(file)
    };
    let file = write().map_err(|error| (WRITE, error))?;
    file.sync_all().map_err(|error| (SYNC, error))?;
    Ok(file)
}

pub(super) fn report<T>(dir: &Path, trial: &Result<T, Failed>, findings: &mut Findings) {
    findings.about("lock", dir.display());
    match trial {
        Ok(_) => findings
            .ok("locking and saving files work in this directory (hard links, renames, syncs)"),
        Err((step, error)) => {
            let text = format!("{step}: {}", error_text(error));
            findings.error(text, remedy(step, error));
        }
    }
}

fn remedy(step: &str, error: &io::Error) -> &'static str {
    let is_link = step == LINK;
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space there, or raise the quota"
        }
        io::ErrorKind::ReadOnlyFilesystem => "remount its file system with write access",
        io::ErrorKind::PermissionDenied if !is_link => {
            "give this user write permission on the directory; commands that only read do not need it"
        }
        _ if is_link || step == LOCK => {
            "the lock is a hard link: move the state file to a file system that supports them (local disk, NFS, Lustre, GPFS)"
        }
        _ => "move the state file to another file system",
    }
}

#[cfg(test)]
mod tests;
