//! The heart: which tasks are due, and why each other one is not.
//!
//! [`plan`] reads nothing but through its [`World`] (outputs by `completions`, DICOM directories by `gate`): sessions
//! and rows in, exactly one [`Decision`] per task out. `run`, `run --dry-run`, `manifest`, `session-status` and
//! `explain` all read its answer, so they cannot disagree about what the disk showed.

pub mod breaker;
pub mod limits;
pub mod newest;
pub mod pause;
mod plan;
pub mod prospects;
pub mod removed;
pub mod retry;
pub mod selection;
mod stale;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::gather::completion::Completions;
use crate::gather::disk::Unreadable;
use crate::gather::sessions::dicom::Hold;
use crate::model::bids::{Cohort, Session, SessionLabel, SubjectLabel};
use crate::model::job::JobId;
use crate::model::procedure::{ProcedureDag, ProcedureId};
use crate::model::state::{Reason, State, TaskKey, TaskRow, TaskStatus};

pub use crate::store::control::Pause;
pub use limits::Limits;
pub use newest::NewestAttempts;
pub use plan::plan;
pub use removed::{RemovedProcedure, RemovedProcedures};
pub use retry::{Budget, Outlook};
pub use selection::Selection;
pub use stale::stale_rows;

/// Holds what the decision looks at.
pub struct World<'a> {
    /// Sorted by subject and session, without doubles.
    pub sessions: &'a [Session],
    pub rows: &'a State,
    pub completions: &'a dyn Completions,
    /// Live jobs with a task's name that are not ours: the task waits while they live.
    pub jobs_without_row: &'a HashMap<TaskKey, JobId>,
    /// Rows in flight that are no tasks of the configuration: a procedure whose name or scope was changed waits for
    /// them.
    pub removed: &'a RemovedProcedures,
    /// Finds the newest attempts of tasks without a row; called only if one of them has complete outputs.
    pub newest: &'a (dyn Fn() -> Arc<NewestAttempts> + Sync),
    /// Looks at the directory that a session was found by and says why the session is held back, if it is.
    pub gate: &'a (dyn Fn(&Session) -> Option<Hold> + Sync),
    /// Looks into a session's input for a file that is newer than this time.
    pub late: &'a (dyn Fn(&Session, Input, DateTime<Utc>) -> bool + Sync),
    /// True for complete rows whose outputs and input are not looked at this time.
    pub trusts: Trusts<'a>,
    pub now: DateTime<Utc>,
}

/// Answers whether a row is believed without a look at the disk.
pub type Trusts<'a> = &'a (dyn Fn(&TaskRow) -> bool + Sync);

/// What a task reads of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    Dicom,
    /// The session's directory below `bids_root`.
    Bids,
}

/// Holds what the configuration and the command line say about the decision.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    pub selection: Selection,
    /// Selected tasks are due even if they are complete or failed.
    pub force: bool,
    /// Failed tasks are due again at every run, as the Python program had it.
    pub resubmit_failed: bool,
    /// Which sessions the site wants worked on.
    pub cohort: Cohort,
    /// Late input is looked for in all procedures, not only in those that run again for it.
    pub reports_late_input: bool,
    /// Name of this host.
    pub host: String,
    /// How long complete rows are trusted without a look. Zero: not at all.
    pub recheck: Duration,
    /// Nothing is trusted this time.
    pub looks_at_all: bool,
    /// Which rows belong to sessions that are not in the study now, by [`crate::decide::safety::recheck::away`]. None: a
    /// decision about all sessions, which tells it.
    pub away: Option<u64>,
}

/// Holds one decision for each task, in order: priority, subject, session.
#[derive(Debug, Clone, Default)]
pub struct Manifest {
    pub tasks: Vec<Planned>,
}

/// Pairs a task with its decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    pub procedure: ProcedureId,
    pub key: TaskKey,
    pub subject: SubjectLabel,
    /// [`SessionLabel::none`] for subject scope.
    pub session: SessionLabel,
    /// Of the session, for session scope.
    pub dicom_path: Option<Arc<std::path::Path>>,
    /// For a due task of subject scope: the sessions that it works on.
    pub input_sessions: Option<Vec<SessionLabel>>,
    pub decision: Decision,
}

impl Planned {
    /// Pairs a task without DICOM files and input sessions with its decision.
    pub fn new(
        dag: &ProcedureDag,
        procedure: ProcedureId,
        (subject, session): (SubjectLabel, SessionLabel),
        decision: Decision,
    ) -> Self {
        Self {
            procedure,
            key: TaskKey {
                subject: subject.shared(),
                session: session.shared(),
                procedure: Arc::clone(&dag.get(procedure).name),
            },
            subject,
            session,
            dicom_path: None,
            input_sessions: None,
            decision,
        }
    }
}

