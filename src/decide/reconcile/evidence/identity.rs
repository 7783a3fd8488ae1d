//! Whether a report is about a row's job: by its tag, else by id and submit time. Names prove nothing.

use crate::executor::{JobReport, SUBMIT_TIME_WINDOW};
use crate::model::job::{JobId, array};
use crate::model::state::{TaskRow, TaskStatus};

/// True if a report is about a row's submission, as far as one can know: it carries the row's tag or, where Slurm
/// shows none, it was submitted at about that time.
pub(in crate::decide::reconcile) fn is_own(row: &TaskRow, job: &JobReport) -> bool {
    // A requeue moves Slurm's submit time forward.
    let times = [row.submitted_at, row.facts.started_at, row.facts.ended_at];
    let is_recent = match (times.into_iter().max().flatten(), job.submitted_at) {
        (Some(latest), Some(submitted)) => submitted <= latest + SUBMIT_TIME_WINDOW,
        _ => true,
    };
    may_be_own(row, job) && (is_recent || carries_tag(row, job))
}

/// True unless a report is certainly about another job with a recycled id.
pub(in crate::decide::reconcile) fn may_be_own(row: &TaskRow, job: &JobReport) -> bool {
    match (&row.submission_id, &job.tag) {
        (Some(_), Some(_)) => carries_tag(row, job),
        _ => match (row.submitted_at, job.submitted_at) {
            (Some(intent), Some(submitted)) => submitted >= intent - SUBMIT_TIME_WINDOW,
            _ => true,
        },
    }
}

/// True for the row's own tag and for that of its array as a whole.
pub(in crate::decide::reconcile) fn carries_tag(row: &TaskRow, job: &JobReport) -> bool {
    let (Some(id), Some(tag)) = (&row.submission_id, &job.tag) else {
        return false;
    };
    let array = array::split_task_id(id).map(|(array, _)| array);
    **id == *tag.submission_id || array == Some(&tag.submission_id)
}

/// True if a job with a row's id may be ended in its name: by its tag; where nothing shows one and its submit line is not
/// known, by its name. People have jobs of their own.
pub(in crate::decide::reconcile) fn is_meant(row: &TaskRow, job: &JobReport) -> bool {
    let has_its_name = !job.has_submit_line && !is_stranger(row, job);
    is_own(row, job) && (carries_tag(row, job) || has_its_name)
}

/// True for an untagged job that does not even have the row's name.
pub(in crate::decide::reconcile) fn is_stranger(row: &TaskRow, job: &JobReport) -> bool {
    job.tag.is_none() && row.job_name.as_deref() != Some(&*job.name)
}

/// True if the command line of a job is known and lacks the row's tag: another job may have it.
pub(in crate::decide::reconcile) fn lacks_tag(row: &TaskRow, job: &JobReport) -> bool {
    job.has_submit_line && job.tag.is_none() && row.submission_id.is_some()
}

/// True if the submission id is that of a row's array or of another task of it.
pub(in crate::decide::reconcile) fn shares_array(row: &TaskRow, submission_id: &str) -> bool {
    let array = |id| array::split_task_id(id).map(|(array, _)| array);
    let own = row.submission_id.as_deref().and_then(array);
    own.is_some() && own == Some(array(submission_id).unwrap_or(submission_id))
}

/// True if the queue shows a later submission of a job than a record.
pub(in crate::decide::reconcile) fn is_resubmission(
    record: &JobReport,
    queued: &JobReport,
) -> bool {
    record.submitted_at.is_some() && queued.submitted_at > record.submitted_at
}

/// True if a report of an array as a whole is one of this task, too. Its end is that of the tasks which were
/// cancelled while they waited; those that started have an end of their own.
pub(in crate::decide::reconcile) fn stands_for(row: &TaskRow, array: &JobReport) -> bool {
    array.phase.is_live() || never_started(row)
}

pub(in crate::decide::reconcile) fn never_started(row: &TaskRow) -> bool {
    row.status == TaskStatus::Pending && row.facts.started_at.is_none()
}

/// The job id of the array that a row's task belongs to. An array that has just been accepted, one that
/// was cancelled before any task started, and one whose list of tasks was cut are reported under that.
pub(in crate::decide::reconcile) fn array_of(row: &TaskRow) -> Option<&str> {
    array::split_task_id(row.submission_id.as_deref()?)?;
    let (id, _) = array::split_job_id(row.job_id.as_ref()?)?;
    Some(id)
}

/// A job id without the index of an array's task and the number of a heterogeneous job's part.
pub(in crate::decide::reconcile) fn job_number(id: &JobId) -> &str {
    array::split_job_id(id).map_or(id.leader(), |(array, _)| array)
}
