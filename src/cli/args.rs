//! What can be written on the command line.

mod acting;
mod help;
#[cfg(test)]
mod hint_tests;
mod looking;
mod setup;
mod values;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ColorChoice, Parser, Subcommand, ValueEnum};

pub use acting::*;
pub use help::{command, with_own_help};
pub use looking::*;
pub use setup::*;

use super::output::Verbosity;
use crate::base::exit::Exit;
use crate::model::procedure::MemSize;
use values::{duration, mem};

/// Schedule BIDS processing pipelines on Slurm
///
/// Looks at the file system, works out which processing steps are due for which scanning session,
/// submits them, and leaves. Call `run` from cron.
#[derive(Debug, Parser)]
#[command(name = "snbb-scheduler", version, after_help = exit_codes(), max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

fn exit_codes() -> String {
    let codes = Exit::ALL.iter();
    let codes = codes.map(|exit| format!("{} {}", exit.code(), exit.meaning()));
    format!("Exit codes:\n  {}", codes.collect::<Vec<_>>().join("\n  "))
}

/// Options that every command takes, before or after its name.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub struct Global {
    /// Configuration file (YAML); without it the built-in defaults apply
    ///
    /// The environment variable SNBB_CONFIG names one too
    #[arg(long, global = true, value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// Memory of each job, whatever the configuration says
    #[arg(long, global = true, value_name = "SIZE", value_parser = mem)]
    pub slurm_mem: Option<MemSize>,
    /// CPUs of each job, whatever the configuration says
    #[arg(long, global = true, value_name = "N")]
    pub slurm_cpus: Option<u32>,
    /// Directory of the jobs' output and error files
    #[arg(long, global = true, value_name = "DIR")]
    pub slurm_log_dir: Option<PathBuf>,
    /// Tell more; twice: also each step
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Tell only what went wrong; `run`, `monitor` and `retry` say a warning that stands once a day
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Colour the output
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub color: ColorChoice,
    /// Work without a lock (for the tests of what then happens; a released program cannot)
    #[cfg(debug_assertions)]
    #[arg(long, global = true, hide = true)]
    pub lock_always_granted_for_tests: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Find what is due and submit it
    #[command(after_help = exit_codes())]
    Run(RunArgs),
    /// Ask Slurm about the jobs in flight and update their rows; never submits
    Monitor(MonitorArgs),
    /// End jobs by selection; their tasks become failed (cancelled)
    Cancel(CancelArgs),
    /// Block until the selected tasks have nothing in flight
    ///
    /// Exit codes: 0 all complete, 1 some failed, 2 no selected task was ever submitted, 124 time-out
    Wait(WaitArgs),
    /// Clear failed tasks, so that the next run submits them again
    Retry(RetryArgs),
    /// Submit nothing, or nothing of a procedure, until `resume`
    ///
    /// Jobs in flight go on. A procedure whose jobs fail one after the other pauses by itself
    /// (`pause_after_failures`)
    Pause(PauseArgs),
    /// End a pause
    ///
    /// Without --procedure that of the whole study. Failures of before do not count any more for
    /// the next pause
    Resume(ResumeArgs),
    /// Show the tasks that are due now
    Manifest(ManifestArgs),
    /// Show counts and rows of the state; reads only
    Status(StatusArgs),
    /// Show a row per session and a column per procedure
    SessionStatus(SessionStatusArgs),
    /// Draw the pipeline with what has become of its tasks: Mermaid (GitHub, GitLab, editors) or DOT
    Graph(GraphArgs),
    /// Report on the whole study: outputs, DICOM files, logs, stale jobs, health; reads only
    ///
    /// Exit codes: 0, or 7 if something could not be read
    Audit(AuditArgs),
    /// Show what jobs used of what they asked for, the most wasteful first; reads only
    Efficiency(EfficiencyArgs),
    /// Print figures for Prometheus: tasks, failures, pauses, the last run
    ///
    /// With the key `metrics_file`, `run`, `monitor` and `retry` write them to a file by themselves.
    Metrics(MetricsArgs),
    /// Say why a task is where it is, and what would have to happen
    ///
    /// Asks Slurm and looks at the disk; writes nothing, submits nothing and takes no lock. A task is told in
    /// full, a session or a subject in a few lines per task.
    Explain(ExplainArgs),
    /// Show the end of a job's logs
    Logs(LogsArgs),
    /// Show all that happened to a task, in the order of time
    History(HistoryArgs),
    /// List the output directories or files of complete tasks, for rsync, tar, DataLad
    ///
    /// One path per line, each once, in the order of the tasks. Only what is complete now, by its
    /// markers on disk and with no job in flight, is listed
    Outputs(OutputsArgs),
    /// Clear away what is old: rows of tasks that are no more, logs, events
    ///
    /// Without --rows, --logs and --events all three. Rows go to the attempts file and events to
    /// compressed archives beside the audit log; logs of complete tasks are removed. Nothing below
    /// the data roots is ever touched
    Clean(CleanArgs),
    /// Check or rebuild the state file
    State(StateArgs),
    /// Write a commented configuration and job scripts for a site
    Init(InitArgs),
    /// Say whether the set-up is sound: configuration, directories, scripts, Slurm, lock, disk
    ///
    /// Exit codes: 0 sound, perhaps with warnings, 1 with errors, 2 if the configuration cannot be used
    Check(CheckArgs),
    /// Show the configuration
    Config(ConfigArgs),
    /// Print what makes a shell complete commands, subjects, sessions and procedures
    Completions(CompletionsArgs),
    /// Print the manual page
    Man(ManArgs),
    /// Run one local job (called by `executor: local`)
    #[command(hide = true)]
    LocalSupervise { records: PathBuf, job: u64 },
}

