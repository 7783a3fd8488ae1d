//! What queue and accounting answered about each row's submission.
//!
//! Pure. Which report is about which submission is decided here; what it means is decided in
//! [`super`]. The tag wins over the job id, and names prove nothing: plugins, scripts and people
//! change them.

mod identity;

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use crate::executor::{ACCOUNTING_LAG, Answer, JobReport, Observation, Phase};
use crate::model::job::{JobId, JobRef, array};
use crate::model::state::{Reason, State, TaskRow, TaskStatus};
use identity::{array_of, is_meant, is_stranger, lacks_tag, may_be_own, stands_for};
pub(super) use identity::{is_own, is_resubmission, job_number, never_started, shares_array};

/// A job at a multi-cluster site: each cluster counts by itself.
type Place<'a> = (&'a str, Option<&'a str>);

/// The answers of one pass.
pub(super) struct Evidence<'a> {
    /// `None` if the query failed.
    pub(super) queue: Option<Index<'a>>,
    pub(super) accounting: Accounting<'a>,
    of_other_executor: &'a [JobId],
}

pub(super) enum Accounting<'a> {
    Got(Index<'a>),
    Failed,
    Off,
}

/// What the queue shows of a submission.
pub(super) enum Queued<'a> {
    Live(&'a JobReport),
    Ended(&'a JobReport),
    Absent,
}

/// What accounting shows of a submission.
pub(super) enum Recorded<'a> {
    /// The end of its latest run.
    Ended(&'a JobReport),
    /// No such end: nothing, a job that is alive, or the end of an earlier run.
    Open(Option<&'a JobReport>),
    Failed,
    Off,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(observation: &'a Observation) -> Self {
        Self {
            queue: observation.queue.got().map(|jobs| Index::new(jobs)),
            accounting: match &observation.accounting {
                Answer::Got(records) => Accounting::Got(Index::new(records)),
                Answer::Failed(_) => Accounting::Failed,
                Answer::Off => Accounting::Off,
            },
            of_other_executor: &observation.of_other_executor,
        }
    }

    /// True if accounting answered with any record. An empty answer may be that of a broken database.
    pub(super) fn is_proven(&self) -> bool {
        matches!(&self.accounting, Accounting::Got(records) if !records.reports.is_empty())
    }

    /// True if nobody who was asked can know the row's job.
    pub(super) fn is_of_other_executor(&self, row: &TaskRow) -> bool {
        let id = row.job_id.as_ref();
        id.is_some_and(|id| self.of_other_executor.contains(id))
    }

    /// All answers, the queue's first.
    pub(super) fn indexes(&self) -> impl Iterator<Item = &Index<'a>> {
        let records = match &self.accounting {
            Accounting::Got(records) => Some(records),
            Accounting::Failed | Accounting::Off => None,
        };
        self.queue.iter().chain(records)
    }

    /// `None` if the query failed.
    pub(super) fn queued(&self, row: &TaskRow) -> Option<Queued<'a>> {
        let is_its = |job: &JobReport| match row.is_in_flight() {
            // An untagged job that keeps a row in flight does no harm, even if it is another one.
            true => may_be_own(row, job) && !self.is_foreign(row, job),
            // One that brings back a job whose end is known does: it may have got a recycled id.
            false => is_own(row, job) && (row.facts.ended_at.is_none() || !is_stranger(row, job)),
        };
        Some(match self.queue.as_ref()?.decisive(row, is_its) {
            Some(job) if job.phase.is_live() => Queued::Live(job),
            Some(job) => Queued::Ended(job),
            None => Queued::Absent,
        })
    }

    /// True for an untagged job in the queue whose submit line is not that of the row.
    fn is_foreign(&self, row: &TaskRow, job: &JobReport) -> bool {
        let Accounting::Got(records) = &self.accounting else {
            return false;
        };
        lacks_tag(row, job) && records.tagged(row).next().is_some()
    }

    pub(super) fn jobs_to_end(&self, row: &TaskRow) -> Option<Vec<JobRef>> {
        let (id, cluster) = (row.job_id.as_ref()?, row.facts.cluster.as_deref());
        let is_alive = |job: &&JobReport| job.phase.is_live();
        let queue = || self.queue.iter();
        let mut jobs: Vec<&JobReport> = queue().flat_map(|queue| queue.tagged(row)).collect();
        jobs.retain(is_alive);
        if jobs.is_empty() {
            jobs = queue()
                .flat_map(|queue| queue.at(id.as_str(), cluster))
                .collect();
            if jobs.iter().any(|job| !is_meant(row, job)) {
                return None;
            }
            jobs.retain(is_alive);
        }
        // Parts of a heterogeneous job end together.
        let mut references: Vec<JobRef> = jobs
            .into_iter()
            .map(|job| JobRef {
                id: JobId::new(job.id.leader()),
                cluster: job.facts.cluster.clone(),
            })
            .collect();
        references.dedup();
        if references.is_empty() {
            // Slurm shows no such job, so asking for its end does no harm.
            references.push(JobRef {
                id: id.clone(),
                cluster: row.facts.cluster.clone(),
            });
        }
        Some(references)
    }

    pub(super) fn recorded(&self, row: &TaskRow, queued: &Queued<'_>) -> Recorded<'a> {
        let records = match &self.accounting {
            Accounting::Got(records) => records,
            Accounting::Failed => return Recorded::Failed,
            Accounting::Off => return Recorded::Off,
        };
        match records.decisive(row, |job| is_own(row, job)) {
            // A line of which only the id could be read.
            Some(record) if record.phase == Phase::Unknown && record.submitted_at.is_none() => {
                Recorded::Failed
            }
            Some(record)
                if !record.phase.is_live()
                    && !is_of_earlier_run(record, row, queued)
                    && (!lacks_tag(row, record) || row.reason == Some(Reason::Unaccounted)) =>
            {
                Recorded::Ended(record)
            }
            record => Recorded::Open(record),
        }
    }

    /// The job with a row's tag, if no job with the row's id has it: sbatch was misunderstood.
    pub(super) fn under_another_id(&self, row: &TaskRow) -> Option<&'a JobReport> {
        let own = job_number(row.job_id.as_ref()?);
        let tagged = || self.indexes().flat_map(|index| index.tagged(row));
        let is_known = tagged().any(|job| job_number(&job.id) == own);
        tagged()
            .filter(|_| !is_known)
            .min_by_key(|job| (job.submitted_at, &job.id))
    }

    /// True if the verdict rests on what accounting does not say (a job that ended without a trace of its
    /// script), and that may still arrive.
    pub(super) fn may_be_half_told(&self, ended: &JobReport, now: DateTime<Utc>) -> bool {
        ended.phase == Phase::Failed(Reason::LaunchFailed)
            && ended.facts.exit_code.as_deref() == Some("0:0")
            && self.may_still_come(ended, now)
    }

    /// True if accounting answers and will know of this end soon, with its exit code.
    pub(super) fn may_still_come(&self, ended: &JobReport, now: DateTime<Utc>) -> bool {
        matches!(self.accounting, Accounting::Got(_))
            && ended
                .facts
                .ended_at
                .is_some_and(|end| now - end < ACCOUNTING_LAG)
    }

    /// True if queue or accounting show another task of a waiting task's array, and accounting has no start of
    /// this one: the array was accepted whole, and Slurm forgets a task that was cancelled while it waited.
    pub(super) fn was_cancelled_in_array(&self, row: &TaskRow, record: Option<&JobReport>) -> bool {
        // Accounting keeps the list of waiting tasks as it was when one of them last started.
        let is_waiting =
            record.is_none_or(|record| matches!(record.phase, Phase::Queued | Phase::Held));
        self.is_proven()
            && never_started(row)
            && is_waiting
            && self.indexes().any(|index| index.has_array_of(row))
    }
}

