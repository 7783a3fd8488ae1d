//! The answers of queue and accounting in one pass, and when they count.
//!
//! One squeue per cluster, one sacct per thousand jobs, for the owner's jobs. A query does not count if it failed, or if
//! it lacks the job that it must have. Jobs that are missing from the answers are then searched for under any user: a
//! wrapper around sbatch may submit as a service user, and `--as-owner` as root. Only our tag makes a job ours.

use std::collections::HashSet;
use std::sync::Arc;

use itertools::Itertools as _;

use crate::base::sys;
use crate::executor::slurm::client::SlurmExecutor;
use crate::executor::slurm::client::query::{EVERYBODY, jobs_options, missing};
use crate::executor::slurm::command::is_without_accounting;
use crate::executor::slurm::job_state::is_revoked;
use crate::executor::slurm::parse::Parsed;
use crate::executor::slurm::{identity, parse};
use crate::executor::{Answer, JobReport, Observation, Question};
use crate::model::job::{ExecutorKind, JobRef};

impl SlurmExecutor {
    pub(crate) fn ask_everything(&mut self, question: &Question) -> Observation {
        let clusters = clusters(question);
        // The queue first: jobs that end between the two queries are then found in the second.
        let mut queue = self.queue_of(question, &clusters).into();
        // Without the queue nothing can change, and waiting once for an unreachable Slurm is enough.
        let mut accounting = match queue {
            Answer::Failed(_) => {
                Answer::Failed("not asked because the queue did not answer".to_owned())
            }
            _ if !self.settings.accounting => Answer::Off,
            _ => match self.accounting_of(question, &clusters) {
                Err(text) if is_without_accounting(&text) => Answer::Off,
                answer => answer.into(),
            },
        };
        self.add_others(question, &clusters, &mut queue, &mut accounting);
        let mut unnamed = Vec::new();
        if let Answer::Got(queue) = &mut queue {
            let (mut none, mut lines) = (Vec::new(), Vec::new());
            if let Answer::Got(_) = accounting {
                lines = self.submit_lines_of_others(question, queue);
            }
            let records = match &mut accounting {
                Answer::Got(records) => records,
                Answer::Failed(_) | Answer::Off => &mut none,
            };
            identity::settle(queue, records, &lines);
            if !matches!(accounting, Answer::Off) && self.has_submit_line != Some(false) {
                unnamed = identity::unnamed(queue, sys::now());
            }
            if let Answer::Got(records) = &mut accounting {
                self.add_usage(question, queue, records);
            }
        }
        let warnings = std::mem::take(&mut self.warnings).into_iter();
        let warnings = warnings.unique().collect();
        Observation {
            queue,
            accounting,
            of_other_executor: question.of_other_executor(ExecutorKind::Slurm),
            unnamed,
            cluster: self.settings.home.cluster.clone(),
            warnings,
        }
    }

    pub(crate) fn queue_of(
        &mut self,
        question: &Question,
        clusters: &[Option<Arc<str>>],
    ) -> Result<Vec<JobReport>, String> {
        self.check_view()?;
        let own = self.users("--user");
        let mut found = Parsed::default();
        for cluster in clusters {
            let parsed = self.ask_queue(Some(own.clone()), cluster.as_ref())?;
            found.add(parsed.whole()?);
        }
        self.warnings.extend(found.warnings);
        self.check_home(question, &found.jobs)?;
        Ok(found.jobs)
    }

    fn accounting_of(
        &mut self,
        question: &Question,
        clusters: &[Option<Arc<str>>],
    ) -> Result<Vec<JobReport>, String> {
        let mut found = Parsed::default();
        let ended = question.ended.iter().map(|(job, _)| job);
        let jobs: Vec<&JobRef> = question.jobs.iter().chain(ended).collect();
        if jobs.is_empty() && question.search_from.is_none() {
            return Ok(Vec::new());
        }
        let own = self.users("--uid");
        for cluster in clusters {
            let is_here = |job: &&JobRef| job.cluster == *cluster && parse::is_askable(&job.id);
            let canary = question.canary.as_ref().filter(is_here);
            // The id of an array also returns the records of its tasks.
            let numbers = jobs.iter().copied().filter(is_here);
            let numbers = numbers.map(|job| job.id.number());
            let ids = numbers.chain(canary.map(|job| job.id.as_str()));
            let ids: Vec<&str> = ids.unique().collect();
            let parsed = self.records(&own, &ids, question.since, cluster.as_ref())?;
            // Any job in the answer proves that accounting works. The canary may be missing then, since
            // sites purge old records.
            if let Some(canary) = canary
                && parsed.jobs.is_empty()
            {
                // It may have ended before the start time of the query.
                // A wrapper around sbatch may have submitted it as another user.
                let ids = [canary.id.as_str()];
                let alone = self.records(EVERYBODY, &ids, None, cluster.as_ref())?;
                if !alone.jobs.iter().any(|job| job.id == canary.id) {
                    return Err(format!(
                        "sacct no longer lists job {}, which it listed before: the accounting database may be incomplete",
                        canary.id
                    ));
                }
                found.add(alone);
            }
            found.add(parsed);
            if let Some(from) = question.search_from {
                found.add(self.ask_accounting(&own, None, Some(from), cluster.as_ref())?);
            }
        }
        self.warnings.extend(found.warnings);
        match found.broken {
            // A job that is missing from a cut answer may exist.
            Some(text)
                if question.search_from.is_some()
                    || !missing(&question.jobs, found.jobs.iter()).is_empty() =>
            {
                Err(text)
            }
            _ => Ok(each_once(found.jobs)),
        }
    }

