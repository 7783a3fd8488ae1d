//! The central decision: which tasks are due, and why the others are not.
//!
//! [`plan`] turns sessions and rows into exactly one [`Decision`] per task, and reads files only through its [`World`]
//! (outputs by `completions`, DICOM directories by `gate`). `run`, `run --dry-run`, `manifest`, `session-status` and
//! `explain` all use it, so they cannot disagree.

pub mod breaker;
pub mod limits;
pub mod newest;
mod plan;
pub mod retry;
pub mod selection;
#[cfg(test)]
pub mod testing;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::gather::completion::Completions;
use crate::gather::disk::Unreadable;
use crate::gather::sessions::dicom::Hold;
use crate::model::bids::{Cohort, Session, SessionLabel, SubjectLabel};
use crate::model::job::JobId;
use crate::model::procedure::{ProcedureDag, ProcedureId};
use crate::model::state::{Reason, State, TaskKey, TaskRow, TaskStatus};

pub use crate::store::control::Pause;
pub use newest::{NewestAttempts, RemovedProcedure, RemovedProcedures, stale_rows};
pub use plan::plan;
pub use retry::{Budget, Outlook};
pub use selection::Selection;

/// Everything on which the decision is based.
pub struct World<'a> {
    /// Sorted by subject and session, without duplicates.
    pub sessions: &'a [Session],
    pub rows: &'a State,
    pub completions: &'a dyn Completions,
    /// Stray jobs with a task's name: the task waits until they end.
    pub jobs_without_row: &'a HashMap<TaskKey, JobId>,
    /// Rows in flight of removed procedures: a procedure with a new name or scope waits for them.
    pub removed: &'a RemovedProcedures,
    /// The newest attempts of tasks without a row; called only if one of them has complete outputs.
    pub newest: &'a (dyn Fn() -> Arc<NewestAttempts> + Sync),
    /// Why a session is held back, by the directory in which it was found.
    pub gate: &'a (dyn Fn(&Session) -> Option<Hold> + Sync),
    /// True if a session's input contains a file newer than this time.
    pub late: &'a (dyn Fn(&Session, Input, DateTime<Utc>) -> bool + Sync),
    /// True for complete rows whose outputs and input are not checked this time.
    pub trusts: Trusts<'a>,
    pub now: DateTime<Utc>,
}

/// True if a row is trusted without checking the disk.
pub type Trusts<'a> = &'a (dyn Fn(&TaskRow) -> bool + Sync);

/// The part of a session that a task reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Input {
    Dicom,
    /// The session's directory below `bids_root`.
    Bids,
}

/// Settings from the configuration and the command line.
#[derive(Debug, Clone, Default)]
pub struct Policy {
    pub selection: Selection,
    /// Selected tasks are due even if they are complete or failed.
    pub force: bool,
    /// Failed tasks are due in every run, as in the Python program.
    pub resubmit_failed: bool,
    /// The sessions that the site wants to process.
    pub cohort: Cohort,
    /// Check all procedures for late input, not only those that are rerun for it.
    pub reports_late_input: bool,
    /// Name of this host.
    pub host: String,
    /// Check everything this time.
    pub rechecks_all: bool,
    /// The rows of sessions that are not in the study now, by [`crate::decide::safety::recheck::away`]. `None` for a
    /// decision about all sessions, which computes it.
    pub away: Option<u64>,
}

/// One decision per task, ordered by priority, subject and session.
#[derive(Debug, Clone, Default)]
pub struct Manifest {
    pub tasks: Vec<Planned>,
}

/// A task with its decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Planned {
    pub procedure: ProcedureId,
    pub key: TaskKey,
    pub subject: SubjectLabel,
    /// [`SessionLabel::none`] for subject scope.
    pub session: SessionLabel,
    /// The session's directory, for session scope.
    pub dicom_path: Option<Arc<std::path::Path>>,
    /// The sessions that a due task of subject scope processes.
    pub input_sessions: Option<Vec<SessionLabel>>,
    pub decision: Decision,
}

impl Planned {
    /// A task without DICOM files and input sessions.
    pub fn new(
        dag: &ProcedureDag,
        procedure: ProcedureId,
        (subject, session): (SubjectLabel, SessionLabel),
        decision: Decision,
    ) -> Self {
        Self {
            procedure,
            key: TaskKey::of(&subject, &session, &dag.get(procedure).name),
            subject,
            session,
            dicom_path: None,
            input_sessions: None,
            decision,
        }
    }
}

/// What happens to a task now.
#[derive(Debug, Clone, PartialEq)]
pub enum Decision {
    Submit(Due),
    Skip(Skip),
}

impl Manifest {
    /// The due tasks, in order.
    pub fn due(&self) -> impl Iterator<Item = &Planned> {
        self.tasks
            .iter()
            .filter(|planned| matches!(planned.decision, Decision::Submit(_)))
    }
}

/// Why a task is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Due {
    /// No earlier attempt is recorded.
    New,
    /// Complete by the row, but not on disk.
    OutputsGone,
    /// The same for a row of the Python program, which trusted Slurm alone: it is unknown whether there ever were
    /// outputs.
    NeverVerified,
    /// Failed before, and `resubmit_failed` is on, or the failed attempt's row is gone. `complete` as for a retry.
    FailedBefore { complete: bool },
    /// Complete, new sessions arrived after it ran, and `rerun_when_stale` is on: outputs will be replaced.
    Stale,
    /// Complete, input files changed after it ran, and `rerun_when_stale` is on: outputs will be replaced.
    LateInput,
    /// Failed before, and the procedure's `retry` rules allow another attempt. `complete` if the outputs of the failed
    /// attempt look complete and will be replaced.
    Retry { reason: Reason, complete: bool },
    /// Selected with `--force`. `complete` if outputs exist and will be replaced.
    Forced { complete: bool },
}

