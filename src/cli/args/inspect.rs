//! Options of the commands that only read.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};

use super::values::{one_of, since, task_state, whole};
use super::{LengthArgs, OutputCheckArgs, SelectArgs, TaskArgs, TextFormat};
use crate::cli::output::Format;
use crate::model::state::{Reason, TaskStatus};
use crate::show::graph::Language;
use crate::show::tables::{RowOrder, SessionOrder, TaskState, row_columns};

#[derive(Debug, Args)]
pub struct ManifestArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub check: OutputCheckArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct StatusArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// Show only rows with this status; repeatable
    #[arg(long = "status", value_name = "STATUS", value_parser = one_of::<TaskStatus>(TaskStatus::WORDS))]
    pub statuses: Vec<TaskStatus>,
    /// Show only rows with this reason; repeatable
    #[arg(long = "reason", value_name = "REASON", value_parser = one_of::<Reason>(Reason::ALL.iter().map(|reason| reason.as_str())))]
    pub reasons: Vec<Reason>,
    /// Show only failed tasks, with the cause of each failure and the most informative line of its log; with --columns,
    /// only the rows
    #[arg(long, conflicts_with = "statuses")]
    pub failed: bool,
    /// Show only rows submitted or changed since TIME: 24h, today, yesterday or a date such as 2026-01-31
    #[arg(long, value_name = "TIME", value_parser = since)]
    pub since: Option<DateTime<Utc>>,
    /// Sort the rows: failed ones first (status), newest first (updated), longest first (elapsed)
    #[arg(long, value_name = "KEY", value_parser = one_of::<RowOrder>(RowOrder::ALL.map(RowOrder::as_str)))]
    pub sort: Option<RowOrder>,
    /// Show these columns, comma-separated
    #[arg(long, value_name = "COLUMN", value_delimiter = ',', value_parser = PossibleValuesParser::new(row_columns()))]
    pub columns: Vec<String>,
    #[command(flatten)]
    pub length: LengthArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub task: TaskArgs,
    #[command(flatten)]
    pub check: OutputCheckArgs,
    /// Output format
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
    /// Show the logs of failed tasks: one of each group that failed alike or, with -v, all
    #[arg(long, conflicts_with_all = ["attempt", "follow"])]
    pub failed: bool,
    /// With --failed: show only logs of this procedure; globs allowed; repeatable
    #[arg(long = "procedure", value_name = "NAME", requires = "failed")]
    pub procedures: Vec<String>,
    /// Show the last N lines of each log
    #[arg(short = 'n', long, value_name = "N", default_value_t = 20, value_parser = whole::<usize>)]
    pub lines: usize,
    /// Show the logs of attempt N instead of the newest
    #[arg(long, value_name = "N", value_parser = whole::<i32>)]
    pub attempt: Option<i32>,
    /// Keep printing new lines until the job has ended
    #[arg(short, long, conflicts_with = "path")]
    pub follow: bool,
    /// Print only the paths, standard output first
    #[arg(long)]
    pub path: bool,
}

impl LogsArgs {
    /// The words that name a task, as they were given.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let all = [&self.subject, &self.session, &self.procedure];
        all.into_iter().flatten().map(String::as_str)
    }
}

#[derive(Debug, Args)]
pub struct HistoryArgs {
    #[command(flatten)]
    pub task: TaskArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct SessionStatusArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub check: OutputCheckArgs,
    /// Show only sessions with this status in their row, such as failed, blocked or due; repeatable
    #[arg(long = "status", value_name = "STATUS", value_parser = task_state())]
    pub statuses: Vec<TaskState>,
    /// Sort by subject, session or status (attention needed first)
    #[arg(long, value_name = "KEY", value_parser = one_of::<SessionOrder>(SessionOrder::ALL.map(SessionOrder::as_str)))]
    pub sort: Option<SessionOrder>,
    #[command(flatten)]
    pub length: LengthArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct GraphArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub check: OutputCheckArgs,
    /// Draw in this language
    #[arg(long, value_name = "LANGUAGE", value_parser = one_of::<Language>(Language::ALL.map(Language::as_str)), default_value = "mermaid")]
    pub format: Language,
}

#[derive(Debug, Args)]
pub struct MetricsArgs {
    /// Write to this file, atomically, instead of stdout
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    #[command(flatten)]
    pub check: OutputCheckArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t = AuditFormat::Table)]
    pub format: AuditFormat,
    /// Write the report to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Compare with the newest report of an earlier day in `audit.report_dir`, and save this one there
    #[arg(long, conflicts_with_all = ["dicom_only", "logs_only", "efficiency"])]
    pub history: bool,
    /// Check only DICOM directories
    #[arg(long, conflicts_with_all = ["logs_only", "efficiency"])]
    pub dicom_only: bool,
    /// Check only the logs of failed tasks
    #[arg(long, conflicts_with = "efficiency")]
    pub logs_only: bool,
    /// Also check the logs of running and complete tasks
    #[arg(long, conflicts_with_all = ["dicom_only", "efficiency"])]
    pub all_logs: bool,
    /// Only compare what jobs requested with what they used
    #[arg(long)]
    pub efficiency: bool,
    /// Report every marker of every task, even of complete ones
    #[arg(long)]
    pub markers: bool,
    /// Also search the queue for jobs of this study that belong to no task
    #[arg(long)]
    pub queue: bool,
    /// Email the report to `audit.email_recipients`
    #[arg(long)]
    pub email: bool,
}

/// Formats of the audit report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum AuditFormat {
    /// Plain text
    Table,
    /// Markdown, for email and wikis
    Markdown,
    /// One HTML page that needs no network
    Html,
    /// All data, for scripts
    Json,
}

#[derive(Debug, Args)]
pub struct EfficiencyArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// Show one row per procedure and resource, with a suggestion, or one row per job
    #[arg(long, value_enum, default_value_t = By::Procedure, value_name = "WHAT")]
    pub by: By,
    #[command(flatten)]
    pub length: LengthArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

/// Subject of a row of `efficiency`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    Procedure,
    Job,
}

#[derive(Debug, Args)]
pub struct OutputsArgs {
    #[command(flatten)]
    pub select: SelectArgs,
    /// List files instead of directories; links are listed but not followed
    #[arg(long)]
    pub files: bool,
    /// End each path with NUL, for names that contain line breaks (rsync --from0, tar --null, xargs -0)
    #[arg(short = '0', long, conflicts_with = "format")]
    pub null: bool,
    /// List only outputs below this root, relative to it
    #[arg(long, value_enum, value_name = "ROOT", conflicts_with = "relative_to")]
    pub root: Option<OutputRoot>,
    /// Print paths relative to DIR, which must contain all of them
    #[arg(long, value_name = "DIR")]
    pub relative_to: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = ListFormat::Lines)]
    pub format: ListFormat,
}

/// The roots of outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputRoot {
    /// `bids_root`
    Bids,
    /// `derivatives_root`
    Derivatives,
}

/// Output formats of a list of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ListFormat {
    /// One path per line
    #[default]
    Lines,
    /// Comma-separated values with a header line, one line per task and path
    Csv,
    /// JSON array of objects, one per task and path
    Json,
}
