//! What a person should look at: tasks, DICOM directories, logs, jobs, scripts.

use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use super::{Count, MarkerResult, time};
use crate::model::state::{TaskKey, TaskRow, TaskStatus};
use crate::show::tables::{TaskState, row_json};

/// Tells all about one task: of those that failed, are in flight, cannot be read, were complete and lost
/// their outputs, or are due with part of their outputs there. With `--markers`, of every task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskDetail {
    #[serde(flatten)]
    pub key: TaskKey,
    pub decision: TaskState,
    pub reason: Option<&'static str>,
    /// A sentence for people.
    pub text: String,
    pub output_dir: String,
    /// In the order of the configuration; empty: not looked at.
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
    /// What a failure means.
    pub failure: Option<String>,
    /// Where its logs are.
    pub output: Option<String>,
    pub error: Option<String>,
}

fn columns<S: Serializer>(row: &TaskRow, serializer: S) -> Result<S::Ok, S::Error> {
    let names = "job_id status attempt slurm_state exit_code submitted_at \
        started_at ended_at elapsed_s time_limit_s max_rss_mb req_mem_mb node_list";
    row_json(row, names).serialize(serializer)
}

/// Holds the look at the DICOM directories.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Dicom {
    /// `audit.dicom_min_files`.
    pub min_files: u64,
    /// Sessions that need DICOM files: those with a finding and those without.
    pub checked: usize,
    pub findings: Vec<DicomFinding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DicomFinding {
    pub subject: Arc<str>,
    pub session: Arc<str>,
    pub problem: DicomProblem,
    /// None: the sessions file names none.
    pub path: Option<String>,
    pub files: Option<u64>,
    /// The system's words, if it cannot be read.
    pub error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DicomProblem {
    /// There is no directory.
    Missing,
    /// Fewer files than `audit.dicom_min_files`.
    FewFiles,
    Unreadable,
}

/// What the logs of failed tasks say, or of all tasks if that was asked for.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Logs {
    /// Failed tasks whose logs were looked for; those without a known log path are not among them.
    pub tasks: usize,
    /// Of these, tasks of which no log file is there.
    pub without_log: usize,
    /// Of these, tasks whose logs hold no known pattern.
    pub without_finding: usize,
    /// Tasks by the pattern of their telling line, most frequent first.
    pub by_pattern: Vec<PatternCount>,
    /// One per task and pattern; the telling one of a task first.
    pub findings: Vec<LogFinding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PatternCount {
    pub pattern: Arc<str>,
    pub meaning: Arc<str>,
    /// What to do.
    pub hint: Arc<str>,
    pub tasks: usize,
}

/// Is a line of a log that matches a known pattern: the last one of its pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogFinding {
    #[serde(flatten)]
    pub key: TaskKey,
    pub job_id: Option<Arc<str>>,
    pub pattern: Arc<str>,
    /// Of all lines of the task's logs the one that says most.
    pub telling: bool,
    /// Cut after 300 letters; control characters are written out.
    pub line: String,
    pub file: String,
    /// From 1. None: the log is longer than the part that is read.
    pub line_number: Option<u64>,
}

/// Is a job that has been in flight for longer than `audit.stale_job_threshold_hours`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StaleJob {
    #[serde(flatten)]
    pub key: TaskKey,
    pub job_id: Option<Arc<str>>,
    pub status: TaskStatus,
    pub reason: Option<&'static str>,
    #[serde(serialize_with = "time")]
    pub submitted_at: DateTime<Utc>,
    /// Whole hours since then.
    pub hours: i64,
}

/// Holds what belongs to no task of today.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Orphans {
    pub rows: Vec<OrphanRow>,
    /// Living jobs of this study that no row knows. None: the queue was not asked, or did not answer.
    pub jobs: Option<Vec<LiveJob>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OrphanRow {
    #[serde(flatten)]
    pub key: TaskKey,
    pub status: TaskStatus,
    pub job_id: Option<Arc<str>>,
    pub cause: OrphanCause,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OrphanCause {
    /// The configuration has no such procedure.
    Procedure,
    /// There is no such subject or session.
    Session,
    /// The row has a session although the procedure's scope is the subject, or the other way round.
    Scope,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveJob {
    pub job_id: Arc<str>,
    pub name: String,
    pub slurm_state: Option<Arc<str>>,
}

/// Is something wrong with a procedure's job script.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScriptFinding {
    pub procedure: Arc<str>,
    /// Where it was found, else the name as configured.
    pub script: String,
    pub problem: ScriptProblem,
    /// What it is about, for people.
    pub text: String,
    /// The lines that Slurm ignores.
    pub lines: Vec<ScriptLine>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ScriptProblem {
    /// Not found, or no script that sbatch takes.
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
    /// The newest attempt if it failed, also of a task that is to be tried again.
    pub fn failed(&self) -> Option<&JobDetail> {
        let job = self.job.as_ref();
        job.filter(|job| job.row.status == TaskStatus::Failed)
    }
}

/// Tasks that failed for one reason and left the same line in their logs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureGroup {
    pub procedure: Arc<str>,
    pub reason: &'static str,
    /// What happened, if it is the same for all.
    pub failure: Option<String>,
    /// The log excerpt of the first.
    pub log_line: Option<String>,
    /// Numbers in [`super::Report::tasks`].
    pub tasks: Vec<usize>,
}

/// Groups failures.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Failures {
    /// Failed tasks that are alike, the largest group first.
    pub groups: Vec<FailureGroup>,
    /// Failed rows by reason, most frequent first; the sum is the number of failed rows.
    pub by_reason: Vec<ReasonCount>,
    /// All attempts that ended, earlier ones included, by node; the worst first.
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
    /// As Slurm wrote it: a job of several nodes counts for the whole list.
    pub node: Arc<str>,
    /// Attempts that ended there, well or not.
    pub jobs: usize,
    pub failed: usize,
    /// `failed / jobs`.
    pub share: f64,
    /// By reason; the sum is `failed`.
    pub reasons: Vec<Count>,
}

/// Names what could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct UnreadableItem {
    /// `outputs`, `sessions`, `log`, `audit_log`, `attempts`, `queue` or `reports`.
    pub part: &'static str,
    pub path: String,
    /// The system's words.
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
