//! Starts Slurm's commands: the only file that does. Finds them, cleans their environment, limits their time.
//!
//! Knows nothing of jobs. No shell stands between us and a command. Each runs in a process group of its
//! own, so that a Ctrl-C meant for us does not end an sbatch between its request and the answer.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the leaf that starts Slurm's commands"
)]

mod pipes;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::executor::ExecutorError;
use pipes::{Pipe, listen};

/// Beginnings of inherited variables that change what Slurm's commands do or answer, without a word, or that make a
/// job take itself for a process of the MPI job that the caller's shell runs in.
const STEERING: [&str; 12] = [
    "SLURM_",
    "SBATCH_",
    "SQUEUE_",
    "SACCT_",
    "SALLOC_",
    "SPRIO_",
    "SINFO_",
    "PMI_",
    "PMIX_",
    "PALS_",
    "OMPI_COMM_WORLD_",
    "MPI_LOCAL",
];

/// Variables without which Slurm cannot be reached: where its configuration is, and who asks.
pub const KEPT: [&str; 6] = [
    "SLURM_CONF",
    "SLURM_CONF_SERVER",
    "SLURM_JWT",
    "SLURM_SACK_JWKS",
    "SLURM_SACK_KEY",
    "SLURM_SACK_SOCKET",
];

/// What the answers to queries are written in: words in English, times as epoch seconds, array tasks in full.
const QUERY_ENV: [(&str, &str); 3] = [
    ("LC_ALL", "C"),
    ("SLURM_TIME_FORMAT", "%s"),
    ("SLURM_BITSTR_LEN", "0"),
];

/// How long an ended command gets to go after a TERM, and again after a KILL.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long we listen on for the output of a command that has ended while a child of its own keeps the pipe.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// The most bytes that an answer of Slurm's may have: some hundred thousand jobs.
pub const LARGEST_ANSWER: usize = 128 << 20;

/// The most bytes that sbatch may print.
const LARGEST_RECEIPT: usize = 1 << 20;

/// So many letters of what a command wrote are told.
const LONGEST_MESSAGE: usize = 500;

/// Says how a started command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Exit(i32),
    Signal(i32),
    /// We ended it.
    TimedOut {
        seconds: u64,
    },
    /// It printed more than the limit, and we ended it.
    TooLong {
        bytes: usize,
    },
    /// The operating system kept its status from us (a parent that ignores SIGCHLD).
    Unseen,
}

/// Holds how a command ended and what it wrote.
#[derive(Debug)]
pub struct Ended {
    pub end: End,
    pub stdout: String,
    pub stderr: String,
}

/// Knows where Slurm's commands are and in which environment they run.
#[derive(Debug, Clone)]
pub struct Commands {
    bin_dir: Option<PathBuf>,
    search_path: Vec<PathBuf>,
    env: Vec<(OsString, OsString)>,
}

impl Commands {
    /// `bin_dir`: the only place to look in, if given; else `PATH` of `env`.
    pub fn new(bin_dir: Option<PathBuf>, env: Vec<(OsString, OsString)>) -> Self {
        let path = env.iter().find(|(name, _)| name == "PATH");
        let search_path = path
            .map(|(_, path)| {
                std::env::split_paths(path)
                    // An empty or relative entry means the working directory: cron's, or anybody's.
                    .filter(|dir| dir.is_absolute())
                    .collect()
            })
            .unwrap_or_default();
        let env = env.into_iter().filter(|(name, _)| !steers(name)).collect();
        Self {
            bin_dir,
            search_path,
            env,
        }
    }

    /// Returns a command's path, or an error that names the places.
    pub fn find(&self, program: &str) -> Result<PathBuf, ExecutorError> {
        let dirs = match &self.bin_dir {
            Some(dir) => std::slice::from_ref(dir),
            None => self.search_path.as_slice(),
        };
        dirs.iter()
            .map(|dir| dir.join(program))
            .find(|path| is_executable(path))
            .ok_or_else(|| ExecutorError::ProgramMissing {
                program: program.to_owned(),
                searched: match (&self.bin_dir, dirs) {
                    (None, []) => "an empty PATH".to_owned(),
                    (Some(dir), _) | (None, [dir]) => dir.display().to_string(),
                    (None, dirs) => format!("the {} directories of PATH", dirs.len()),
                },
            })
    }

