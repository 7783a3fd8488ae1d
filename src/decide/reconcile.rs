//! A decision table: updates rows by queue, accounting and disk.
//!
//! The queue decides first, the disk last: markers are checked only when no job of the task can still be writing. A
//! failed query is not evidence.

use chrono::{DateTime, Duration, Utc};

use crate::executor::Observation;
use crate::model::job::JobRef;
use crate::model::procedure::SubmitRules;
use crate::model::state::transition::{
    Cause, Change, is_later_run, may_still_be_corrected, may_still_become_complete,
};
use crate::model::state::{JobFacts, Reason, State, TaskKey, TaskRow, TaskStatus};

mod adopt;
mod evidence;
mod question;
pub mod strays;
mod verdict;

pub use adopt::complete_tags;
pub use question::{clusters, question};

use evidence::{Evidence, Queued, Recorded};
use verdict::{Verdict, live_facts, live_status};

/// The outputs of a task whose job has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outputs {
    /// All markers hold; with their newest modification time, if it was requested and is known.
    Complete {
        newest: Option<DateTime<Utc>>,
    },
    Missing,
    /// Not evidence.
    Unreadable,
    /// The procedure is not in the configuration.
    NoRule,
}

/// The outputs on disk, read only for tasks that need it.
pub trait OutputSource {
    /// With `wants_age`, all matches are read to find the newest modification time.
    fn outputs(&self, key: &TaskKey, wants_age: bool) -> Outputs;

    /// How long the task's outputs may take to appear after its job's end.
    fn output_grace(&self, key: &TaskKey) -> Duration;

    /// The rules of the task's procedure, if it is in the configuration.
    fn rules(&self, _: &TaskKey) -> Option<&SubmitRules> {
        None
    }
}

/// Waiting times.
#[derive(Debug, Clone)]
pub struct Patience {
    /// How long a job must be missing from queue and accounting before its outputs decide alone.
    pub lost_grace: Duration,
    /// The same without accounting: longer than any cache of the queue.
    pub absence_grace: Duration,
    /// The time between the two answers that release a submission in doubt.
    pub settle_time: Duration,
}

/// The results of reconciliation.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reconciled {
    pub changes: Vec<Change>,
    /// Submissions in doubt that certainly never became jobs: their rows are removed, so the tasks are free.
    pub released: Vec<TaskKey>,
}

/// The jobs to cancel for a task: all live jobs with its tag, or else the one with its id. `None` if another job has
/// that id.
pub fn jobs_to_end(row: &TaskRow, observation: &Observation) -> Option<Vec<JobRef>> {
    Evidence::new(observation).jobs_to_end(row)
}

/// Updates every row in flight, and finished rows that may still change.
pub fn reconcile(
    rows: &State,
    observation: &Observation,
    disk: &dyn OutputSource,
    patience: &Patience,
    now: DateTime<Utc>,
) -> Reconciled {
    let evidence = Evidence::new(observation);
    let mut out = Reconciled::default();
    for row in rows.rows() {
        let verdict = Verdict {
            row,
            disk,
            patience,
            now,
        };
        if row.is_in_doubt() {
            adopt::resolve_doubt(row, rows, &evidence, patience, now, &mut out);
        } else if row.is_in_flight() {
            out.changes.extend(in_flight(&verdict, &evidence));
        } else {
            out.changes.extend(finished(&verdict, &evidence));
        }
    }
    out
}

