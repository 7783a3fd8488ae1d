//! A decision table: updates rows by queue, accounting and disk.
//!
//! The queue decides first, the disk last: markers are checked only when no job of the task can still be writing. A
//! failed query is not evidence.

use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use itertools::Itertools as _;

use crate::executor::{Observation, Question, REQUEUE_TIME};
use crate::model::job::JobRef;
use crate::model::procedure::SubmitRules;
use crate::model::state::transition::{
    Cause, Change, is_later_run, may_still_be_corrected, may_still_become_complete,
};
use crate::model::state::{JobFacts, Reason, State, TaskKey, TaskRow, TaskStatus};

mod evidence;
pub mod strays;
mod verdict;

pub use verdict::complete_tags;

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
            verdict::resolve_doubt(&verdict, rows, &evidence, &mut out);
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
        return Some(verdict.adoption(job.id.clone(), job));
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
            let grace = patience.absence_grace;
            verdict.absent(None, grace, grace, Reason::Cancelled)
        }
        (Queued::Absent, Recorded::Open(record)) if evidence.is_proven() => {
            let grace = patience.lost_grace;
            verdict.absent(record, grace, grace, Reason::Lost)
        }
        (Queued::Absent, Recorded::Open(_)) => Some(verdict.unknown_for_now()),
        (Queued::Absent, Recorded::Off) => {
            let lost_after = patience.lost_grace.max(patience.absence_grace);
            verdict.absent(None, patience.absence_grace, lost_after, Reason::Lost)
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
    let same = (row.status, row.reason?);
    let verified = (TaskStatus::Complete, Reason::Verified);
    let ((to, reason), since) = match (verdict.outputs(row.facts.started_at), row.missing_since) {
        // The first pass that sees all markers sets `missing_since` to null.
        (Outputs::Complete { .. }, Some(_)) => (same, None),
        (Outputs::Complete { .. }, None) => (
            verified,
            row.facts.ended_at.is_none().then_some(verdict.now),
        ),
        (Outputs::Missing, None) => (same, Some(verdict.now)),
        _ => return None,
    };
    Some(verdict.change(to, reason, JobFacts::default(), since))
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

/// The canary must have ended at most this long before the newest submission: sites purge old records, some after two
/// weeks, and without its canary every answer would look like a broken database.
const CANARY_AGE: Duration = Duration::days(7);

/// How long accounting is asked for the end of a job whose row was finished without it.
const CORRECTION_TIME: Duration = Duration::days(7);

/// The query of one pass: the queue, and accounting for jobs in flight. Unknown jobs may be on any cluster, so the caller
/// adds the clusters of the configuration.
pub fn question(rows: &State, now: DateTime<Utc>) -> Question {
    let mut question = Question {
        clusters: clusters(rows),
        identify: Some(rows.meta.project.clone().unwrap_or_default()),
        ..Question::default()
    };
    let mut canary: Option<&TaskRow> = None;
    let mut newest: Option<DateTime<Utc>> = None;
    for row in rows.rows() {
        // The job may have been requeued afterwards, while the controller still knew it, and have ended again since.
        let (started, ended) = (row.facts.started_at, row.facts.ended_at);
        let ended = ended.filter(|_| started.is_some());
        let has_ended = ended.filter(|ended| now - *ended < REQUEUE_TIME);
        let is_to_be_corrected = may_still_be_corrected(row)
            && (row.updated_at).is_some_and(|updated| now - updated < CORRECTION_TIME);
        let is_asked = is_to_be_corrected || has_ended.is_some();
        if row.is_in_flight() || is_asked && row.status == TaskStatus::Failed {
            question.may_live.extend(row.job());
        }
        if row.is_in_flight() || is_to_be_corrected {
            question.jobs.extend(row.job());
            newest = newest.max(row.submitted_at);
            question.since = earlier(question.since, row.submitted_at);
            // The job can only be found by its tag, because Slurm does not know the row's job id.
            let is_unaccounted =
                row.reason == Some(Reason::Unaccounted) && row.submission_id.is_some();
            if row.is_in_doubt() || is_unaccounted {
                question.search_from = earlier(question.search_from, row.submitted_at);
            }
            continue;
        }
        if let (Some(ended), Some(job)) = (has_ended, row.job()) {
            question.ended.push((job, ended));
        }
        // The queue shows no exit codes, so an exit code came from accounting.
        if row.job_id.is_some()
            && row.facts.exit_code.is_some()
            && canary.is_none_or(|best| best.facts.ended_at < row.facts.ended_at)
        {
            canary = Some(row);
        }
    }
    question.everywhere = question.search_from.is_some();
    if let Some(newest) = newest {
        let canary =
            canary.filter(|row| newest - row.facts.ended_at.unwrap_or_default() < CANARY_AGE);
        question.canary = canary.and_then(TaskRow::job);
        question.since = earlier(question.since, canary.and_then(|row| row.submitted_at));
    }
    question
}

/// The clusters of the jobs in flight.
pub fn clusters(rows: &State) -> Vec<Arc<str>> {
    let clusters = rows.in_flight().map(|row| row.facts.cluster.clone());
    clusters.flatten().unique().collect()
}

fn earlier(a: Option<DateTime<Utc>>, b: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    a.into_iter().chain(b).min()
}

#[cfg(test)]
mod tests;
