//! The change of one row for each combination of answers. The jobs of submissions in doubt are adopted; tags that a site
//! has truncated are completed before.

use std::collections::HashSet;

use chrono::{DateTime, Duration, Utc};

use super::evidence::{self, Evidence, shares_array};
use super::{OutputSource, Outputs, Patience, Reconciled};
use crate::executor::{Answer, JobReport, Observation, Phase};
use crate::model::job::JobId;
use crate::model::job::array::{self, split_job_id, split_task_id};
use crate::model::procedure::SubmitRules;
use crate::model::state::transition::{Cause, Change};
use crate::model::state::{CLOCK_SLACK, JobFacts, Reason, RetryState, State, TaskRow, TaskStatus};

/// The file server's clock may be behind Slurm's by this much.
const FILE_CLOCK_SLACK: Duration = Duration::seconds(5);

/// One row, with everything that decides about it.
pub(super) struct Verdict<'a> {
    pub(super) row: &'a TaskRow,
    pub(super) disk: &'a dyn OutputSource,
    pub(super) patience: &'a Patience,
    pub(super) now: DateTime<Utc>,
}

impl Verdict<'_> {
    /// A job that is pending again after a run in accounting keeps that run's start, so that the run's end is ignored.
    pub(super) fn live(&self, job: &JobReport, record: Option<&JobReport>) -> Option<Change> {
        let (to, reason) = match live_status(job.phase) {
            Some(known) => known,
            None => (self.row.status, self.row.reason?),
        };
        let mut facts = live_facts(job);
        if let Some(record) = record
            && to == TaskStatus::Pending
            && evidence::is_resubmission(record, job)
        {
            facts.started_at = record.facts.started_at;
        }
        Some(self.change(to, reason, facts, None))
    }

    /// Records the start of a run whose end is not decided yet, because the queue will soon forget it. A job that was
    /// cancelled before it ran has its end as its start.
    pub(super) fn started_at_least(&self, job: &JobReport) -> Option<Change> {
        let started = job.facts.started_at;
        let is_cancelled = job.phase == Phase::Failed(Reason::Cancelled);
        let facts = JobFacts {
            started_at: Some(started.filter(|_| !is_cancelled || started != job.facts.ended_at)?),
            ..JobFacts::default()
        };
        Some(self.change(TaskStatus::Running, Reason::Running, facts, None))
    }

    pub(super) fn ended(&self, job: &JobReport) -> Option<Change> {
        let (facts, started) = (job.facts.clone(), job.facts.started_at.or(job.submitted_at));
        let reason = match job.phase {
            Phase::Completed => return Some(self.ended_well(facts, started)),
            Phase::Failed(reason) => reason,
            _ => return None,
        };
        let is_accepted = self.rules().is_some_and(|rules| rules.accept_outputs)
            && matches!(self.outputs(started), Outputs::Complete { .. });
        let (to, reason) = match is_accepted {
            true => (TaskStatus::Complete, Reason::Verified),
            false => (TaskStatus::Failed, reason),
        };
        Some(self.change(to, reason, facts, None))
    }

    /// The end of a job, seen by an earlier pass.
    pub(super) fn awaited(&self) -> Option<Change> {
        let facts = JobFacts {
            ended_at: self.row.facts.ended_at,
            ..JobFacts::default()
        };
        Some(self.ended_well(facts, self.started()))
    }

    /// The end of a job whose row was finished without it.
    pub(super) fn corrected(&self, job: &JobReport) -> Option<Change> {
        if (self.row.status, job.phase) == (TaskStatus::Complete, Phase::Completed) {
            return Some(self.change(self.row.status, self.row.reason?, job.facts.clone(), None));
        }
        // Waiting for outputs changes nothing.
        self.ended(job).filter(|change| !change.to.is_in_flight())
    }

    fn ended_well(&self, facts: JobFacts, started: Option<DateTime<Utc>>) -> Change {
        // Many programs do not rewrite complete results, so their age only counts if they may come from a failed attempt,
        // or may lack a later session.
        let may_be_stale = self.rules().is_some_and(|rules| rules.rerun_when_stale);
        let outputs = match may_be_stale || self.row.retry != RetryState::default() {
            true => self.outputs(started),
            false => self.disk.outputs(&self.row.key, false),
        };
        let (to, reason, since) = match outputs {
            Outputs::Complete { .. } => (TaskStatus::Complete, Reason::Verified, None),
            Outputs::NoRule => (TaskStatus::Complete, Reason::Unverified, None),
            // The job has ended, but its outputs are unknown.
            Outputs::Unreadable => {
                let since = self.row.missing_since;
                (TaskStatus::Running, Reason::AwaitingOutput, since)
            }
            Outputs::Missing => {
                let since = self.row.missing_since.unwrap_or(self.now);
                let ended = facts.ended_at.unwrap_or(since);
                match self.now - ended < self.disk.output_grace(&self.row.key) {
                    true => (TaskStatus::Running, Reason::AwaitingOutput, Some(since)),
                    false => (TaskStatus::Failed, Reason::NoOutput, Some(since)),
                }
            }
        };
        self.change(to, reason, facts, since)
    }

    /// The job is not in the queue, and accounting has no end of it, but perhaps another `record`. After some time,
    /// existing outputs decide alone; a little later, missing ones do, and the row fails for `reason`.
    pub(super) fn absent(
        &self,
        record: Option<&JobReport>,
        outputs_after: Duration,
        lost_after: Duration,
        reason: Reason,
    ) -> Option<Change> {
        if !self.has_been_missing_for(outputs_after) {
            return Some(self.unknown_for_now());
        }
        let without_end =
            |to, reason| self.change(to, reason, JobFacts::default(), self.row.missing_since);
        match self.outputs(self.started()) {
            Outputs::Complete { .. } => Some(without_end(TaskStatus::Complete, Reason::Verified)),
            Outputs::Unreadable => None,
            Outputs::Missing | Outputs::NoRule if !self.has_been_missing_for(lost_after) => {
                Some(self.unknown_for_now())
            }
            // Nothing newer arrived: the end of the earlier run was the job's, and clocks were wrong.
            Outputs::Missing | Outputs::NoRule => record
                .and_then(|record| self.ended(record))
                .or_else(|| Some(without_end(TaskStatus::Failed, reason))),
        }
    }

    pub(super) fn unknown_for_now(&self) -> Change {
        self.change(
            self.row.status,
            Reason::Unaccounted,
            JobFacts::default(),
            self.missing_since().or(Some(self.now)),
        )
    }

    fn has_been_missing_for(&self, grace: Duration) -> bool {
        let missing_since = self.missing_since();
        missing_since.is_some_and(|since| self.now - since >= grace)
    }

    /// A time in the future was written by a wrong clock; the time counts from now on.
    fn missing_since(&self) -> Option<DateTime<Utc>> {
        self.row.missing_since.filter(|since| *since <= self.now)
    }

    fn started(&self) -> Option<DateTime<Utc>> {
        self.row.facts.started_at.or(self.row.submitted_at)
    }

    /// The outputs on disk. Outputs that existed before the job do not count unless one of them is newer than its start.
    pub(super) fn outputs(&self, started: Option<DateTime<Utc>>) -> Outputs {
        let replaces = self.row.replaces_outputs == Some(true);
        match self.disk.outputs(&self.row.key, replaces) {
            Outputs::Complete { newest }
                if replaces
                    && (newest.zip(started))
                        .is_none_or(|(newest, started)| newest < started - FILE_CLOCK_SLACK) =>
            {
                Outputs::Missing
            }
            other => other,
        }
    }

    fn rules(&self) -> Option<&SubmitRules> {
        self.disk.rules(&self.row.key)
    }

    /// Only sets the row's job id; the next pass updates the row as usual.
    pub(super) fn adoption(&self, id: JobId, job: &JobReport) -> Change {
        let (to, reason) = match (live_status(job.phase), self.row.reason) {
            (Some(known), _) => known,
            (None, Some(reason)) if !self.row.is_in_doubt() => (self.row.status, reason),
            (None, _) => (TaskStatus::Pending, Reason::Queued),
        };
        Change {
            cause: Cause::Adoption(id),
            ..self.change(to, reason, live_facts(job), None)
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
            facts,
            missing_since,
            ..Change::of(self.row, Cause::Verdict, to, reason)
        }
    }
}