/// The decision table. A job only ends with evidence, and a failed query is not evidence.
fn in_flight(verdict: &Verdict<'_>, evidence: &Evidence<'_>) -> Option<Change> {
    let (row, patience, now) = (verdict.row, verdict.patience, verdict.now);
    // Without the queue's answer, the job may be alive.
    let queued = evidence.queued(row)?;
    if let Some(job) = evidence.under_another_id(row) {
        return Some(adopt::adoption(row, job.id.clone(), job));
    }
    let recorded = evidence.recorded(row, &queued);
    match (queued, recorded) {
        (Queued::Live(job), Recorded::Open(record)) => verdict.live(job, record),
        (Queued::Live(job), _) => verdict.live(job, None),
        (_, Recorded::Ended(record)) if evidence.may_be_incomplete(record, now) => None,
        // For a finished job, accounting knows more (exit code, node, memory) than the queue.
        (_, Recorded::Ended(record)) => verdict.ended(record),
        (Queued::Ended(job), _) if evidence.may_still_come(job, now) => {
            verdict.started_at_least(job)
        }
        (Queued::Ended(job), _) => verdict.ended(job),
        // An earlier pass saw its end.
        (Queued::Absent, _) if row.reason == Some(Reason::AwaitingOutput) => verdict.awaited(),
        (Queued::Absent, _) if evidence.is_of_other_executor(row) => None,
        (Queued::Absent, Recorded::Failed) => None,
        (Queued::Absent, Recorded::Open(record))
            if evidence.was_cancelled_in_array(row, record) =>
        {
            verdict.cancelled_while_it_waited()
        }
        (Queued::Absent, Recorded::Open(record)) if evidence.is_proven() => {
            verdict.absent(record, patience.lost_grace, patience.lost_grace)
        }
        (Queued::Absent, Recorded::Open(_)) => Some(verdict.unknown_for_now()),
        (Queued::Absent, Recorded::Off) => {
            let lost_after = patience.lost_grace.max(patience.absence_grace);
            verdict.absent(None, patience.absence_grace, lost_after)
        }
    }
}

/// A finished row changes only if its job is alive again, if accounting shows the job's end later, or if missing outputs
/// have appeared.
fn finished(verdict: &Verdict<'_>, evidence: &Evidence<'_>) -> Option<Change> {
    let row = verdict.row;
    let queued = evidence.queued(row)?;
    if let Queued::Live(job) = queued {
        let (to, reason) = live_status(job.phase)?;
        return Some(Change {
            cause: Cause::Requeue,
            ..verdict.change(to, reason, live_facts(job), None)
        });
    }
    let end = match (evidence.recorded(row, &queued), queued) {
        (Recorded::Ended(end), _) => Some(end),
        // Accounting will know more.
        (_, Queued::Ended(end)) if evidence.may_still_come(end, verdict.now) => None,
        (_, Queued::Ended(end)) => Some(end),
        _ => None,
    };
    if let Some(end) = end
        && (may_still_be_corrected(row) || is_later_run(row, &end.facts))
    {
        return verdict.corrected(end);
    }
    if row.reason == Some(Reason::Unverified) {
        return verified_late(verdict);
    }
    if !may_still_become_complete(row) || evidence.is_of_other_executor(row) {
        return None;
    }
    let facts = JobFacts::default;
    match (verdict.outputs(row.facts.started_at), row.missing_since) {
        // The first pass that sees all markers sets `missing_since` to null.
        (Outputs::Complete { .. }, Some(_)) => {
            Some(verdict.change(row.status, row.reason?, facts(), None))
        }
        (Outputs::Complete { .. }, None) => {
            let without_end = row.facts.ended_at.is_none().then_some(verdict.now);
            let (to, reason) = (TaskStatus::Complete, Reason::Verified);
            Some(verdict.change(to, reason, facts(), without_end))
        }
        (Outputs::Missing, None) => {
            Some(verdict.change(row.status, row.reason?, facts(), Some(verdict.now)))
        }
        _ => None,
    }
}

/// Verifies a row whose job succeeded while its markers were unknown, as soon as they are known.
fn verified_late(verdict: &Verdict<'_>) -> Option<Change> {
    let facts = &verdict.row.facts;
    let ended = facts.ended_at.unwrap_or_default();
    let (to, reason, since) = match verdict.outputs(facts.started_at.or(verdict.row.submitted_at)) {
        Outputs::Complete { .. } => (TaskStatus::Complete, Reason::Verified, None),
        Outputs::Missing if verdict.now - ended >= verdict.disk.output_grace(&verdict.row.key) => {
            (TaskStatus::Failed, Reason::NoOutput, Some(verdict.now))
        }
        Outputs::Missing | Outputs::NoRule | Outputs::Unreadable => return None,
    };
    Some(verdict.change(to, reason, JobFacts::default(), since))
}

#[cfg(test)]
mod tests;
