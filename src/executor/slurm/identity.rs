//! Decides which reports are about the same job, and which submission it is. Pure.
//!
//! Scripts, plugins and people change a job's comment and name, but not its submit line in accounting.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::job_state::is_revoked;
use super::parse;
use crate::executor::{ACCOUNTING_LAG, JobReport, Question};
use crate::model::job::{JobId, JobRef, JobTag, name_of_study};

/// The ids of live jobs to identify, by cluster.
pub(super) fn others<'a>(
    question: &Question,
    queue: &'a [JobReport],
) -> BTreeMap<Option<Arc<str>>, Vec<&'a str>> {
    let mut others: BTreeMap<Option<Arc<str>>, Vec<&str>> = BTreeMap::new();
    let Some(study) = &question.identify else {
        return others;
    };
    let asked: HashSet<&JobRef> = question.jobs.iter().collect();
    let mut seen = HashSet::new();
    for job in queue.iter().filter(|job| job.phase.is_live()) {
        let is_another_studys =
            |tag: &JobTag| !study.is_empty() && name_of_study(&tag.project) != name_of_study(study);
        let id = job.id.number();
        if !asked.contains(&job.job())
            && !job.tag.as_ref().is_some_and(is_another_studys)
            && parse::is_askable(&JobId::new(id))
            && seen.insert((id, job.facts.cluster.as_deref()))
        {
            let ids = others.entry(job.facts.cluster.clone()).or_default();
            ids.push(id);
        }
    }
    others
}

/// The ids of jobs by cluster, without ids that cannot be queried.
pub(super) fn by_cluster(jobs: &[JobRef]) -> BTreeMap<&Option<Arc<str>>, Vec<&str>> {
    let mut ids: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for job in jobs.iter().filter(|job| parse::is_askable(&job.id)) {
        ids.entry(&job.cluster).or_default().push(job.id.as_str());
    }
    ids
}

/// Live jobs of unknown origin: without a tag, and without a submit line although accounting has had time for it.
pub(super) fn unnamed(queue: &[JobReport], now: DateTime<Utc>) -> Vec<JobId> {
    let live = queue.iter().filter(|job| job.phase.is_live());
    let is_old = |at: DateTime<Utc>| now - at >= ACCOUNTING_LAG;
    live.filter(|job| job.tag.is_none() && !job.has_submit_line)
        .filter(|job| job.submitted_at.is_none_or(is_old))
        .map(|job| job.id.clone())
        .collect()
}

/// Keeps one state per job, and restores the submitted tag and name of each job in the queue. `others` are records of
/// further jobs.
pub(super) fn settle(
    queue: &mut Vec<JobReport>,
    records: &mut Vec<JobReport>,
    others: &[JobReport],
) {
    drop_revoked(queue, records);
    // A job that is listed twice may still be writing if one of the lines shows it live.
    let live = Shown::of(queue, |job| job.phase.is_live());
    queue.retain(|job| job.phase.is_live() || !live.at_its_place(job));
    trust_submit_lines(queue, records, others);
}

/// Removes reports of a federation's clusters that do not run the job, if another cluster has its outcome.
fn drop_revoked(queue: &mut Vec<JobReport>, records: &mut Vec<JobReport>) {
    if !queue.iter().chain(&*records).any(is_revoked) {
        return;
    }
    let in_queue = Shown::of(queue, |job| !is_revoked(job));
    let in_records = Shown::of(records, |job| !is_revoked(job));
    let ended = Shown::of(records, |job| !is_revoked(job) && !job.phase.is_live());
    queue.retain(|job| !is_revoked(job) || !in_queue.has(job) && !ended.has(job));
    records.retain(|job| !is_revoked(job) || !in_records.has(job));
}

/// A job's submit line identifies it, whatever its comment is now.
fn trust_submit_lines(queue: &mut [JobReport], records: &[JobReport], others: &[JobReport]) {
    let with_line = || {
        let records = records.iter().chain(others);
        records.filter(|record| record.has_submit_line)
    };
    let place = |job: &JobReport| (job.job(), job.submitted_at);
    let lines: HashMap<_, &JobReport> = with_line().map(|record| (place(record), record)).collect();
    let submitted: HashSet<&str> = with_line().filter_map(JobReport::submission_id).collect();
    for job in queue {
        let Some(record) = lines.get(&place(job)) else {
            continue;
        };
        job.has_submit_line = true;
        if record.tag.is_some() {
            job.tag.clone_from(&record.tag);
            job.name.clone_from(&record.name);
        }
        // A wrapper may pass the comment in another way, but this tag belongs to another job.
        let is_anothers = |tag: &JobTag| submitted.contains(tag.submission_id.as_str());
        if record.tag.is_none() && job.tag.as_ref().is_some_and(is_anothers) {
            job.tag = None;
        }
    }
}

/// The jobs of an answer.
struct Shown {
    places: HashSet<JobRef>,
    /// Clusters of a federation share ids and comments.
    submissions: HashSet<(JobId, String)>,
}

impl Shown {
    fn of(jobs: &[JobReport], is_meant: impl Fn(&JobReport) -> bool) -> Self {
        let meant = || jobs.iter().filter(|job| is_meant(job));
        Self {
            places: meant().map(JobReport::job).collect(),
            submissions: meant().filter_map(submission).collect(),
        }
    }

    fn at_its_place(&self, job: &JobReport) -> bool {
        self.places.contains(&job.job())
    }

    fn has(&self, job: &JobReport) -> bool {
        self.at_its_place(job) || submission(job).is_some_and(|job| self.submissions.contains(&job))
    }
}

fn submission(job: &JobReport) -> Option<(JobId, String)> {
    Some((job.id.clone(), job.tag.as_ref()?.submission_id.clone()))
}

#[cfg(test)]
mod tests;
