//! What runs jobs, seen from the scheduler: submit, observe, cancel.
//!
//! Two executors implement [`Executor`]: [`crate::executor::slurm`] and [`crate::executor::local`]; tests add one in
//! memory. The words here are neutral: Slurm's own vocabulary ends in `executor/slurm/job_state.rs`.
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

/// How long after a job's end accounting may lack its record or those of its steps.
pub const ACCOUNTING_LAG: TimeDelta = TimeDelta::seconds(60);

/// Submits jobs, tells what became of them, cancels them.
pub trait Executor {
    /// Says whether jobs can be submitted at all (the programs are there). Nothing is started.
    fn preflight(&self) -> Result<(), ExecutorError>;

    /// Returns the exact command line that [`Self::submit`] would run, for people and the audit log.
    fn command_line(&self, request: &JobRequest) -> Vec<String>;

    /// Looks for the request's script and returns its path, or an error that names the places
    /// that were searched. Nothing is started.
    fn find_script(&self, script: &str) -> Result<PathBuf, ExecutorError>;

    /// Begins a pass: no call lasts longer than this from now on, all together. Without it each call has
    /// its own limit only.
    fn set_deadline(&mut self, left: std::time::Duration) {
        let _ = left;
    }

    /// Hands one job over. Never panics, never loses an answer: whatever is not certain is
    /// [`Submission::InDoubt`].
    fn submit(&mut self, request: &JobRequest) -> Submission;

    /// True if [`Self::submit_array`] can do anything.
    fn takes_arrays(&self) -> bool {
        false
    }

    /// Asks how many tasks a job array may have; 0: there are none. To be called only if one is to be made.
    fn array_limit(&mut self) -> usize {
        0
    }

    /// Returns the exact command line that [`Self::submit_array`] would run.
    fn array_command_line(&self, _array: &ArrayJob, _tasks: &[&JobRequest]) -> Vec<String> {
        Vec::new()
    }

    /// Hands several tasks over as one job array, whose indexes are their places; [`Submission::Accepted`]
    /// names the array's own id. Its task list is on disk before. As careful as [`Self::submit`].
    fn submit_array(&mut self, _array: &ArrayJob, _tasks: &[&JobRequest]) -> Submission {
        Submission::Refused {
            kind: Refusal::ArraySize,
            message: "this executor has no job arrays".to_owned(),
        }
    }

    /// Asks queue and accounting, once, for everything that a pass needs to know.
    fn observe(&mut self, question: &Question) -> Observation;

    /// Asks for the end of jobs, in one call. An accepted request is not yet an ended job.
    fn cancel(&mut self, jobs: &[JobRef]) -> Result<(), ExecutorError>;
}

/// Describes one job to be submitted.
#[derive(Debug, Clone, PartialEq)]
pub struct JobRequest {
    pub key: TaskKey,
    pub job_name: String,
    /// Unique; travels with the job, so that it can be found again.
    pub submission_id: String,
    /// Tells two studies of one user apart.
    pub project: String,
    pub attempt: i32,
    /// As configured; looked up by [`Executor::find_script`].
    pub script: String,
    /// Subject, session, DICOM path: what applies.
    pub arguments: Vec<String>,
    /// `SNBB_*` and the procedure's own variables.
    pub env: BTreeMap<String, String>,
    pub resources: Resources,
    /// Where the job's output and error go; the executor adds `<job name>_<job id>.{out,err}`.
    pub log_dir: Option<PathBuf>,
}

/// Describes a job array that is to be submitted; its tasks are numbered from 0 in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArrayJob {
    pub submission_id: String,
    /// What Slurm shows for all its tasks.
    pub job_name: String,
    /// How many tasks may run at a time.
    pub throttle: Option<u32>,
    /// Where the task list, the script and the wrapper are written.
    pub dir: PathBuf,
}

/// Holds the outcome of one submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Submission {
    Accepted {
        job_id: JobId,
        cluster: Option<Arc<str>>,
    },
    /// Certainly not accepted.
    Refused { kind: Refusal, message: String },
    /// May have been accepted: it must be looked for before anything is submitted again.
    InDoubt { message: String },
}

/// Says what a refusal means for the rest of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// This procedure cannot be submitted as configured: go on with others.
    Permanent,
    /// A limit of the site on jobs: submit nothing more of this procedure in this run, and nothing at all if the
    /// answer came late.
    Limit,
    /// A job array has more tasks than the site takes in one.
    ArraySize,
    /// The controller cannot be reached or is busy: a few tries, then stop.
    Transient,
}

