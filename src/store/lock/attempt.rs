//! One attempt to get the lock: waits, checks the holder, and takes over the lock of a dead one.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::file::{self, Heartbeat, Seen};
use super::holder::{Holder, Life};
use super::{LockError, Timing, describe, io_error};

/// The lock while this process has it; released when dropped.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) path: PathBuf,
    pub(super) token: String,
    /// `None` during release.
    pub(super) heartbeat: Option<Heartbeat>,
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
pub(super) struct Attempt<'a> {
    pub(super) path: &'a Path,
    pub(super) me: Holder,
    pub(super) timing: Timing,
    /// The lock of another process, unchanged since the given moment.
    pub(super) watched: Option<(Seen, Instant)>,
}

pub(super) enum Verdict {
    Live,
    /// Dead, unless it changes before the given moment.
    Suspect(Instant),
    Dead,
}

impl Attempt<'_> {
    /// Waits for the lock, and takes it over if its holder is dead.
    pub(super) fn wait(&mut self, timeout: Duration) -> Result<Held, LockError> {
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
                return Err(self.held_by(seen));
            }
            std::thread::sleep(pause.min(left));
            pause = (pause * 3 / 2).min(longest_pause);
        }
    }

    fn observe(&self) -> Result<Option<Seen>, LockError> {
        file::observe(self.path).map_err(io_error("read the lock", self.path))
    }

    fn try_link(&self) -> Result<Option<Held>, LockError> {
        let linked = file::link(self.path, &self.me);
        let Some(file) = linked.map_err(io_error("make the lock", self.path))? else {
            return Ok(None);
        };
        let heartbeat = Heartbeat::start(file, self.timing.heartbeat).map_err(|source| {
            // If even this fails, the rules for stale locks apply.
            let _ = file::remove_if(self.path, &self.me.token, |moved| {
                moved.is_of(&self.me.token)
            });
            io_error("start the heartbeat of", self.path)(source)
        })?;
        Ok(Some(Held {
            path: self.path.to_owned(),
            token: self.me.token.clone(),
            heartbeat: Some(heartbeat),
        }))
    }

    pub(super) fn judge(&mut self, seen: &Seen) -> Result<Verdict, LockError> {
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

    /// True if the last heartbeat is far from the file server's time in either direction: a clock
    /// that was set back must not keep a dead lock forever.
    fn is_silent(&self, seen: &Seen) -> Result<bool, LockError> {
        let failed = io_error("touch a file beside", self.path);
        let now = self.server_time().map_err(failed)?;
        Ok(file::distance(now, seen.mtime) >= self.timing.stale_after)
    }

    fn is_dead(&self, seen: &Seen) -> Result<bool, LockError> {
        match seen.life(&self.me) {
            Life::Dead => Ok(true),
            Life::Alive => Ok(false),
            Life::Unknown => self.is_silent(seen),
        }
    }

    fn server_time(&self) -> std::io::Result<SystemTime> {
        file::server_time(self.path, &self.me.token)
    }

    fn gate(&self) -> PathBuf {
        file::sibling(self.path, "takeover")
    }

    /// Removes a lock that was judged dead; false if it is not, or another process is taking it.
    pub(super) fn take_over(&self, judged: &Seen) -> Result<bool, LockError> {
        let gate = self.gate();
        let linked = file::link(&gate, &self.me).map_err(io_error("make the lock", &gate))?;
        if linked.is_none() {
            self.clear_gate(&gate)?;
            return Ok(false);
        }
        drop(linked);
        let taken = self.take_behind_gate(judged);
        let opened = file::remove_if(&gate, &self.me.token, |moved| moved.is_of(&self.me.token));
        let taken = taken?;
        opened.map_err(io_error("remove the lock", &gate))?;
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
            .map_err(io_error("take over the lock", self.path))?;
        if removed {
            tracing::info!("took over the lock of {}", describe(&seen, None));
        }
        Ok(removed)
    }

    /// Removes the gate of a taker that died.
    fn clear_gate(&self, gate: &Path) -> Result<(), LockError> {
        let failed = io_error("look at the lock", gate);
        if let Some(seen) = file::observe(gate).map_err(&failed)?
            && self.is_dead(&seen)?
        {
            let is_same = |moved: &Seen| seen.is_unchanged(moved);
            file::remove_if(gate, &self.me.token, is_same).map_err(&failed)?;
        }
        Ok(())
    }

    fn held_by(&self, seen: Option<Seen>) -> LockError {
        let holder = match seen {
            Some(seen) => describe(&seen, self.server_time().ok()),
            None => "several processes took turns".to_owned(),
        };
        LockError::Held { holder }
    }
}
