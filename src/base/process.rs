//! Processes, as Linux's `/proc` shows them.

use std::{fmt, io};

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
}
