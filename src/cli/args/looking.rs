//! Options of the commands that only look.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::{Args, ValueEnum};

use super::values::{column, language, reason, row_order, session_order, since, standing, status};
use super::{LengthArgs, LookArgs, SelectArgs, TaskArgs, TextFormat};
use crate::cli::output::Format;
use crate::model::state::{Reason, TaskStatus};
use crate::show::graph::Language;
use crate::show::tables::{RowOrder, SessionOrder, TaskState};

#[derive(Debug, Args)]
pub struct ManifestArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub look: LookArgs,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// Only rows of this status; repeatable
    #[arg(long = "status", value_name = "STATUS", value_parser = status())]
    pub statuses: Vec<TaskStatus>,
    /// Only rows with this reason; repeatable
    #[arg(long = "reason", value_name = "REASON", value_parser = reason())]
    pub reasons: Vec<Reason>,
    /// Only failed tasks, each with what is known of its failure and the line of its log that tells most
    #[arg(long, conflicts_with = "statuses")]
    pub failed: bool,
    /// Only rows that were submitted or changed since then: 24h, today, yesterday or a date such as 2026-01-31
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<DateTime<Utc>>,
    /// Order of the rows: with status, failed ones first; with updated, the newest; with elapsed, the longest
    #[arg(long, value_name = "KEY", value_parser = row_order())]
    pub sort: Option<RowOrder>,
    /// Which columns to show, comma-separated
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', value_parser = column(), conflicts_with = "failed")]
    pub columns: Vec<String>,
    #[command(flatten)]
    pub length: LengthArgs,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub task: TaskArgs,
    #[command(flatten)]
    pub look: LookArgs,
    #[arg(long, value_enum, default_value_t = TextFormat::Text)]
    pub format: TextFormat,
}

#[derive(Debug, Args)]
pub struct LogsArgs {
    /// Subject, with or without `sub-`
    #[arg(value_name = "SUBJECT", required_unless_present = "failed")]
    pub subject: Option<String>,
    /// Session, with or without `ses-`
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    /// Procedure
    #[arg(value_name = "PROCEDURE")]
    pub procedure: Option<String>,
    /// The logs of failed tasks: of tasks that failed alike those of one, with -v of each
    #[arg(long, conflicts_with_all = ["attempt", "follow"])]
    pub failed: bool,
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

impl LogsArgs {
    /// Returns the words that name a task, as they were given.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let all = [&self.subject, &self.session, &self.procedure];
        all.into_iter().flatten().map(String::as_str)
    }
}

#[derive(Debug, Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub task: TaskArgs,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct SessionStatusArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub look: LookArgs,
    /// Only sessions in whose row this word stands, such as failed, blocked or due; repeatable
    #[arg(long = "status", value_name = "WORD", value_parser = standing())]
    pub words: Vec<TaskState>,
    /// Order of the rows: subject, session or status (what needs a person first)
    #[arg(long, value_name = "KEY", value_parser = session_order())]
    pub sort: Option<SessionOrder>,
    #[command(flatten)]
    pub length: LengthArgs,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct GraphArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub look: LookArgs,
    /// Language of the picture
    #[arg(long, value_name = "LANGUAGE", value_parser = language(), default_value = "mermaid")]
    pub format: Language,
}

#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Write to this file, whole or not at all, instead of printing
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub look: LookArgs,
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
    /// Also look at the logs of running and complete tasks
    #[arg(long, conflicts_with_all = ["dicom_only", "efficiency"])]
    pub all_logs: bool,
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
pub struct EfficiencyArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// A row per procedure and resource with a suggestion, or a row per job
    #[arg(long, value_enum, default_value_t = By::Procedure, value_name = "WHAT")]
    pub by: By,
    #[command(flatten)]
    pub length: LengthArgs,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// What a row of `efficiency` is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    Procedure,
    Job,
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
