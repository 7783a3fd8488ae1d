//! The exclusive lock beside the state file, between processes and between login nodes.
//!
//! The truth is a file that `link(2)` puts in place: atomic also on NFS, and where `flock` does
//! nothing. It names its holder, who touches it every 30 s; no descriptor means anything, so a child
//! process cannot keep it. It is *not* a promise that cannot be broken, so the holder calls
//! [`Lock::check`] before every submission and the store checks the state's generation.
//!
//! # Left-overs
//!
//! - Same host, boot, PID and time namespace: the process decides. It is dead if its pid is free, a zombie, or
//!   began at another time (a pid that is used again); then its lock is taken at once. While it lives, the lock is its own
//!   however old the last heartbeat is.
//! - Otherwise (another host; a container; a host that was booted again, which cannot be told from a second host of
//!   the same name; a process that `/proc` hides; a lock file that cannot be read) only the
//!   heartbeat speaks, and two things must hold. It is 10 min away from the time of a probe file
//!   touched just now in the same directory: both times come from the file server's clock. And it has not
//!   changed while this process watched for 45 s of its own monotonic clock, one and a half
//!   heartbeats: a clock that jumped, or a file system that takes times from its clients (Lustre), makes a
//!   fresh heartbeat look old, but cannot hide the next one. For that a call waits longer than its timeout.
//!
//! # Taking a left-over
//!
//! Takers exclude each other by a second lock file, `<lock>.takeover`, held for some
//! system calls; every call that wants the lock removes one whose taker died here. Behind it the taker
//! judges once more, renames the lock aside to a unique name, and compares token and
//! heartbeat of what it has got. If it is not what was judged (the holder woke up, or left and
//! another came), it is linked back. Then all compete by `link` again: one wins.
//!
//! What remains: a holder that was frozen for 10 min and wakes up between that last comparison and
//! the removal believes for one submission that it holds the lock; and while a wrongly moved lock is
//! being linked back (microseconds), a third call can get in, which the holder's next check reports as lost.

mod attempt;
mod file;
mod heartbeat;
mod holder;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::base::regular::FileError;
use crate::base::{durable, sys};

use self::attempt::{Attempt, Held};
use self::file::Seen;
use self::heartbeat::Heartbeat;
use self::holder::Holder;

/// Is a held lock; dropping it releases it.
#[derive(Debug)]
pub struct Lock {
    /// None: was never taken, see [`Lock::unlocked`].
    held: Option<Held>,
}

/// Says why there is no lock.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// `holder` says who and since when, for people.
    #[error("another call holds the lock: {holder}")]
    Held { holder: String },
    #[error("the lock was taken over by another call: {holder}")]
    Lost { holder: String },
    #[error(transparent)]
    Io(#[from] FileError),
}

/// Holds the times of the lock. The defaults are the program's; tests shorten them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Pause between two heartbeats of the holder.
    pub heartbeat: Duration,
    /// Distance of the last heartbeat from the file server's time at which a holder that cannot be asked may be dead.
    pub stale_after: Duration,
    /// How long such a lock must not change under the eyes of who wants it. Longer than `heartbeat`.
    pub watch: Duration,
    /// First pause between two tries; the longest is ten times as long.
    pub pause: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(30),
            stale_after: Duration::from_secs(600),
            watch: Duration::from_secs(45),
            pause: Duration::from_millis(50),
        }
    }
}

impl Lock {
    /// Waits for the lock for at most `timeout`. `command` is shown to those who wait.
    ///
    /// A lock whose holder seems to be dead and cannot be asked is watched for 45 s before it is
    /// taken, also if that is longer than `timeout`. Never retries after an error of the file system.
    pub fn acquire(path: &Path, command: &str, timeout: Duration) -> Result<Self, LockError> {
        Self::acquire_with(path, command, timeout, Timing::default())
    }

    /// Is [`Self::acquire`] with other times; all who share a lock must use the same.
    pub fn acquire_with(
        path: &Path,
        command: &str,
        timeout: Duration,
        timing: Timing,
    ) -> Result<Self, LockError> {
        let mut attempt = Attempt {
            path,
            me: Holder::this_process(command),
            timing,
            watched: None,
        };
        let held = attempt.wait(timeout)?;
        Ok(Self { held: Some(held) })
    }

    /// Grants a lock that locks nothing. For tests of what happens when the lock lies; never for a command.
    pub fn unlocked() -> Self {
        Self { held: None }
    }

    /// Looks whether the lock is still this process's own. Called before every submission.
    ///
    /// Also gives a sign of life, so that a process that was frozen shows at once that it is back.
    pub fn check(&self) -> Result<(), LockError> {
        let Some(held) = &self.held else {
            return Ok(());
        };
        held.heartbeat.iter().for_each(Heartbeat::beat);
        // A taker that caught the wrong lock is linking it back; that takes microseconds.
        for pause in [1, 5, 25, 0] {
            let seen = file::observe(&held.path).map_err(io_error("read", &held.path))?;
            match seen {
                Some(seen) if seen.is_of(&held.token) => return Ok(()),
                Some(seen) => {
                    return Err(LockError::Lost {
                        holder: describe(&seen, None),
                    });
                }
                None => std::thread::sleep(Duration::from_millis(pause)),
            }
        }
        Err(LockError::Lost {
            holder: format!("its file {} was removed", held.path.display()),
        })
    }
}

impl LockError {
    /// Says what a person can do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Held { .. } => {
                "wait for it to end, or wait longer with --lock-timeout; a lock whose holder died is taken over by itself (from another host 10 minutes after its last heartbeat)"
            }
            Self::Lost { .. } => {
                "nothing more was submitted by this call; this process or its file system was frozen for minutes, or somebody removed the lock file; run again"
            }
            Self::Io(FileError { source, .. }) => match source.kind() {
                io::ErrorKind::NotFound => "make the directory of the state file first",
                io::ErrorKind::Unsupported => {
                    "the lock needs a file system with hard links; keep the state file on another one"
                }
                _ => durable::hint(source)
                    .unwrap_or("check the file system of the state file and run again"),
            },
        }
    }
}

/// Says who holds the lock since when: `run by alice on login1, pid 4242, since 2026-01-02 03:04 UTC
/// (heartbeat 12 s ago)`.
fn describe(seen: &Seen, now: Option<SystemTime>) -> String {
    let mut text = match &seen.holder {
        Some(holder) => holder.to_string(),
        None => format!(
            "a call of {} whose lock file says no more",
            sys::user(seen.uid)
        ),
    };
    if let Some(age) = now.and_then(|now| now.duration_since(seen.mtime).ok()) {
        text.push_str(&format!(" (heartbeat {} s ago)", age.as_secs()));
    }
    text
}

fn io_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> LockError {
    let failed = FileError::of(action, path);
    move |source| failed(source).into()
}
