//! What queue and accounting answered, indexed so that each row finds its own job in it.
//!
//! Pure. Which record belongs to a row is decided here, and what it means for the row elsewhere.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Duration, Utc};

use crate::executor::{Answer, JobReport, Observation, Phase, Question};
use crate::job::{JobId, array};
use crate::state::{CLOCK_SLACK, Reason, State, TaskRow, TaskStatus};

/// How long after a job's end its record may take to arrive in accounting, seconds.
const ACCOUNTING_LAG_S: i64 = 60;

/// Names a job at a multi-cluster site: each cluster counts by itself.
pub(super) type Place<'a> = (&'a JobId, Option<&'a str>);

/// Holds the answers, indexed by job.
pub(super) struct Evidence<'a> {
    pub(super) queue: Option<HashMap<Place<'a>, &'a JobReport>>,
    /// The queue's living jobs by our mark: it names the job whatever its id and name became.
    marks: HashMap<&'a str, &'a JobReport>,
    pub(super) accounting: Source<'a>,
    /// True if accounting gave a job that it must know: an empty answer means something.
    pub(super) accounting_alive: bool,
    /// Arrays of which queue or accounting show a task, by array id and name of the array.
    arrays: HashSet<(&'a str, &'a str)>,
    /// Jobs that rows own, by place and name (ids are recycled; no name: written by another program):
    /// no other row may adopt them.
    owned: HashSet<(Place<'a>, Option<&'a str>)>,
}

pub(super) enum Source<'a> {
    Got(HashMap<Place<'a>, Vec<&'a JobReport>>),
    Failed,
    Off,
}

impl<'a> Evidence<'a> {
    pub(super) fn new(rows: &'a State, question: &Question, observation: &'a Observation) -> Self {
        let queue = observation
            .queue
            .got()
            .map(|jobs| jobs.iter().map(|job| (place(job), job)).collect());
        let accounting = match &observation.accounting {
            Answer::Got(records) => {
                let mut by_place: HashMap<Place<'_>, Vec<&JobReport>> = HashMap::new();
                for record in records {
                    by_place.entry(place(record)).or_default().push(record);
                }
                Source::Got(by_place)
            }
            Answer::Failed(_) => Source::Failed,
            Answer::Off => Source::Off,
        };
        let accounting_alive = match &accounting {
            Source::Got(by_place) => question.jobs.iter().chain(&question.canary).any(|job| {
                let cluster = job.cluster.as_deref();
                let is_known = |id: &JobId| by_place.contains_key(&(id, cluster));
                let array = || array::split_job_id(&job.id).map(|(id, _)| JobId::new(id));
                is_known(&job.id) || array().is_some_and(|id| is_known(&id))
            }),
            Source::Failed => false,
            Source::Off => true,
        };
        let records = match &observation.accounting {
            Answer::Got(records) => records.as_slice(),
            Answer::Failed(_) | Answer::Off => &[],
        };
        let arrays = observation
            .queue
            .got()
            .into_iter()
            .flatten()
            .chain(records)
            .filter_map(|job| Some((array::split_job_id(&job.id)?.0, job.name.as_str())))
            .collect();
        let marks = observation
            .queue
            .got()
            .into_iter()
            .flatten()
            .filter(|job| job.phase.is_live())
            .filter_map(|job| Some((job.tag.as_ref()?.submission_id.as_str(), job)))
            .collect();
        Self {
            queue,
            marks,
            arrays,
            accounting,
            accounting_alive,
            owned: rows
                .rows()
                .iter()
                .filter_map(|row| Some((place_of(row)?, row.job_name.as_deref())))
                .collect(),
        }
    }

    pub(super) fn is_owned(&self, job: &'a JobReport) -> bool {
        let place = place(job);
        self.owned.contains(&(place, Some(job.name.as_str())))
            || self.owned.contains(&(place, None))
    }