/// Chooses tasks. Nothing given: all.
#[derive(Debug, Args, Default)]
pub struct SelectArgs {
    /// Only this subject, with or without `sub-`; globs allowed; repeatable
    #[arg(long = "subject", value_name = "LABEL")]
    pub subjects: Vec<String>,
    /// Only this session, with or without `ses-`; globs allowed; repeatable
    #[arg(long = "session", value_name = "LABEL")]
    pub sessions: Vec<String>,
    /// Only this procedure; globs allowed; repeatable
    #[arg(long = "procedure", value_name = "NAME")]
    pub procedures: Vec<String>,
}

/// Options of commands that write the state.
#[derive(Debug, Args)]
pub struct WriteArgs {
    /// How long to wait for another call to end, such as 2m [default: the key lock_timeout, 10s]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub lock_timeout: Option<Duration>,
    /// Write the state although it belongs to another user
    #[arg(long)]
    pub as_owner: bool,
}

/// Names tasks by words, in any order.
#[derive(Debug, Args)]
pub struct TaskArgs {
    /// Subject, with or without `sub-`
    #[arg(value_name = "SUBJECT")]
    pub subject: String,
    /// Session, with or without `ses-`
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    /// Procedure
    #[arg(value_name = "PROCEDURE")]
    pub procedure: Option<String>,
}

impl TaskArgs {
    /// Returns the words as they were given.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let rest = self.session.iter().chain(&self.procedure);
        std::iter::once(&self.subject)
            .chain(rest)
            .map(String::as_str)
    }
}

/// Names the forms of what is no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TextFormat {
    /// Text for people
    Text,
    /// A JSON array of objects
    Json,
}

/// How closely outputs are looked at.
#[derive(Debug, Args, Clone, Copy)]
pub struct LookArgs {
    /// Look at the outputs of all complete tasks, also those that `recheck` in the configuration still trusts
    #[arg(long)]
    pub recheck: bool,
}

/// Says how much of a long list is shown.
#[derive(Debug, Args, Clone, Copy, Default)]
pub struct LengthArgs {
    /// Turn the order round
    #[arg(long)]
    pub reverse: bool,
    /// Show at most this many rows; 0: all. Unless given, 50 on a terminal and else all
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

impl Global {
    /// True if tests want to see what happens without a lock.
    pub fn grants_every_lock(&self) -> bool {
        #[cfg(debug_assertions)]
        let is_granted = self.lock_always_granted_for_tests;
        #[cfg(not(debug_assertions))]
        let is_granted = false;
        is_granted
    }

    pub fn verbosity(&self) -> Verbosity {
        Verbosity::from_flags(self.quiet, self.verbose)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory as _;
        Cli::command().debug_assert();
    }
}
