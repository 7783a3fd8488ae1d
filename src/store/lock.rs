//! The exclusive lock beside the state file, between processes and between login nodes.
//!
//! The lock is a file that `link(2)` puts in place: atomic even on NFS, and where `flock` does
//! nothing. It names its holder, which touches it every 30 s. Descriptors do not matter, so a child
//! process cannot keep it. It is *not* unbreakable, so the holder calls [`Lock::check`] before every
//! submission, and the store checks the state's generation.
//!
//! # Stale locks
//!
//! - Same host, boot, PID and time namespace: the process decides. It is dead if its pid is free, a zombie, or
//!   began at another time (a reused pid); then its lock is taken at once. While it is alive, it keeps the lock,
//!   however old the last heartbeat is.
//! - Otherwise (another host; a container; a rebooted host, which looks like a second host of the same name; a
//!   process that `/proc` hides; an unreadable lock file) only the heartbeat counts, under two conditions. It
//!   differs by 10 min from the time of a probe file touched just now in the same directory: both times come from
//!   the file server's clock. And it has not changed during 45 s of this process's monotonic clock, one and a half
//!   heartbeats: a clock that jumped, or a file system that takes times from its clients (Lustre), makes a fresh
//!   heartbeat look old, but cannot hide the next one. For this, a process waits longer than its timeout.
//!
//! # Taking over a stale lock
//!
//! Takers exclude each other by a second lock file, `<lock>.takeover`, held for some system calls; every process
//! that wants the lock removes one whose taker died on this host. The taker then checks once more, renames the
//! lock to a unique name, and compares token and heartbeat of what it has moved. If that is not the stale lock
//! (the holder woke up, or left and another came), it is linked back. Then all compete by `link` again: one wins.
//!
//! Two gaps remain. A holder that was frozen for 10 min and wakes up between that last comparison and the removal
//! believes for one submission that it holds the lock. And while a wrongly moved lock is being linked back
//! (microseconds), a third process can get in, which the holder's next check reports as lost.

mod file;
mod holder;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::base::regular::FileError;
use crate::base::{durable, sys};

use self::file::{Heartbeat, Seen};
use self::holder::{Holder, Life};

/// A held lock; dropping it releases it.
#[derive(Debug)]
pub struct Lock {
    /// `None` for [`Lock::unlocked`].
    held: Option<Held>,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// `holder` is a text for people: who, and since when.
    #[error("another process holds the lock: {holder}")]
    Held { holder: String },
    #[error("another process took over the lock: {holder}")]
    Lost { holder: String },
    #[error(transparent)]
    Io(#[from] FileError),
}

/// The times of the lock. Only tests change the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// Pause between two heartbeats of the holder.
    pub heartbeat: Duration,
    /// Age of the last heartbeat, by the file server's time, after which a holder elsewhere may be dead.
    pub stale_after: Duration,
    /// How long such a lock is watched for changes before it is taken. Longer than `heartbeat`.
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
    /// Waits for the lock for at most `timeout`. `command` is shown to waiting processes.
    ///
    /// If the holder elsewhere seems to be dead, its lock is watched for 45 s before it is taken, even
    /// if that is longer than `timeout`. Never retries after an error of the file system.
    pub fn acquire(path: &Path, command: &str, timeout: Duration) -> Result<Self, LockError> {
        Self::acquire_with(path, command, timeout, Timing::default())
    }

    /// [`Self::acquire`] with other times; all users of a lock must use the same.
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

    /// A lock that locks nothing, to test what happens if the lock does not work.
    pub fn unlocked() -> Self {
        Self { held: None }
    }

    /// Checks that this process still holds the lock. Called before every submission.
    ///
    /// Also touches the lock file, so that a process that was frozen shows at once that it is back.
    pub fn check(&self) -> Result<(), LockError> {
        let Some(held) = &self.held else {
            return Ok(());
        };
        held.heartbeat.iter().for_each(Heartbeat::beat);
        // A taker that caught the wrong lock is linking it back; that takes microseconds.
        for pause in [1, 5, 25, 0] {
            let seen = file::observe(&held.path).map_err(FileError::of("read", &held.path))?;
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
    /// How to fix it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Held { .. } => {
                "try again later, or wait longer with --lock-timeout; the lock of a dead process is taken over automatically (if it ran on another host, 10 minutes after its last heartbeat)"
            }
            Self::Lost { .. } => {
                "run the command again; it stopped submitting because it or its file system was frozen for minutes, or because the lock file was removed"
            }
            Self::Io(FileError { source, .. }) => match source.kind() {
                io::ErrorKind::NotFound => "create the directory of the state file first",
                io::ErrorKind::Unsupported => {
                    "move the state file to a file system with hard links, which the lock needs"
                }
                _ => durable::hint(source)
                    .unwrap_or("check the file system of the state file and run again"),
            },
        }
    }
}

/// `run by alice on login1, pid 4242, since 2026-01-02 03:04 UTC (heartbeat 12 s ago)`
fn describe(seen: &Seen, now: Option<SystemTime>) -> String {
    let mut text = match &seen.holder {
        Some(holder) => holder.to_string(),
        None => format!(
            "a process of {} (no details in the lock file)",
            sys::user(seen.uid)
        ),
    };
    if let Some(age) = now.and_then(|now| now.duration_since(seen.mtime).ok()) {
        text.push_str(&format!(" (heartbeat {} s ago)", age.as_secs()));
    }
    text
}

