//! Starts Slurm's commands: finds them, cleans their environment, limits their time. No other file starts them.
//!
//! Commands run without a shell, each in its own process group, so that Ctrl-C does not end an sbatch between its
//! request and the answer.
#![expect(
    clippy::disallowed_methods,
    reason = "this leaf module starts Slurm's commands"
)]

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use itertools::Itertools as _;

use crate::base::regular::FileError;
use crate::base::run::{End, Ended, run};
use crate::executor::ExecutorError;
use crate::executor::script::search_path;

/// Prefixes of inherited variables that silently change what Slurm's commands do or print, or that make a job believe
/// that it is a process of the MPI job in which the caller's shell runs.
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

/// Variables that are needed to reach Slurm: the place of its configuration, and credentials.
pub const KEPT: [&str; 6] = [
    "SLURM_CONF",
    "SLURM_CONF_SERVER",
    "SLURM_JWT",
    "SLURM_SACK_JWKS",
    "SLURM_SACK_KEY",
    "SLURM_SACK_SOCKET",
];

/// The format of answers: words in English, times as epoch seconds, array tasks in full.
const QUERY_ENV: [(&str, &str); 3] = [
    ("LC_ALL", "C"),
    ("SLURM_TIME_FORMAT", "%s"),
    ("SLURM_BITSTR_LEN", "0"),
];

/// Maximum bytes of an answer of Slurm: some hundred thousand jobs.
pub(super) const LARGEST_ANSWER: usize = 128 << 20;

/// Maximum bytes that sbatch may print.
const LARGEST_RECEIPT: usize = 1 << 20;

/// Maximum letters of a command's message that are reported.
const LONGEST_MESSAGE: usize = 500;

/// Slurm's commands and their environment.
#[derive(Debug, Clone)]
pub(super) struct Commands {
    bin_dir: Option<PathBuf>,
    pub(super) search_path: Vec<PathBuf>,
    env: Vec<(OsString, OsString)>,
}

impl Commands {
    /// Searches only `bin_dir` if given, otherwise `PATH` of `env`.
    pub(super) fn new(bin_dir: Option<PathBuf>, env: Vec<(OsString, OsString)>) -> Self {
        let path = env.iter().find(|(name, _)| name == "PATH");
        let search_path = search_path(path.map(|(_, path)| path.as_os_str()));
        let env = env.into_iter().filter(|(name, _)| !steers(name)).collect();
        Self {
            bin_dir,
            search_path,
            env,
        }
    }

    /// A command's path, or an error with the searched places.
    pub(super) fn find(&self, program: &str) -> Result<PathBuf, ExecutorError> {
        let dirs = match &self.bin_dir {
            Some(dir) => std::slice::from_ref(dir),
            None => self.search_path.as_slice(),
        };
        dirs.iter()
            .map(|dir| dir.join(program))
            .find(|path| is_executable(path))
            .ok_or_else(|| ExecutorError::ProgramMissing {
                program: program.to_owned(),
                searched: dirs.iter().map(|dir| dir.display()).join(", "),
            })
    }

    /// Runs sbatch with the caller's environment and the `added` variables; the job gets both.
    ///
    /// An error means that sbatch was never started.
    pub(super) fn submit<'a>(
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

    /// Runs a query.
    pub(super) fn query(
        &self,
        program: &str,
        arguments: &[impl AsRef<OsStr>],
        limit: Duration,
    ) -> Result<Ended, ExecutorError> {
        let path = self.find(program)?;
        let mut command = self.command(path.as_os_str(), arguments);
        command.envs(QUERY_ENV);
        Ok(run(command, limit, LARGEST_ANSWER).map_err(FileError::of("start", &path))?)
    }

    fn command(&self, program: &OsStr, arguments: &[impl AsRef<OsStr>]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }
}

/// True if a variable would change the answers of Slurm's commands.
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

/// The output of a query, or an error text for people.
pub(super) fn answer(program: &str, ended: Ended) -> Result<String, String> {
    // squeue ends with 0 even if it cannot query a user whose name is unknown at the moment.
    let stderr = ended.stderr.to_lowercase();
    let is_incomplete = stderr.contains("invalid user")
        || ended.stdout.trim().is_empty() && stderr.contains("error:");
    if ended.end == End::Exit(0) && !is_incomplete {
        return Ok(ended.stdout);
    }
    let what = ended.end.text(program);
    Err(match one_line(&ended.stderr) {
        message if message.is_empty() => what,
        message => format!("{what}: {message}"),
    })
}

