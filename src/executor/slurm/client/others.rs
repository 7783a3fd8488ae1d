//! Jobs of the study that belong to other users: a wrapper around sbatch may submit as a service user, and
//! `--as-owner` as root. Queue and accounting are first asked for the owner's jobs. Jobs that are missing from the
//! answers are then searched for under any user; only our tag makes a job ours.

use std::collections::HashSet;
use std::sync::Arc;

use super::query::{EVERYBODY, each_once, jobs_options, missing};
use crate::executor::slurm::client::SlurmExecutor;
use crate::executor::slurm::parse::Parsed;
use crate::executor::{Answer, JobReport, Question};
use crate::model::job::JobRef;

impl SlurmExecutor {
    /// Adds reports of jobs that may be running but are missing from both answers. While a submission has no known
    /// job, or rows may be missing, the whole queue is searched for the study's tag.
    pub(crate) fn add_others(
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
                    let (own, others): (Vec<_>, Vec<_>) = found
                        .jobs
                        .into_iter()
                        .partition(|record| self.is_tagged(record));
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
}
