//! The state of every task: rows, their statuses and reasons, and the table of rows.
//!
//! Files are read and written in `store` only, and a status changes in [`transition`] only.

pub mod columns;
pub mod table;
pub(crate) mod testing;
pub mod transition;

use std::fmt;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

pub use table::State;

pub use crate::base::words::UnknownWord;
use crate::base::words::words;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::job::{JobId, JobRef};

/// The largest possible difference between this host's clock and the controller's: munge refuses older credentials
/// (its default time to live), so nothing can be submitted with a larger difference.
pub const CLOCK_SLACK: TimeDelta = TimeDelta::seconds(300);

/// The key of a task: procedure x subject x session. Plain texts, because rows of other programs may contain labels
/// that are not valid BIDS.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct TaskKey {
    pub subject: Arc<str>,
    /// Empty for subject scope.
    pub session: Arc<str>,
    pub procedure: Arc<str>,
}

words! {
    /// The public status of a task's newest attempt. Fixed: scripts rely on these four words.
    #[derive(Default)]
    pub enum TaskStatus {
        #[default]
        Pending = "pending",
        Running = "running",
        Complete = "complete",
        Failed = "failed",
    }
}

words! {
    /// Why a row has its status.
    pub enum Reason {
        /// sbatch was started, and its result is still unknown.
        Submitting = "submitting",
        Queued = "queued",
        /// Held, or can never start: needs manual action.
        Held = "held",
        /// Neither queue nor accounting shows the job (yet).
        Unaccounted = "unaccounted",
        Running = "running",
        Suspended = "suspended",
        /// The job succeeded; its outputs are not visible yet.
        AwaitingOutput = "awaiting_output",
        Verified = "verified",
        /// Slurm reports COMPLETED, but no rule of the current configuration can verify it.
        Unverified = "unverified",
        ExitCode = "exit_code",
        Timeout = "timeout",
        OutOfMemory = "out_of_memory",
        Cancelled = "cancelled",
        NodeFail = "node_fail",
        Preempted = "preempted",
        BootFail = "boot_fail",
        /// The job's environment could not be set up on its node (exit code 0:53, prolog).
        LaunchFailed = "launch_failed",
        Deadline = "deadline",
        Dependency = "dependency",
        /// The job succeeded, but its outputs did not appear in time.
        NoOutput = "no_output",
        /// Queue, accounting and disk have shown nothing of the job for longer than `lost_grace`.
        Lost = "lost",
    }
}

impl Reason {
    /// True if a row of this status may have this reason.
    pub fn fits(self, status: TaskStatus) -> bool {
        match self {
            Self::Submitting | Self::Queued | Self::Held => status == TaskStatus::Pending,
            Self::Unaccounted => status.is_in_flight(),
            Self::Running | Self::Suspended | Self::AwaitingOutput => status == TaskStatus::Running,
            Self::Verified | Self::Unverified => status == TaskStatus::Complete,
            _ => status == TaskStatus::Failed,
        }
    }

    /// The default reason of a row without one. A failure has none: the disk decides.
    pub fn usual(status: TaskStatus) -> Option<Self> {
        match status {
            TaskStatus::Pending => Some(Self::Queued),
            TaskStatus::Running => Some(Self::Running),
            TaskStatus::Complete => Some(Self::Verified),
            TaskStatus::Failed => None,
        }
    }
}

/// One attempt of a task: a row of the state file (the newest) or of the attempts file (earlier ones).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TaskRow {
    pub key: TaskKey,
    pub status: TaskStatus,
    /// Time of the attempt's intent. `None` only in files of other programs.
    pub submitted_at: Option<DateTime<Utc>>,
    /// `None` while a submission is in doubt.
    pub job_id: Option<JobId>,
    /// `None` in rows of the Python program.
    pub reason: Option<Reason>,
    /// Counts from 1.
    pub attempt: Option<i32>,
    pub facts: JobFacts,
    pub updated_at: Option<DateTime<Utc>>,
    /// Since when neither queue nor accounting nor disk shows the job, or its markers have been
    /// missing after its end.
    pub missing_since: Option<DateTime<Utc>>,
    pub job_name: Option<Arc<str>>,
    pub submission_id: Option<Arc<str>>,
    /// True if outputs were complete when this attempt was submitted. They count only if they
    /// are newer than the job's start.
    pub replaces_outputs: Option<bool>,
    /// The automatic retries that led to this attempt.
    pub retry: RetryState,
    /// For subject scope: the sessions of the attempt, as labels separated by spaces. `None` if
    /// unknown.
    pub input_sessions: Option<Arc<str>>,
    /// Index of this row in the table of other programs' columns.
    pub other_columns: Option<u32>,
}

