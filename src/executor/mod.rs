//! The interface to what runs jobs: submit, observe, cancel.
//!
//! Two executors implement [`Executor`]: [`crate::executor::slurm`] and [`crate::executor::local`]; tests add one in
//! memory. The types here are neutral: `executor/slurm/job_state.rs` translates Slurm's vocabulary.
//! "The query failed", "the job is unknown" and "the job ended" are different values on purpose.

pub mod array;
pub mod local;
mod other;
pub mod script;
pub mod slurm;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};

pub use other::{OtherExecutor, REQUEUE_TIME, may_live_again};

use crate::base::regular::FileError;
use crate::base::text::maybe;
use crate::model::job::{ExecutorKind, JobId, JobRef, JobTag};
use crate::model::procedure::Resources;
use crate::model::state::{JobFacts, Reason, TaskKey};

/// How long after a job's end accounting may lack its record or its steps' records.
pub const ACCOUNTING_LAG: TimeDelta = TimeDelta::seconds(60);

/// Submits, observes and cancels jobs.
pub trait Executor {
    /// Checks that jobs can be submitted at all (the programs exist). Starts nothing.
    fn preflight(&self) -> Result<(), ExecutorError> {
        Ok(())
    }

    /// The exact command line that [`Self::submit`] would run, for people and the audit log.
    fn command_line(&self, tasks: &[&JobRequest], array: Option<&ArrayJob>) -> Vec<String>;

    /// The path of a script, or an error with the places that were searched. Starts nothing.
    fn find_script(&self, script: &str) -> Result<PathBuf, ExecutorError>;

    /// Begins a pass: all commands together may take this long. Without it, only each command's own limit applies.
    fn set_deadline(&mut self, _left: std::time::Duration) {}

    /// Submits one job, or several tasks as one job array, indexed by position: then [`Submission::Accepted`] has the
    /// array's id, and its task list is on disk before. Never panics and never loses an answer: an uncertain one is
    /// [`Submission::InDoubt`].
    fn submit(&mut self, tasks: &[&JobRequest], array: Option<&ArrayJob>) -> Submission;

    /// The maximum number of tasks in a job array; 0 if there are no arrays. Called only if an array is wanted.
    fn array_limit(&mut self) -> usize {
        0
    }

    /// Asks queue and accounting once for everything that a pass needs.
    fn observe(&mut self, question: &Question) -> Observation;

    /// Requests the end of jobs, in one call. An accepted request is not yet an ended job.
    fn cancel(&mut self, jobs: &[JobRef]) -> Result<(), ExecutorError>;
}

/// One job to submit.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRequest {
    pub key: TaskKey,
    pub job_name: String,
    /// Unique; part of the job's comment, by which it is found again.
    pub submission_id: String,
    /// Distinguishes the studies of one user.
    pub project: String,
    /// As configured; [`Executor::find_script`] finds the file.
    pub script: String,
    /// Subject, session and DICOM path, where they apply.
    pub arguments: Vec<String>,
    /// `SNBB_*` and the procedure's own variables.
    pub env: BTreeMap<String, String>,
    pub resources: Resources,
    /// Directory of the job's output and error; the executor adds `<job name>_<job id>.{out,err}`.
    pub log_dir: Option<PathBuf>,
}

/// A job array to submit; its tasks are numbered from 0 in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayJob {
    pub submission_id: String,
    /// The name of all its tasks in Slurm.
    pub job_name: String,
    /// The maximum number of tasks that run at the same time.
    pub throttle: Option<u32>,
    /// The directory of the task list, the script and the wrapper.
    pub dir: PathBuf,
}

/// The outcome of one submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    Accepted {
        job_id: JobId,
        cluster: Option<Arc<str>>,
    },
    /// Certainly not accepted.
    Refused { kind: Refusal, message: String },
    /// May have been accepted: its job must be searched for before the task is submitted again.
    InDoubt { message: String },
}

