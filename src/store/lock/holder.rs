//! The holder of a lock: its description in the lock file, and whether the process still runs.

use std::{fmt, fs, io};

use chrono::{DateTime, Utc};
use rustix::process::{Pid, getpid, test_kill_process};
use serde::{Deserialize, Serialize};

use crate::base::process::{Stat, boot_id};
use crate::base::sys;
use crate::base::text::printable;

/// A process, identified among all hosts, boots and containers, with its lock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holder {
    /// Unique to one acquisition. Letters, digits and `-` only: it is part of file names.
    pub token: String,
    pub host: String,
    pub pid: i32,
    /// Field 22 of `/proc/<pid>/stat`: clock ticks from the boot to the start of the process.
    pub start_time: Option<u64>,
    /// `/proc/sys/kernel/random/boot_id`
    pub boot_id: Option<String>,
    /// `pid:[...] time:[...]`: pids mean nothing in another PID namespace, start times nothing in
    /// another time namespace.
    pub namespaces: Option<String>,
    pub uid: u32,
    pub user: Option<String>,
    pub command: String,
    pub since: DateTime<Utc>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Alive,
    Dead,
    /// Another host, boot or namespace, or hidden by `/proc`.
    Unknown,
}

impl Holder {
    pub(super) fn this_process(command: &str) -> Self {
        Self {
            token: format!("{:016x}{:016x}", sys::random(), sys::random()),
            pid: getpid().as_raw_nonzero().get(),
            host: sys::host_name(),
            start_time: stat_of("self").map(|stat| stat.started),
            boot_id: boot_id().ok().filter(|id| !id.is_empty()),
            namespaces: namespaces(),
            uid: sys::effective_uid(),
            user: Some(sys::user_name()),
            command: command.to_owned(),
            since: sys::now(),
        }
    }

    /// `None` if the text is incomplete.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let holder: Self = serde_json::from_slice(bytes).ok()?;
        (!holder.token.is_empty()).then_some(holder)
    }

    pub(super) fn to_line(&self) -> Vec<u8> {
        // Texts, numbers and a time always serialize; an empty file would count as unreadable.
        let mut line = serde_json::to_vec(self).unwrap_or_default();
        line.push(b'\n');
        line
    }

    /// Whether the process runs, as seen from `me`.
    pub(super) fn life(&self, me: &Self) -> Life {
        let comparable = self.host == me.host
            && self.boot_id.is_some()
            && self.boot_id == me.boot_id
            && self.namespaces.is_some()
            && self.namespaces == me.namespaces;
        // A damaged file may hold a negative number, which `from_raw` does not accept.
        let pid = Pid::from_raw(self.pid.max(0)).filter(|_| comparable);
        let Some(pid) = pid else {
            return Life::Unknown;
        };
        // The kernel is asked first: /proc may be hidden from other users (hidepid).
        if is_free(pid) {
            return Life::Dead;
        }
        if !proc_is_of_this_namespace() {
            return Life::Unknown;
        }
        match (stat_of(self.pid), self.start_time) {
            (Some(stat), _) if stat.is_dead() => Life::Dead,
            (Some(stat), Some(start)) if stat.started == start => Life::Alive,
            (Some(_), Some(_)) => Life::Dead,
            (None, _) if is_free(pid) => Life::Dead,
            _ => Life::Unknown,
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The texts come from a file: they must not control the terminal.
        write!(
            f,
            "{} by {} on {}, pid {}, since {}",
            printable(&self.command),
            printable(self.user.as_deref().unwrap_or("somebody")),
            printable(&self.host),
            self.pid,
            sys::local_time(self.since)
        )
    }
}

fn is_free(pid: Pid) -> bool {
    test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
}

fn stat_of(pid: impl fmt::Display) -> Option<Stat> {
    Stat::read(pid).ok().flatten()
}

/// False if `/proc` was mounted in another PID namespace, where the same number is another process.
fn proc_is_of_this_namespace() -> bool {
    fs::read_link("/proc/self").is_ok_and(|own| {
        own.to_str().and_then(|own| own.parse().ok()) == Some(getpid().as_raw_nonzero().get())
    })
}

