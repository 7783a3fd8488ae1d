//! Which reports of queue and accounting belong to which submission; [`super`] decides what they mean.
//!
//! The tag takes precedence over the job id. Names prove nothing: plugins, scripts and people change them.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use crate::executor::{ACCOUNTING_LAG, Answer, JobReport, Observation, Phase, SUBMIT_TIME_WINDOW};
use crate::model::job::{JobId, JobRef, array};
use crate::model::state::{Reason, TaskRow, TaskStatus};

/// A job id with its cluster: each cluster of a multi-cluster site has its own ids.
type Place<'a> = (&'a str, Option<&'a str>);

/// The answers of one pass.
pub(super) struct Evidence<'a> {
    /// `None` if the query failed.
    pub(super) queue: Option<Index<'a>>,
    /// The same, or if there is none.
    pub(super) accounting: Option<Index<'a>>,
    observation: &'a Observation,
}

/// A submission in the queue.
pub(super) enum Queued<'a> {
    Live(&'a JobReport),
    Ended(&'a JobReport),
    Absent,
}

/// A submission in accounting.
pub(super) enum Recorded<'a> {
    /// The end of its latest run.
    Ended(&'a JobReport),
    /// No such end, but nothing, a live job, or the end of an earlier run.
    Open(Option<&'a JobReport>),
    Failed,
    Off,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(observation: &'a Observation) -> Self {
        Self {
            queue: observation.queue.got().map(|jobs| Index::new(jobs)),
            accounting: observation.accounting.got().map(|jobs| Index::new(jobs)),
            observation,
        }
    }

    pub(super) fn is_without_accounting(&self) -> bool {
        self.observation.accounting == Answer::Off
    }

    /// True if accounting returned any record. An empty answer may come from a broken database.
    pub(super) fn is_proven(&self) -> bool {
        (self.accounting.as_ref()).is_some_and(|records| !records.reports.is_empty())
    }

    /// True if the row's job belongs to an executor that was not asked.
    pub(super) fn is_of_other_executor(&self, row: &TaskRow) -> bool {
        let id = row.job_id.as_ref();
        id.is_some_and(|id| self.observation.of_other_executor.contains(id))
    }

    /// All answers, the queue's first.
    pub(super) fn indexes(&self) -> impl Iterator<Item = &Index<'a>> {
        self.queue.iter().chain(&self.accounting)
    }

    /// `None` if the query failed.
    pub(super) fn queued(&self, row: &TaskRow) -> Option<Queued<'a>> {
        let is_its = |job: &JobReport| match row.is_in_flight() {
            // A wrong untagged job only keeps the row in flight, which does no harm.
            true => may_be_own(row, job) && !self.has_other_submit_line(row, job),
            // A job with a known end must not come back to life by another job with a recycled id.
            false => {
                is_own(row, job) && (row.facts.ended_at.is_none() || !has_other_name(row, job))
            }
        };
        Some(match self.queue.as_ref()?.decisive(row, is_its) {
            Some(job) if job.phase.is_live() => Queued::Live(job),
            Some(job) => Queued::Ended(job),
            None => Queued::Absent,
        })
    }

    /// True for an untagged job in the queue whose submit line is not the row's.
    fn has_other_submit_line(&self, row: &TaskRow, job: &JobReport) -> bool {
        let mut records = self.accounting.iter();
        lacks_tag(row, job) && records.any(|records| records.tagged(row).next().is_some())
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
            // By its tag, or by its name if tag and submit line are unknown: it may be a user's unrelated job.
            let is_its = |job: &JobReport| {
                let has_its_name = !job.has_submit_line && !has_other_name(row, job);
                is_own(row, job) && (carries_tag(row, job) || has_its_name)
            };
            if !jobs.iter().all(|job| is_its(job)) {
                return None;
            }
            jobs.retain(is_alive);
        }
        // Parts of a heterogeneous job are cancelled together.
        let mut references: Vec<JobRef> = jobs
            .into_iter()
            .map(|job| JobRef {
                id: JobId::new(job.id.leader()),
                cluster: job.facts.cluster.clone(),
            })
            .collect();
        references.dedup();
        if references.is_empty() {
            // Slurm does not show the job, so cancelling it does no harm.
            references.extend(row.job());
        }
        Some(references)
    }

    pub(super) fn recorded(&self, row: &TaskRow, queued: &Queued<'_>) -> Recorded<'a> {
        let Some(records) = &self.accounting else {
            return match self.is_without_accounting() {
                true => Recorded::Off,
                false => Recorded::Failed,
            };
        };
        match records.decisive(row, |job| is_own(row, job)) {
            // Only the id in this line could be parsed.
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

    /// The job with a row's tag, if no job with the row's id has it: the answer of sbatch was misread.
    pub(super) fn under_another_id(&self, row: &TaskRow) -> Option<&'a JobReport> {
        let own = row.job_id.as_ref()?.number();
        let tagged = || self.indexes().flat_map(|index| index.tagged(row));
        let is_known = tagged().any(|job| job.id.number() == own);
        tagged()
            .filter(|_| !is_known)
            .min_by_key(|job| (job.submitted_at, &job.id))
    }

    /// True for a job that ended without a trace of its script, while accounting may still deliver more.
    pub(super) fn may_be_incomplete(&self, ended: &JobReport, now: DateTime<Utc>) -> bool {
        ended.phase == Phase::Failed(Reason::LaunchFailed)
            && ended.facts.exit_code.as_deref() == Some("0:0")
            && self.may_still_come(ended, now)
    }

    /// True if accounting answers and will soon have this end, with its exit code.
    pub(super) fn may_still_come(&self, ended: &JobReport, now: DateTime<Utc>) -> bool {
        let ended = ended.facts.ended_at;
        self.accounting.is_some() && ended.is_some_and(|end| now - end < ACCOUNTING_LAG)
    }

    /// True if queue or accounting show another task of a pending task's array, and accounting has no start of this one:
    /// arrays are accepted as a whole, and Slurm forgets a task that was cancelled while pending.
    pub(super) fn was_cancelled_in_array(&self, row: &TaskRow, record: Option<&JobReport>) -> bool {
        // Accounting updates the list of pending tasks only when one of them starts.
        let is_waiting =
            record.is_none_or(|record| matches!(record.phase, Phase::Queued | Phase::Held));
        self.is_proven()
            && never_started(row)
            && is_waiting
            && self.indexes().any(|index| index.has_array_of(row))
    }
}

/// The reports of one answer, indexed by job and by tag.
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
                let tasks = index.by_array.entry((array, cluster)).or_default();
                tasks.push(job);
            }
        }
        index
    }

    /// The reports with a row's tag.
    pub(super) fn tagged(&self, row: &TaskRow) -> impl Iterator<Item = &'a JobReport> {
        let tag = row.submission_id.as_deref();
        let jobs = tag.and_then(|tag| self.by_tag.get(tag));
        jobs.into_iter().flatten().copied()
    }

    fn at(&self, id: &str, cluster: Option<&str>) -> Vec<&'a JobReport> {
        let jobs = self.by_place.get(&(id, cluster));
        jobs.cloned().unwrap_or_default()
    }

    /// The report that decides about a row: of several parts or jobs, a live one, or else a failed one.
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
            // The array's end applies to tasks that were cancelled while pending; tasks that started have their own end.
            found.retain(|job| is_its(job) && (job.phase.is_live() || never_started(row)));
        }
        let mut latest: HashMap<(&JobId, Option<&str>), &'a JobReport> = HashMap::new();
        for job in found {
            let run = latest.entry((&job.id, job.facts.cluster.as_deref()));
            let run = run.or_insert(job);
            // Of two in the same second, accounting lists the later one last.
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

/// True for the end of a run after which the job ran again: accounting may learn of the later run much later than the
/// queue.
fn is_of_earlier_run(record: &JobReport, row: &TaskRow, queued: &Queued<'_>) -> bool {
    let (started, ended) = (record.facts.started_at, record.facts.ended_at);
    let was_submitted_again = match queued {
        Queued::Live(job) | Queued::Ended(job) => is_resubmission(record, job),
        Queued::Absent => false,
    };
    let known = row.facts.started_at;
    // A run's end can be before its start if a clock was set back meanwhile.
    let has_started_again =
        known != started && known.zip(ended).is_some_and(|(start, ended)| start > ended);
    // It was seen pending after that start.
    let waits_again = row.status == TaskStatus::Pending && started.is_some() && known == started;
    was_submitted_again || has_started_again || waits_again
}

/// True if a report belongs to a row's submission as far as known: it has the row's tag or, where Slurm shows no tags, was
/// submitted at about that time.
pub(super) fn is_own(row: &TaskRow, job: &JobReport) -> bool {
    // A requeue moves Slurm's submit time forward.
    let times = [row.submitted_at, row.facts.started_at, row.facts.ended_at];
    let latest = times.into_iter().max().flatten();
    let is_recent = (latest.zip(job.submitted_at))
        .is_none_or(|(latest, submitted)| submitted <= latest + SUBMIT_TIME_WINDOW);
    may_be_own(row, job) && (is_recent || carries_tag(row, job))
}

/// True unless a report certainly belongs to another job with a recycled id.
fn may_be_own(row: &TaskRow, job: &JobReport) -> bool {
    match (&row.submission_id, &job.tag) {
        (Some(_), Some(_)) => carries_tag(row, job),
        _ => (row.submitted_at.zip(job.submitted_at))
            .is_none_or(|(intent, submitted)| submitted >= intent - SUBMIT_TIME_WINDOW),
    }
}

/// True for the row's own tag and for its array's.
fn carries_tag(row: &TaskRow, job: &JobReport) -> bool {
    let (Some(id), Some(tag)) = (&row.submission_id, &job.tag) else {
        return false;
    };
    let array = array::split_task_id(id).map(|(array, _)| array);
    **id == *tag.submission_id || array == Some(&tag.submission_id)
}

/// True for an untagged job whose name differs from the row's.
fn has_other_name(row: &TaskRow, job: &JobReport) -> bool {
    job.tag.is_none() && row.job_name.as_deref() != Some(&*job.name)
}

/// True if a job's command line is known and has no tag, so that another job may be the row's.
fn lacks_tag(row: &TaskRow, job: &JobReport) -> bool {
    job.has_submit_line && job.tag.is_none() && row.submission_id.is_some()
}

/// True for the submission id of a row's array or of another task of it.
pub(super) fn shares_array(row: &TaskRow, submission_id: &str) -> bool {
    let array = |id| array::split_task_id(id).map(|(array, _)| array);
    let own = row.submission_id.as_deref().and_then(array);
    own.is_some() && own == Some(array(submission_id).unwrap_or(submission_id))
}

/// True if the queue shows a later submission of a job than accounting.
pub(super) fn is_resubmission(record: &JobReport, queued: &JobReport) -> bool {
    record.submitted_at.is_some() && queued.submitted_at > record.submitted_at
}

pub(super) fn never_started(row: &TaskRow) -> bool {
    row.status == TaskStatus::Pending && row.facts.started_at.is_none()
}

/// The job id of a row's array. Arrays are reported under this id if they have just been accepted, were cancelled before
/// any task started, or have a truncated task list.
fn array_of(row: &TaskRow) -> Option<&str> {
    array::split_task_id(row.submission_id.as_deref()?)?;
    let (id, _) = array::split_job_id(row.job_id.as_ref()?)?;
    Some(id)
}