/// The lock while this process has it; released when dropped.
#[derive(Debug)]
struct Held {
    path: PathBuf,
    token: String,
    /// `None` during release.
    heartbeat: Option<Heartbeat>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Also closes the descriptor: NFS would keep an open file under another name.
        self.heartbeat.take();
        let release = || match file::observe(&self.path)? {
            Some(seen) if seen.is_of(&self.token) => {
                file::remove_if(&self.path, &self.token, |moved| moved.is_of(&self.token))
            }
            _ => Ok(false),
        };
        if let Err(error) = release() {
            tracing::warn!(
                "cannot remove the lock {}: {error}; the next command will take it over automatically",
                self.path.display()
            );
        }
    }
}

/// One attempt to get the lock.
struct Attempt<'a> {
    path: &'a Path,
    me: Holder,
    timing: Timing,
    /// The lock of another process, unchanged since the given moment.
    watched: Option<(Seen, Instant)>,
}

enum Verdict {
    Live,
    /// Dead, unless it changes before the given moment.
    Suspect(Instant),
    Dead,
}

impl Attempt<'_> {
    /// Waits for the lock, and takes it over if its holder is dead.
    fn wait(&mut self, timeout: Duration) -> Result<Held, LockError> {
        let deadline = Instant::now().checked_add(timeout);
        // Set only once, so that a wrong clock cannot make a process wait forever.
        let mut end_of_watch = None;
        let (mut pause, longest_pause) = (self.timing.pause, self.timing.pause * 10);
        // A taker that died on this host may block processes of other hosts, which cannot find out that it died.
        // An error matters only to a process that needs the gate.
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
                                "the lock looks stale ({}); watching it for {} s before taking it over",
                                describe(seen, None),
                                self.timing.watch.as_secs()
                            );
                            // One more try has to fit in after the watch.
                            until + longest_pause * 2
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
                let now = file::server_time(self.path, &self.me.token).ok();
                let holder = seen.map(|seen| describe(&seen, now));
                let holder = holder.unwrap_or_else(|| "several processes took turns".to_owned());
                return Err(LockError::Held { holder });
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 3 / 2).min(longest_pause);
        }
    }

    fn observe(&self) -> Result<Option<Seen>, LockError> {
        Ok(file::observe(self.path).map_err(FileError::of("read the lock", self.path))?)
    }

    fn try_link(&self) -> Result<Option<Held>, LockError> {
        let linked = file::link(self.path, &self.me);
        let Some(file) = linked.map_err(FileError::of("make the lock", self.path))? else {
            return Ok(None);
        };
        let heartbeat = Heartbeat::start(file, self.timing.heartbeat).map_err(|source| {
            // If even this fails, the rules for stale locks apply.
            let _ = file::remove_if(self.path, &self.me.token, |moved| {
                moved.is_of(&self.me.token)
            });
            FileError::of("start the heartbeat of", self.path)(source)
        })?;
        Ok(Some(Held {
            path: self.path.to_owned(),
            token: self.me.token.clone(),
            heartbeat: Some(heartbeat),
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
                let watched = (seen.clone(), Instant::now());
                self.watched.insert(watched).1
            }
        };
        if !self.is_silent(seen)? {
            return Ok(Verdict::Live);
        }
        Ok(match since.elapsed() >= self.timing.watch {
            true => Verdict::Dead,
            false => Verdict::Suspect(since + self.timing.watch),
        })
    }

    /// True if the last heartbeat is far from the file server's time in either direction: a clock
    /// that was set back must not keep a dead lock forever.
    fn is_silent(&self, seen: &Seen) -> Result<bool, LockError> {
        let failed = FileError::of("touch a file beside", self.path);
        let now = file::server_time(self.path, &self.me.token).map_err(failed)?;
        let age = now.duration_since(seen.mtime);
        Ok(age.unwrap_or_else(|error| error.duration()) >= self.timing.stale_after)
    }

    fn is_dead(&self, seen: &Seen) -> Result<bool, LockError> {
        match seen.life(&self.me) {
            Life::Dead => Ok(true),
            Life::Alive => Ok(false),
            Life::Unknown => self.is_silent(seen),
        }
    }

    fn gate(&self) -> PathBuf {
        durable::with_ending(self.path, ".takeover")
    }

    /// Removes a lock that was judged dead; false if it is not, or another process is taking it.
    fn take_over(&self, judged: &Seen) -> Result<bool, LockError> {
        let gate = self.gate();
        let linked = file::link(&gate, &self.me).map_err(FileError::of("make the lock", &gate))?;
        if linked.is_none() {
            self.clear_gate(&gate)?;
            return Ok(false);
        }
        drop(linked);
        let taken = self.take_behind_gate(judged);
        let opened = file::remove_if(&gate, &self.me.token, |moved| moved.is_of(&self.me.token));
        let taken = taken?;
        opened.map_err(FileError::of("remove the lock", &gate))?;
        Ok(taken)
    }

    fn take_behind_gate(&self, judged: &Seen) -> Result<bool, LockError> {
        let Some(seen) = self.observe()? else {
            return Ok(true);
        };
        if !judged.is_unchanged(&seen) || !self.is_dead(&seen)? {
            return Ok(false);
        }
        let is_judged = |moved: &Seen| judged.is_unchanged(moved);
        let removed = file::remove_if(self.path, &self.me.token, is_judged)
            .map_err(FileError::of("take over the lock", self.path))?;
        if removed {
            tracing::info!("took over the lock of {}", describe(&seen, None));
        }
        Ok(removed)
    }

    /// Removes the gate of a taker that died.
    fn clear_gate(&self, gate: &Path) -> Result<(), LockError> {
        let failed = FileError::of("look at the lock", gate);
        if let Some(seen) = file::observe(gate).map_err(&failed)?
            && self.is_dead(&seen)?
        {
            let is_same = |moved: &Seen| seen.is_unchanged(moved);
            file::remove_if(gate, &self.me.token, is_same).map_err(&failed)?;
        }
        Ok(())
    }
}
