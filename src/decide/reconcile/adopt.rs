//! Submissions in doubt: their jobs are adopted, or they are released after two clean answers. Tags that a site has
//! truncated are completed before.

use std::collections::HashSet;

use super::Reconciled;
use super::evidence::{Evidence, shares_array};
use super::verdict::Verdict;
use crate::executor::{Answer, JobReport, Observation};
use crate::model::job::JobId;
use crate::model::job::array::{self, split_job_id, split_task_id};
use crate::model::state::transition::Change;
use crate::model::state::{CLOCK_SLACK, JobFacts, Reason, State, TaskRow, TaskStatus};

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
