//! What can be written on the command line.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ColorChoice, Parser, Subcommand, ValueEnum};

use super::output::{Format, Verbosity};
use crate::procedure::MemSize;
use crate::state::{Reason, TaskStatus};
use crate::tables::words::WORDS;
use crate::tables::{RowOrder, SessionOrder};

/// Schedule BIDS processing pipelines on Slurm
///
/// Looks at the file system, works out which processing steps are due for which scanning session,
/// submits them, and leaves. Call `run` from cron.
#[derive(Debug, Parser)]
#[command(name = "snbb-scheduler", version, after_help = EXIT_CODES, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

const EXIT_CODES: &str = "\
Exit codes: 0 done (also: nothing to do), 1 error, 2 usage or configuration, 3 some submissions were refused, \
4 another call holds the lock, 5 Slurm cannot be reached, 6 safety stop, 7 done but something could not be read";

/// Options that every command takes, before or after its name.
#[derive(Debug, Args)]
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
    /// Write a line per directory that is read into this new file, to find out what is slow
    #[arg(long, global = true, value_name = "FILE")]
    pub trace_scan: Option<PathBuf>,
    /// Work without a lock (for the tests of what then happens)
    #[arg(long, global = true, hide = true)]
    pub lock_always_granted_for_tests: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Find what is due and submit it
    Run(RunArgs),
    /// Ask Slurm about the jobs in flight and update their rows; never submits
    Monitor(MonitorArgs),
    /// End jobs by selection; their tasks become failed (cancelled)
    Cancel(CancelArgs),
    /// Block until the selected tasks have nothing in flight
    ///
    /// Exit codes: 0 all complete, 1 some failed, 124 time-out
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
    /// Report on the whole study: outputs, DICOM files, logs, stale jobs, health; reads only
    ///
    /// Exit codes: 0, or 7 if something could not be read
    Audit(AuditArgs),
    /// Print figures for Prometheus: tasks, failures, pauses, the last run
    ///
    /// With the key `metrics_file`, `run`, `monitor` and `retry` write them to a file by themselves.
    Metrics(MetricsArgs),
    /// Say why a task is where it is, and what would have to happen
    ///
    /// Asks Slurm and looks at the disk; writes nothing, submits nothing and takes no lock. A task is told in
    /// full, a session or a subject in a few lines per task.
    #[command(after_help = "Example: snbb-scheduler explain sub-0001 ses-01 qsiprep")]
    Explain(ExplainArgs),
    /// Show the end of a job's logs
    #[command(after_help = "Example: snbb-scheduler logs sub-0001 ses-01 qsiprep --follow")]
    Logs(LogsArgs),
    /// Show all that happened to a task, in the order of time
    #[command(after_help = "Example: snbb-scheduler history sub-0001 ses-01 qsiprep")]
    History(HistoryArgs),
    /// Check or rebuild the state file
    State(StateArgs),
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
    /// How long to wait for another call to end, such as 10s or 2m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub lock_timeout: Option<Duration>,
    /// Write the state although it belongs to another user
    #[arg(long)]
    pub as_owner: bool,
}

#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub write: WriteArgs,
    /// Print the exact sbatch lines and submit nothing; writes nothing at all
    #[arg(long)]
    pub dry_run: bool,
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
    #[arg(long = "reason", value_name = "REASON", value_parser = reason)]
    pub reasons: Vec<Reason>,
    /// Tell what would be cleared and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Tasks that are complete on disk become complete instead of being cleared
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
pub struct ManifestArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// Only rows of this status; repeatable
    #[arg(long = "status", value_name = "STATUS", value_parser = status)]
    pub statuses: Vec<TaskStatus>,
    /// Only rows with this reason; repeatable
    #[arg(long = "reason", value_name = "REASON", value_parser = reason)]
    pub reasons: Vec<Reason>,
    /// Only failed tasks, each with what is known of its failure and the line of its log that tells most
    #[arg(long, conflicts_with = "statuses")]
    pub failed: bool,
    /// Only rows that were submitted or changed in this time, such as 24h
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub since: Option<Duration>,
    /// Order of the rows: procedure, subject, session, status (failed ones first), submitted,
    /// updated (newest first) or elapsed (longest first)
    #[arg(long, value_name = "KEY", value_parser = row_order)]
    pub sort: Option<RowOrder>,
    #[command(flatten)]
    pub length: LengthArgs,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
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

#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub task: TaskArgs,
    #[arg(long, value_enum, default_value_t = TextFormat::Text)]
    pub format: TextFormat,
}

/// Names the forms of what is no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TextFormat {
    /// Sentences for people
    Text,
    /// A JSON array of objects
    Json,
}

#[derive(Debug, Args)]
pub struct LogsArgs {
    #[command(flatten)]
    pub task: TaskArgs,
    /// How many lines of each log to show
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20)]
    pub lines: usize,
    /// The logs of this attempt, not of the newest one
    #[arg(long, value_name = "N")]
    pub attempt: Option<i32>,
    /// Go on showing what is written, until the job has ended
    #[arg(short, long, conflicts_with = "path")]
    pub follow: bool,
    /// Print the paths only, output first
    #[arg(long)]
    pub path: bool,
}

#[derive(Debug, Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub task: TaskArgs,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
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

