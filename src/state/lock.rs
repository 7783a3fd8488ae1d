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

mod file;
mod heartbeat;
mod holder;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

use self::file::{Seen, Stamp};
use self::heartbeat::Heartbeat;
use self::holder::{Holder, Life};

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
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

/// Says how a lock stands. The texts name the holder, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockStanding {
    Free,
    /// By a process that lives, as far as can be known.
    Held(String),
    /// Its holder has died, or has given no sign for long.
    LeftOver(String),
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
    /// First pause between two tries.
    pub first_pause: Duration,
    /// Longest pause between two tries.
    pub longest_pause: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_secs(30),
            stale_after: Duration::from_secs(600),
            watch: Duration::from_secs(45),
            first_pause: Duration::from_millis(50),
            longest_pause: Duration::from_millis(500),
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
        held.heartbeat.beat();
        // A taker that caught the wrong lock is linking it back; that takes microseconds.
        for pause in [1, 5, 25, 0] {
            let seen = file::observe(&held.path).map_err(|e| io_error("read", &held.path, e))?;
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

    /// Says who holds a lock, for people; none if nobody does. Takes and changes nothing.
    pub fn holder(path: &Path) -> Result<Option<String>, LockError> {
        let seen = file::observe(path).map_err(|source| io_error("read", path, source))?;
        Ok(seen.map(|seen| describe(&seen, None)))
    }

    /// Says how a lock stands at a moment. Takes and changes nothing; so heartbeats are judged by this host's clock,
    /// and the answer is for people.
    pub fn standing(path: &Path, now: DateTime<Utc>) -> Result<LockStanding, LockError> {
        let seen = file::observe(path).map_err(|source| io_error("read", path, source))?;
        let Some(seen) = seen else {
            return Ok(LockStanding::Free);
        };
        let text = describe(&seen, None);
        let is_dead = match seen.life(&Holder::this_process("check")) {
            Life::Dead => true,
            Life::Alive => false,
            Life::Unknown => Stamp::at(now).distance(seen.mtime) >= Timing::default().stale_after,
        };
        Ok(if is_dead {
            LockStanding::LeftOver(text)
        } else {
            LockStanding::Held(text)
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
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => "make the directory of the state file first",
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    "commands that write need a directory of the state file in which this user may make files"
                }
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    "make room (or raise the quota) where the state file is"
                }
                io::ErrorKind::Unsupported => {
                    "the lock needs a file system with hard links; keep the state file on another one"
                }
                _ => "check the file system of the state file and run again",
            },
        }
    }
}

#[derive(Debug)]
struct Held {
    path: PathBuf,
    token: String,
    heartbeat: Heartbeat,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Closes the descriptor too: NFS would keep a file that is still open under another name.
        self.heartbeat.stop();
        let release = || match file::observe(&self.path)? {
            Some(seen) if seen.is_of(&self.token) => {
                file::remove_if(&self.path, &self.token, |moved| moved.is_of(&self.token))
            }
            _ => Ok(false),
        };
        if let Err(error) = release() {
            tracing::warn!(
                "cannot remove the lock {}: {error}; it is taken over by itself once this process has ended",
                self.path.display()
            );
        }
    }
}

/// Is one call that wants the lock.
struct Attempt<'a> {
    path: &'a Path,
    me: Holder,
    timing: Timing,
    /// The lock of another as it has been since the given moment.
    watched: Option<(Seen, Instant)>,
}

enum Verdict {
    Live,
    /// Dead, unless it changes before the given moment.
    Suspect(Instant),
    Dead,
}