/// One answer, indexed by job and by tag.
pub(super) struct Index<'a> {
    pub(super) reports: &'a [JobReport],
    by_place: HashMap<Place<'a>, Vec<&'a JobReport>>,
    by_tag: HashMap<&'a str, Vec<&'a JobReport>>,
    by_array: HashMap<Place<'a>, Vec<&'a JobReport>>,
}

impl<'a> Index<'a> {
    fn new(reports: &'a [JobReport]) -> Self {
        let mut index = Self {
            reports,
            by_place: HashMap::new(),
            by_tag: HashMap::new(),
            by_array: HashMap::new(),
        };
        for job in reports {
            let cluster = job.facts.cluster.as_deref();
            let place = (job.id.leader(), cluster);
            index.by_place.entry(place).or_default().push(job);
            if let Some(tag) = &job.tag {
                let tagged = index.by_tag.entry(&tag.submission_id).or_default();
                tagged.push(job);
            }
            if let Some((array, _)) = array::split_job_id(&job.id) {
                index
                    .by_array
                    .entry((array, cluster))
                    .or_default()
                    .push(job);
            }
        }
        index
    }

    /// The reports that carry a row's tag.
    pub(super) fn tagged(&self, row: &TaskRow) -> impl Iterator<Item = &'a JobReport> {
        let tag = row.submission_id.as_deref();
        let jobs = tag.and_then(|tag| self.by_tag.get(tag));
        jobs.into_iter().flatten().copied()
    }

    fn at(&self, id: &str, cluster: Option<&str>) -> Vec<&'a JobReport> {
        self.by_place
            .get(&(id, cluster))
            .cloned()
            .unwrap_or_default()
    }

    /// The report that decides about a row: of several parts or jobs one that is alive, else one that failed.
    fn decisive(
        &self,
        row: &TaskRow,
        is_its: impl Fn(&JobReport) -> bool,
    ) -> Option<&'a JobReport> {
        let (id, cluster) = (row.job_id.as_ref()?, row.facts.cluster.as_deref());
        let mut found: Vec<&'a JobReport> = self.tagged(row).collect();
        if found.is_empty() {
            found = self.at(id.as_str(), cluster);
            found.retain(|job| is_its(job));
        }
        if found.is_empty()
            && let Some(array) = array_of(row)
        {
            found = self.at(array, cluster);
            found.retain(|job| is_its(job) && stands_for(row, job));
        }
        let mut latest: HashMap<(&JobId, Option<&str>), &'a JobReport> = HashMap::new();
        for job in found {
            let run = latest.entry((&job.id, job.facts.cluster.as_deref()));
            let run = run.or_insert(job);
            // Of two in one second, accounting shows the later one last.
            if run.submitted_at <= job.submitted_at {
                *run = job;
            }
        }
        latest.into_values().min_by_key(|job| {
            let rank = match job.phase {
                Phase::Completed => 2,
                Phase::Failed(_) => 1,
                _ => 0,
            };
            (rank, job.id != *id, &job.id, &job.facts.cluster)
        })
    }

    fn has_array_of(&self, row: &TaskRow) -> bool {
        let Some(array) = array_of(row) else {
            return false;
        };
        let tasks = self.by_array.get(&(array, row.facts.cluster.as_deref()));
        tasks.into_iter().flatten().any(|job| match &job.tag {
            Some(tag) => shares_array(row, &tag.submission_id),
            None => is_own(row, job),
        })
    }
}

/// True for the end of a run after which the job came back: accounting may know of the later run much
/// later than the queue.
fn is_of_earlier_run(record: &JobReport, row: &TaskRow, queued: &Queued<'_>) -> bool {
    let (started, ended) = (record.facts.started_at, record.facts.ended_at);
    let was_submitted_again = match queued {
        Queued::Live(job) | Queued::Ended(job) => is_resubmission(record, job),
        Queued::Absent => false,
    };
    // Its own end can lie before its own start, when a clock was set back meanwhile.
    let has_started_again = row.facts.started_at != started
        && row
            .facts
            .started_at
            .is_some_and(|start| ended.is_some_and(|ended| start > ended));
    // It was seen waiting after that start.
    let waits_again =
        row.status == TaskStatus::Pending && started.is_some() && row.facts.started_at == started;
    was_submitted_again || has_started_again || waits_again
}

/// Jobs that rows own: no other row may adopt them by their name.
pub(super) fn is_owned(rows: &State, job: &JobReport) -> bool {
    rows.rows().iter().any(|row| {
        row.job_id.as_ref() == Some(&job.id)
            && row.facts.cluster == job.facts.cluster
            && row.job_name.as_deref().is_none_or(|name| name == job.name)
    })
}