    /// Returns what the queue says of this row's job: none if the query failed, an inner none if
    /// the queue does not have the job.
    pub(super) fn in_queue(&self, row: &TaskRow) -> Option<Option<&'a JobReport>> {
        let queue = self.queue.as_ref()?;
        Some(
            place_of(row)
                .and_then(|place| queue.get(&place).copied())
                // A line of which only the id could be read says that there is a job, and no more.
                .filter(|job| fits(row, job) || job.phase == Phase::Unknown)
                .or_else(|| {
                    queue
                        .get(&(&array_of(row)?, row.facts.cluster.as_deref()))
                        .copied()
                        .filter(|job| stands_for(row, job))
                })
                .or_else(|| self.marks.get(row.submission_id.as_deref()?).copied()),
        )
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
        matches!(self.accounting, Source::Got(_))
            && ended
                .facts
                .ended_at
                .is_some_and(|end| now - end < Duration::seconds(ACCOUNTING_LAG_S))
    }

    /// Returns the newest record of this row's job.
    pub(super) fn in_accounting(&self, row: &TaskRow) -> Option<&'a JobReport> {
        let Source::Got(by_place) = &self.accounting else {
            return None;
        };
        let records = by_place.get(&place_of(row)?);
        let own = records
            .into_iter()
            .flatten()
            .copied()
            // A record that has only half arrived has no name yet, and says nothing.
            .filter(|job| fits(row, job) || job.phase == Phase::Unknown)
            .max_by_key(|job| job.submitted_at);
        own.or_else(|| {
            let array = array_of(row)?;
            let records = by_place.get(&(&array, row.facts.cluster.as_deref()));
            records
                .into_iter()
                .flatten()
                .copied()
                .filter(|job| stands_for(row, job))
                .max_by_key(|job| job.submitted_at)
        })
    }

    /// True if queue or accounting show another task of the row's array: the array was taken whole, and a
    /// task that stands in neither was cancelled while it waited. Slurm forgets such a one without a trace.
    /// Without accounting the queue alone says nothing of it: the task may have run between two passes.
    pub(super) fn knows_array_of(&self, row: &TaskRow) -> bool {
        if !matches!(self.accounting, Source::Got(_)) {
            return false;
        }
        let (Some(array), Some(name)) = (array_of(row), row.job_name.as_deref()) else {
            return false;
        };
        self.arrays.contains(&(array.as_str(), name))
    }
}

/// True if a report of an array as a whole is one of this task, too. Its end is that of the tasks which were
/// cancelled while they waited; those that started have an end of their own.
fn stands_for(row: &TaskRow, array: &JobReport) -> bool {
    fits(row, array) && (array.phase.is_live() || never_started(row))
}

pub(super) fn never_started(row: &TaskRow) -> bool {
    row.status == TaskStatus::Pending && row.facts.started_at.is_none()
}

/// Returns the job id of the array that a row's task belongs to. An array that has just been taken, one that
/// was cancelled before any task started, and one whose list of tasks was cut are reported under that.
fn array_of(row: &TaskRow) -> Option<JobId> {
    array::split_task_id(row.submission_id.as_deref()?)?;
    let (id, _) = array::split_job_id(row.job_id.as_ref()?)?;
    Some(JobId::new(id))
}

fn place(job: &JobReport) -> Place<'_> {
    (&job.id, job.facts.cluster.as_deref())
}

fn place_of(row: &TaskRow) -> Option<Place<'_>> {
    Some((row.job_id.as_ref()?, row.facts.cluster.as_deref()))
}

/// Job ids are recycled: a record counts only if its mark fits the row, or, where records carry none,
/// its name and submit time.
pub(super) fn fits(row: &TaskRow, job: &JobReport) -> bool {
    if let (Some(id), Some(tag)) = (&row.submission_id, &job.tag) {
        let is_array =
            array::split_task_id(id).is_some_and(|(array, _)| array == tag.submission_id);
        return is_array || **id == *tag.submission_id;
    }
    let name = match &row.job_name {
        Some(name) => same_name(name, &job.name),
        None => same_name(&row.key.job_name(), &job.name),
    };
    let time = match (row.submitted_at, job.submitted_at) {
        (Some(intent), Some(submitted)) => submitted >= intent - CLOCK_SLACK,
        _ => true,
    };
    name && time
}

/// Accounting keeps 255 bytes of a name (its column is a `tinytext`).
fn same_name(ours: &str, told: &str) -> bool {
    const KEPT: usize = 255;
    ours == told || told.len() >= KEPT && ours.starts_with(told)
}
