//! Checks the directories that the program and its jobs' logs are written to. Tests that of the state, in a temporary
//! directory, for the operations that it needs: syncing a file, a hard link, renaming over another file, and the lock.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::Duration;

use chrono::DateTime;

use super::{ClockReading, Config, Findings, Level, Site, Store, sys};
use crate::base::durable::sync_directory_of;
use crate::base::regular::error_text;
use crate::config::root_above;
use crate::decide::safety::{self, Room};
use crate::setup::place::{self, Place};
use crate::store::lock::{Lock, LockError};

const FEWER_LOGS: &str =
    "free space there: `clean --logs --older-than 90d` removes logs of complete tasks";

/// Checks the directories that the program writes to, and tests that of the state.
pub(super) fn check(site: &Site, findings: &mut Findings) {
    let config = &site.config;
    let needed = config.safety.min_free;
    // Resolves links of the file itself, as for the state.
    let state_file = Store::at(&config.state_file)
        .map_or_else(|_| config.state_file.clone(), |store| store.paths.state);
    let state_dir = place::parent(&state_file);
    findings.about("state_file", state_file.display());
    let is_usable = written(config, "state_file", &state_dir, findings);
    let mode = place::mode(&state_dir);
    findings.writable_by_all(&state_dir, mode, "replace files in its directory");
    let rooms = safety::rooms(config);
    let stops = safety::space_stops(config, &rooms);
    if stops.is_empty() {
        let remedy = format!("free space there: below {} MB, runs stop", needed >> 20);
        judge_room(rooms[0], needed, &remedy, findings);
    }
    for stop in stops {
        let topic = match stop.name.as_str() {
            "space/log_file" => "log_file",
            _ => "state_file",
        };
        let text = format!("{}; `run` would submit nothing (safety stop)", stop.message);
        findings.about(topic, "").error(text, stop.hint);
    }
    if is_usable {
        let existing = place::existing(&state_dir);
        let trial = trial(&existing);
        report_trial(&existing, &trial, findings);
        if let Ok(Some(reading)) = trial {
            let why = "modification times decide whether outputs and DICOM files are new";
            findings.clock(existing.display(), "the file server's", reading, why);
        }
    }
    let log_file_dir = place::parent(&config.log_file);
    if log_file_dir != state_dir {
        findings.about("log_file", config.log_file.display());
        written(config, "log_file", &log_file_dir, findings);
    }
    if let Some(dir) = &config.slurm.log_dir {
        findings.about("log_dir", dir.display());
        written(config, "slurm_log_dir", dir, findings);
        judge_room(
            safety::room(&dir.join("file")),
            needed,
            FEWER_LOGS,
            findings,
        );
    } else if config.executor.has_cluster() {
        findings.about("log_dir", "").warning(
            "slurm_log_dir is not set: jobs write their logs to the directory that `run` was started in, and `logs` cannot find them",
            "set slurm_log_dir to a directory that all nodes can access",
        );
    }
}

/// Judges the directory of a key's file, or the directory that is a key's value. True if the program can write there.
fn written(config: &Config, key: &str, dir: &Path, findings: &mut Findings) -> bool {
    let what = match key.ends_with("_file") {
        true => "its directory ",
        false => "",
    };
    let is_writable = place::is_writable(&place::existing(dir));
    let place = place::inspect(dir);
    let is_usable = is_writable && matches!(place, Place::Directory | Place::Missing);
    directory(Level::Error, (key, what), place, is_writable, findings);
    if let Some((root, _)) = root_above(config, dir) {
        findings.warning(
            format!("{what}is inside {root}, where the program writes nothing else"),
            format!("set {key} to a path outside, unless this is intended: datasets are copied and validated as a unit"),
        );
    }
    is_usable
}

/// `level` is that of a directory that cannot be used; `what` a subject before the verb if the directory is not itself
/// the value of the key.
pub(super) fn directory(
    level: Level,
    (key, what): (&str, &str),
    place: Place,
    is_writable: bool,
    findings: &mut Findings,
) {
    let elsewhere = format!("set {key} to another path");
    let permit = format!("give this user write permission on the directory, or {elsewhere}");
    let (text, remedy) = match (place, is_writable) {
        (Place::Directory, true) => return findings.ok(format!("{what}exists and is writable")),
        (Place::Missing, true) => {
            return findings.ok(format!("{what}does not exist yet and will be created"));
        }
        (Place::Directory, false) => ("is not writable for this user".to_owned(), permit),
        (Place::Missing, false) => {
            let text = "does not exist, and this user cannot create it";
            (
                text.to_owned(),
                format!("create the directory, or {elsewhere}"),
            )
        }
        (Place::Other, _) => ("is not a directory".to_owned(), elsewhere),
        (Place::Unreadable(error), _) => (format!("cannot be accessed: {error}"), permit),
    };
    findings.add(level, format!("{what}{text}"), remedy);
}

/// Reports the free space of a file system. Slurm fails a job that cannot write its log, without giving a reason.
fn judge_room(room: Option<Room>, needed: u64, remedy: &str, findings: &mut Findings) {
    let Some(room) = room else { return };
    if !room.has_inodes {
        let text = "its file system cannot store more files (no free inodes)";
        return findings.error(text, remedy);
    }
    let Some(free) = room.free else { return };
    let text = format!("its file system has {} MB free", free >> 20);
    if free < needed {
        findings.error(format!("{text}: jobs may fail or leave no log"), remedy);
    } else if free < needed.saturating_mul(10) {
        findings.warning(text, remedy);
    } else {
        findings.ok(text);
    }
}

/// A description of the failed step, and the reason.
type Failed = (&'static str, io::Error);

const WRITE: &str = "cannot write a file";
const SYNC: &str = "cannot sync a file";
const LINK: &str = "cannot create a hard link";
const LOCK: &str = "cannot acquire, keep and release the lock";

/// Tests a directory and removes all test files. Also returns the file server's time.
fn trial(dir: &Path) -> Result<Option<ClockReading>, Failed> {
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

fn report_trial<T>(dir: &Path, trial: &Result<T, Failed>, findings: &mut Findings) {
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