#[derive(Debug, Args)]
pub struct SessionStatusArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// Only sessions in whose row this word stands, such as failed, blocked or due; repeatable
    #[arg(long = "status", value_name = "WORD", value_parser = decision_word)]
    pub words: Vec<&'static str>,
    /// Order of the rows: subject, session or status (what needs a person first)
    #[arg(long, value_name = "KEY", value_parser = session_order)]
    pub sort: Option<SessionOrder>,
    #[command(flatten)]
    pub length: LengthArgs,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct OutputsArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// List the files in the directories (links too, not followed), not the directories
    #[arg(long)]
    pub files: bool,
    /// End each path with a NUL character, for names that hold line ends (rsync --from0, tar --null, xargs -0)
    #[arg(short = '0', long, conflicts_with = "format")]
    pub null: bool,
    /// Only outputs below this root, as paths relative to it
    #[arg(long, value_enum, value_name = "ROOT", conflicts_with = "relative_to")]
    pub root: Option<OutputRoot>,
    /// Print paths relative to this directory, which must hold all of them
    #[arg(long, value_name = "DIR")]
    pub relative_to: Option<PathBuf>,
    #[arg(long, value_enum, default_value_t = ListFormat::Lines)]
    pub format: ListFormat,
}

/// Names the roots that outputs lie below.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputRoot {
    /// `bids_root`
    Bids,
    /// `derivatives_root`
    Derivatives,
}

/// Names the forms of a list of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ListFormat {
    /// One path per line
    #[default]
    Lines,
    /// Comma-separated values with a header line: a line per task and path
    Csv,
    /// A JSON array of objects: one per task and path
    Json,
}

#[derive(Debug, Args)]
#[command(after_help = METRICS_EXAMPLES)]
pub struct MetricsArgs {
    /// Write to this file, whole or not at all, instead of printing
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

const METRICS_EXAMPLES: &str = "\
Examples:
  snbb-scheduler metrics | grep tasks_failed
  snbb-scheduler metrics --output /var/lib/node_exporter/snbb_scheduler.prom";

#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[arg(long, value_enum, default_value_t = AuditFormat::Table)]
    pub format: AuditFormat,
    /// Write the report to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Compare with the newest saved report of an earlier day, and save this one, in `audit.report_dir`
    #[arg(long, conflicts_with_all = ["dicom_only", "logs_only", "efficiency"])]
    pub history: bool,
    /// Look at DICOM directories only
    #[arg(long, conflicts_with_all = ["logs_only", "efficiency"])]
    pub dicom_only: bool,
    /// Look at the logs of failed tasks only
    #[arg(long, conflicts_with = "efficiency")]
    pub logs_only: bool,
    /// Compare what jobs asked for with what they used, only
    #[arg(long)]
    pub efficiency: bool,
    /// Tell of each marker of every task, also of complete ones
    #[arg(long)]
    pub markers: bool,
    /// Also ask the queue for living jobs of this study that belong to no task
    #[arg(long)]
    pub queue: bool,
    /// Send the report to `audit.email_recipients`
    #[arg(long)]
    pub email: bool,
}

/// Names the forms of the audit report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuditFormat {
    /// Plain text
    Table,
    /// For mail and wikis
    Markdown,
    /// One page that opens without network
    Html,
    /// Everything, for scripts
    Json,
}

#[derive(Debug, Args)]
pub struct CleanArgs {
    /// Only what did not change for this time, such as 90d
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub older_than: Duration,
    /// Rows of procedures and sessions that are gone; never those in flight
    #[arg(long)]
    pub rows: bool,
    /// Output and error files of complete tasks' jobs, in slurm_log_dir
    #[arg(long)]
    pub logs: bool,
    /// Events of the audit log: into one archive per month beside it
    #[arg(long)]
    pub events: bool,
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

impl Global {
    pub fn verbosity(&self) -> Verbosity {
        Verbosity::from_flags(self.quiet, self.verbose)
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    crate::config::duration::parse(text).map_err(|error| error.to_string())
}

fn mem(text: &str) -> Result<MemSize, String> {
    MemSize::parse(text).map_err(|error| error.to_string())
}

fn status(text: &str) -> Result<TaskStatus, String> {
    text.parse()
        .map_err(|_| format!("one of {}", words(TaskStatus::ALL.map(TaskStatus::as_str))))
}

fn reason(text: &str) -> Result<Reason, String> {
    text.parse()
        .map_err(|_| format!("one of {}", words(Reason::ALL.iter().map(|r| r.as_str()))))
}

fn row_order(text: &str) -> Result<RowOrder, String> {
    text.parse()
        .map_err(|_| format!("one of {}", words(RowOrder::ALL.map(RowOrder::as_str))))
}

fn session_order(text: &str) -> Result<SessionOrder, String> {
    text.parse().map_err(|_| {
        format!(
            "one of {}",
            words(SessionOrder::ALL.map(SessionOrder::as_str))
        )
    })
}

fn decision_word(text: &str) -> Result<&'static str, String> {
    let mut known = WORDS.into_iter();
    known
        .find(|word| *word == text)
        .ok_or_else(|| format!("one of {}", words(WORDS)))
}

fn words<'a>(list: impl IntoIterator<Item = &'a str>) -> String {
    list.into_iter().collect::<Vec<_>>().join(", ")
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
