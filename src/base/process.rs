//! Processes, as Linux's `/proc` shows them.
//!
//! A process is identified by its id *and* start time on one boot of one host: ids are recycled.
#![expect(clippy::disallowed_methods, reason = "lists the processes in /proc")]

use std::collections::{BTreeMap, BTreeSet};
use std::{fmt, io};

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::base::sys;

/// The fields of `/proc/<pid>/stat` that the program uses (proc_pid_stat(5)).
#[derive(Debug, PartialEq, Eq)]
pub struct Stat {
    pub pid: i32,
    state: char,
    pub parent: i32,
    pub session: i32,
    /// Clock ticks from boot to the start of the process (field 22).
    pub started: u64,
}

impl Stat {
    /// Reads the file of a process id or of `self`; `None` if the process does not exist.
    pub fn read(pid: impl fmt::Display) -> io::Result<Option<Self>> {
        match std::fs::read(format!("/proc/{pid}/stat")) {
            Ok(text) => Self::parse(&String::from_utf8_lossy(&text))
                .map(Some)
                .ok_or_else(|| io::Error::other(format!("cannot parse /proc/{pid}/stat"))),
            Err(error)
                if error.kind() == io::ErrorKind::NotFound
                    || error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error()) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The second field is the program's name in parentheses, which may itself contain spaces and parentheses.
    fn parse(text: &str) -> Option<Self> {
        let (pid, rest) = text.split_once(" (")?;
        let (_, rest) = rest.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split_ascii_whitespace().collect();
        Some(Self {
            pid: pid.parse().ok()?,
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            session: fields.get(3)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    /// True for a process that has ended, even if its parent has not waited for it yet.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// A unique name for the current boot of this host.
pub fn boot_id() -> io::Result<String> {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(text.trim().to_owned())
}

/// A process on one boot of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessId {
    pub pid: i32,
    /// In clock ticks since boot: field 22 of `/proc/<pid>/stat`.
    pub started: u64,
}

/// A running kernel and PID namespace, within which processes see each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    pub name: String,
    pub boot_id: String,
    /// Two containers on one host do not see each other's processes.
    pub pid_namespace: String,
}

/// The place of a recorded process, as seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Here,
    /// On this host before its last boot, so it no longer exists.
    BeforeReboot,
    /// On another host or in another PID namespace, so its state is unknown.
    Elsewhere,
}

impl Host {
    pub fn current() -> io::Result<Self> {
        Ok(Self {
            name: sys::host_name(),
            boot_id: boot_id()?,
            pid_namespace: std::fs::read_link("/proc/self/ns/pid")?
                .to_string_lossy()
                .into_owned(),
        })
    }

    /// Compares a recorded host with this one. A renamed host is still the same boot.
    pub fn place(&self, recorded: &Self) -> Place {
        let same_boot = self.boot_id == recorded.boot_id;
        if same_boot && self.pid_namespace == recorded.pid_namespace {
            Place::Here
        } else if !same_boot && self.name == recorded.name {
            Place::BeforeReboot
        } else {
            Place::Elsewhere
        }
    }
}

impl ProcessId {
    fn of(stat: &Stat) -> Self {
        Self {
            pid: stat.pid,
            started: stat.started,
        }
    }

    pub fn current() -> io::Result<Self> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let stat = Stat::read(pid)?.ok_or(io::ErrorKind::NotFound)?;
        Ok(Self::of(&stat))
    }

    /// False for a zombie.
    fn is_alive(self) -> io::Result<bool> {
        Ok(Stat::read(self.pid)?.is_some_and(|stat| Self::of(&stat) == self && !stat.is_dead()))
    }

    /// The live processes of the session that this process leads, and its descendants, without the
    /// process itself. Also works after the leader has ended.
    fn followers(self) -> io::Result<Vec<Self>> {
        let mut all: BTreeMap<i32, Stat> = BTreeMap::new();
        for entry in std::fs::read_dir("/proc")? {
            let name = entry?.file_name();
            if let Some(pid) = name.to_str().and_then(|name| name.parse::<i32>().ok())
                && let Some(stat) = Stat::read(pid)?
            {
                all.insert(pid, stat);
            }
        }
        // The kernel does not reuse an id while a session of that id has members: if another process
        // has it, none is left.
        let own = all.get(&self.pid);
        if own.is_some_and(|stat| Self::of(stat) != self) {
            return Ok(Vec::new());
        }
        let session = all.values().filter(|stat| stat.session == self.pid);
        let mut ours: BTreeSet<i32> = session.map(|stat| stat.pid).collect();
        ours.insert(self.pid);
        let mut known = 0;
        while known < ours.len() {
            known = ours.len();
            for stat in all.values() {
                if ours.contains(&stat.parent) {
                    ours.insert(stat.pid);
                }
            }
        }
        let is_follower =
            |stat: &&Stat| ours.contains(&stat.pid) && stat.pid != self.pid && !stat.is_dead();
        Ok(all.values().filter(is_follower).map(Self::of).collect())
    }

    /// Sends a signal, unless the process has ended.
    fn signal(self, signal: Signal) -> io::Result<()> {
        match Pid::from_raw(self.pid) {
            Some(pid) if self.is_alive()? => match rustix::process::kill_process(pid, signal) {
                Err(rustix::io::Errno::SRCH) => Ok(()),
                other => Ok(other?),
            },
            _ => Ok(()),
        }
    }

    /// True while the process or any of its followers lives.
    pub fn has_any_left(self) -> io::Result<bool> {
        Ok(self.is_alive()? || !self.followers()?.is_empty())
    }

    /// Sends a signal to all followers; false if there certainly are none.
    pub fn signal_followers(self, signal: Signal) -> io::Result<bool> {
        let followers = self.followers()?;
        let sent: Vec<io::Result<()>> = followers.iter().map(|one| one.signal(signal)).collect();
        sent.into_iter().collect::<io::Result<()>>()?;
        Ok(!followers.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_cannot_confuse_the_parser() {
        let tail = "S 7 42 40 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987 1 2";
        for name in ["sh", "a b", ") R 1 1 (", "(", ""] {
            let stat = Stat::parse(&format!("42 ({name}) {tail}")).unwrap();
            assert_eq!(
                (
                    stat.pid,
                    stat.state,
                    stat.parent,
                    stat.session,
                    stat.started
                ),
                (42, 'S', 7, 40, 987),
                "{name}"
            );
        }
        for text in ["", "42", "42 (sh)", "42 (sh) S 1 2"] {
            assert_eq!(Stat::parse(text), None);
        }
    }

    #[test]
    fn a_recycled_id_is_another_process() {
        let own = ProcessId::current().unwrap();
        assert!(own.is_alive().unwrap());
        let earlier = ProcessId {
            started: own.started - 1,
            ..own
        };
        assert!(!earlier.is_alive().unwrap());
        assert_eq!(earlier.followers().unwrap(), []);
        earlier.signal(Signal::KILL).unwrap();
    }

    #[test]
    fn places() {
        let host = |name: &str, boot_id: &str, pid_namespace: &str| Host {
            name: name.to_owned(),
            boot_id: boot_id.to_owned(),
            pid_namespace: pid_namespace.to_owned(),
        };
        let here = host("a", "1", "x");
        for (recorded, place) in [
            (host("a", "1", "x"), Place::Here),
            (host("renamed", "1", "x"), Place::Here),
            (host("a", "0", "x"), Place::BeforeReboot),
            (host("a", "0", "y"), Place::BeforeReboot),
            (host("a", "1", "y"), Place::Elsewhere),
            (host("b", "2", "x"), Place::Elsewhere),
        ] {
            assert_eq!(here.place(&recorded), place, "{recorded:?}");
        }
        let current = Host::current().unwrap();
        assert_eq!(current.place(&current), Place::Here);
    }
}