/// Status and reason of a live job; `None` to keep the row's.
pub(super) fn live_status(phase: Phase) -> Option<(TaskStatus, Reason)> {
    match phase {
        Phase::Queued => Some((TaskStatus::Pending, Reason::Queued)),
        Phase::Held => Some((TaskStatus::Pending, Reason::Held)),
        Phase::Running => Some((TaskStatus::Running, Reason::Running)),
        Phase::Suspended => Some((TaskStatus::Running, Reason::Suspended)),
        Phase::Unknown | Phase::Completed | Phase::Failed(_) => None,
    }
}

/// Removes facts that change with every query, or have not happened yet.
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

/// Adopts the job of a submission in doubt, or releases it after two clean answers.
pub(super) fn resolve_doubt(
    verdict: &Verdict<'_>,
    rows: &State,
    evidence: &Evidence<'_>,
    out: &mut Reconciled,
) {
    let (row, now) = (verdict.row, verdict.now);
    if let Some(job) = find(row, rows, evidence) {
        out.changes.push(verdict.adoption(job.id.clone(), job));
        return;
    }
    // An array is accepted as a whole, so one of its reports gives the job ids of all its tasks.
    if let Some((id, array)) = find_array(row, evidence) {
        out.changes.push(Change {
            to: TaskStatus::Pending,
            reason: Reason::Queued,
            facts: JobFacts {
                cluster: array.facts.cluster.clone(),
                ..JobFacts::default()
            },
            ..verdict.adoption(id, array)
        });
        return;
    }
    // Only two clean answers of both sources, far enough apart, prove that no job exists: the first answer of a frozen
    // controller proves nothing, and neither does accounting without any job.
    if evidence.queue.is_none() || !(evidence.is_without_accounting() || evidence.is_proven()) {
        return;
    }
    // A time in the future was written by a wrong clock.
    match row.missing_since.filter(|since| *since <= now) {
        Some(since) if now - since >= verdict.patience.settle_time => {
            out.released.push(row.key.clone());
        }
        Some(_) => {}
        None => {
            let (to, reason) = (TaskStatus::Pending, Reason::Submitting);
            let since = Some(now);
            (out.changes).push(verdict.change(to, reason, JobFacts::default(), since));
        }
    }
}