/// What a refusal means for the rest of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// This procedure cannot be submitted as configured; continue with others.
    Permanent,
    /// The site's limit on jobs: submit nothing more of this procedure in this run, and nothing at all if the
    /// answer came late.
    Limit,
    /// A job array has more tasks than the site allows.
    ArraySize,
    /// The controller is unreachable or busy: try a few times, then stop.
    Transient,
}

/// The question of one pass about its jobs.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Jobs of rows in flight, and of rows that were judged before their job's end was known.
    pub jobs: Vec<JobRef>,
    /// Jobs that may be running, or running again after a failure: before their absence means something, they are
    /// also searched for under other owners.
    pub may_live: Vec<JobRef>,
    /// Jobs may have no row: the whole queue is searched for the study's tag.
    pub everywhere: bool,
    /// The age of the oldest submission without a known job: accounting is asked for all jobs of the user since then,
    /// whatever their names are now.
    pub search_from: Option<DateTime<Utc>>,
    /// Further clusters where jobs may be, besides the default one and the jobs' clusters.
    pub clusters: Vec<Arc<str>>,
    /// A finished job that accounting must have, to prove that it works.
    pub canary: Option<JobRef>,
    /// The earliest submission among the jobs, to bound the accounting query.
    pub since: Option<DateTime<Utc>>,
    /// Jobs whose end is known, with its time: they may have been requeued and have ended again since.
    pub ended: Vec<(JobRef, DateTime<Utc>)>,
    /// The study's project word (empty if not yet known): other live jobs of the queue are identified by their submit
    /// lines, except those with another study's tag.
    pub identify: Option<String>,
}

/// The answers of one pass.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// All jobs of this user in the queue, including finished ones that it still remembers.
    pub queue: Answer<Vec<JobReport>>,
    /// The jobs of the question in accounting, and all others if it was searched.
    pub accounting: Answer<Vec<JobReport>>,
    /// Live jobs without a tag, whose submit line accounting should have but lacks.
    pub unnamed: Vec<JobId>,
    /// Jobs of the question that another executor runs: their absence from the answers proves nothing.
    pub of_other_executor: Vec<JobId>,
    /// The default cluster, if its name was asked for.
    pub cluster: Option<Arc<str>>,
    /// Messages to print once (an unknown state word).
    pub warnings: Vec<String>,
}

/// An answer, or why there is none. A failed query proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Answer<T> {
    Got(T),
    Failed(String),
    /// The site has no such source (accounting switched off).
    #[default]
    Off,
}

/// The report of one source about one job.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct JobReport {
    pub id: JobId,
    pub name: String,
    pub phase: Phase,
    /// The source's reason for waiting (`JobHeldUser`, `Resources`).
    pub pending_reason: Option<String>,
    /// The latest (re)queueing: moves forward when a job is requeued.
    pub submitted_at: Option<DateTime<Utc>>,
    pub facts: JobFacts,
    /// From the job's submit line, otherwise from its comment.
    pub tag: Option<JobTag>,
    /// True if the complete submit line is known: then a job without a tag is probably not ours.
    pub has_submit_line: bool,
}

/// The phase of a job, in neutral words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Phase {
    Queued,
    /// Queued, and will not start until it is released.
    Held,
    Running,
    Suspended,
    /// Ended with exit code 0 of the batch script.
    Completed,
    /// Ended otherwise, with the reason for a failed row.
    Failed(Reason),
    /// Treated as live: the state word is new or ambiguous.
    #[default]
    Unknown,
}

/// How far Slurm's submit time of a job id may be from the recorded one; ids are recycled. Clocks of login nodes differ
/// by minutes, and time zones by hours.
pub const SUBMIT_TIME_WINDOW: TimeDelta = TimeDelta::days(1);

/// The remedy if sacct is missing or always fails.
const NO_ACCOUNTING: &str = "if this site has no accounting, set `accounting: off`";

