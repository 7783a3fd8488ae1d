//! What needs attention: stale jobs, orphans, failures by reason and by node. Pure.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use itertools::Itertools as _;
use serde::Serialize;

use super::details::{JobDetail, TaskDetail};
use super::{Count, time};
use crate::act::clean::{Labels, OrphanCause};
use crate::executor::JobReport;
use crate::gather::sessions::discover::Discovery;
use crate::model::job::array::split_task_id;
use crate::model::job::{JobId, is_same_study};
use crate::model::procedure::ProcedureDag;
use crate::model::state::{Reason, TaskKey, TaskRow, TaskStatus};
use crate::show::failures::{Likeness, alike, shared};
use crate::show::tables::exit::node;

/// A job that has been in flight for longer than `audit.stale_job_threshold_hours`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StaleJob {
    #[serde(flatten)]
    pub key: TaskKey,
    pub job_id: Option<JobId>,
    pub status: TaskStatus,
    pub reason: Option<Reason>,
    #[serde(serialize_with = "time")]
    pub submitted_at: DateTime<Utc>,
    /// Whole hours since then.
    pub hours: i64,
}

/// Rows and jobs without an existing task.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Orphans {
    pub rows: Vec<OrphanRow>,
    /// Jobs of this study in the queue without a row. `None` if the queue was not asked or did not answer.
    pub jobs: Option<Vec<LiveJob>>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OrphanRow {
    #[serde(flatten)]
    pub key: TaskKey,
    pub status: TaskStatus,
    pub job_id: Option<JobId>,
    pub cause: OrphanCause,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LiveJob {
    pub job_id: JobId,
    pub name: String,
    pub slurm_state: Option<Arc<str>>,
}

/// Tasks that failed for the same reason with the same log excerpt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailureGroup {
    pub procedure: Arc<str>,
    pub reason: &'static str,
    /// The failure in words, if it is the same for all.
    pub failure: Option<String>,
    /// The log excerpt of the first.
    pub log_line: Option<String>,
    /// Indices in [`super::Report::tasks`].
    pub tasks: Vec<usize>,
}

/// Failures by group, reason and node.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Failures {
    /// Similar failed tasks, the largest group first.
    pub groups: Vec<FailureGroup>,
    /// Failed rows by reason, most frequent first; the sum is the number of failed rows.
    pub by_reason: Vec<ReasonCount>,
    /// All ended attempts by node, the worst first.
    pub by_node: Vec<NodeFailures>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReasonCount {
    /// A reason of the state file, or `unknown` (rows of the Python program).
    pub reason: &'static str,
    pub count: usize,
    /// By procedure; the sum is `count`.
    pub procedures: Vec<Count>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NodeFailures {
    /// As Slurm prints it; a job on several nodes counts for the whole list.
    pub node: Arc<str>,
    /// Attempts that ended there, successful or not.
    pub jobs: usize,
    pub failed: usize,
    /// `failed / jobs`.
    pub share: f64,
    /// By reason; the sum is `failed`.
    pub reasons: Vec<Count>,
}

/// Jobs that have been in flight for longer than `limit`, the oldest first.
pub fn stale<'a>(
    rows: impl Iterator<Item = &'a TaskRow>,
    limit: Duration,
    now: DateTime<Utc>,
) -> Vec<StaleJob> {
    let in_flight = rows.filter(|row| row.is_in_flight());
    let stale = in_flight.filter_map(|row| {
        let submitted_at = row.submitted_at?;
        let age = now - submitted_at;
        let is_stale = age.to_std().is_ok_and(|age| !age.is_zero() && age >= limit);
        is_stale.then(|| StaleJob {
            key: row.key.clone(),
            job_id: row.job_id.clone(),
            status: row.status,
            reason: row.reason,
            submitted_at,
            hours: age.num_hours(),
        })
    });
    let mut stale: Vec<StaleJob> = stale.collect();
    stale.sort_by_key(|job| job.submitted_at);
    stale
}

/// Rows whose task no longer exists. Subjects that could not be read are left out.
pub fn orphan_rows<'a>(
    rows: impl Iterator<Item = &'a TaskRow>,
    dag: &ProcedureDag,
    found: &Discovery,
) -> Vec<OrphanRow> {
    let labels = Labels::of(&found.sessions);
    let orphans = rows.filter_map(|row| {
        let cause = labels.cause(&row.key, dag)?;
        let is_certain = cause != OrphanCause::Session || !is_unknown(found, &row.key.subject);
        is_certain.then(|| OrphanRow {
            cause,
            key: row.key.clone(),
            status: row.status,
            job_id: row.job_id.clone(),
        })
    });
    let mut orphans: Vec<OrphanRow> = orphans.collect();
    let place = |row: &OrphanRow| (row.cause, Arc::clone(&row.key.procedure), row.key.clone());
    orphans.sort_by_cached_key(place);
    orphans
}