/// True for sacct's message that accounting is disabled.
pub(super) fn is_without_accounting(problem: &str) -> bool {
    problem.contains("accounting storage is disabled")
}

/// Joins the lines that a command of Slurm wrote to stderr into one, without the command's name before each.
pub(super) fn one_line(stderr: &str) -> String {
    let prefixes = [
        "sbatch: ",
        "squeue: ",
        "sacct: ",
        "scancel: ",
        "scontrol: ",
        "sacctmgr: ",
        "error: ",
        "fatal: ",
        "Batch job submission failed: ",
        "allocation failure: ",
    ];
    let parts = stderr.lines().map(|line| {
        let line = line.trim();
        let rest = |part, prefix: &&str| str::strip_prefix(part, *prefix).unwrap_or(part);
        prefixes.iter().fold(line, rest)
    });
    let mut parts = parts.filter(|part| !part.is_empty()).unique();
    let line = parts.join("; ").replace(char::is_control, " ");
    match line.char_indices().nth(LONGEST_MESSAGE) {
        Some((cut, _)) => format!("{}...", line.get(..cut).unwrap_or_default()),
        None => line,
    }
}

/// The time limits of a pass: of each command, and of all together. Without a deadline, only those of each command apply.
#[derive(Debug)]
pub(super) struct TimeLeft {
    submit: Duration,
    query: Duration,
    end: Option<Instant>,
    /// Programs that did not answer in time in this pass.
    silent: Vec<String>,
}

impl TimeLeft {
    pub(super) fn new(submit: Duration, query: Duration) -> Self {
        Self {
            submit,
            query,
            end: None,
            silent: Vec::new(),
        }
    }

    /// Begins a pass that may take this long.
    pub(super) fn set(&mut self, left: Duration) {
        self.end = Instant::now().checked_add(left);
        self.silent.clear();
    }

    /// The limit of a submission that starts now; `None` if it must not start.
    pub(super) fn for_submission(&self) -> Option<Duration> {
        self.within(self.submit)
    }

    /// The limit of a query that starts now, or why it must not start.
    pub(super) fn for_query(&self, program: &str) -> Result<Duration, String> {
        if self.silent.iter().any(|silent| silent == program) {
            return Err(format!(
                "{program} was not asked again because it did not answer in time before"
            ));
        }
        self.within(self.query)
            .ok_or_else(|| format!("{program} was not asked: no time left in this pass"))
    }

    /// Records that a program did not answer in time, so that a pass does not wait for it twice.
    pub(super) fn note_silence(&mut self, program: &str) {
        if self.end.is_some() {
            self.silent.push(program.to_owned());
        }
    }

    fn within(&self, limit: Duration) -> Option<Duration> {
        let until = |end: Instant| end.saturating_duration_since(Instant::now());
        let left = self.end.map_or(limit, |end| until(end).min(limit));
        Some(left).filter(|left| !left.is_zero())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_command_has_its_own_limit_or_what_is_left() {
        let mut time = TimeLeft::new(3 * MINUTE, MINUTE);
        assert_eq!(time.for_submission(), Some(3 * MINUTE));
        assert_eq!(time.for_query("squeue"), Ok(MINUTE));
        time.set(2 * MINUTE);
        assert!(time.for_submission().is_some_and(|left| left <= 2 * MINUTE));
        assert_eq!(time.for_query("squeue"), Ok(MINUTE));
        time.set(Duration::ZERO);
        assert_eq!(time.for_submission(), None);
        assert!(time.for_query("squeue").is_err());
        time.set(Duration::MAX);
        assert_eq!(time.for_query("squeue"), Ok(MINUTE));
    }

    #[test]
    fn a_silent_program_is_asked_again_in_the_next_pass_only() {
        let mut time = TimeLeft::new(MINUTE, MINUTE);
        time.note_silence("sacct");
        assert!(time.for_query("sacct").is_ok(), "there is no pass yet");
        time.set(MINUTE);
        time.note_silence("sacct");
        assert!(time.for_query("sacct").is_err());
        assert!(time.for_query("squeue").is_ok());
        time.set(MINUTE);
        assert!(time.for_query("sacct").is_ok());
    }
}
