//! Tries a directory out with what the state needs: a file that is synced, a hard link, a rename over another file, the
//! lock itself. All of it in a directory of its own that is removed at the end.
#![expect(
    clippy::disallowed_methods,
    reason = "left-overs of trials that were killed are looked for by name"
)]

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};

use super::Finding;
use crate::base::regular::words;
use crate::base::sys;
use crate::store::lock::{Lock, LockError};

/// Holds what a trial showed.
#[derive(Debug)]
pub struct Trial {
    pub dir: PathBuf,
    /// The step that failed, and why; none: all went well.
    pub failed: Option<(Step, io::Error)>,
    /// The time of a file that was just written. None: it was not written.
    pub written: Option<Written>,
    /// How long the slowest sync took.
    pub sync: Duration,
}

/// Compares the clocks of host and file server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The host's clock before and after.
    pub before: DateTime<Utc>,
    pub after: DateTime<Utc>,
    /// The file's time of modification.
    pub server: DateTime<Utc>,
}

/// Names what is tried, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    MakeDirectory,
    Write,
    Sync,
    SyncDirectory,
    Link,
    /// A link onto a name that is taken must fail.
    LinkTwice,
    Rename,
    ReadBack,
    Lock,
    Remove,
}

/// Beginning of the names of trial directories.
const PREFIX: &str = ".snbb-check-";
/// A trial takes seconds.
const LEFTOVER: Duration = Duration::from_secs(3600);
/// File systems keep times in steps of up to two seconds.
const SKEW: TimeDelta = TimeDelta::seconds(5);
const GREAT_SKEW: TimeDelta = TimeDelta::minutes(10);
/// Each submission waits for a sync.
const SLOW_SYNC: Duration = Duration::from_secs(3);

impl Step {
    pub const ALL: [Self; 10] = [
        Self::MakeDirectory,
        Self::Write,
        Self::Sync,
        Self::SyncDirectory,
        Self::Link,
        Self::LinkTwice,
        Self::Rename,
        Self::ReadBack,
        Self::Lock,
        Self::Remove,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::MakeDirectory => "nothing can be made in it",
            Self::Write => "a file cannot be written",
            Self::Sync => "a file cannot be synced",
            Self::SyncDirectory => "a directory cannot be synced",
            Self::Link => "a hard link cannot be made",
            Self::LinkTwice => "a hard link onto a name that is taken did not fail as it must",
            Self::Rename => "a file cannot be replaced by renaming",
            Self::ReadBack => "what was written is not what is read",
            Self::Lock => "the lock cannot be taken, kept and released",
            Self::Remove => "what was made cannot be removed",
        }
    }

    fn advice(self, error: &io::Error) -> &'static str {
        match (self, error.kind()) {
            (_, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
                "make room there, or raise the quota"
            }
            (_, io::ErrorKind::ReadOnlyFilesystem) => "its file system is mounted read-only",
            (_, io::ErrorKind::PermissionDenied)
                if !matches!(self, Self::Link | Self::LinkTwice) =>
            {
                "this user needs write permission on the directory; commands that only read do without"
            }
            (Self::Link | Self::LinkTwice | Self::Lock, _) => {
                "the lock is a hard link: keep the state file on a file system that has them (local disk, NFS, Lustre, GPFS)"
            }
            _ => "keep the state file on another file system",
        }
    }
}

/// Tries a directory. What it makes is gone when this returns; a trial that was killed leaves a directory that the
/// next one removes.
pub fn run(dir: &Path) -> Trial {
    let mut trial = Trial {
        dir: dir.to_owned(),
        failed: None,
        written: None,
        sync: Duration::ZERO,
    };
    sweep(dir);
    let own = match tempfile::Builder::new().prefix(PREFIX).tempdir_in(dir) {
        Ok(own) => own,
        Err(error) => {
            trial.failed = Some((Step::MakeDirectory, plain(error)));
            return trial;
        }
    };
    let tried = steps(own.path(), &mut trial);
    let removed = own.close().map_err(|error| (Step::Remove, error));
    trial.failed = tried.and(removed).err();
    trial
}

/// tempfile wraps the error and names a path that is of no use to anybody.
fn plain(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::from(error.kind()),
    }
}