/// True if the subject, or a directory above it, could not be read.
fn is_unknown(found: &Discovery, subject: &str) -> bool {
    found.unreadable.iter().any(|what| {
        let is_label = |part: &&OsStr| part.as_encoded_bytes().starts_with(b"sub-");
        let mut labels = what.path.iter().filter(is_label);
        labels.next_back().is_none_or(|label| label == subject)
    })
}

/// Jobs of this study in the queue that have no row.
pub fn orphan_jobs(queue: &[JobReport], rows: &[TaskRow], project: &str) -> Vec<LiveJob> {
    let ids: HashSet<&JobId> = rows.iter().filter_map(|row| row.job_id.as_ref()).collect();
    let submissions = rows.iter().filter_map(|row| row.submission_id.as_deref());
    // A live array may be listed in place of its tasks.
    let array = |id| split_task_id(id).map(|(array, _)| array);
    let submissions = submissions.flat_map(|id| [Some(id), array(id)]).flatten();
    let submissions: HashSet<&str> = submissions.collect();
    let is_unknown = |job: &&JobReport| {
        let is_new = job.tag.as_ref().is_some_and(|tag| {
            is_same_study(&tag.project, project) && !submissions.contains(&*tag.submission_id)
        });
        job.phase.is_live() && is_new && !ids.contains(&job.id)
    };
    let jobs = queue.iter().filter(is_unknown).map(|job| LiveJob {
        job_id: job.id.clone(),
        name: job.name.clone(),
        slurm_state: job.facts.slurm_state.clone(),
    });
    jobs.collect()
}

/// Groups failures: similar failed tasks, failed rows by reason, all ended attempts by node.
pub fn failures<'a>(
    tasks: &[TaskDetail],
    rows: impl Iterator<Item = &'a TaskRow>,
    attempts: impl Iterator<Item = &'a TaskRow>,
    dag: &ProcedureDag,
) -> Failures {
    let failed = rows.filter(|row| row.status == TaskStatus::Failed);
    let by_reason = failed.into_group_map_by(|row| row.reason_word());
    let by_reason = by_reason.into_iter().map(|(reason, rows)| {
        let name = |row: &TaskRow| Arc::clone(&row.key.procedure);
        let procedures = rows.iter().counts_by(|row| name(row)).into_iter();
        let procedures = procedures.sorted_by_key(|(name, _)| (dag.rank(name), Arc::clone(name)));
        let procedures = procedures.map(|(word, count)| Count { word, count });
        ReasonCount {
            reason,
            count: rows.len(),
            procedures: procedures.collect(),
        }
    });
    let by_reason = by_reason.sorted_by_key(|group| (Reverse(group.count), group.reason));
    Failures {
        groups: groups(tasks),
        by_reason: by_reason.collect(),
        by_node: by_node(attempts),
    }
}

/// Groups similar failed tasks.
pub fn groups(tasks: &[TaskDetail]) -> Vec<FailureGroup> {
    let failed = tasks.iter().enumerate().filter_map(|(number, task)| {
        let job = task.job.as_ref();
        let job = job.filter(|job| job.row.status == TaskStatus::Failed)?;
        Some((number, task, job))
    });
    let failed: Vec<(usize, &TaskDetail, &JobDetail)> = failed.collect();
    let groups = alike(&failed, |(_, task, job)| {
        Likeness::new(&job.row, task.log_line.as_deref())
    });
    let groups = groups.iter().filter_map(|group| {
        let (_, first, job) = group.first()?;
        Some(FailureGroup {
            procedure: Arc::clone(&first.key.procedure),
            reason: job.row.reason_word(),
            failure: shared(group, |(.., job)| job.failure.clone()),
            log_line: first.log_line.clone(),
            tasks: group.iter().map(|(number, ..)| *number).collect(),
        })
    });
    groups.collect()
}

fn by_node<'a>(attempts: impl Iterator<Item = &'a TaskRow>) -> Vec<NodeFailures> {
    let ended = attempts.filter(|row| !row.is_in_flight());
    let nodes = ended.filter_map(|row| Some((node(&row.facts)?, row)));
    let nodes = nodes.into_group_map().into_iter().map(|(name, rows)| {
        let failed = rows.iter().filter(|row| row.status == TaskStatus::Failed);
        let reasons = failed.clone().counts_by(|row| row.reason_word());
        let reasons = reasons.into_iter();
        let reasons = reasons.sorted_by_key(|(reason, count)| (Reverse(*count), *reason));
        let failed = failed.count();
        NodeFailures {
            node: name.into(),
            jobs: rows.len(),
            failed,
            share: failed as f64 / rows.len() as f64,
            reasons: Count::list(reasons),
        }
    });
    let place = |one: &NodeFailures| (Reverse(one.failed), one.jobs, Arc::clone(&one.node));
    nodes.sorted_by_key(place).collect()
}

#[cfg(test)]
mod tests;