/// The remedy for an error message of sacct.
pub fn accounting_hint(message: &str) -> &'static str {
    // The start time of the query is the oldest submission, which is later than the clock now.
    match message.contains("is after end time") {
        true => {
            "synchronize the clocks: this machine's clock was set back, or the Slurm servers' clock is behind"
        }
        false => NO_ACCOUNTING,
    }
}

/// Why an executor failed.
#[derive(Debug, thiserror::Error)]
pub enum ExecutorError {
    #[error("script '{script}' was not found (looked in {})", .searched.join(", "))]
    ScriptMissing {
        script: String,
        searched: Vec<String>,
    },
    #[error("script {} has '#SBATCH {option}' in line {line}: {why}", .path.display())]
    ScriptUnfit {
        path: PathBuf,
        line: usize,
        option: String,
        why: &'static str,
    },
    #[error("{program} was not found (looked in {searched})")]
    ProgramMissing { program: String, searched: String },
    #[error("{command} failed: {message}")]
    Failed { command: String, message: String },
    #[error(transparent)]
    Io(#[from] FileError),
}

impl Question {
    /// The jobs of other executors.
    pub fn of_other_executor(&self, own: ExecutorKind) -> Vec<JobId> {
        let ids = self.jobs.iter().map(|job| &job.id);
        ids.filter(|id| id.executor() != own).cloned().collect()
    }
}

impl ExecutorError {
    pub fn failed(command: impl Into<String>, message: impl ToString) -> Self {
        Self::Failed {
            command: command.into(),
            message: message.to_string(),
        }
    }

    /// The error and its remedy in one line.
    pub fn with_hint(&self) -> String {
        format!("{self}{}", maybe(" (", self.hint(), ")"))
    }

    /// How to fix it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::ScriptMissing { .. } => Some(
                "set script to the absolute path, or script_dir to the directory of the scripts"
                    .to_owned(),
            ),
            Self::ScriptUnfit { path, line, .. } => Some(format!(
                "remove the option from line {line} of {}; until then, nothing of this procedure is submitted",
                path.display()
            )),
            Self::ProgramMissing { program, .. } if program == "sacct" => Some(format!(
                "{NO_ACCOUNTING}; otherwise set slurm_bin_dir to the directory of sacct"
            )),
            Self::ProgramMissing { program, .. } => Some(format!(
                "set slurm_bin_dir to the directory of {program}; cron's PATH is shorter than a login shell's"
            )),
            Self::Failed { .. } | Self::Io(_) => None,
        }
    }
}

impl Submission {
    pub fn refused(kind: Refusal, message: impl Into<String>) -> Self {
        let message = message.into();
        Self::Refused { kind, message }
    }
}

impl JobReport {
    pub fn job(&self) -> JobRef {
        JobRef {
            id: self.id.clone(),
            cluster: self.facts.cluster.clone(),
        }
    }

    /// Of its tag.
    pub fn submission_id(&self) -> Option<&str> {
        self.tag.as_ref().map(|tag| tag.submission_id.as_str())
    }
}

impl<T> From<Result<T, String>> for Answer<T> {
    fn from(answer: Result<T, String>) -> Self {
        answer.map_or_else(Self::Failed, Self::Got)
    }
}

impl Phase {
    /// True while the job may still write outputs.
    pub fn is_live(self) -> bool {
        !matches!(self, Self::Completed | Self::Failed(_))
    }
}

impl<T> Answer<T> {
    pub fn got(&self) -> Option<&T> {
        match self {
            Self::Got(value) => Some(value),
            Self::Failed(_) | Self::Off => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attack_a_clock_that_was_set_back_is_not_missing_accounting() {
        let set_back =
            "sacct: error: Start time (1796000000) requested is after end time (1795000000).";
        assert!(accounting_hint(set_back).contains("clock"));
        assert_eq!(accounting_hint("Connection refused"), NO_ACCOUNTING);
    }
}
