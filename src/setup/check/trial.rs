//! Tries a directory out with what the state needs: a file that is synced, a hard link, a rename over another file, the
//! lock itself. All of it in a directory of its own that is removed at the end.
#![expect(
    clippy::disallowed_methods,
    reason = "left-overs of trials that were killed are looked for by name"
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

/// What a trial showed.
#[derive(Debug, Default)]
pub struct Trial {
    /// What could not be done, and why; none: all went well.
    failed: Option<Failed>,
    /// The file server's time, by a file that was just written.
    pub written: Option<Reading>,
}

/// What could not be done, in words, and why.
type Failed = (&'static str, io::Error);

const WRITE: &str = "a file cannot be written";
const SYNC: &str = "a file cannot be synced";
const LINK: &str = "a hard link cannot be made";
const LOCK: &str = "the lock cannot be taken, kept and released";

/// Beginning of the names of trial directories.
const PREFIX: &str = ".snbb-check-";
/// A trial takes seconds.
const LEFTOVER: Duration = Duration::from_secs(3600);

/// Tries a directory. What it makes is gone when this returns; a trial that was killed leaves a directory that the
/// next one removes.
pub fn run(dir: &Path) -> Trial {
    let mut trial = Trial::default();
    sweep(dir);
    let own = match tempfile::Builder::new().prefix(PREFIX).tempdir_in(dir) {
        Ok(own) => own,
        Err(error) => {
            // tempfile wraps the error and names a path that is of no use to anybody.
            let plain = error.raw_os_error().map(io::Error::from_raw_os_error);
            let plain = plain.unwrap_or_else(|| error.kind().into());
            trial.failed = Some(("nothing can be made in it", plain));
            return trial;
        }
    };
    let tried = steps(own.path(), &mut trial);
    let removed = own.close();
    let removed = removed.map_err(|error| ("what was made cannot be removed", error));
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
    trial.written = modified.map(|other| Reading {
        before,
        after,
        other,
    });
    sync_directory_of(&first).map_err(at("a directory cannot be synced"))?;

    fs::hard_link(&first, &second).map_err(at(LINK))?;
    let file = write(&third).map_err(at(WRITE))?;
    file.sync_all().map_err(at(SYNC))?;
    fs::rename(&third, &first).map_err(at("a file cannot be replaced by renaming"))?;
    lock(&own.join("lock")).map_err(at(LOCK))
}

fn lock(path: &Path) -> io::Result<()> {
    let told = |error: LockError| match error {
        LockError::Io(error) => error.source,
        other => io::Error::other(other.to_string()),
    };
    let held = Lock::acquire(path, "check", Duration::from_secs(1)).map_err(told)?;
    held.check().map_err(told)?;
    // Whoever comes second must find it taken.
    match Lock::acquire(path, "check", Duration::ZERO) {
        Err(LockError::Held { .. }) => {}
        Err(error) => return Err(told(error)),
        Ok(_) => return Err(io::Error::other("two calls had it at the same time")),
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

/// Removes what trials left that were killed.
fn sweep(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let is_old = modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > LEFTOVER));
        if name.as_encoded_bytes().starts_with(PREFIX.as_bytes()) && is_old {
            // Of another user, perhaps; it does no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Judges a trial.
pub fn judge(dir: &Path, trial: &Trial, findings: &mut Findings) {
    findings.about("lock", dir.display());
    if let Some((step, error)) = &trial.failed {
        findings.error(
            format!("{step}: {}", error_text(error)),
            advice(step, error),
        );
    }
    findings.or_ok("hard link, rename and sync work, and the lock was taken and released");
}

fn advice(step: &str, error: &io::Error) -> &'static str {
    let is_link = step == LINK;
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room there, or raise the quota"
        }
        io::ErrorKind::ReadOnlyFilesystem => "its file system is mounted read-only",
        io::ErrorKind::PermissionDenied if !is_link => {
            "this user needs write permission on the directory; commands that only read do without"
        }
        _ if is_link || step == LOCK => {
            "the lock is a hard link: keep the state file on a file system that has them (local disk, NFS, Lustre, GPFS)"
        }
        _ => "keep the state file on another file system",
    }
}

#[cfg(test)]
mod tests;
