//! What queue, accounting and disk say about the rows: a decision table, and nothing else.
//!
//! Pure: answers and a view of the disk in, changes out. Queue first, disk last: markers are looked
//! at only when no job of the task can still be writing. A failed query is no evidence.

use chrono::{DateTime, Duration, Utc};

use crate::executor::Observation;
use crate::model::job::JobRef;
use crate::model::procedure::SubmitRules;
use crate::model::state::transition::{
    Cause, Change, is_later_run, may_still_be_corrected, may_still_become_complete,
};
use crate::model::state::{JobFacts, Reason, State, TaskKey, TaskRow, TaskStatus};

mod adopt;
mod cut_tags;
mod evidence;
mod question;
pub mod strays;
mod verdict;

pub use cut_tags::complete_tags;
pub use question::{clusters, question};

use evidence::{Evidence, Queued, Recorded};
use verdict::{Verdicts, live_facts, live_status};

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

/// Times of patience.
#[derive(Debug, Clone)]
pub struct Patience {
    /// How long queue and accounting must both have answered without the end of a job before its
    /// outputs decide alone.
    pub lost_grace: Duration,
    /// The same where there is no accounting: longer than any cache of the queue.
    pub absence_grace: Duration,
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

/// The jobs to end when a task is cancelled: all living ones with its tag, else the one with its id. `None` if another
/// job has that id.
pub fn jobs_to_end(row: &TaskRow, observation: &Observation) -> Option<Vec<JobRef>> {
    Evidence::new(observation).jobs_to_end(row)
}

/// Judges every row that is in flight, and those finished ones that may still change.
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
        let judge = Verdicts {
            row,
            disk,
            patience,
            now,
        };
        if row.is_in_doubt() {
            adopt::judge(row, rows, &evidence, patience, now, &mut out);
        } else if row.is_in_flight() {
            out.changes.extend(in_flight(&judge, &evidence));
        } else {
            out.changes.extend(finished(&judge, &evidence));
        }
    }
    out
}

/// The decision table. There is no end without evidence, and a failed query is none.
fn in_flight(judge: &Verdicts<'_>, evidence: &Evidence<'_>) -> Option<Change> {
    let (row, patience, now) = (judge.row, judge.patience, judge.now);
    // Without the queue's answer nobody knows whether the job lives.
    let queued = evidence.queued(row)?;
    if let Some(job) = evidence.under_another_id(row) {
        return Some(adopt::adoption(row, job.id.clone(), job));
    }
    let recorded = evidence.recorded(row, &queued);
    match (queued, recorded) {
        (Queued::Live(job), Recorded::Open(record)) => judge.live(job, record),
        (Queued::Live(job), _) => judge.live(job, None),
        (_, Recorded::Ended(record)) if evidence.may_be_half_told(record, now) => None,
        // Accounting knows more (exit code, node, memory) than the queue's memory of a finished job.
        (_, Recorded::Ended(record)) => judge.ended(record),
        (Queued::Ended(job), _) if evidence.may_still_come(job, now) => judge.started_at_least(job),
        (Queued::Ended(job), _) => judge.ended(job),
        // An earlier pass saw its end.
        (Queued::Absent, _) if row.reason == Some(Reason::AwaitingOutput) => judge.awaited(),
        (Queued::Absent, _) if evidence.is_of_other_executor(row) => None,
        (Queued::Absent, Recorded::Failed) => None,
        (Queued::Absent, Recorded::Open(record))
            if evidence.was_cancelled_in_array(row, record) =>
        {
            judge.cancelled_while_it_waited()
        }
        (Queued::Absent, Recorded::Open(record)) if evidence.is_proven() => {
            judge.absent(record, patience.lost_grace, patience.lost_grace)
        }
        (Queued::Absent, Recorded::Open(_)) => Some(judge.unknown_for_now()),
        (Queued::Absent, Recorded::Off) => {
            let lost_after = patience.lost_grace.max(patience.absence_grace);
            judge.absent(None, patience.absence_grace, lost_after)
        }
    }
}

/// A finished row changes only if its job is alive again, if the end arrives that it was judged without, or
/// if outputs that were missed are there now.
fn finished(judge: &Verdicts<'_>, evidence: &Evidence<'_>) -> Option<Change> {
    let row = judge.row;
    let queued = evidence.queued(row)?;
    if let Queued::Live(job) = queued {
        let (to, reason) = live_status(job.phase)?;
        return Some(Change {
            cause: Cause::Requeue,
            ..judge.change(to, reason, live_facts(job), None)
        });
    }
    let end = match (evidence.recorded(row, &queued), queued) {
        (Recorded::Ended(end), _) => Some(end),
        // Accounting will know more.
        (_, Queued::Ended(end)) if evidence.may_still_come(end, judge.now) => None,
        (_, Queued::Ended(end)) => Some(end),
        _ => None,
    };
    if let Some(end) = end
        && (may_still_be_corrected(row) || is_later_run(row, &end.facts))
    {
        return judge.corrected(end);
    }
    if row.reason == Some(Reason::Unverified) {
        return verified_late(judge);
    }
    if !may_still_become_complete(row) || evidence.is_of_other_executor(row) {
        return None;
    }
    let facts = JobFacts::default;
    match (judge.outputs(row.facts.started_at), row.missing_since) {
        // `missing_since` is null from the first pass on that sees all markers.
        (Outputs::Complete { .. }, Some(_)) => {
            Some(judge.change(row.status, row.reason?, facts(), None))
        }
        (Outputs::Complete { .. }, None) => {
            let without_end = row.facts.ended_at.is_none().then_some(judge.now);
            let (to, reason) = (TaskStatus::Complete, Reason::Verified);
            Some(judge.change(to, reason, facts(), without_end))
        }
        (Outputs::Missing, None) => {
            Some(judge.change(row.status, row.reason?, facts(), Some(judge.now)))
        }
        _ => None,
    }
}

/// Judges a row whose job ended well while nobody knew what it should leave, as soon as somebody does.
fn verified_late(judge: &Verdicts<'_>) -> Option<Change> {
    let facts = &judge.row.facts;
    let ended = facts.ended_at.unwrap_or_default();
    let (to, reason, since) = match judge.outputs(facts.started_at.or(judge.row.submitted_at)) {
        Outputs::Complete { .. } => (TaskStatus::Complete, Reason::Verified, None),
        Outputs::Missing if judge.now - ended >= judge.disk.output_grace(&judge.row.key) => {
            (TaskStatus::Failed, Reason::NoOutput, Some(judge.now))
        }
        Outputs::Missing | Outputs::NoRule | Outputs::Unreadable => return None,
    };
    Some(judge.change(to, reason, JobFacts::default(), since))
}

#[cfg(test)]
mod tests;