/// Says what happens to a task now.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    Submit(Due),
    Skip(Skip),
}

impl Manifest {
    /// Returns the tasks that are due, in order.
    pub fn due(&self) -> impl Iterator<Item = &Planned> {
        self.tasks
            .iter()
            .filter(|planned| matches!(planned.decision, Decision::Submit(_)))
    }
}

/// Says why a task is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Due {
    /// No attempt of ours is on record.
    New,
    /// The row says complete, the disk says otherwise.
    OutputsGone,
    /// The same of a row of the Python program, which believed Slurm's word alone: that there ever were outputs is
    /// not known.
    NeverVerified,
    /// Failed before, and `resubmit_failed` is on; or the failed attempt has no row any more. `complete`: as for a
    /// retry.
    FailedBefore { complete: bool },
    /// Complete, a session has come since, and `rerun_when_stale` is on: outputs will be replaced.
    Stale,
    /// Complete, input files are newer than its attempt, and `rerun_when_stale` is on: outputs will be replaced.
    LateInput,
    /// Failed before, and the procedure's `retry` rules allow another attempt. `complete`: the outputs of
    /// the failed attempt look complete and will be replaced.
    Retry { reason: Reason, complete: bool },
    /// Asked for with `--force`. `complete`: outputs are there and will be replaced.
    Forced { complete: bool },
}

impl Due {
    /// Returns the word of the audit log; none for a task that was never tried.
    pub fn cause(self) -> Option<&'static str> {
        match self {
            Self::New => None,
            Self::OutputsGone => Some("outputs_gone"),
            Self::NeverVerified => Some("never_verified"),
            Self::FailedBefore { .. } => Some("failed_before"),
            Self::Stale | Self::LateInput => Some("stale"),
            Self::Retry { .. } => Some("retry"),
            Self::Forced { .. } => Some("forced"),
        }
    }
}

/// Says why a task is not submitted. Each task has exactly one.
#[derive(Debug, Clone, PartialEq)]
pub enum Skip {
    Complete,
    /// Complete, of subject scope, and these sessions have come since.
    Stale(Vec<SessionLabel>),
    /// Complete, and input files are newer than the start of its attempt.
    LateInput,
    NotApplicable,
    InFlight {
        job_id: Option<JobId>,
        status: TaskStatus,
        reason: Option<Reason>,
    },
    Failed {
        reason: Option<Reason>,
        attempt: i32,
        outlook: Outlook,
    },
    /// A live job of exactly this task's name that is not ours may be writing the same outputs.
    JobWithoutRow(JobId),
    /// A job in flight of a procedure that is not in the configuration may be writing the same outputs: this may be
    /// its procedure's new name. Or it is of this procedure, from before its scope was changed.
    Renamed(Box<RemovedProcedure>),
    NoDicom,
    /// Files of the session still arrive.
    Settling {
        until: DateTime<Utc>,
    },
    /// The session has fewer DICOM files than `audit.dicom_min_files`.
    TooFewFiles {
        files: u64,
        needed: u64,
    },
    /// The first dependency that is not complete, and where: for a subject-scoped task, the session.
    WaitingFor(Box<Waiting>),
    /// The subject has fewer sessions that are ready than the procedure's `min_sessions`.
    TooFewSessions {
        needed: usize,
        ready: usize,
    },
    Unreadable(Box<Unreadable>),
    OverLimit(Limit),
    /// The procedure or the study is paused until a person resumes it.
    Paused(Box<Pause>),
    NotSelected,
    /// The site does not want the session worked on (`include`, `exclude`).
    Excluded,
}

/// Names what a task waits for.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    pub procedure: Arc<str>,
    pub session: Option<SessionLabel>,
    /// How many sessions are not ready, for a subject-scoped task that waits for several.
    pub sessions_missing: usize,
    /// Set if the dependency failed, cannot be read or applies nowhere: it does not get ready on its own.
    pub blocked: Option<Blocked>,
}

/// Says why a dependency does not get ready by itself.
#[derive(Debug, Clone, PartialEq)]
pub enum Blocked {
    Failed(Option<Reason>),
    Unreadable(PathBuf),
    /// It applies to none of the subject's sessions, so it never becomes complete.
    NotApplicable,
}

/// Names the limit that holds a due task back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    MaxJobs(usize),
    MaxSubmitPerRun(usize),
    MaxInFlight(usize),
    ProcedureMaxInFlight(usize),
    /// `max_queued_user_jobs`: the user's jobs in the queue, of whatever program.
    QueuedUserJobs(usize),
    /// The first jobs of the procedure must succeed before the rest is submitted.
    Warmup {
        needed: usize,
        succeeded: usize,
        /// Of the first ones, those that failed: a person must look.
        failed: usize,
    },
}
