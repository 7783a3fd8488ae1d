//! Tests a directory for the operations that the state needs: syncing a file, a hard link, renaming over another file,
//! and the lock. Works in a temporary directory.
#![expect(
    clippy::disallowed_methods,
    reason = "finds leftovers of killed trials by name"
)]

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use chrono::DateTime;

use super::Findings;
use super::clock::Reading;
use crate::base::durable::sync_directory_of;
use crate::base::regular::error_text;
use crate::base::sys;
use crate::store::lock::{Lock, LockError};

/// The result of a trial.
#[derive(Debug, Default)]
pub(super) struct Trial {
    /// `None` if all steps succeeded.
    failed: Option<Failed>,
    /// The file server's time, from a file that was just written.
    pub written: Option<Reading>,
}

/// A description of the failed step, and the reason.
type Failed = (&'static str, io::Error);

const WRITE: &str = "cannot write a file";
const SYNC: &str = "cannot sync a file";
const LINK: &str = "cannot create a hard link";
const LOCK: &str = "cannot acquire, keep and release the lock";

/// Prefix of the names of trial directories.
const PREFIX: &str = ".snbb-check-";
/// Older directories are leftovers, because a trial takes only seconds.
const LEFTOVER: Duration = Duration::from_secs(3600);

/// Tests a directory and removes all test files. The next trial removes the leftovers of a killed one.
pub(super) fn run(dir: &Path) -> Trial {
    let mut trial = Trial::default();
    sweep(dir);
    let own = match tempfile::Builder::new().prefix(PREFIX).tempdir_in(dir) {
        Ok(own) => own,
        Err(error) => {
            // tempfile adds its random path to the error.
            let plain = error.raw_os_error().map(io::Error::from_raw_os_error);
            let plain = plain.unwrap_or_else(|| error.kind().into());
            trial.failed = Some(("cannot create files in it", plain));
            return trial;
        }
    };
    let tried = steps(own.path(), &mut trial);
    let removed = own.close();
    let removed = removed.map_err(|error| ("cannot remove the test files", error));
    trial.failed = tried.and(removed).err();
    trial
}

fn steps(own: &Path, trial: &mut Trial) -> Result<(), Failed> {
    let at = |step: &'static str| move |error: io::Error| (step, error);
    let [first, second, third] = ["first", "second", "third"].map(|name| own.join(name));
    let before = sys::now();
    let file = write(&first).map_err(at(WRITE))?;
    file.sync_all().map_err(at(SYNC))?;
    let after = sys::now();
    let metadata = file.metadata().map_err(at(WRITE))?;
    let nanos = u32::try_from(metadata.mtime_nsec()).unwrap_or_default();
    let modified = DateTime::from_timestamp(metadata.mtime(), nanos);
    trial.written = modified.map(|other| [before, other, after]);
    sync_directory_of(&first).map_err(at("cannot sync a directory"))?;

    fs::hard_link(&first, &second).map_err(at(LINK))?;
    let file = write(&third).map_err(at(WRITE))?;
    file.sync_all().map_err(at(SYNC))?;
    fs::rename(&third, &first).map_err(at("cannot replace a file by renaming"))?;
    lock(&own.join("lock")).map_err(at(LOCK))
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

fn write(path: &Path) -> io::Result<File> {
    let mut file = File::create_new(path)?;
    file.write_all(b"the state of a study")?;
    Ok(file)
}

/// Removes leftovers of killed trials.
fn sweep(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let is_old = modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > LEFTOVER));
        if name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) && is_old {
            // It may belong to another user, and does no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

pub(super) fn report(dir: &Path, trial: &Trial, findings: &mut Findings) {
    findings.about("lock", dir.display());
    if let Some((step, error)) = &trial.failed {
        findings.error(
            format!("{step}: {}", error_text(error)),
            remedy(step, error),
        );
    }
    findings.or_ok("locking and saving files work in this directory (hard links, renames, syncs)");
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
