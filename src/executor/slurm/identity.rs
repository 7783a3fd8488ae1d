//! Which reports are about one job, and what was submitted as it. Pure.
//!
//! Scripts, plugins and people change a job's comment and its name; the command line in accounting stays.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::job_state::is_revoked;
use super::parse;
use crate::executor::{ACCOUNTING_LAG, JobReport, Question};
use crate::model::job::{JobId, JobRef, JobTag, array, name_of_study};

/// The ids of living jobs, by cluster, that the question asks to identify.
pub(super) fn others<'a>(
    question: &Question,
    queue: &'a [JobReport],
) -> BTreeMap<Option<Arc<str>>, Vec<&'a str>> {
    let mut others: BTreeMap<Option<Arc<str>>, Vec<&str>> = BTreeMap::new();
    let Some(study) = &question.identify else {
        return others;
    };
    let asked = question.jobs.iter();
    let asked: HashSet<(JobId, Option<Arc<str>>)> = asked
        .map(|job| (job.id.clone(), job.cluster.clone()))
        .collect();
    let mut seen = HashSet::new();
    for job in queue.iter().filter(|job| job.phase.is_live()) {
        let is_another_studys =
            |word: &str| !study.is_empty() && name_of_study(word) != name_of_study(study);
        let id = array::split_job_id(&job.id).map_or(job.id.leader(), |(id, _)| id);
        if !asked.contains(&place(job))
            && !job
                .tag
                .as_ref()
                .is_some_and(|tag| is_another_studys(&tag.project))
            && parse::is_askable(&JobId::new(id))
            && seen.insert((id, job.facts.cluster.as_deref()))
        {
            let ids = others.entry(job.facts.cluster.clone()).or_default();
            ids.push(id);
        }
    }
    others
}

/// The ids of jobs by cluster, without those that no query can name.
pub(super) fn by_cluster(jobs: &[JobRef]) -> BTreeMap<&Option<Arc<str>>, Vec<&str>> {
    let mut ids: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for job in jobs.iter().filter(|job| parse::is_askable(&job.id)) {
        ids.entry(&job.cluster).or_default().push(job.id.as_str());
    }
    ids
}

/// The living jobs that may be anybody's: Slurm shows no tag, and no command line although accounting has had its time.
pub(super) fn unnamed(queue: &[JobReport], now: DateTime<Utc>) -> Vec<JobId> {
    let live = queue.iter().filter(|job| job.phase.is_live());
    let is_old = |at: DateTime<Utc>| now - at >= ACCOUNTING_LAG;
    live.filter(|job| job.tag.is_none() && !job.has_submit_line)
        .filter(|job| job.submitted_at.is_none_or(is_old))
        .map(|job| job.id.clone())
        .collect()
}

/// Leaves one state per job, and gives each job in the queue the tag and the name that it was submitted with.
/// `others`: records of jobs beside those in `records`.
pub(super) fn settle(
    queue: &mut Vec<JobReport>,
    records: &mut Vec<JobReport>,
    others: &[JobReport],
) {
    drop_revoked(queue, records);
    // A job that is shown twice may still be writing if one of the lines says so.
    let alive = Shown::of(queue, |job| job.phase.is_live());
    queue.retain(|job| job.phase.is_live() || !alive.at_its_place(job));
    trust_submit_lines(queue, records, others);
}

/// Takes out what a federation's clusters say that do not run a job, where another one knows what became of it.
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

/// A job's command line says whose it is, whatever its comment is now.
fn trust_submit_lines(queue: &mut [JobReport], records: &[JobReport], others: &[JobReport]) {
    let with_line = || {
        let records = records.iter().chain(others);
        records.filter(|record| record.has_submit_line)
    };
    let place = |job: &JobReport| (job.id.clone(), job.facts.cluster.clone(), job.submitted_at);
    let lines: HashMap<_, &JobReport> = with_line().map(|record| (place(record), record)).collect();
    let submitted: HashSet<&str> = with_line()
        .filter_map(|record| Some(record.tag.as_ref()?.submission_id.as_str()))
        .collect();
    for job in queue {
        let Some(record) = lines.get(&place(job)) else {
            continue;
        };
        job.has_submit_line = true;
        if record.tag.is_some() {
            job.tag.clone_from(&record.tag);
            job.name.clone_from(&record.name);
        }
        // A wrapper may pass the comment otherwise, but this one is that of another job.
        let is_anothers = |tag: &JobTag| submitted.contains(tag.submission_id.as_str());
        if record.tag.is_none() && job.tag.as_ref().is_some_and(is_anothers) {
            job.tag = None;
        }
    }
}

/// Jobs that an answer shows.
struct Shown {
    places: HashSet<(JobId, Option<Arc<str>>)>,
    /// Clusters of a federation share ids and comments.
    submissions: HashSet<(JobId, String)>,
}

impl Shown {
    fn of(jobs: &[JobReport], is_meant: impl Fn(&JobReport) -> bool) -> Self {
        let meant = || jobs.iter().filter(|job| is_meant(job));
        Self {
            places: meant().map(place).collect(),
            submissions: meant().filter_map(submission).collect(),
        }
    }

    fn at_its_place(&self, job: &JobReport) -> bool {
        self.places.contains(&place(job))
    }

    fn has(&self, job: &JobReport) -> bool {
        self.at_its_place(job) || submission(job).is_some_and(|job| self.submissions.contains(&job))
    }
}

fn place(job: &JobReport) -> (JobId, Option<Arc<str>>) {
    (job.id.clone(), job.facts.cluster.clone())
}

fn submission(job: &JobReport) -> Option<(JobId, String)> {
    Some((job.id.clone(), job.tag.as_ref()?.submission_id.clone()))
}

#[cfg(test)]
mod tests;