fn steps(own: &Path, trial: &mut Trial) -> Result<(), (Step, io::Error)> {
    let at = |step: Step| move |error: io::Error| (step, error);
    let [first, second, third] = ["first", "second", "third"].map(|name| own.join(name));
    let text = b"the state of a study";
    let before = sys::now();
    let file = write(&first, text).map_err(at(Step::Write))?;
    trial.sync = timed(|| file.sync_all()).map_err(at(Step::Sync))?;
    let after = sys::now();
    let metadata = file.metadata().map_err(at(Step::Write))?;
    let nanos = u32::try_from(metadata.mtime_nsec()).unwrap_or_default();
    trial.written = DateTime::from_timestamp(metadata.mtime(), nanos).map(|server| Written {
        before,
        after,
        server,
    });
    drop(file);
    let took = timed(|| crate::base::durable::sync_directory_of(&first))
        .map_err(at(Step::SyncDirectory))?;
    trial.sync = trial.sync.max(took);

    fs::hard_link(&first, &second).map_err(at(Step::Link))?;
    let links = fs::metadata(&second).map_err(at(Step::Link))?.nlink();
    if links != 2 {
        return Err((
            Step::Link,
            io::Error::other(format!("the file has {links} names, not 2")),
        ));
    }
    match fs::hard_link(&first, &second) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err((Step::LinkTwice, error)),
        Ok(()) => return Err((Step::LinkTwice, io::Error::other("it was made"))),
    }
    let newer = b"a newer state of a study";
    let file = write(&third, newer).map_err(at(Step::Write))?;
    file.sync_all().map_err(at(Step::Sync))?;
    drop(file);
    fs::rename(&third, &first).map_err(at(Step::Rename))?;
    for (path, expected) in [(&first, &newer[..]), (&second, text)] {
        let mut found = Vec::new();
        File::open(path)
            .and_then(|mut file| file.read_to_end(&mut found))
            .map_err(at(Step::ReadBack))?;
        if found != expected {
            return Err((Step::ReadBack, io::Error::other("other bytes came back")));
        }
    }
    lock(&own.join("lock")).map_err(at(Step::Lock))
}

fn lock(path: &Path) -> io::Result<()> {
    let told = |error: LockError| match error {
        LockError::Io { source, .. } => source,
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

fn write(path: &Path, bytes: &[u8]) -> io::Result<File> {
    let mut file = File::create_new(path)?;
    file.write_all(bytes)?;
    Ok(file)
}

fn timed(work: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    let since = Instant::now();
    work()?;
    Ok(since.elapsed())
}

/// Removes what trials left that were killed.
fn sweep(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let is_trial = entry
            .file_name()
            .as_encoded_bytes()
            .starts_with(PREFIX.as_bytes())
            && entry.file_type().is_ok_and(|kind| kind.is_dir());
        let is_old = || {
            let modified = entry.metadata().and_then(|metadata| metadata.modified());
            modified.is_ok_and(|time| time.elapsed().is_ok_and(|age| age > LEFTOVER))
        };
        if is_trial && is_old() {
            // Of another user, perhaps; it does no harm.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Judges a trial. `topic`: the lock's, or that of a directory that is only written to.
pub fn judge(topic: &'static str, trial: &Trial) -> Vec<Finding> {
    let about = trial.dir.display().to_string();
    if let Some((step, error)) = &trial.failed {
        return vec![Finding::error(
            topic,
            about,
            format!("{}: {}", step.words(), words(error)),
            step.advice(error),
        )];
    }
    if trial.sync > SLOW_SYNC {
        return vec![Finding::warning(
            topic,
            about,
            format!(
                "to sync a small file took {:.1} s, and each submission waits for that",
                trial.sync.as_secs_f64()
            ),
            "keep the state file on a faster file system, or ask what the server is busy with",
        )];
    }
    vec![Finding::ok(
        topic,
        about,
        "hard link, rename and sync work, and the lock was taken and released",
    )]
}

/// Judges the clocks of host and file server.
pub fn judge_clock(dir: &Path, written: &Written) -> Finding {
    let about = dir.display().to_string();
    let (skew, way) = if written.server > written.after {
        (written.server - written.after, "ahead of")
    } else if written.server < written.before {
        (written.before - written.server, "behind")
    } else {
        (TimeDelta::zero(), "")
    };
    if skew < SKEW {
        return Finding::ok(
            "clock",
            about,
            "the file server's clock and this host's agree",
        );
    }
    let text = format!(
        "the file server's clock is {} s {way} this host's",
        skew.num_seconds()
    );
    let advice = "have both follow the same time server (chrony, ntp): whether outputs and DICOM files are new is judged by their times";
    if skew < GREAT_SKEW {
        Finding::warning("clock", about, text, advice)
    } else {
        Finding::error("clock", about, text, advice)
    }
}

#[cfg(test)]
mod tests;
