//! What queue, accounting and disk say about the rows: a decision table, and nothing else.
//!
//! Pure: answers and a view of the disk in, changes out. Queue first, disk last: markers are looked
//! at only when no job of the task can still be writing. A failed query is no evidence.

use chrono::{DateTime, Duration, Utc};

use crate::executor::{Doubt, JobRef, JobReport, Observation, Phase, Question};
use crate::state::transition::{Cause, Change, may_still_become_complete};
use crate::state::{JobFacts, Reason, State, TaskKey, TaskRow, TaskStatus};

mod adopt;
mod evidence;
pub mod strays;

use evidence::{Evidence, Source};

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

/// A job that ended longer ago than this before the newest submission proves nothing: sites purge old
/// records.
const CANARY_AGE: Duration = Duration::days(30);

/// How long a waiting task of an array must be missing from the queue, at two looks, to count as cancelled.
const VANISHED_AFTER: Duration = Duration::seconds(5);

/// True if a job that has a row's id is the row's own and not a later one with a recycled id.
pub fn is_own(row: &TaskRow, job: &JobReport) -> bool {
    evidence::fits(row, job)
}

/// Makes the question of one pass: one queue call, accounting for what is in flight. Of rows in doubt
/// nobody knows on which cluster their job may be: who asks adds those that the configuration names.
pub fn question(rows: &State) -> Question {
    let mut question = Question::default();
    let mut canary: Option<&TaskRow> = None;
    let mut newest: Option<DateTime<Utc>> = None;
    for row in rows.rows() {
        if row.is_in_doubt() {
            question.in_doubt.extend(doubt(row));
            newest = newest.max(row.submitted_at);
            question.since = earlier(question.since, row.submitted_at);
        } else if row.is_in_flight() {
            question.jobs.extend(job_ref(row));
            newest = newest.max(row.submitted_at);
            question.since = earlier(question.since, row.submitted_at);
        } else if is_known_to_accounting(row)
            && canary.is_none_or(|best| best.facts.ended_at < row.facts.ended_at)
        {
            canary = Some(row);
        }
    }
    for cluster in question.jobs.iter().filter_map(|job| job.cluster.clone()) {
        if !question.clusters.contains(&cluster) {
            question.clusters.push(cluster);
        }
    }
    if let Some(newest) = newest {
        let canary =
            canary.filter(|row| newest - row.facts.ended_at.unwrap_or_default() < CANARY_AGE);
        question.canary = canary.and_then(job_ref);
        question.since = earlier(question.since, canary.and_then(|row| row.submitted_at));
    }
    question
}

/// The queue's memory of an end tells no exit code: that came from accounting itself.
fn is_known_to_accounting(row: &TaskRow) -> bool {
    row.job_id.is_some() && row.facts.exit_code.is_some()
}

fn earlier(a: Option<DateTime<Utc>>, b: Option<DateTime<Utc>>) -> Option<DateTime<Utc>> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn doubt(row: &TaskRow) -> Option<Doubt> {
    Some(Doubt {
        submission_id: row.submission_id.clone()?,
        job_name: row.job_name.clone()?,
        intent_at: row.submitted_at?,
    })
}

fn job_ref(row: &TaskRow) -> Option<JobRef> {
    Some(JobRef {
        id: row.job_id.clone()?,
        cluster: row.facts.cluster.clone(),
    })
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
    let record = evidence
        .in_accounting(row)
        .filter(|record| !is_of_earlier_run(record, row, queued));
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
        (None, None) if judge.has_vanished(record) && evidence.knows_array_of(row) => {
            judge.cancelled_while_it_waited()
        }
        (None, None) => judge.unaccounted(evidence.accounting_alive, patience),
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

/// Judges one row in flight whose job was asked about.
struct Judge<'a> {
    row: &'a TaskRow,
    disk: &'a dyn OutputSource,
    now: DateTime<Utc>,
}