impl Due {
    /// The word in the audit log; `None` for a first attempt.
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

/// Why a task is not submitted.
#[derive(Debug, Clone, PartialEq)]
pub enum Skip {
    Complete,
    /// Complete, of subject scope, and these sessions arrived after it ran.
    Stale(Vec<SessionLabel>),
    /// Complete, and input files changed after it ran.
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
    /// A stray job with exactly this task's name may be writing the same outputs.
    JobWithoutRow(JobId),
    /// A job in flight of a removed procedure may be writing the same outputs, if this procedure is its new name; or
    /// it is a job of this procedure from before its scope was changed.
    Renamed(Box<RemovedProcedure>),
    NoDicom,
    /// Files of the session are still arriving.
    Settling {
        until: DateTime<Utc>,
    },
    /// The session has fewer DICOM files than `audit.dicom_min_files`.
    TooFewFiles {
        files: u64,
        needed: u64,
    },
    /// The first dependency that is not complete.
    WaitingFor(Box<Waiting>),
    /// The subject has fewer ready sessions than the procedure's `min_sessions`.
    TooFewSessions {
        needed: usize,
        ready: usize,
    },
    Unreadable(Box<Unreadable>),
    OverLimit(Limit),
    /// The procedure or the study is paused until `resume`.
    Paused(Box<Pause>),
    NotSelected,
    /// By `include` or `exclude`.
    Excluded,
}

/// A dependency that is not ready.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Waiting {
    pub procedure: Arc<str>,
    /// For a subject-scoped task.
    pub session: Option<SessionLabel>,
    /// The number of sessions that are not ready, for a subject-scoped task that waits for several.
    pub sessions_missing: usize,
    /// Set if the dependency will not become ready automatically.
    pub blocked: Option<Blocked>,
}

/// Why a dependency will not become ready automatically.
#[derive(Debug, Clone, PartialEq)]
pub enum Blocked {
    Failed(Option<Reason>),
    Unreadable(PathBuf),
    /// It applies to none of the subject's sessions, so it never becomes complete.
    NotApplicable,
}

/// A limit that holds a due task back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Limit {
    MaxJobs(usize),
    MaxSubmitPerRun(usize),
    MaxInFlight(usize),
    ProcedureMaxInFlight(usize),
    /// `max_queued_user_jobs`: the user's jobs in the queue, including those of other programs.
    QueuedUserJobs(usize),
    /// The first jobs of the procedure must succeed before the rest is submitted.
    Warmup {
        needed: usize,
        succeeded: usize,
        /// Failed jobs among the first ones: a person must fix them.
        failed: usize,
    },
}

/// Counts the tasks whose decision may change in a later pass without a person. `rows` are those after the submissions
/// of this pass.
pub fn moving(manifest: &Manifest, rows: &State) -> usize {
    let busy: HashSet<&str> = rows.in_flight().map(|row| &*row.key.subject).collect();
    let tasks = manifest.tasks.iter().filter(|task| {
        let is_subject_busy = busy.contains(task.subject.as_str());
        moves(&task.decision, is_subject_busy, !busy.is_empty())
    });
    tasks.count()
}

fn moves(decision: &Decision, is_subject_busy: bool, is_study_busy: bool) -> bool {
    let Decision::Skip(skip) = decision else {
        return true;
    };
    match skip {
        Skip::InFlight { .. }
        | Skip::JobWithoutRow(_)
        | Skip::Renamed(_)
        | Skip::Settling { .. }
        // Jobs of other programs leave the queue eventually.
        | Skip::OverLimit(Limit::QueuedUserJobs(_)) => true,
        Skip::Failed { outlook, .. } => outlook.is_retry(),
        // A dependency that proceeds is counted itself, but it may be a job that was not selected.
        Skip::WaitingFor(waiting) => waiting.blocked.is_none() && is_subject_busy,
        Skip::TooFewSessions { .. } => is_subject_busy,
        Skip::OverLimit(_) => is_study_busy,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_that_proceed_automatically_are_counted() {
        let failed = |outlook| Skip::Failed {
            reason: Some(Reason::Timeout),
            attempt: 1,
            outlook,
        };
        let waiting = |blocked| {
            Skip::WaitingFor(Box::new(Waiting {
                procedure: "bids".into(),
                session: None,
                sessions_missing: 0,
                blocked,
            }))
        };
        let spent = Budget {
            used: 2,
            allowed: 2,
            infrastructure: false,
        };
        let warmup = Limit::Warmup {
            needed: 2,
            succeeded: 0,
            failed: 2,
        };
        let in_flight = Skip::InFlight {
            job_id: None,
            status: TaskStatus::Pending,
            reason: None,
        };
        // With the decision: whether it may change in a study without jobs, and while its subject has one.
        let cases = [
            (in_flight, true, true),
            (failed(Outlook::Now), true, true),
            (failed(Outlook::None), false, false),
            (failed(Outlook::Spent(spent)), false, false),
            (waiting(None), false, true),
            (waiting(Some(Blocked::Failed(None))), false, false),
            (Skip::OverLimit(warmup), false, true),
            (Skip::OverLimit(Limit::MaxJobs(0)), false, true),
            (Skip::OverLimit(Limit::QueuedUserJobs(1)), true, true),
            (Skip::NoDicom, false, false),
            (Skip::Complete, false, false),
        ];
        for (skip, alone, busy) in cases {
            let decision = Decision::Skip(skip);
            let seen = (moves(&decision, false, false), moves(&decision, true, true));
            assert_eq!(seen, (alone, busy), "{decision:?}");
        }
        assert!(moves(&Decision::Submit(Due::New), false, false));
    }
}