/// Asks about jobs of one pass.
#[derive(Debug, Clone, Default)]
pub struct Question {
    /// Jobs of rows that are in flight, and of those that were judged without the end of their job.
    pub jobs: Vec<JobRef>,
    /// Those that live, or may live again after a failure: before their absence means something, they are asked for
    /// whoever owns them.
    pub may_live: Vec<JobRef>,
    /// Jobs may have no row: the whole queue is searched for the study's tag.
    pub everywhere: bool,
    /// Submissions whose job is not known may be this old: accounting is asked for all jobs of the user since then,
    /// whatever they are called now.
    pub search_from: Option<DateTime<Utc>>,
    /// Further clusters where jobs may be, beside the default one and those of the jobs.
    pub clusters: Vec<Arc<str>>,
    /// A finished job that accounting must know: proves that it answers.
    pub canary: Option<JobRef>,
    /// The earliest submission among the jobs, to bound the accounting query.
    pub since: Option<DateTime<Utc>>,
    /// Jobs whose end is known, with its time: they may have been requeued and have ended again since.
    pub ended: Vec<(JobRef, DateTime<Utc>)>,
    /// The study's word (empty: not known yet): the queue's living jobs beside `jobs` are identified by their submit
    /// lines, but for those with another study's tag.
    pub identify: Option<String>,
}

/// Holds the answers of one pass.
#[derive(Debug, Clone, Default)]
pub struct Observation {
    /// All jobs of this user that the queue shows, finished ones that it still remembers included.
    pub queue: Answer<Vec<JobReport>>,
    /// What accounting knows of the jobs asked for, and of all others if it was searched.
    pub accounting: Answer<Vec<JobReport>>,
    /// Living jobs without a tag whose command line accounting should show, and does not.
    pub unnamed: Vec<JobId>,
    /// The jobs asked for that another executor runs: that no answer shows them proves nothing.
    pub of_other_executor: Vec<JobId>,
    /// The cluster that answered for jobs that name none, if it was asked for its name.
    pub cluster: Option<Arc<str>>,
    /// Things a person should hear of once (an unknown state word).
    pub warnings: Vec<String>,
}

/// Holds an answer, or says that there is none. A failed query is no evidence of anything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Answer<T> {
    Got(T),
    Failed(String),
    /// The site has none of this (accounting switched off).
    #[default]
    Off,
}

/// Holds what one source says of one job.
#[derive(Debug, Clone, PartialEq)]
pub struct JobReport {
    pub id: JobId,
    pub name: String,
    pub phase: Phase,
    /// The source's words for why it waits (`JobHeldUser`, `Resources`).
    pub pending_reason: Option<String>,
    /// Of the latest (re)queueing: moves forward when a job is requeued.
    pub submitted_at: Option<DateTime<Utc>>,
    pub facts: JobFacts,
    /// From the job's submit line, else its comment.
    pub tag: Option<JobTag>,
    /// The whole submit line is known, so a job without a tag was probably not submitted by this program.
    pub has_submit_line: bool,
}

/// Says where a job stands, in neutral words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    Queued,
    /// Queued, and will not start by itself.
    Held,
    Running,
    Suspended,
    /// Ended well, as the batch script's exit code says.
    Completed,
    /// Ended otherwise; the reason is one of a failed row's.
    Failed(Reason),
    /// Alive for all we know; the word is a new one, or one that says nothing.
    Unknown,
}

/// How far the submit time that Slurm shows for a job id may be from the one on record; ids are recycled. Clocks of
/// login nodes differ by minutes, and time zones by hours.
pub const SUBMIT_TIME_WINDOW: TimeDelta = TimeDelta::days(1);

/// What to do where sacct is missing or always fails.
const NO_ACCOUNTING: &str = "if this site has no accounting, set `accounting: off`";

/// Says what to do about the words with which sacct failed.
pub fn accounting_hint(message: &str) -> &'static str {
    // It is asked for the time since the oldest submission, which the clock is behind now.
    match message.contains("is after end time") {
        true => {
            "this machine's clock was set back, or that of the Slurm servers is behind: synchronize the clocks"
        }
        false => NO_ACCOUNTING,
    }
}

/// Says why an executor could not do what it was asked.
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
    /// Lists the jobs that another executor than this one runs.
    pub fn of_other_executor(&self, own: ExecutorKind) -> Vec<JobId> {
        let ids = self.jobs.iter().map(|job| &job.id);
        ids.filter(|id| id.executor() != own).cloned().collect()
    }
}

impl ExecutorError {
    /// Says what is wrong and what to do, in one line.
    pub fn with_hint(&self) -> String {
        format!("{self}{}", maybe(" (", self.hint(), ")"))
    }

    /// Returns what a person can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::ScriptMissing { .. } => Some(
                "give the script's absolute path, or set script_dir to the directory of the scripts"
                    .to_owned(),
            ),
            Self::ScriptUnfit { path, line, .. } => Some(format!(
                "take it out of line {line} of {}; nothing of this procedure is submitted until then",
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
    fn attack_a_clock_that_was_set_back_is_no_want_of_accounting() {
        let set_back =
            "sacct: error: Start time (1796000000) requested is after end time (1795000000).";
        assert!(accounting_hint(set_back).contains("clock"));
        assert_eq!(accounting_hint("Connection refused"), NO_ACCOUNTING);
    }
}
