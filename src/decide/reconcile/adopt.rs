//! Submissions in doubt: their jobs are adopted, or they are released after two clean answers. Tags that a site has
//! truncated are completed before.

use std::collections::HashSet;

use chrono::{DateTime, Utc};

use super::evidence::{Evidence, shares_array};
use super::{Patience, Reconciled, live_facts, live_status};
use crate::executor::{Answer, JobReport, Observation};
use crate::model::job::JobId;
use crate::model::job::array::{self, split_job_id, split_task_id};
use crate::model::state::transition::{Cause, Change};
use crate::model::state::{CLOCK_SLACK, JobFacts, Reason, State, TaskRow, TaskStatus};

pub(super) fn resolve_doubt(
    row: &TaskRow,
    rows: &State,
    evidence: &Evidence<'_>,
    patience: &Patience,
    now: DateTime<Utc>,
    out: &mut Reconciled,
) {
    if let Some(job) = find(row, rows, evidence) {
        out.changes.push(adoption(row, job.id.clone(), job));
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
            ..adoption(row, id, array)
        });
        return;
    }
    // Only two clean answers of both sources, far enough apart, prove that no job exists: the first answer of a frozen
    // controller proves nothing, and neither does accounting without any job.
    let is_off = matches!(evidence.accounting, Answer::Off);
    if evidence.queue.is_none() || !(is_off || evidence.is_proven()) {
        return;
    }
    // A time in the future was written by a wrong clock.
    match row.missing_since.filter(|since| *since <= now) {
        Some(since) if now - since >= patience.settle_time => out.released.push(row.key.clone()),
        Some(_) => {}
        None => out.changes.push(Change {
            key: row.key.clone(),
            about: None,
            cause: Cause::Verdict,
            to: TaskStatus::Pending,
            reason: Reason::Submitting,
            facts: JobFacts::default(),
            missing_since: Some(now),
        }),
    }
}

/// Only sets the row's job id; the next pass updates the row as usual.
pub(super) fn adoption(row: &TaskRow, id: JobId, job: &JobReport) -> Change {
    let (to, reason) = match (live_status(job.phase), row.reason) {
        (Some(known), _) => known,
        (None, Some(reason)) if !row.is_in_doubt() => (row.status, reason),
        (None, _) => (TaskStatus::Pending, Reason::Queued),
    };
    Change {
        key: row.key.clone(),
        about: row.job_id.clone(),
        cause: Cause::Adoption(id),
        to,
        reason,
        facts: live_facts(job),
        missing_since: None,
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
    let records = evidence
        .accounting
        .got()
        .map_or(&[][..], |records| records.reports);
    // The queue always shows comments: an untagged job there is not ours.
    let is_queued = |job: &JobReport| {
        let queue = evidence.queue.iter().flat_map(|queue| queue.reports);
        queue
            .into_iter()
            .any(|queued| queued.id == job.id && queued.facts.cluster == job.facts.cluster)
    };
    let tagged = evidence.indexes().flat_map(|index| index.tagged(row));
    tagged.min_by_key(|job| job.submitted_at).or_else(|| {
        let named = records.iter().filter(is_named);
        named
            .filter(|job| !is_queued(job) && !is_owned(rows, job))
            // The task's previous attempt may be one of them.
            .min_by_key(|job| Some((job.submitted_at? - row.submitted_at?).abs()))
    })
}

/// True for a record with the row's job name whose command line, and so its tag, is unknown.
fn has_name_only(row: &TaskRow, job: &JobReport) -> bool {
    job.tag.is_none() && !job.has_submit_line && row.job_name.as_deref() == Some(&*job.name)
}

/// True for a row's job, which no other row may adopt by its name.
fn is_owned(rows: &State, job: &JobReport) -> bool {
    rows.rows().iter().any(|row| {
        row.job_id.as_ref() == Some(&job.id)
            && row.facts.cluster == job.facts.cluster
            && row.job_name.as_deref().is_none_or(|name| name == job.name)
    })
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
        let Some(id) = row
            .submission_id
            .as_deref()
            .filter(|id| id.starts_with(cut))
        else {
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
