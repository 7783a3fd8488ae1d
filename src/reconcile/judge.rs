//! The verdict about one row whose job was asked about: what each combination of answers means.

use chrono::{DateTime, Duration, Utc};

use super::evidence;
use super::{OutputSource, Outputs, Patience};
use crate::executor::{JobReport, Phase};
use crate::state::transition::{Cause, Change};
use crate::state::{JobFacts, Reason, RetryState, TaskRow, TaskStatus};

/// How long a waiting task of an array must be missing from the queue, at two looks, to count as cancelled.
const VANISHED_AFTER: Duration = Duration::seconds(5);

/// The clock of a file server may be behind that of Slurm by this much.
const FILE_CLOCK_SLACK: Duration = Duration::seconds(5);

/// Judges one row in flight whose job was asked about.
pub(super) struct Judge<'a> {
    pub(super) row: &'a TaskRow,
    pub(super) disk: &'a dyn OutputSource,
    pub(super) now: DateTime<Utc>,
}

impl Judge<'_> {
    pub(super) fn live(&self, job: &JobReport) -> Option<Change> {
        let (to, reason) = live_status(job.phase)?;
        Some(self.change(to, reason, live_facts(job), None))
    }

    /// Notes the start of a run whose end is not judged yet: the queue will soon forget it. One that was
    /// cancelled before it ran has its end as its start.
    pub(super) fn started_at_least(&self, job: &JobReport) -> Option<Change> {
        let started = job.facts.started_at;
        let is_cancelled = job.phase == Phase::Failed(Reason::Cancelled);
        let facts = JobFacts {
            started_at: Some(started.filter(|_| !is_cancelled || started != job.facts.ended_at)?),
            ..JobFacts::default()
        };
        Some(self.change(
            self.row.status,
            self.row.reason?,
            facts,
            self.row.missing_since,
        ))
    }

    pub(super) fn ended(&self, job: &JobReport) -> Option<Change> {
        match job.phase {
            Phase::Failed(_) if self.accepts_outputs(job) => {
                let facts = job.facts.clone();
                Some(self.change(TaskStatus::Complete, Reason::Verified, facts, None))
            }
            Phase::Failed(reason) => {
                Some(self.change(TaskStatus::Failed, reason, job.facts.clone(), None))
            }
            Phase::Completed => self.ended_well(job),
            _ => None,
        }
    }

    pub(super) fn ended_well(&self, job: &JobReport) -> Option<Change> {
        let facts = job.facts.clone();
        match self.outputs_after_success(facts.started_at.or(job.submitted_at)) {
            Outputs::Complete { .. } => {
                Some(self.change(TaskStatus::Complete, Reason::Verified, facts, None))
            }
            Outputs::NoRule => {
                Some(self.change(TaskStatus::Complete, Reason::Unverified, facts, None))
            }
            // The job has ended, so the row says so, but nothing can be said of its outputs.
            Outputs::Unreadable => Some(self.change(
                TaskStatus::Running,
                Reason::AwaitingOutput,
                facts,
                self.row.missing_since,
            )),
            Outputs::Missing => {
                let since = self.row.missing_since.unwrap_or(self.now);
                let ended = facts.ended_at.unwrap_or(since);
                if self.now - ended < self.disk.output_grace(&self.row.key) {
                    Some(self.change(
                        TaskStatus::Running,
                        Reason::AwaitingOutput,
                        facts,
                        Some(since),
                    ))
                } else {
                    Some(self.change(TaskStatus::Failed, Reason::NoOutput, facts, Some(since)))
                }
            }
        }
    }

    /// Queue and accounting answered, and neither has the job (or accounting still calls it alive, or knows
    /// only an end that seems to be that of an earlier run: `known`).
    pub(super) fn unaccounted(
        &self,
        accounting_alive: bool,
        patience: &Patience,
        known: Option<&JobReport>,
    ) -> Option<Change> {
        match self.outputs(self.row.facts.started_at.or(self.row.submitted_at)) {
            Outputs::Complete { .. } => Some(self.change(
                TaskStatus::Complete,
                Reason::Verified,
                JobFacts::default(),
                None,
            )),
            Outputs::Unreadable => None,
            Outputs::Missing | Outputs::NoRule => match self.row.missing_since {
                // Nothing newer came within the grace: then that end is the job's, and the clocks were wrong.
                Some(since) if accounting_alive && self.now - since >= patience.lost_grace => {
                    known.and_then(|job| self.ended(job)).or_else(|| {
                        Some(self.change(
                            TaskStatus::Failed,
                            Reason::Lost,
                            JobFacts::default(),
                            Some(since),
                        ))
                    })
                }
                since => Some(self.unknown_for_now(since)),
            },
        }
    }

    /// The queue no longer has the job and accounting does not answer: only outputs that stand at a pass after
    /// the one that found the job gone mean anything.
    pub(super) fn gone_from_queue(&self) -> Option<Change> {
        match self.outputs(self.row.facts.started_at.or(self.row.submitted_at)) {
            Outputs::Complete { .. } if self.row.reason == Some(Reason::Unaccounted) => {
                Some(self.change(
                    TaskStatus::Complete,
                    Reason::Verified,
                    JobFacts::default(),
                    None,
                ))
            }
            Outputs::Complete { .. } => Some(self.unknown_for_now(self.row.missing_since)),
            _ => None,
        }
    }

    /// True if outputs stand, and no pass before has found the job gone.
    pub(super) fn has_outputs_for_the_first_time(&self) -> bool {
        self.row.reason != Some(Reason::Unaccounted)
            && matches!(
                self.outputs(self.row.facts.started_at.or(self.row.submitted_at)),
                Outputs::Complete { .. }
            )
    }

    /// True for a task of an array that never started for all we know, and that the queue lacked before.
    pub(super) fn has_vanished(&self, record: Option<&JobReport>) -> bool {
        evidence::never_started(self.row)
            // Accounting keeps the list of waiting tasks as it was when one of them last started.
            && record.is_none_or(|record| matches!(record.phase, Phase::Queued | Phase::Held))
            && self
                .row
                .missing_since
                .is_some_and(|since| self.now - since >= VANISHED_AFTER)
    }

    pub(super) fn cancelled_while_it_waited(&self) -> Option<Change> {
        let (status, reason) = match self.outputs(self.row.submitted_at) {
            Outputs::Complete { .. } => (TaskStatus::Complete, Reason::Verified),
            Outputs::Unreadable => return None,
            Outputs::Missing | Outputs::NoRule => (TaskStatus::Failed, Reason::Cancelled),
        };
        Some(self.change(status, reason, JobFacts::default(), None))
    }

    pub(super) fn unknown_for_now(&self, since: Option<DateTime<Utc>>) -> Change {
        self.change(
            self.row.status,
            Reason::Unaccounted,
            JobFacts::default(),
            since.or(Some(self.now)),
        )
    }

    /// Looks at the disk. Outputs that were there before the job prove nothing unless one of them
    /// is newer than its start.
    pub(super) fn outputs(&self, started: Option<DateTime<Utc>>) -> Outputs {
        let replaces = self.row.replaces_outputs == Some(true);
        match self.disk.outputs(&self.row.key, replaces) {
            Outputs::Complete { newest } if replaces => match (newest, started) {
                (Some(newest), Some(started)) if newest >= started - FILE_CLOCK_SLACK => {
                    Outputs::Complete {
                        newest: Some(newest),
                    }
                }
                _ => Outputs::Missing,
            },
            other => other,
        }
    }

    fn accepts_outputs(&self, job: &JobReport) -> bool {
        let started = job.facts.started_at.or(job.submitted_at);
        let rules = self.disk.rules(&self.row.key);
        rules.is_some_and(|rules| rules.accept_outputs)
            && matches!(self.outputs(started), Outputs::Complete { .. })
    }

    /// Looks at the disk after a job that succeeded. Many programs leave results that are complete as they are, so their
    /// age counts only if they may be those of a failed attempt, or lack a session that came later.
    fn outputs_after_success(&self, started: Option<DateTime<Utc>>) -> Outputs {
        let rules = self.disk.rules(&self.row.key);
        let may_be_stale = rules.is_some_and(|rules| rules.rerun_when_stale);
        match may_be_stale || self.row.retry != RetryState::default() {
            true => self.outputs(started),
            false => self.disk.outputs(&self.row.key, false),
        }
    }

    pub(super) fn change(
        &self,
        to: TaskStatus,
        reason: Reason,
        facts: JobFacts,
        missing_since: Option<DateTime<Utc>>,
    ) -> Change {
        Change {
            key: self.row.key.clone(),
            about: self.row.job_id.clone(),
            cause: Cause::Verdict,
            to,
            reason,
            facts,
            missing_since,
        }
    }
}

/// Maps a living job to our words; none: keep what the row says.
pub(super) fn live_status(phase: Phase) -> Option<(TaskStatus, Reason)> {
    match phase {
        Phase::Queued => Some((TaskStatus::Pending, Reason::Queued)),
        Phase::Held => Some((TaskStatus::Pending, Reason::Held)),
        Phase::Running => Some((TaskStatus::Running, Reason::Running)),
        Phase::Suspended => Some((TaskStatus::Running, Reason::Suspended)),
        Phase::Unknown | Phase::Completed | Phase::Failed(_) => None,
    }
}

/// Leaves out what changes at every look at a living job, or has not happened yet.
pub(super) fn live_facts(job: &JobReport) -> JobFacts {
    JobFacts {
        elapsed_s: None,
        ended_at: None,
        exit_code: None,
        started_at: job
            .facts
            .started_at
            .filter(|_| matches!(job.phase, Phase::Running | Phase::Suspended)),
        ..job.facts.clone()
    }
}