    /// Runs sbatch with the caller's environment and what is added to it: the job gets both.
    ///
    /// An error means that it was never started.
    pub fn submit<'a>(
        &self,
        argv: &[OsString],
        added: impl IntoIterator<Item = (&'a String, &'a String)>,
        limit: Duration,
    ) -> std::io::Result<Ended> {
        let Some((program, arguments)) = argv.split_first() else {
            return Err(std::io::ErrorKind::InvalidInput.into());
        };
        let mut command = self.command(program, arguments);
        command.envs(added);
        run(command, limit, LARGEST_RECEIPT)
    }

    /// Runs a query and returns what it wrote to stdout, or a text that says why there is no answer.
    pub fn query(
        &self,
        program: &str,
        arguments: &[String],
        limit: Duration,
    ) -> Result<Ended, ExecutorError> {
        let path = self.find(program)?;
        let mut command = self.command(path.as_os_str(), arguments);
        command.envs(QUERY_ENV);
        run(command, limit, LARGEST_ANSWER).map_err(|source| ExecutorError::Io {
            action: "start",
            path,
            source,
        })
    }

    fn command(&self, program: &OsStr, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// Returns true if a variable would change the answers of Slurm's commands.
fn steers(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    STEERING
        .iter()
        .any(|start| bytes.starts_with(start.as_bytes()))
        && !KEPT.iter().any(|kept| bytes == kept.as_bytes())
}

fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path)
        .is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// Runs a command to its end, or ends it when its time is over or it has printed more than `most` bytes. Never waits
/// for longer than that and a few seconds.
fn run(mut command: Command, limit: Duration, most: usize) -> std::io::Result<Ended> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let mut stdout = Pipe::new(child.stdout.take());
    let mut stderr = Pipe::new(child.stderr.take());
    let deadline = Instant::now().checked_add(limit);
    let left = |deadline: Option<Instant>| match deadline {
        Some(deadline) => deadline.saturating_duration_since(Instant::now()),
        None => Duration::MAX,
    };
    let mut ended: Option<(End, Instant)> = None;
    let mut pause = Duration::from_millis(1);
    // From here on the command may have done its work: no error may pass for "never started".
    loop {
        if ended.is_none() {
            ended = status(&mut child).map(|end| (end, Instant::now()));
        }
        if stdout.bytes.len().max(stderr.bytes.len()) > most {
            finish(&mut child);
            ended = Some((End::TooLong { bytes: most }, Instant::now()));
            break;
        }
        let silent = stdout.is_closed() && stderr.is_closed();
        match ended {
            Some((_, since)) if silent || since.elapsed() >= LAST_WORDS => break,
            None if left(deadline).is_zero() => break,
            _ => {}
        }
        if silent {
            // Closed pipes: the end is near, and nothing else tells of it on older kernels.
            sleep(pause.min(left(deadline)));
            pause = (pause * 2).min(Duration::from_millis(50));
        } else {
            listen(&mut [&mut stdout, &mut stderr], left(deadline));
        }
    }
    let end = match ended {
        Some((end, _)) => end,
        None => {
            finish(&mut child);
            // What was written before the end may help a person.
            listen(&mut [&mut stdout, &mut stderr], Duration::ZERO);
            End::TimedOut {
                seconds: limit.as_secs(),
            }
        }
    };
    Ok(Ended {
        end,
        stdout: stdout.text(),
        stderr: stderr.text(),
    })
}

/// Returns how a command ended; none while it runs.
fn status(child: &mut Child) -> Option<End> {
    match child.try_wait() {
        Ok(status) => status.map(|status| match (status.code(), status.signal()) {
            (Some(code), _) => End::Exit(code),
            (None, signal) => End::Signal(signal.unwrap_or_default()),
        }),
        Err(_) => Some(End::Unseen),
    }
}

/// Ends a command and all of its group, and reaps it.
fn finish(child: &mut Child) {
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    for signal in [Signal::TERM, Signal::KILL] {
        if let Some(group) = group {
            // An error means that nobody is left.
            let _ = kill_process_group(group, signal);
        }
        let since = Instant::now();
        while since.elapsed() < PATIENCE {
            match child.try_wait() {
                Ok(None) => sleep(Duration::from_millis(10)),
                Ok(Some(_)) | Err(_) => {
                    // Children that ignore a TERM.
                    if let Some(group) = group {
                        let _ = kill_process_group(group, Signal::KILL);
                    }
                    return;
                }
            }
        }
    }
}

/// Makes one line of what a command of Slurm's wrote to stderr, without its own name before each part.
pub(super) fn one_line(stderr: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for line in stderr.lines() {
        let mut part = line.trim();
        for prefix in [
            "sbatch: ",
            "squeue: ",
            "sacct: ",
            "scancel: ",
            "scontrol: ",
            "sacctmgr: ",
        ] {
            part = part.strip_prefix(prefix).unwrap_or(part);
        }
        for prefix in [
            "error: ",
            "fatal: ",
            "Batch job submission failed: ",
            "allocation failure: ",
        ] {
            part = part.strip_prefix(prefix).unwrap_or(part);
        }
        if !part.is_empty() && !parts.contains(&part) {
            parts.push(part);
        }
    }
    let line: String = parts
        .join("; ")
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    match line.char_indices().nth(LONGEST_MESSAGE) {
        Some((cut, _)) => format!("{}...", line.get(..cut).unwrap_or_default()),
        None => line,
    }
}