impl Judge<'_> {
    fn live(&self, job: &JobReport) -> Option<Change> {
        let (to, reason) = live_status(job.phase)?;
        Some(self.change(to, reason, live_facts(job), None))
    }

    /// Notes the start of a run whose end is not judged yet: the queue will soon forget it. A job that never
    /// ran has its end as its start.
    fn started_at_least(&self, job: &JobReport) -> Option<Change> {
        let started = job.facts.started_at;
        let facts = JobFacts {
            started_at: Some(started.filter(|_| started != job.facts.ended_at)?),
            ..JobFacts::default()
        };
        Some(self.change(
            self.row.status,
            self.row.reason?,
            facts,
            self.row.missing_since,
        ))
    }

    fn ended(&self, job: &JobReport) -> Option<Change> {
        match job.phase {
            Phase::Failed(reason) => {
                Some(self.change(TaskStatus::Failed, reason, job.facts.clone(), None))
            }
            Phase::Completed => self.ended_well(job),
            _ => None,
        }
    }

    fn ended_well(&self, job: &JobReport) -> Option<Change> {
        let facts = job.facts.clone();
        let started = facts.started_at.or(job.submitted_at);
        match self.outputs(started) {
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

    /// Queue and accounting answered, and neither has the job (or accounting still calls it alive).
    fn unaccounted(&self, accounting_alive: bool, patience: &Patience) -> Option<Change> {
        match self.outputs(self.row.facts.started_at.or(self.row.submitted_at)) {
            Outputs::Complete { .. } => Some(self.change(
                TaskStatus::Complete,
                Reason::Verified,
                JobFacts::default(),
                None,
            )),
            Outputs::Unreadable => None,
            Outputs::Missing | Outputs::NoRule => match self.row.missing_since {
                Some(since) if accounting_alive && self.now - since >= patience.lost_grace => {
                    Some(self.change(
                        TaskStatus::Failed,
                        Reason::Lost,
                        JobFacts::default(),
                        Some(since),
                    ))
                }
                since => Some(self.unknown_for_now(since)),
            },
        }
    }

    /// The queue no longer has the job and accounting does not answer: only outputs that stand at
    /// two passes mean anything.
    fn gone_from_queue(&self) -> Option<Change> {
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
    fn has_outputs_for_the_first_time(&self) -> bool {
        self.row.reason != Some(Reason::Unaccounted)
            && matches!(
                self.outputs(self.row.facts.started_at.or(self.row.submitted_at)),
                Outputs::Complete { .. }
            )
    }

    /// True for a task of an array that never started for all we know, and that the queue lacked before.
    fn has_vanished(&self, record: Option<&JobReport>) -> bool {
        evidence::never_started(self.row)
            // Accounting keeps the list of waiting tasks as it was when one of them last started.
            && record.is_none_or(|record| matches!(record.phase, Phase::Queued | Phase::Held))
            && self
                .row
                .missing_since
                .is_some_and(|since| self.now - since >= VANISHED_AFTER)
    }

    fn cancelled_while_it_waited(&self) -> Option<Change> {
        let (status, reason) = match self.outputs(self.row.submitted_at) {
            Outputs::Complete { .. } => (TaskStatus::Complete, Reason::Verified),
            Outputs::Unreadable => return None,
            Outputs::Missing | Outputs::NoRule => (TaskStatus::Failed, Reason::Cancelled),
        };
        Some(self.change(status, reason, JobFacts::default(), None))
    }

    fn unknown_for_now(&self, since: Option<DateTime<Utc>>) -> Change {
        self.change(
            self.row.status,
            Reason::Unaccounted,
            JobFacts::default(),
            since.or(Some(self.now)),
        )
    }

    /// Looks at the disk. Outputs that were there before the job prove nothing unless one of them
    /// is newer than its start.
    fn outputs(&self, started: Option<DateTime<Utc>>) -> Outputs {
        let replaces = self.row.replaces_outputs == Some(true);
        match self.disk.outputs(&self.row.key, replaces) {
            Outputs::Complete { newest } if replaces => {
                let slack = Duration::seconds(5);
                match (newest, started) {
                    (Some(newest), Some(started)) if newest >= started - slack => {
                        Outputs::Complete {
                            newest: Some(newest),
                        }
                    }
                    _ => Outputs::Missing,
                }
            }
            other => other,
        }
    }

    fn change(
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
fn live_status(phase: Phase) -> Option<(TaskStatus, Reason)> {
    match phase {
        Phase::Queued => Some((TaskStatus::Pending, Reason::Queued)),
        Phase::Held => Some((TaskStatus::Pending, Reason::Held)),
        Phase::Running => Some((TaskStatus::Running, Reason::Running)),
        Phase::Suspended => Some((TaskStatus::Running, Reason::Suspended)),
        Phase::Unknown | Phase::Completed | Phase::Failed(_) => None,
    }
}

/// Leaves out what changes at every look at a living job, or has not happened yet.
fn live_facts(job: &JobReport) -> JobFacts {
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