fn namespaces() -> Option<String> {
    let pid = fs::read_link("/proc/self/ns/pid").ok()?;
    let time = match fs::read_link("/proc/self/ns/time") {
        Ok(time) => time,
        // Kernels before 5.6 have only one.
        Err(error) if error.kind() == io::ErrorKind::NotFound => "time".into(),
        Err(_) => return None,
    };
    Some(format!("{} {}", pid.to_str()?, time.to_str()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn me() -> Holder {
        Holder::this_process("test")
    }

    /// The pid of a process that has ended and was waited for.
    #[expect(
        clippy::disallowed_methods,
        reason = "a process of the test's own has to end"
    )]
    fn free_pid() -> i32 {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        child.id().try_into().unwrap()
    }

    #[test]
    fn own_process_is_alive() {
        let me = me();
        assert_eq!(me.life(&me), Life::Alive);
    }

    #[test]
    fn survives_its_own_text() {
        let me = me();
        assert_eq!(Holder::parse(&me.to_line()), Some(me.clone()));
        let line = me.to_line();
        for end in 0..line.len() - 2 {
            assert_eq!(Holder::parse(&line[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn tokens_are_unique_and_fit_file_names() {
        let tokens: std::collections::HashSet<_> = (0..1000).map(|_| me().token).collect();
        assert_eq!(tokens.len(), 1000);
        assert!(tokens.iter().all(|token| {
            token
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
        }));
    }

    #[test]
    fn a_pid_counts_only_on_the_same_host_boot_and_namespace() {
        type Change = fn(&mut Holder);
        let free = free_pid();
        let cases: [(&str, Change, Life); 9] = [
            ("as it is", |_| {}, Life::Alive),
            (
                "reused pid",
                |h| h.start_time = h.start_time.map(|t| t + 1),
                Life::Dead,
            ),
            ("unknown start", |h| h.start_time = None, Life::Unknown),
            ("other host", |h| h.host.push('x'), Life::Unknown),
            (
                "other boot",
                |h| h.boot_id = Some("x".into()),
                Life::Unknown,
            ),
            ("unknown boot", |h| h.boot_id = None, Life::Unknown),
            (
                "other namespace",
                |h| h.namespaces = Some("pid:[1] time:[1]".into()),
                Life::Unknown,
            ),
            ("pid 0", |h| h.pid = 0, Life::Unknown),
            ("negative pid", |h| h.pid = -1, Life::Unknown),
        ];
        let me = me();
        for (name, change, expected) in cases {
            let mut holder = me.clone();
            change(&mut holder);
            assert_eq!(holder.life(&me), expected, "{name}");
            let comparable = holder.host == me.host
                && holder.boot_id == me.boot_id
                && holder.namespaces == me.namespaces;
            if comparable && holder.pid > 0 {
                holder.pid = free;
                assert_eq!(holder.life(&me), Life::Dead, "{name}, with a free pid");
            }
        }
    }

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "a process of the test's own has to be a zombie"
    )]
    fn zombie_is_dead() {
        let mut child = std::process::Command::new("sleep")
            .arg("1000")
            .spawn()
            .unwrap();
        let mut holder = me();
        holder.pid = child.id().try_into().unwrap();
        holder.start_time = stat_of(holder.pid).map(|stat| stat.started);
        assert_eq!(holder.life(&me()), Life::Alive);
        child.kill().unwrap();
        while stat_of(holder.pid).is_some_and(|stat| !stat.is_dead()) {
            std::thread::yield_now();
        }
        assert_eq!(holder.life(&me()), Life::Dead);
        child.wait().unwrap();
        assert_eq!(holder.life(&me()), Life::Dead);
    }

    #[test]
    fn text_for_people_has_no_control_characters() {
        let holder = Holder {
            user: Some("alice".into()),
            host: "login1\u{1b}[31m".into(),
            pid: 4242,
            command: "run".into(),
            since: DateTime::from_timestamp(1_767_323_045, 123_456_789).unwrap(),
            ..me()
        };
        assert_eq!(
            holder.to_string(),
            "run by alice on login1\\u{1b}[31m, pid 4242, since 2026-01-02 03:04 UTC"
        );
    }
}