/// Facts about a job from Slurm or the local executor. Times in UTC, sizes in MB (2^20 bytes).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobFacts {
    /// Slurm's state, unchanged (`CANCELLED by 1000`).
    pub slurm_state: Option<Arc<str>>,
    /// `code:signal`, as Slurm prints it.
    pub exit_code: Option<Arc<str>>,
    pub started_at: Option<DateTime<Utc>>,
    pub ended_at: Option<DateTime<Utc>>,
    pub node_list: Option<Arc<str>>,
    pub req_mem_mb: Option<i64>,
    pub max_rss_mb: Option<i64>,
    pub time_limit_s: Option<i64>,
    pub elapsed_s: Option<i64>,
    /// Of all steps together, user and system.
    pub cpu_time_s: Option<i64>,
    pub alloc_cpus: Option<i64>,
    pub cluster: Option<Arc<str>>,
    pub partition: Option<Arc<str>>,
    pub account: Option<Arc<str>>,
    pub qos: Option<Arc<str>>,
    pub req_cpus: Option<i64>,
    /// The first number of `exit_code`.
    pub exit_status: Option<i64>,
    /// The second number of `exit_code`. `None` without a signal.
    pub signal: Option<i64>,
}

impl JobFacts {
    /// Sets the exit code and its two numbers.
    pub fn set_exit_code(&mut self, code: Option<&str>) {
        let numbers = code.and_then(|code| code.split_once(':'));
        let (status, signal) = numbers.unwrap_or_default();
        self.exit_code = code.map(Arc::from);
        self.exit_status = status.parse().ok();
        self.signal = signal.parse().ok().filter(|signal| *signal != 0);
    }

    /// Likewise, for new facts.
    pub fn with_exit_code(mut self, code: Option<&str>) -> Self {
        self.set_exit_code(code);
        self
    }

    /// The uid of the user who cancelled the job (`CANCELLED by 1000`). `None` if it was not cancelled by a user
    /// (a failed dependency, a restart of the controller).
    ///
    /// Root's uid means an administrator, unless the job belongs to root. Failed prologs have root's uid, too, but
    /// get the reason `launch_failed` before they reach a row.
    pub fn cancelled_by(&self) -> Option<i64> {
        let mut parts = self.slurm_state.as_deref()?.split_ascii_whitespace();
        let word = parts.next()?.to_ascii_uppercase();
        if !matches!(word.as_str(), "CANCELLED" | "CA") || parts.next() != Some("by") {
            return None;
        }
        let uid: i64 = parts.next()?.parse().ok()?;
        // Slurm 20.11 prints large uids as negative numbers.
        Some(if (i64::from(i32::MIN)..0).contains(&uid) {
            uid + (1 << 32)
        } else {
            uid
        })
    }
}

impl TaskKey {
    pub fn new(subject: &str, session: &str, procedure: &str) -> Self {
        Self {
            subject: Arc::from(subject),
            session: Arc::from(session),
            procedure: Arc::from(procedure),
        }
    }

    /// The key of a task with valid labels, which shares their texts.
    pub fn of(subject: &SubjectLabel, session: &SessionLabel, procedure: &Arc<str>) -> Self {
        Self {
            subject: subject.shared(),
            session: session.shared(),
            procedure: Arc::clone(procedure),
        }
    }

    /// The name of this task's jobs, as in the Python program: `<procedure>_<subject>[_<session>]`.
    pub fn job_name(&self) -> String {
        joined([&self.procedure, &self.subject, &self.session], "_")
    }

    /// The labels of the key. `None` if they are not valid BIDS labels.
    pub fn labels(&self) -> Option<(SubjectLabel, SessionLabel)> {
        let session = match &*self.session {
            "" => SessionLabel::none(),
            label => SessionLabel::new(label).ok()?,
        };
        Some((SubjectLabel::new(&self.subject).ok()?, session))
    }

