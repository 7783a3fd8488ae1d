//! Submissions in doubt: found and adopted, or released after two clean answers.

use chrono::{DateTime, Utc};

use super::evidence::{Evidence, Source};
use super::{Patience, Reconciled, live_facts};
use crate::executor::{JobReport, Phase};
use crate::job::JobId;
use crate::job::array::{split_job_id, split_task_id};
use crate::state::transition::{Cause, Change};
use crate::state::{CLOCK_SLACK, JobFacts, Reason, TaskRow, TaskStatus};

/// Judges one row whose submission is in doubt.
pub(super) fn judge(
    row: &TaskRow,
    evidence: &Evidence<'_>,
    patience: &Patience,
    now: DateTime<Utc>,
    out: &mut Reconciled,
) {
    if let Some(job) = find(row, evidence) {
        out.changes.push(adoption(row, job.id.clone(), job));
        return;
    }
    // An array is taken whole, so one report of it names the jobs of all its tasks.
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
    // Only two clean answers of both sources, far enough apart, prove that there is no job: the
    // first answer of a frozen controller proves nothing.
    let clean = evidence.queue.is_some() && !matches!(evidence.accounting, Source::Failed);
    if !clean {
        return;
    }
    match row.missing_since {
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

/// An adopted job is judged like any other at the next look; here it only gets its id back.
fn adoption(row: &TaskRow, id: JobId, job: &JobReport) -> Change {
    let (to, reason) = match job.phase {
        Phase::Running | Phase::Suspended => (TaskStatus::Running, Reason::Running),
        _ => (TaskStatus::Pending, Reason::Queued),
    };
    Change {
        key: row.key.clone(),
        about: None,
        cause: Cause::Adoption(id),
        to,
        reason,
        facts: live_facts(job),
        missing_since: None,
    }
}

/// Finds the job of a submission: by its unique id; else, in records that carry no tag (Slurm
/// before 21.08), by exact name and time; then never one that another row owns. A mark needs no such
/// care: ids are recycled, and the other row's job may be long gone.
fn find<'a>(row: &TaskRow, evidence: &Evidence<'a>) -> Option<&'a JobReport> {
    let id = row.submission_id.as_deref()?;
    let in_queue = || {
        evidence
            .queue
            .iter()
            .flat_map(|queue| queue.values().copied())
    };
    let records = || {
        let by_place = match &evidence.accounting {
            Source::Got(by_place) => Some(by_place),
            Source::Failed | Source::Off => None,
        };
        by_place
            .into_iter()
            .flat_map(|by_place| by_place.values().flatten().copied())
    };
    let free = |job: &&'a JobReport| !evidence.is_owned(job);
    let tagged = |job: &&JobReport| job.tag.as_ref().is_some_and(|tag| tag.submission_id == id);
    let index = split_task_id(id).map(|(_, index)| index);
    let named = |job: &&JobReport| {
        job.tag.is_none()
            // The tasks of an array share their name.
            && (index.is_none() || split_job_id(&job.id).map(|(_, index)| index) == index)
            && row.job_name.as_deref() == Some(&*job.name)
            && job.submitted_at.is_some_and(|submitted| {
                row.submitted_at
                    .is_some_and(|intent| submitted >= intent - CLOCK_SLACK)
            })
    };
    // The queue always shows comments: an untagged job there is not ours.
    let known_to_queue = |job: &&JobReport| {
        in_queue().any(|queued| queued.id == job.id && queued.facts.cluster == job.facts.cluster)
    };
    in_queue()
        .chain(records())
        .filter(tagged)
        .min_by_key(|job| job.submitted_at)
        .or_else(|| {
            records()
                .filter(free)
                .filter(named)
                .filter(|job| !known_to_queue(job))
                // The task's attempt before may be one of them.
                .min_by_key(|job| Some((job.submitted_at? - row.submitted_at?).abs()))
        })
}

/// Finds the array of a task whose own job is not shown: by the mark that all its tasks share; else, in records
/// that carry none, by the name, which no other array has. Returns the id that the task's job must have.
fn find_array<'a>(row: &TaskRow, evidence: &Evidence<'a>) -> Option<(JobId, &'a JobReport)> {
    let (array, index) = split_task_id(row.submission_id.as_deref()?)?;
    let records = match &evidence.accounting {
        Source::Got(by_id) => Some(by_id),
        Source::Failed | Source::Off => None,
    };
    evidence
        .queue
        .iter()
        .flat_map(|queue| queue.values().copied())
        .chain(
            records
                .into_iter()
                .flat_map(|by_id| by_id.values().flatten().copied()),
        )
        .filter(|job| match &job.tag {
            Some(tag) => {
                tag.submission_id == array
                    || split_task_id(&tag.submission_id).is_some_and(|(other, _)| other == array)
            }
            None => row.job_name.as_deref() == Some(&*job.name),
        })
        .map(|job| {
            let base = split_job_id(&job.id).map_or(job.id.as_str(), |(base, _)| base);
            (JobId::new(&format!("{base}_{index}")), job)
        })
        .min_by(|(a, _), (b, _)| a.cmp(b))
}
