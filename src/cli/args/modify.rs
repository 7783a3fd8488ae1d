//! Options of the commands that change something or set up a site.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::values::{failure, interval, one_of, seconds, whole};
use super::{OutputCheckArgs, SelectArgs, TextFormat, WriteArgs};
use crate::cli::output::Format;
use crate::config::duration;
use crate::model::job::ExecutorKind;
use crate::model::state::Reason;

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub write: WriteArgs,
    #[command(flatten)]
    pub check: OutputCheckArgs,
    /// Show what would be submitted (with -v, the exact sbatch commands); submit and write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Format of the preview; csv and json show one row per task, with the command of its job
    #[arg(long, value_enum, default_value_t = Format::Table, requires = "dry_run")]
    pub format: Format,
    /// Submit the selected tasks even if they are complete or failed; never those in flight
    #[arg(long)]
    pub force: bool,
    /// Do not update the status of the jobs in flight first
    #[arg(long)]
    pub skip_monitor: bool,
    /// Submit at most N jobs
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub max_jobs: Option<usize>,
    /// Continue although there are fewer sessions or complete tasks than before, and accept the new numbers
    #[arg(long, conflicts_with_all = ["subjects", "sessions", "procedures", "force"])]
    pub accept_drop: bool,
    /// Accept this node's cluster as that of the study, after Slurm's ClusterName has changed
    #[arg(long)]
    pub accept_cluster: bool,
    /// Repeat every TIME (30s if omitted) until nothing is due or in flight
    ///
    /// Shows one line per procedure. Ctrl-C stops after the current pass; jobs continue, and the next `run` takes over.
    /// The exit code is 1 if tasks have failed, unless another code applies
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "30s", value_parser = interval,
          conflicts_with_all = ["dry_run", "force", "skip_monitor", "accept_drop", "accept_cluster"])]
    pub watch: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct MonitorArgs {
    #[command(flatten)]
    pub write: WriteArgs,
    /// Repeat every SECONDS seconds until interrupted
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub watch: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct CancelArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub write: WriteArgs,
    /// Cancel every job of the study
    #[arg(long)]
    pub all: bool,
    /// List the jobs; cancel none
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
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub timeout: Option<Duration>,
    /// Check at this interval, at least 1s
    #[arg(long, value_name = "TIME", value_parser = interval, default_value = "30s")]
    pub interval: Duration,
}

#[derive(Debug, Args)]
pub struct PauseArgs {
    /// Pause this procedure instead of the whole study; globs allowed; repeatable
    #[arg(long = "procedure", value_name = "NAME")]
    pub procedures: Vec<String>,
    /// Record a reason, shown with the pause
    #[arg(long, value_name = "TEXT")]
    pub note: Option<String>,
    #[command(flatten)]
    pub write: WriteArgs,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Resume this procedure instead of the whole study; globs allowed; repeatable
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
    /// Clear rows with this status
    #[arg(long, value_enum, default_value_t = RetryStatus::Failed, value_name = "STATUS")]
    pub status: RetryStatus,
    /// Clear only rows with this reason, such as timeout; repeatable
    #[arg(long = "reason", value_name = "REASON", value_parser = failure())]
    pub reasons: Vec<Reason>,
    /// Clear only failures similar to this task's: same procedure, reason, exit code and log excerpt, as in `status --failed`
    #[arg(long, num_args = 1..=3, value_names = ["SUBJECT", "SESSION", "PROCEDURE"], conflicts_with = "status")]
    pub like: Vec<String>,
    /// Show what would be cleared; change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Mark failed tasks as complete if their outputs exist; leave the others failed
    #[arg(long)]
    pub accept_outputs: bool,
}

/// The statuses that `retry` may clear.
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
    /// Clean only what has not changed for this time, such as 90d
    #[arg(long, value_name = "TIME", value_parser = duration::parse, required_unless_present = "purge")]
    pub older_than: Option<Duration>,
    /// Clean rows of procedures and sessions that no longer exist; never those in flight
    #[arg(long)]
    pub rows: bool,
    /// Clean output and error files of complete tasks' jobs in slurm_log_dir
    #[arg(long)]
    pub logs: bool,
    /// Move events of the audit log to one archive per month beside it
    #[arg(long)]
    pub events: bool,
    /// Remove a subject permanently from the state, the audit log and all copies (withdrawn consent)
    #[arg(long, requires = "subject", conflicts_with_all = ["older_than", "rows", "logs", "events"])]
    pub purge: bool,
    /// Subject to purge, with or without `sub-`
    // clap ignores `requires` if the required option conflicts with a given one.
    #[arg(long, value_name = "LABEL", requires = "purge", conflicts_with_all = ["older_than", "rows", "logs", "events"])]
    pub subject: Option<String>,
    /// Show what would be done (with -v, every row and file); change nothing
    #[arg(long)]
    pub dry_run: bool,
    #[command(flatten)]
    pub write: WriteArgs,
}

#[derive(Debug, Subcommand)]
pub enum StateCommand {
    /// Check the state file and the files beside it; change nothing
    Verify {
        /// Output format
        #[arg(long, value_enum, default_value_t = Format::Table)]
        format: Format,
    },
    /// Rebuild a lost or damaged state; without --yes, only show what would be done
    ///
    /// Takes the rows from the state file or its backup, the journal and the audit log, and completes
    /// them with Slurm and the outputs on disk. Keeps damaged files under another name
    Repair(RepairArgs),
    /// Print the paths of the state's files, for scripts; read none of them
    Path(PathArgs),
}