impl Attempt<'_> {
    fn wait(&mut self, timeout: Duration) -> Result<Held, LockError> {
        let deadline = Instant::now().checked_add(timeout);
        // Granted once, so that a clock that is wrong cannot make a call wait for ever.
        let mut end_of_watch = None;
        let mut pause = self.timing.first_pause;
        // A taker that died on this host may bar the way of another host's calls, which cannot tell that it did.
        // An error is theirs who need the gate.
        let _ = self.clear_gate(&self.gate());
        loop {
            let seen = self.observe()?;
            let mut is_suspect = false;
            match &seen {
                None => {
                    if let Some(held) = self.try_link()? {
                        return Ok(held);
                    }
                }
                Some(seen) => match self.judge(seen)? {
                    Verdict::Dead => {
                        if self.take_over(seen)? {
                            continue;
                        }
                    }
                    Verdict::Suspect(until) => {
                        is_suspect = true;
                        end_of_watch.get_or_insert_with(|| {
                            tracing::warn!(
                                "the lock looks left over ({}); watching it for {} s before taking it",
                                describe(seen, None),
                                self.timing.watch.as_secs()
                            );
                            // One more try has to fit in after the watch.
                            until + self.timing.longest_pause * 2
                        });
                    }
                    Verdict::Live => {}
                },
            }
            let now = Instant::now();
            let left = match (deadline, end_of_watch) {
                (Some(deadline), Some(end)) if is_suspect => {
                    deadline.max(end).saturating_duration_since(now)
                }
                (Some(deadline), _) => deadline.saturating_duration_since(now),
                (None, _) => Duration::MAX,
            };
            if left.is_zero() {
                return Err(self.held_by(seen));
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 3 / 2).min(self.timing.longest_pause);
        }
    }

    fn observe(&self) -> Result<Option<Seen>, LockError> {
        file::observe(self.path).map_err(|source| io_error("read the lock", self.path, source))
    }

    fn try_link(&self) -> Result<Option<Held>, LockError> {
        let linked = file::link(self.path, &self.me)
            .map_err(|source| io_error("make the lock", self.path, source))?;
        let Some(file) = linked else {
            return Ok(None);
        };
        let heartbeat = Heartbeat::start(file, self.timing.heartbeat).map_err(|source| {
            // The lock itself is left to the rules for left-overs if even this fails.
            let _ = file::remove_if(self.path, &self.me.token, |moved| {
                moved.is_of(&self.me.token)
            });
            io_error("start the heartbeat of", self.path, source)
        })?;
        Ok(Some(Held {
            path: self.path.to_owned(),
            token: self.me.token.clone(),
            heartbeat,
        }))
    }

    fn judge(&mut self, seen: &Seen) -> Result<Verdict, LockError> {
        match seen.life(&self.me) {
            Life::Dead => return Ok(Verdict::Dead),
            Life::Alive => return Ok(Verdict::Live),
            Life::Unknown => {}
        }
        let since = match &self.watched {
            Some((before, since)) if before.is_unchanged(seen) => *since,
            _ => {
                let now = Instant::now();
                self.watched = Some((seen.clone(), now));
                now
            }
        };
        if !self.is_silent(seen)? {
            return Ok(Verdict::Live);
        }
        if since.elapsed() >= self.timing.watch {
            Ok(Verdict::Dead)
        } else {
            Ok(Verdict::Suspect(since + self.timing.watch))
        }
    }

    /// True if the last heartbeat is far from the file server's present, to either side: a clock
    /// that was set back must not keep a dead lock for ever.
    fn is_silent(&self, seen: &Seen) -> Result<bool, LockError> {
        let now = self.server_time()?;
        Ok(now.distance(seen.mtime) >= self.timing.stale_after)
    }

    fn server_time(&self) -> Result<Stamp, LockError> {
        file::server_time(self.path, &self.me.token)
            .map_err(|source| io_error("touch a file beside", self.path, source))
    }

    fn gate(&self) -> PathBuf {
        file::sibling(self.path, "takeover")
    }

    /// Removes a lock that was judged dead. False: it is not, or another call is at it.
    fn take_over(&self, judged: &Seen) -> Result<bool, LockError> {
        let gate = self.gate();
        let linked = file::link(&gate, &self.me)
            .map_err(|source| io_error("make the lock", &gate, source))?;
        if linked.is_none() {
            self.clear_gate(&gate)?;
            return Ok(false);
        }
        drop(linked);
        let taken = self.take_behind_gate(judged);
        let opened = file::remove_if(&gate, &self.me.token, |moved| moved.is_of(&self.me.token));
        let taken = taken?;
        opened.map_err(|source| io_error("remove the lock", &gate, source))?;
        Ok(taken)
    }

    fn take_behind_gate(&self, judged: &Seen) -> Result<bool, LockError> {
        let Some(seen) = self.observe()? else {
            return Ok(true);
        };
        let still_dead = judged.is_unchanged(&seen)
            && match seen.life(&self.me) {
                Life::Dead => true,
                Life::Alive => false,
                Life::Unknown => self.is_silent(&seen)?,
            };
        if !still_dead {
            return Ok(false);
        }
        let removed = file::remove_if(self.path, &self.me.token, |moved| {
            judged.is_unchanged(moved)
        })
        .map_err(|source| io_error("take over the lock", self.path, source))?;
        if removed {
            tracing::info!("took over the lock of {}", describe(&seen, None));
            let now = self.server_time()?;
            file::sweep(self.path, now, self.timing.stale_after);
        }
        Ok(removed)
    }

    /// Removes the gate of a taker that died on the way.
    fn clear_gate(&self, gate: &Path) -> Result<(), LockError> {
        let look = || -> io::Result<()> {
            let Some(seen) = file::observe(gate)? else {
                return Ok(());
            };
            let dead = match seen.life(&self.me) {
                Life::Dead => true,
                Life::Alive => false,
                Life::Unknown => {
                    let now = file::server_time(self.path, &self.me.token)?;
                    now.distance(seen.mtime) >= self.timing.stale_after
                }
            };
            if dead {
                file::remove_if(gate, &self.me.token, |moved| seen.is_unchanged(moved))?;
            }
            Ok(())
        };
        look().map_err(|source| io_error("look at the lock", gate, source))
    }

    fn held_by(&self, seen: Option<Seen>) -> LockError {
        let holder = match seen {
            Some(seen) => {
                let now = file::server_time(self.path, &self.me.token).ok();
                describe(&seen, now)
            }
            None => "several calls took it in turns".to_owned(),
        };
        LockError::Held { holder }
    }
}

/// Says who holds the lock since when: `run by alice on login1, pid 4242, since 2026-01-02 03:04:05 UTC
/// (heartbeat 12 s ago)`.
fn describe(seen: &Seen, now: Option<Stamp>) -> String {
    let mut text = match &seen.holder {
        Some(holder) => holder.to_string(),
        None => format!(
            "a call of uid {} whose lock file says no more, since {}",
            seen.uid, seen.mtime
        ),
    };
    if let Some(age) = now.and_then(|now| now.since(seen.mtime)) {
        text.push_str(&format!(" (heartbeat {} s ago)", age.as_secs()));
    }
    text
}

fn io_error(action: &'static str, path: &Path, source: io::Error) -> LockError {
    LockError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}
