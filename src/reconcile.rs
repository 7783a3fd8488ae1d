//! What queue, accounting and disk say about the rows: a decision table, and nothing else.
//!
//! Pure: answers and a view of the disk in, changes out. Queue first, disk last: markers are looked
//! at only when no job of the task can still be writing. A failed query is no evidence.

use chrono::{DateTime, Duration, Utc};

use crate::executor::{JobReport, Observation, Phase, Question};
use crate::procedure::SubmitRules;
use crate::state::transition::{Cause, Change, may_still_become_complete};
use crate::state::{JobFacts, Reason, State, TaskKey, TaskRow, TaskStatus};

mod adopt;
mod evidence;
mod judge;
mod question;
pub mod strays;

pub use question::question;

use evidence::{Evidence, Source};
use judge::{Judge, live_facts, live_status};

/// Says what the disk shows of a task whose job is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outputs {
    /// All markers stand; the newest modification time among them, if it was asked for and is known.
    Complete {
        newest: Option<DateTime<Utc>>,
    },
    Missing,
    /// Something could not be read: no evidence.
    Unreadable,
    /// Today's configuration has no such procedure.
    NoRule,
}

/// Looks at the disk, only for those tasks that need it.
pub trait OutputSource {
    /// `wants_age`: the newest modification time is needed too, for which all matches are looked at.
    fn outputs(&self, key: &TaskKey, wants_age: bool) -> Outputs;

    /// How long the task's outputs may take to appear after its job's end.
    fn output_grace(&self, key: &TaskKey) -> Duration;

    /// The rules of the task's procedure, if it is in the configuration.
    fn rules(&self, _: &TaskKey) -> Option<&SubmitRules> {
        None
    }
}

/// Holds the times of patience.
#[derive(Debug, Clone)]
pub struct Patience {
    /// How long a job may be unknown to queue, accounting and disk before it counts as lost.
    pub lost_grace: Duration,
    /// How long after a first clean answer a second one may release a submission in doubt.
    pub settle_time: Duration,
}

/// Holds what came out.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reconciled {
    pub changes: Vec<Change>,
    /// Submissions in doubt that certainly never became jobs: their rows go, the tasks are free.
    pub released: Vec<TaskKey>,
}

/// True if a job that has a row's id is the row's own and not a later one with a recycled id.
pub fn is_own(row: &TaskRow, job: &JobReport) -> bool {
    evidence::fits(row, job)
}

/// Judges every row that is in flight, and those finished ones that may still change.
pub fn reconcile(
    rows: &State,
    question: &Question,
    observation: &Observation,
    disk: &dyn OutputSource,
    patience: &Patience,
    now: DateTime<Utc>,
) -> Reconciled {
    let evidence = Evidence::new(rows, question, observation);
    let mut out = Reconciled::default();
    for row in rows.rows() {
        if row.is_in_doubt() {
            adopt::judge(row, &evidence, patience, now, &mut out);
        } else if row.is_in_flight() {
            out.changes
                .extend(in_flight(row, &evidence, disk, patience, now));
        } else {
            out.changes.extend(finished(row, &evidence, disk, now));
        }
    }
    out
}

fn in_flight(
    row: &TaskRow,
    evidence: &Evidence<'_>,
    disk: &dyn OutputSource,
    patience: &Patience,
    now: DateTime<Utc>,
) -> Option<Change> {
    let judge = Judge { row, disk, now };
    // Without the queue's answer nobody knows whether the job lives.
    let queued = evidence.in_queue(row)?;
    if let Some(job) = queued.filter(|job| job.phase.is_live()) {
        return judge.live(job);
    }
    let known = evidence.in_accounting(row);
    let record = known.filter(|record| !is_of_earlier_run(record, row, queued));
    // One that has only half arrived (its name is not the job's yet) may stay so: the controller died before
    // it sent the rest. One that could not be read (it has no name) says nothing.
    let is_unsure =
        record.is_some_and(|r| r.phase == Phase::Unknown && (is_own(row, r) || r.name.is_empty()));
    match (record.filter(|r| !r.phase.is_live()), queued) {
        (Some(ended), _) if evidence.may_be_half_told(ended, now) => None,
        // Accounting knows more (exit code, node, memory) than the queue's memory of a finished job.
        (Some(ended), _) => judge.ended(ended),
        // It also knows whether a cancelled job was ever launched; the queue does not.
        (None, Some(ended)) if ended.phase == Phase::Failed(Reason::Cancelled) && is_unsure => None,
        (None, Some(ended)) if evidence.may_still_come(ended, now) => judge.started_at_least(ended),
        (None, Some(ended)) => judge.ended(ended),
        (None, None) if is_unsure => None,
        (None, None) if matches!(evidence.accounting, Source::Failed) => judge.gone_from_queue(),
        // The two contradict each other, and the queue's answer may have been cut.
        (None, None) if record.is_some() && judge.has_outputs_for_the_first_time() => {
            Some(judge.unknown_for_now(row.missing_since))
        }
        // An accounting that is not proven to answer may lack a task that ran between two passes.
        (None, None)
            if evidence.accounting_alive
                && judge.has_vanished(record)
                && evidence.knows_array_of(row) =>
        {
            judge.cancelled_while_it_waited()
        }
        (None, None) => judge.unaccounted(evidence.accounting_alive, patience, known),
    }
}

/// True for the end of a run after which the job came back: accounting may know of the later run much
/// later than the queue.
fn is_of_earlier_run(record: &JobReport, row: &TaskRow, queued: Option<&JobReport>) -> bool {
    let was_submitted_again = queued
        .is_some_and(|job| record.submitted_at.is_some() && job.submitted_at > record.submitted_at);
    // Its own end can lie before its own start, when a clock was set back meanwhile.
    let has_started_again = row.facts.started_at.is_some_and(|started| {
        record.facts.ended_at.is_some_and(|ended| started > ended)
            && record.facts.started_at != Some(started)
    });
    !record.phase.is_live() && (was_submitted_again || has_started_again)
}

/// A finished row changes only if its job lives again, or if outputs that were missed stand now.
fn finished(
    row: &TaskRow,
    evidence: &Evidence<'_>,
    disk: &dyn OutputSource,
    now: DateTime<Utc>,
) -> Option<Change> {
    let judge = Judge { row, disk, now };
    let queued = evidence.in_queue(row)?;
    if let Some(job) = queued.filter(|job| job.phase.is_live()) {
        let requeued = job.submitted_at >= row.submitted_at;
        let (to, reason) = live_status(job.phase)?;
        return requeued.then(|| Change {
            cause: Cause::Requeue,
            ..judge.change(to, reason, live_facts(job), None)
        });
    }
    if !may_still_become_complete(row) {
        return None;
    }
    let facts = JobFacts::default;
    match (judge.outputs(row.facts.started_at), row.missing_since) {
        // `missing_since` is null from the first pass on that sees all markers.
        (Outputs::Complete { .. }, Some(_)) => {
            Some(judge.change(row.status, row.reason?, facts(), None))
        }
        (Outputs::Complete { .. }, None) => {
            Some(judge.change(TaskStatus::Complete, Reason::Verified, facts(), None))
        }
        (Outputs::Missing, None) => Some(judge.change(row.status, row.reason?, facts(), Some(now))),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
