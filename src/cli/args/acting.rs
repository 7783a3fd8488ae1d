//! Options of the commands that change something: submit, follow, clear, repair.

use std::num::NonZeroU32;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::values::{duration, reason};
use super::{LookArgs, SelectArgs, WriteArgs};
use crate::cli::output::Format;
use crate::model::state::Reason;

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub write: WriteArgs,
    #[command(flatten)]
    pub look: LookArgs,
    /// Show what would be submitted, with -v the exact sbatch lines; submit and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Form of the preview: with csv and json, a row per task and the command line of its job
    #[arg(long, value_enum, default_value_t = Format::Table, requires = "dry_run")]
    pub format: Format,
    /// Submit selected tasks even though they are complete or failed; never those in flight
    #[arg(long)]
    pub force: bool,
    /// Do not ask Slurm about the jobs in flight first
    #[arg(long)]
    pub skip_monitor: bool,
    /// Submit at most this many jobs
    #[arg(long, value_name = "N")]
    pub max_jobs: Option<usize>,
    /// Go on although sessions or complete tasks became fewer; takes today's numbers as the new ones
    #[arg(long, conflicts_with_all = ["subjects", "sessions", "procedures", "force"])]
    pub accept_drop: bool,
    /// Take this login node's cluster for that of the study's jobs, after its ClusterName has changed
    #[arg(long)]
    pub accept_cluster: bool,
    /// Make a pass every TIME (30s unless given) until nothing is due or in flight
    ///
    /// Shows a line per procedure. Ctrl-C ends it after the pass at work; jobs go on, and the next `run` continues.
    /// Without another reason, the exit code is 1 if tasks have failed
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "30s", value_parser = duration,
          conflicts_with_all = ["dry_run", "force", "skip_monitor", "accept_drop", "accept_cluster"])]
    pub watch: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct MonitorArgs {
    #[command(flatten)]
    pub write: WriteArgs,
    /// Look again every so many seconds, until interrupted
    #[arg(long, value_name = "SECONDS")]
    pub watch: Option<NonZeroU32>,
}

#[derive(Debug, Args)]
pub struct CancelArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub write: WriteArgs,
    /// Every job of the study
    #[arg(long)]
    pub all: bool,
    /// Print the jobs and end none
    #[arg(long)]
    pub dry_run: bool,
}

#[derive(Debug, Args)]
pub struct WaitArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub write: WriteArgs,
    /// Give up after this time, such as 2h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// How often to ask; a second at least
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
    pub interval: Duration,
}

#[derive(Debug, Args)]
pub struct PauseArgs {
    /// Only this procedure, not the whole study; globs allowed; repeatable
    #[arg(long = "procedure", value_name = "NAME")]
    pub procedures: Vec<String>,
    /// Why, for everybody who asks
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    #[command(flatten)]
    pub write: WriteArgs,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Only this procedure, not the whole study; globs allowed; repeatable
    #[arg(long = "procedure", value_name = "NAME")]
    pub procedures: Vec<String>,
    #[command(flatten)]
    pub write: WriteArgs,
}

#[derive(Debug, Args)]
pub struct RetryArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub write: WriteArgs,
    /// Which rows to clear
    #[arg(long, value_enum, default_value_t = RetryStatus::Failed, value_name = "STATUS")]
    pub status: RetryStatus,
    /// Only rows with this reason, such as timeout; repeatable
    #[arg(long = "reason", value_name = "REASON", value_parser = reason())]
    pub reasons: Vec<Reason>,
    /// Only failed tasks that are alike this one: same procedure, reason, exit code and log excerpt, as in `status --failed`
    #[arg(long, num_args = 1..=3, value_names = ["SUBJECT", "SESSION", "PROCEDURE"], conflicts_with = "status")]
    pub like: Vec<String>,
    /// Tell what would be cleared and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Failed tasks whose outputs are there become complete; the others stay failed
    #[arg(long)]
    pub accept_outputs: bool,
}

/// Names the rows that `retry` may clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RetryStatus {
    Failed,
    Pending,
    Running,
    /// Failed, pending and running
    All,
}

#[derive(Debug, Args)]
pub struct CleanArgs {
    /// Only what did not change for this time, such as 90d
    #[arg(long, value_name = "TIME", value_parser = duration, required_unless_present = "purge")]
    pub older_than: Option<Duration>,
    /// Rows of procedures and sessions that are gone; never those in flight
    #[arg(long)]
    pub rows: bool,
    /// Output and error files of complete tasks' jobs, in slurm_log_dir
    #[arg(long)]
    pub logs: bool,
    /// Events of the audit log: into one archive per month beside it
    #[arg(long)]
    pub events: bool,
    /// Take a subject out of the state, the audit log and all copies, for good: consent was withdrawn
    #[arg(long, requires = "subject", conflicts_with_all = ["older_than", "rows", "logs", "events"])]
    pub purge: bool,
    /// The subject that --purge takes out, with or without `sub-`
    // clap leaves `requires` aside where the other conflicts with what is given.
    #[arg(long, value_name = "LABEL", requires = "purge", conflicts_with_all = ["older_than", "rows", "logs", "events"])]
    pub subject: Option<String>,
    /// Tell what would be done and change nothing; with -v each row and file
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub write: WriteArgs,
}

#[derive(Debug, Args)]
pub struct StateArgs {
    #[command(subcommand)]
    pub command: StateCommand,
}

#[derive(Debug, Subcommand)]
pub enum StateCommand {
    /// Check the state and the files beside it; changes nothing
    Verify(VerifyArgs),
    /// Rebuild a lost or damaged state; shows what it would do, and does it with --yes
    ///
    /// The rows come from the state file or the copy before it, the journal and the audit log;
    /// Slurm and the outputs on disk complete them. Damaged files are kept under another name.
    Repair(RepairArgs),
    /// Print where the files of the state are, for scripts; reads none of them
    Path(PathArgs),
}

#[derive(Debug, Args)]
pub struct PathArgs {
    /// Print the path of this one only
    #[arg(value_name = "FILE", value_enum)]
    pub file: Option<StateFile>,
    #[arg(long, value_enum, default_value_t = Format::Table, conflicts_with = "file")]
    pub format: Format,
}

/// Names the files that belong to a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StateFile {
    /// The newest attempt of each task
    State,
    /// Earlier attempts
    Attempts,
    /// The audit log
    Audit,
    /// The state before the last save
    Backup,
    /// What a run has begun and the state does not hold yet
    Journal,
    /// What is paused
    Control,
    /// What earlier calls said
    Calls,
    /// The lock
    Lock,
    /// Records of the local executor
    Local,
    /// Task lists of job arrays
    Arrays,
}

#[derive(Debug, Args)]
pub struct VerifyArgs {
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct RepairArgs {
    #[command(flatten)]
    pub write: WriteArgs,
    /// Do it
    #[arg(long)]
    pub yes: bool,
    /// Do not ask Slurm about the jobs in flight
    #[arg(long)]
    pub no_slurm: bool,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}
