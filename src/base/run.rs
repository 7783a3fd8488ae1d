//! Running a command with a time limit, and collecting its output.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::ioctl_fionbio;
use rustix::process::{Pid, Signal, kill_process_group};

/// How long to wait for a command to end after SIGTERM, and again after SIGKILL.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long to keep reading from a command that has ended while one of its children keeps the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Exit(i32),
    Signal(i32),
    /// Ended by us when its time was over.
    TimedOut {
        seconds: u64,
    },
    /// Ended by us because it printed more than the limit.
    TooLong {
        bytes: usize,
    },
    /// Its exit status is unknown (a parent process ignores SIGCHLD).
    Unseen,
}

impl End {
    /// A description for people.
    pub fn text(self, program: &str) -> String {
        match self {
            Self::Exit(code) => format!("{program} ended with exit code {code}"),
            Self::Signal(signal) => format!("{program} was killed by signal {signal}"),
            Self::TimedOut { seconds } => {
                format!("{program} did not answer within {seconds} s and was killed")
            }
            Self::TooLong { bytes } => {
                let limit = bytes >> 20;
                format!("{program} printed more than {limit} MiB and was killed")
            }
            Self::Unseen => format!(
                "the exit status of {program} is unknown (does the calling program ignore SIGCHLD?)"
            ),
        }
    }
}

/// How a command ended, and its output.
#[derive(Debug)]
pub struct Ended {
    pub end: End,
    pub stdout: String,
    pub stderr: String,
}

/// Runs a command in its own process group. Ends it after `limit` (plus a few seconds at most), or when it has printed
/// more than `most` bytes.
pub fn run(mut command: Command, limit: Duration, most: usize) -> std::io::Result<Ended> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let mut pipes = [
        Pipe::new(child.stdout.take().map(OwnedFd::from)),
        Pipe::new(child.stderr.take().map(OwnedFd::from)),
    ];
    let deadline = Instant::now().checked_add(limit);
    let until = |deadline: Instant| deadline.saturating_duration_since(Instant::now());
    let left = |deadline: Option<Instant>| deadline.map_or(Duration::MAX, until);
    let mut ended: Option<(End, Instant)> = None;
    let mut pause = Duration::from_millis(1);
    // From here on the command may have done its work: no error may be mistaken for "never started".
    loop {
        if ended.is_none() {
            ended = status(&mut child).map(|end| (end, Instant::now()));
        }
        if pipes.iter().any(|pipe| pipe.bytes.len() > most) {
            finish(&mut child);
            ended = Some((End::TooLong { bytes: most }, Instant::now()));
            break;
        }
        let silent = pipes.iter().all(|pipe| pipe.source.is_none());
        match ended {
            Some((_, since)) if silent || since.elapsed() >= LAST_WORDS => break,
            None if left(deadline).is_zero() => break,
            _ => {}
        }
        if silent {
            // Both pipes are closed, so the end is near; older kernels have no way to wait for it.
            sleep(pause.min(left(deadline)));
            pause = (pause * 2).min(Duration::from_millis(50));
        } else {
            listen(&mut pipes, left(deadline));
        }
    }
    let end = match ended {
        Some((end, _)) => end,
        None => {
            finish(&mut child);
            // The last output may help to find the cause.
            listen(&mut pipes, Duration::ZERO);
            End::TimedOut {
                seconds: limit.as_secs(),
            }
        }
    };
    let [stdout, stderr] = pipes.map(|pipe| String::from_utf8_lossy(&pipe.bytes).into_owned());
    Ok(Ended {
        end,
        stdout,
        stderr,
    })
}

/// `None` while the command runs.
fn status(child: &mut Child) -> Option<End> {
    match child.try_wait() {
        Ok(status) => status.map(|status| match (status.code(), status.signal()) {
            (Some(code), _) => End::Exit(code),
            (None, signal) => End::Signal(signal.unwrap_or_default()),
        }),
        Err(_) => Some(End::Unseen),
    }
}

/// Ends a command with its process group, and reaps it.
fn finish(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    for signal in [Signal::TERM, Signal::KILL] {
        if let Some(group) = group {
            // An error means that the group is empty.
            let _ = kill_process_group(group, signal);
        }
        // The second signal is for children that ignore the first.
        let since = Instant::now();
        while since.elapsed() < PATIENCE && matches!(child.try_wait(), Ok(None)) {
            sleep(Duration::from_millis(10));
        }
    }
}

/// The reading end of a pipe, and what it delivered.
struct Pipe {
    /// `None` once it is closed.
    source: Option<File>,
    bytes: Vec<u8>,
}

impl Pipe {
    fn new(source: Option<OwnedFd>) -> Self {
        // Reading never waits. This end belongs to this process alone.
        let source = source.filter(|source| ioctl_fionbio(source, true).is_ok());
        Self {
            source: source.map(File::from),
            bytes: Vec::new(),
        }
    }

    /// Reads what is available.
    fn take_some(&mut self) {
        let mut buffer = [0; 65536];
        let Some(source) = &mut self.source else {
            return;
        };
        match source.read(&mut buffer) {
            Ok(count @ 1..) => self
                .bytes
                .extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Err(error)
                if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Ok(0) | Err(_) => self.source = None,
        }
    }
}

/// Waits up to a tenth of a second for something to read, and reads it.
fn listen(pipes: &mut [Pipe], most: Duration) {
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: most.min(Duration::from_millis(100)).subsec_nanos().into(),
    };
    let open = pipes.iter().filter_map(|pipe| pipe.source.as_ref());
    let mut fds: Vec<PollFd<'_>> = open
        .map(|source| PollFd::new(source, PollFlags::IN))
        .collect();
    // An error means that a signal came.
    let _ = poll(&mut fds, Some(&timeout));
    pipes.iter_mut().for_each(Pipe::take_some);
}