    /// `sub-0001 ses-01`
    pub fn labels_text(&self) -> String {
        joined([&self.subject, &self.session, ""], " ")
    }

    /// The arguments that select the task on the command line: `sub-0001 ses-01 qsiprep`.
    pub fn words(&self) -> String {
        joined([&self.subject, &self.session, &self.procedure], " ")
    }
}

impl fmt::Display for TaskKey {
    /// Prints `qsiprep sub-0001 ses-01`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&joined(
            [&self.procedure, &self.subject, &self.session],
            " ",
        ))
    }
}

/// The parts that are not empty.
fn joined(parts: [&str; 3], separator: &str) -> String {
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(separator)
}

impl TaskStatus {
    pub fn is_in_flight(self) -> bool {
        matches!(self, Self::Pending | Self::Running)
    }
}

impl TaskRow {
    /// A row without further information.
    pub fn new(key: TaskKey, status: TaskStatus) -> Self {
        Self {
            key,
            status,
            ..Self::default()
        }
    }

    /// The word of its reason; rows of the Python program have none.
    pub fn reason_word(&self) -> &'static str {
        self.reason.map_or("unknown", Reason::as_str)
    }

    pub fn is_in_flight(&self) -> bool {
        self.status.is_in_flight()
    }

    pub fn job(&self) -> Option<JobRef> {
        Some(JobRef {
            id: self.job_id.clone()?,
            cluster: self.facts.cluster.clone(),
        })
    }

    /// True if the task's markers were satisfied when the row was judged. Rows judged without known markers prove
    /// nothing.
    pub fn is_proven_complete(&self) -> bool {
        self.status == TaskStatus::Complete && self.reason != Some(Reason::Unverified)
    }

    /// True while it is unknown whether Slurm accepted the job.
    pub fn is_in_doubt(&self) -> bool {
        self.is_in_flight() && self.job_id.is_none() && self.reason == Some(Reason::Submitting)
    }
}

/// Identifies an attempt: by the submission, or (in rows of other programs) by time and job.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum AttemptId {
    Submission(TaskKey, Arc<str>),
    Other(TaskKey, Option<DateTime<Utc>>, Option<JobId>),
}

impl AttemptId {
    pub fn of(row: &TaskRow) -> Self {
        let key = row.key.clone();
        match &row.submission_id {
            Some(id) => Self::Submission(key, Arc::clone(id)),
            None => Self::Other(key, row.submitted_at, row.job_id.clone()),
        }
    }
}

/// The retries that led to an attempt. The default is an attempt that is not an automatic retry.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RetryState {
    /// Retries after failures of the job itself.
    #[serde(skip_serializing_if = "is_zero")]
    pub retries: u32,
    /// Retries after infrastructure failures.
    #[serde(skip_serializing_if = "is_zero")]
    pub infrastructure: u32,
    /// Memory set by a retry rule, in MB (2^20 bytes); later attempts keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_mb: Option<u64>,
    /// Time limit set by a retry rule, in seconds; later attempts keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_s: Option<u64>,
    /// Nodes excluded from further attempts, in Slurm's format (`n[1-3]`); the
    /// newest is last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
}

impl RetryState {
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The text of the column, a small JSON object; `None` for the default.
    pub fn to_text(&self) -> Option<String> {
        if self.is_default() {
            return None;
        }
        serde_json::to_string(self).ok()
    }

    /// Parses the text of the column. Invalid text (another program's column of the same name) gives
    /// the default: at worst, a task is retried more often.
    pub fn from_text(text: &str) -> Self {
        serde_json::from_str(text).unwrap_or_default()
    }

    /// The number of this attempt, from 1, without retries after infrastructure failures.
    pub fn attempts(&self) -> u32 {
        self.retries.saturating_add(1)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "required by serde")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_states_are_parsed_back() {
        assert_eq!(RetryState::default().to_text(), None);
        let state = RetryState {
            retries: 2,
            infrastructure: 1,
            mem_mb: Some(49_152),
            time_s: Some(7200),
            exclude: ["n1".to_owned(), "n[2-3]".to_owned()].into(),
        };
        assert_eq!(RetryState::from_text(&state.to_text().unwrap()), state);
        for foreign in ["", "yes", "3", "[]", "{\"retries\":-1}", "{\"else\":1}"] {
            assert_eq!(RetryState::from_text(foreign), RetryState::default());
        }
    }
}