/// Finds the job of a submission by its tag. Only for records of a Slurm without command lines (before 21.08), by exact
/// name and time; then never a job of another row.
fn find<'a>(row: &TaskRow, rows: &State, evidence: &Evidence<'a>) -> Option<&'a JobReport> {
    let index = split_task_id(row.submission_id.as_deref()?).map(|(_, index)| index);
    let is_named = |job: &&JobReport| {
        has_name_only(row, job)
            // The tasks of an array share their name.
            && (index.is_none() || split_job_id(&job.id).map(|(_, index)| index) == index)
            && row.submitted_at.is_some_and(|intent| {
                job.submitted_at.is_some_and(|submitted| submitted >= intent - CLOCK_SLACK)
            })
    };
    let is_place = |id: &JobId, cluster: &Option<_>, job: &JobReport| {
        *id == job.id && *cluster == job.facts.cluster
    };
    // The queue always shows comments: an untagged job there is not ours.
    let is_queued = |job: &JobReport| {
        let mut queue = evidence.queue.iter().flat_map(|queue| queue.reports);
        queue.any(|queued| is_place(&queued.id, &queued.facts.cluster, job))
    };
    // No other row may adopt the job of a row by its name.
    let is_owned = |job: &JobReport| {
        rows.rows().iter().any(|row| {
            (row.job_id.as_ref()).is_some_and(|id| is_place(id, &row.facts.cluster, job))
                && row.job_name.as_deref().is_none_or(|name| name == job.name)
        })
    };
    let tagged = evidence.indexes().flat_map(|index| index.tagged(row));
    tagged.min_by_key(|job| job.submitted_at).or_else(|| {
        let records = evidence.accounting.iter();
        let named = records.flat_map(|records| records.reports).filter(is_named);
        named
            .filter(|job| !is_queued(job) && !is_owned(job))
            // The task's previous attempt may be one of them.
            .min_by_key(|job| Some((job.submitted_at? - row.submitted_at?).abs()))
    })
}

/// True for a record with the row's job name whose command line, and so its tag, is unknown.
fn has_name_only(row: &TaskRow, job: &JobReport) -> bool {
    job.tag.is_none() && !job.has_submit_line && row.job_name.as_deref() == Some(&*job.name)
}

/// Finds the array of a task whose own job is not reported: by the tag that its tasks share, or else, in records without
/// tag, by its unique name. Returns the id that the task's job must have.
fn find_array<'a>(row: &TaskRow, evidence: &Evidence<'a>) -> Option<(JobId, &'a JobReport)> {
    let (_, index) = split_task_id(row.submission_id.as_deref()?)?;
    evidence
        .indexes()
        .flat_map(|index| index.reports)
        .filter(|job| match &job.tag {
            Some(tag) => shares_array(row, &tag.submission_id),
            None => has_name_only(row, job),
        })
        .map(|job| {
            let base = split_job_id(&job.id).map_or(job.id.as_str(), |(base, _)| base);
            (JobId::new(&format!("{base}_{index}")), job)
        })
        .min_by(|(a, _), (b, _)| a.cmp(b))
}

/// The number of digits of a submission id that are unique.
const UNAMBIGUOUS: usize = 8;

/// Completes truncated tags.
pub fn complete_tags(observation: &mut Observation, rows: &State) {
    for answer in [&mut observation.queue, &mut observation.accounting] {
        let Answer::Got(jobs) = answer else { continue };
        for job in jobs {
            let cut = job.tag.as_ref().filter(|tag| tag.is_cut());
            let complete = cut.and_then(|tag| complete_id(&tag.submission_id, job, rows));
            if let (Some(tag), Some(complete)) = (&mut job.tag, complete) {
                tag.submission_id = complete;
            }
        }
    }
}

/// For the row with the job's id, any beginning is enough.
fn complete_id(cut: &str, job: &JobReport, rows: &State) -> Option<String> {
    let index = split_job_id(&job.id).map(|(_, index)| index);
    let mut found = HashSet::new();
    for row in rows.rows() {
        let id = row.submission_id.as_deref();
        let Some(id) = id.filter(|id| id.starts_with(cut)) else {
            continue;
        };
        let is_own = row.job_id.as_ref() == Some(&job.id) && row.facts.cluster == job.facts.cluster;
        if is_own {
            return Some(id.to_owned());
        }
        found.insert(split_task_id(id).map_or(id, |(array, _)| array));
    }
    let mut found = found.into_iter();
    let digits = cut.trim_start_matches("array-").len();
    let (Some(id), None, true) = (found.next(), found.next(), digits >= UNAMBIGUOUS) else {
        return None;
    };
    Some(match index.filter(|_| array::is_array_id(id)) {
        Some(index) => array::task_id(id, index),
        None => id.to_owned(),
    })
}
