//! Parts of the report that need attention: tasks, DICOM directories, logs, jobs, scripts.

use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use super::{Count, MarkerResult, time};
use crate::model::job::JobId;
use crate::model::state::{Reason, TaskKey, TaskRow, TaskStatus};
use crate::show::tables::{TaskState, row_json};

/// Details of one task that failed, is in flight, is unreadable, lost its outputs, or is due with partial
/// outputs. With `--markers`, of every task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskDetail {
    #[serde(flatten)]
    pub key: TaskKey,
    pub decision: TaskState,
    pub reason: Option<&'static str>,
    /// A sentence for people.
    pub text: String,
    pub output_dir: String,
    /// In the order of the configuration. Empty if they were not checked.
    pub markers: Vec<MarkerResult>,
    /// The newest attempt.
    pub job: Option<JobDetail>,
    /// The log excerpt of a failed task.
    pub log_line: Option<String>,
    /// The last lines of the log of a failed task, the newest last; at most 4 KiB.
    pub log_tail: Vec<String>,
}

/// The newest job of a task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobDetail {
    #[serde(flatten, serialize_with = "columns")]
    pub row: TaskRow,
    /// The failure in words.
    pub failure: Option<String>,
    /// The paths of its logs.
    pub output: Option<String>,
    pub error: Option<String>,
}

fn columns<S: Serializer>(row: &TaskRow, serializer: S) -> Result<S::Ok, S::Error> {
    let names = "job_id status attempt slurm_state exit_code submitted_at \
        started_at ended_at elapsed_s time_limit_s max_rss_mb req_mem_mb node_list";
    row_json(row, names).serialize(serializer)
}

/// Results for the DICOM directories.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Dicom {
    /// `audit.dicom_min_files`.
    pub min_files: u64,
    /// Sessions that need DICOM files, with or without a finding.
    pub checked: usize,
    pub findings: Vec<DicomFinding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DicomFinding {
    pub subject: Arc<str>,
    pub session: Arc<str>,
    pub problem: DicomProblem,
    /// `None` if the sessions file has none.
    pub path: Option<String>,
    pub files: Option<u64>,
    /// The system's message, if it cannot be read.
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DicomProblem {
    /// The directory does not exist.
    Missing,
    /// Fewer files than `audit.dicom_min_files`.
    FewFiles,
    Unreadable,
}

/// Results from the logs of failed tasks, or of all tasks on request.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Logs {
    /// Tasks with a known log path.
    pub tasks: usize,
    /// Of these, tasks without an existing log file.
    pub without_log: usize,
    /// Of these, tasks whose logs match no known pattern.
    pub without_finding: usize,
    /// Tasks by the pattern of their log excerpt, most frequent first.
    pub by_pattern: Vec<PatternCount>,
    /// One per task and pattern; a task's log excerpt comes first.
    pub findings: Vec<LogFinding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PatternCount {
    pub pattern: Arc<str>,
    pub meaning: Arc<str>,
    /// The remedy.
    pub hint: Arc<str>,
    pub tasks: usize,
}

/// The last line of a log that matches a known pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogFinding {
    #[serde(flatten)]
    pub key: TaskKey,
    pub job_id: Option<JobId>,
    pub pattern: Arc<str>,
    /// True for the task's log excerpt.
    #[serde(rename = "telling")]
    pub is_excerpt: bool,
    /// Cut after 300 characters; control characters are escaped.
    pub line: String,
    pub file: String,
    /// From 1. `None` if the log is longer than the part that is read.
    pub line_number: Option<u64>,
}

/// A job that has been in flight for longer than `audit.stale_job_threshold_hours`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StaleJob {
    #[serde(flatten)]
    pub key: TaskKey,
    pub job_id: Option<JobId>,
    pub status: TaskStatus,
    pub reason: Option<Reason>,
    #[serde(serialize_with = "time")]
    pub submitted_at: DateTime<Utc>,
    /// Whole hours since then.
    pub hours: i64,
}

/// Rows and jobs without an existing task.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Orphans {
    pub rows: Vec<OrphanRow>,
    /// Jobs of this study in the queue without a row. `None` if the queue was not asked or did not answer.
    pub jobs: Option<Vec<LiveJob>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OrphanRow {
    #[serde(flatten)]
    pub key: TaskKey,
    pub status: TaskStatus,
    pub job_id: Option<JobId>,
    pub cause: OrphanCause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OrphanCause {
    /// The procedure was removed.
    Procedure,
    /// The subject or session does not exist.
    Session,
    /// The row has a session although the procedure has subject scope, or vice versa.
    Scope,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveJob {
    pub job_id: JobId,
    pub name: String,
    pub slurm_state: Option<Arc<str>>,
}

/// A problem of a procedure's job script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScriptFinding {
    pub procedure: Arc<str>,
    /// The path if it was found, else the configured name.
    pub script: String,
    pub problem: ScriptProblem,
    /// A sentence for people.
    pub text: String,
    /// The lines that Slurm ignores.
    pub lines: Vec<ScriptLine>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptProblem {
    /// Not found, or not accepted by sbatch.
    Unusable,
    /// `#SBATCH` lines after the first command, which Slurm does not read.
    IgnoredLines,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScriptLine {
    /// From 1.
    pub number: usize,
    pub text: String,
}

impl TaskDetail {
    /// The newest attempt if it failed, even if the task will be retried.
    pub fn failed(&self) -> Option<&JobDetail> {
        let job = self.job.as_ref();
        job.filter(|job| job.row.status == TaskStatus::Failed)
    }
}

/// Tasks that failed for the same reason with the same log excerpt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureGroup {
    pub procedure: Arc<str>,
    pub reason: &'static str,
    /// The failure in words, if it is the same for all.
    pub failure: Option<String>,
    /// The log excerpt of the first.
    pub log_line: Option<String>,
    /// Indices in [`super::Report::tasks`].
    pub tasks: Vec<usize>,
}

/// Failures by group, reason and node.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Failures {
    /// Similar failed tasks, the largest group first.
    pub groups: Vec<FailureGroup>,
    /// Failed rows by reason, most frequent first; the sum is the number of failed rows.
    pub by_reason: Vec<ReasonCount>,
    /// All ended attempts by node, the worst first.
    pub by_node: Vec<NodeFailures>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReasonCount {
    /// A reason of the state file, or `unknown` (rows of the Python program).
    pub reason: &'static str,
    pub count: usize,
    /// By procedure; the sum is `count`.
    pub procedures: Vec<Count>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeFailures {
    /// As Slurm prints it; a job on several nodes counts for the whole list.
    pub node: Arc<str>,
    /// Attempts that ended there, successful or not.
    pub jobs: usize,
    pub failed: usize,
    /// `failed / jobs`.
    pub share: f64,
    /// By reason; the sum is `failed`.
    pub reasons: Vec<Count>,
}

/// A source that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct UnreadableItem {
    /// `outputs`, `sessions`, `log`, `audit_log`, `attempts`, `queue` or `reports`.
    pub part: &'static str,
    pub path: String,
    /// The system's message.
    pub error: String,
}

impl UnreadableItem {
    pub fn new(part: &'static str, path: &Path, error: impl ToString) -> Self {
        Self {
            part,
            path: path.to_string_lossy().into_owned(),
            error: error.to_string(),
        }
    }
}