#[derive(Debug, Args)]
pub struct PathArgs {
    /// Print only the path of this file
    #[arg(value_name = "FILE", value_enum)]
    pub file: Option<StateFile>,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table, conflicts_with = "file")]
    pub format: Format,
}

/// The files that belong to a state.
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
    /// What a run has begun and the state does not contain yet
    Journal,
    /// Pauses
    Control,
    /// Messages of earlier invocations
    Calls,
    /// The lock
    Lock,
    /// Records of the local executor
    Local,
    /// Task lists of job arrays
    Arrays,
}

#[derive(Debug, Args)]
pub struct RepairArgs {
    #[command(flatten)]
    pub write: WriteArgs,
    /// Carry out the repair
    #[arg(long)]
    pub yes: bool,
    /// Do not query Slurm about the jobs in flight
    #[arg(long)]
    pub no_slurm: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Show every effective value and its source
    ///
    /// The source is a line of the configuration file, a default, a command-line option or an environment variable.
    /// `man config` describes every key
    Show(ConfigShowArgs),
}

#[derive(Debug, Args)]
pub struct ConfigShowArgs {
    /// Show only the values of this procedure, including those from the site's keys; globs allowed; repeatable
    #[arg(long = "procedure", value_name = "NAME")]
    pub procedures: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = TextFormat::Text)]
    pub format: TextFormat,
}

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Directory for the configuration and the job scripts; created if missing
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Directory where DICOM files arrive, as `sub-*/ses-*` or `sub-*`
    #[arg(long, value_name = "DIR", help_heading = DATA)]
    pub dicom_root: Option<PathBuf>,
    /// CSV or TSV file that lists the sessions and their DICOM directories, for directories that are not named sub-*/ses-*
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    pub sessions_file: Option<PathBuf>,
    /// Column of --sessions-file with the subject
    #[arg(long, value_name = "NAME", default_value = "UID", requires = "sessions_file", help_heading = DATA)]
    pub subject_col: String,
    /// Column of --sessions-file with the session
    #[arg(long, value_name = "NAME", default_value = "ScanID", requires = "sessions_file", help_heading = DATA)]
    pub session_col: String,
    /// BIDS dataset. Without --dicom-root and --sessions-file, its sessions are those of the study
    #[arg(long, value_name = "DIR", help_heading = DATA)]
    pub bids_root: Option<PathBuf>,
    /// Directory for outputs [default: derivatives in the BIDS dataset if it exists, otherwise beside it]
    #[arg(long, value_name = "DIR", help_heading = DATA)]
    pub derivatives_root: Option<PathBuf>,
    /// State file [default: state/scheduler_state.parquet in DIR]
    #[arg(long, value_name = "FILE", help_heading = STUDY)]
    pub state_file: Option<PathBuf>,
    /// Directory for the jobs' output and error files [default: logs in DIR]
    #[arg(long, value_name = "DIR", help_heading = STUDY)]
    pub log_dir: Option<PathBuf>,
    /// Short name that distinguishes this study from your others in Slurm's queue
    #[arg(long, value_name = "NAME", help_heading = STUDY)]
    pub project: Option<String>,
    /// Apps of the catalogue, such as fmriprep,mriqc; omit for a small example
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = STUDY)]
    pub procedures: Option<Vec<String>>,
    /// How to run jobs: on Slurm, or as child processes on this machine [default: slurm if it is available]
    #[arg(long, value_parser = one_of::<ExecutorKind>(ExecutorKind::WORDS), help_heading = JOBS)]
    pub executor: Option<ExecutorKind>,
    /// Slurm partition; empty for your default
    #[arg(long, value_name = "NAME", help_heading = JOBS)]
    pub partition: Option<String>,
    /// Slurm account; empty for your default
    #[arg(long, value_name = "NAME", help_heading = JOBS)]
    pub account: Option<String>,
    /// Ask no questions; use defaults for everything not given
    #[arg(short, long, visible_alias = "no-input")]
    pub yes: bool,
    /// Print the configuration and list the files; write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Add apps of the catalogue and their scripts to the existing configuration, keeping its lines
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with_all = ["procedures", "list", "yes"])]
    pub add: Option<Vec<String>>,
    /// List the catalogue and exit
    #[arg(long)]
    pub list: bool,
}

const DATA: &str = "Data";
const STUDY: &str = "Study";
const JOBS: &str = "Jobs";

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Repeat the Slurm checks in the environment that cron provides
    ///
    /// That environment contains only PATH=/usr/bin:/bin, HOME, SHELL and LOGNAME. For each check that fails there, the
    /// lines that your crontab needs are shown
    #[arg(long)]
    pub cron: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell that runs the script
    #[arg(value_name = "SHELL", value_parser = ["bash", "zsh", "fish"])]
    pub shell: String,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Command such as run, or config for all configuration keys; omit for the main page
    #[arg(value_name = "PAGE", conflicts_with = "output")]
    pub page: Option<String>,
    /// Write all pages to this directory
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}