    /// Adds reports of jobs that may be running but are missing from both answers. While a submission has no known
    /// job, or rows may be missing, the whole queue is searched for the study's tag.
    fn add_others(
        &mut self,
        question: &Question,
        clusters: &[Option<Arc<str>>],
        queue: &mut Answer<Vec<JobReport>>,
        accounting: &mut Answer<Vec<JobReport>>,
    ) {
        let Answer::Got(jobs) = queue else {
            return;
        };
        for cluster in clusters {
            let records = accounting.got().into_iter().flatten();
            let ended = records.filter(|record| !record.phase.is_live());
            let ids: Vec<String> = missing(&question.may_live, jobs.iter().chain(ended))
                .into_iter()
                .filter(|(_, place)| *place == cluster.as_deref())
                .map(|(id, _)| id.to_owned())
                .collect();
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            match self.queue_of_others(question, &ids, cluster.as_ref()) {
                Ok(others) => {
                    let known: HashSet<JobRef> = jobs.iter().map(JobReport::job).collect();
                    let new = |job: &JobReport| !known.contains(&job.job());
                    jobs.extend(others.into_iter().filter(new));
                }
                Err(text) => {
                    *queue = Answer::Failed(text);
                    return;
                }
            }
            let Answer::Got(records) = accounting else {
                continue;
            };
            let found = self.records(EVERYBODY, &ids, question.since, cluster.as_ref());
            match found.and_then(Parsed::whole) {
                Ok(found) => {
                    let found = found.jobs.into_iter();
                    let (own, others): (Vec<_>, Vec<_>) =
                        found.partition(|record| self.is_tagged(record));
                    // Untagged jobs whose submit line is not ours.
                    let others = others.iter().filter(|record| record.has_submit_line);
                    let others: HashSet<_> = others.map(|record| &record.id).collect();
                    jobs.retain(|job| {
                        job.tag.is_some()
                            || !ids.contains(&job.id.number())
                            || !others.contains(&job.id)
                    });
                    records.extend(own);
                    *records = each_once(std::mem::take(records));
                }
                Err(text) => *accounting = Answer::Failed(text),
            }
        }
    }

    fn queue_of_others(
        &mut self,
        question: &Question,
        ids: &[&str],
        cluster: Option<&Arc<str>>,
    ) -> Result<Vec<JobReport>, String> {
        let filters: Vec<Option<String>> = match question.everywhere {
            true => vec![None],
            false => jobs_options(ids).map(Some).collect(),
        };
        let mut found = Vec::new();
        for filter in filters {
            match self.ask_queue(filter, cluster) {
                // A site may have replaced the comment of a job that is searched for by its id.
                Ok(parsed) => found.extend(parsed.whole()?.jobs.into_iter().filter(|job| {
                    self.is_tagged(job) || job.tag.is_none() && ids.contains(&job.id.number())
                })),
                // squeue ignores unknown ids among several, but fails for a single one.
                Err(text) if text.contains("Invalid job id specified") => {}
                Err(text) => return Err(text),
            }
        }
        Ok(found)
    }

    /// Asks for the submit lines of live jobs that are not in the question: a plugin may have replaced their
    /// comments, and scripts change names. These records do not prove that accounting works.
    fn submit_lines_of_others(
        &mut self,
        question: &Question,
        queue: &[JobReport],
    ) -> Vec<JobReport> {
        let mut found = Vec::new();
        for (cluster, ids) in identity::others(question, queue) {
            if self.has_submit_line == Some(false) {
                break;
            }
            match self.records(EVERYBODY, &ids, None, cluster.as_ref()) {
                Ok(parsed) => found.extend(parsed.jobs),
                Err(text) => {
                    self.warnings.push(format!(
                        "cannot look up this user's jobs without a row in accounting: {text}"
                    ));
                    break;
                }
            }
        }
        found
    }
}

/// Keeps one report per record. An id has a record per submission: it was requeued, or recycled for another job.
fn each_once(jobs: Vec<JobReport>) -> Vec<JobReport> {
    let run = |job: &JobReport| (job.submitted_at, job.facts.started_at, is_revoked(job));
    let jobs = jobs.into_iter();
    jobs.unique_by(|job| (job.job(), run(job))).collect()
}

/// The clusters of a question: the default one, its own, and its jobs'.
fn clusters(question: &Question) -> Vec<Option<Arc<str>>> {
    let ended = question.ended.iter().map(|(job, _)| job);
    let of_jobs = question.jobs.iter().chain(&question.canary).chain(ended);
    let of_jobs = of_jobs.map(|job| job.cluster.clone());
    let named = question.clusters.iter().cloned().map(Some);
    let all = std::iter::once(None).chain(of_jobs).chain(named);
    all.unique().collect()
}
