//! The resource usage of ended jobs, and what ended them: one more sacct per thousand jobs.
//!
//! Without an answer, the usage is missing, with a warning. Only one decision depends on it: whether a prolog failed,
//! which looks like an administrator's scancel.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::client::SlurmExecutor;
use super::parse::steps::{self, Run, Usage};
use super::{identity, parse};
use crate::base::sys;
use crate::executor::slurm::client::query::{cluster_option, jobs_options, since_option};
use crate::executor::{ACCOUNTING_LAG, JobReport, Phase, Question};
use crate::model::job::JobRef;
use crate::model::state::Reason;

/// The usage of the runs on each cluster.
type Known = HashMap<Option<Arc<str>>, HashMap<Run, Usage>>;

/// Seconds. After a longer run, the prolog has not failed: the node may have lost the steps of the job.
const LONGEST_PROLOG_S: i64 = 900;

impl SlurmExecutor {
    /// Adds the usage from the steps to the records of ended jobs of the question.
    pub(super) fn add_usage(
        &mut self,
        question: &Question,
        queue: &[JobReport],
        records: &mut [JobReport],
    ) {
        let answer = self.usage(&ended(question, queue, records), question.since);
        let has_failed = answer.is_err();
        let known = match answer {
            Ok(known) => known,
            Err(text) => {
                self.warnings.push(format!(
                    "resource usage of finished jobs is unavailable, and it is uncertain who cancelled them: {text}"
                ));
                Known::default()
            }
        };
        let by_dependency: HashSet<JobRef> = queue
            .iter()
            .filter(|job| job.phase == Phase::Failed(Reason::Dependency))
            .map(JobReport::job)
            .collect();
        for record in records.iter_mut().filter(|job| !job.phase.is_live()) {
            // Accounting does not always record the reason, but it shows that no one cancelled the job.
            if record.phase == Phase::Failed(Reason::Cancelled)
                && record.facts.slurm_state.as_deref() == Some("CANCELLED")
                && by_dependency.contains(&record.job())
            {
                record.phase = Phase::Failed(Reason::Dependency);
            }
            let usage = known
                .get(&record.facts.cluster)
                .and_then(|runs| runs.get(&(record.id.clone(), record.submitted_at)));
            let end = record.facts.ended_at;
            let may_still_come =
                has_failed || end.is_some_and(|end| sys::now() - end < ACCOUNTING_LAG);
            add(record, usage, self.settings.owner, may_still_come);
        }
    }

    fn usage(&mut self, jobs: &[JobRef], since: Option<DateTime<Utc>>) -> Result<Known, String> {
        let mut known = Known::default();
        for (cluster, ids) in identity::by_cluster(jobs) {
            for jobs in jobs_options(&ids) {
                let mut arguments = cluster_option(cluster.as_ref());
                arguments.extend(["-D", "-n", "-p"].map(str::to_owned));
                arguments.push(format!("--delimiter={}", self.settings.separator));
                arguments.push(jobs);
                arguments.extend(since_option(since));
                arguments.push(format!("--format={}", steps::FIELDS.join(",")));
                let text = self.ask("sacct", &arguments)?;
                known
                    .entry(cluster.clone())
                    .or_default()
                    .extend(steps::steps(&text, &self.settings.separator)?);
            }
        }
        Ok(known)
    }
}

/// The jobs of the question that have ended according to accounting and queue.
fn ended(question: &Question, queue: &[JobReport], records: &[JobReport]) -> Vec<JobRef> {
    let mut ended: HashSet<JobRef> = records
        .iter()
        .filter(|job| !job.phase.is_live())
        .map(JobReport::job)
        .collect();
    for job in queue.iter().filter(|job| job.phase.is_live()) {
        ended.remove(&job.job());
    }
    // If a job's end was known, only a later end counts.
    let has_ended_again = |job: &JobRef, known: DateTime<Utc>| {
        records.iter().any(|record| {
            record.job() == *job && record.facts.ended_at.is_some_and(|ended| ended > known)
        })
    };
    let again = question.ended.iter();
    let again = again.filter(|(job, known)| has_ended_again(job, *known));
    question
        .jobs
        .iter()
        .chain(again.map(|(job, _)| job))
        .filter(|job| parse::is_askable(&job.id))
        .filter(|job| ended.contains(job))
        .cloned()
        .collect()
}

fn add(record: &mut JobReport, usage: Option<&Usage>, own_uid: u32, may_still_come: bool) {
    if let Some(usage) = usage {
        record.facts.max_rss_mb = usage.max_rss_mb;
        record.facts.cpu_time_s = usage.cpu_time_s;
        let facts = &mut record.facts;
        (facts.partition, facts.account) = (usage.partition.clone(), usage.account.clone());
        facts.qos.clone_from(&usage.qos);
        record.facts.alloc_cpus = usage.alloc_cpus.filter(|_| has_run(record));
    }
    if !may_be_prolog_failure(record, own_uid) {
        return;
    }
    record.phase = match usage {
        // Ask again at the next pass.
        None if may_still_come => Phase::Unknown,
        None => record.phase,
        Some(usage) if usage.has_begun => record.phase,
        Some(_) => Phase::Failed(Reason::LaunchFailed),
    };
}

fn has_run(record: &JobReport) -> bool {
    record.facts.started_at.is_some() && record.facts.node_list.is_some()
}

/// If a prolog fails and the job may not be requeued, slurmctld ends it with the uid of the reporter:
/// slurmd, which is root nearly everywhere.
fn may_be_prolog_failure(record: &JobReport, own_uid: u32) -> bool {
    let by = record.facts.cancelled_by();
    record.phase == Phase::Failed(Reason::Cancelled)
        && by.is_some_and(|by| by == 0 || by != i64::from(own_uid))
        && record.facts.exit_code.as_deref() == Some("0:0")
        && has_run(record)
        && record
            .facts
            .elapsed_s
            .is_none_or(|elapsed| elapsed <= LONGEST_PROLOG_S)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::job::JobId;
    use crate::model::state::JobFacts;

    fn cancelled(state: &str) -> JobReport {
        JobReport {
            id: JobId::new("8"),
            name: "a_sub-01".to_owned(),
            phase: Phase::Failed(Reason::Cancelled),
            facts: JobFacts {
                slurm_state: Some(state.into()),
                exit_code: Some("0:0".into()),
                started_at: DateTime::from_timestamp(1, 0),
                node_list: Some("n1".into()),
                elapsed_s: Some(1),
                ..JobFacts::default()
            },
            ..JobReport::default()
        }
    }

    #[test]
    fn a_cancel_by_another_uid_counts_only_if_the_script_began() {
        let began = Usage {
            has_begun: true,
            ..Usage::default()
        };
        let never = Usage::default();
        let cancel = Phase::Failed(Reason::Cancelled);
        let launch = Phase::Failed(Reason::LaunchFailed);
        for (state, usage, uid, expected) in [
            ("CANCELLED by 0", Some(&began), 1000, cancel),
            ("CANCELLED by 0", Some(&never), 1000, launch),
            ("CANCELLED by 0", None, 1000, Phase::Unknown),
            ("CANCELLED by 7", Some(&began), 1000, cancel),
            ("CANCELLED by 7", Some(&never), 1000, launch),
            ("CANCELLED by 7", None, 1000, Phase::Unknown),
            ("CANCELLED by 1000", Some(&never), 1000, cancel),
            ("CANCELLED by 1000", None, 1000, cancel),
            ("CANCELLED by 0", Some(&began), 0, cancel),
            ("CANCELLED by 0", Some(&never), 0, launch),
            ("CANCELLED", Some(&never), 1000, cancel),
        ] {
            let mut record = cancelled(state);
            add(&mut record, usage, uid, true);
            assert_eq!(record.phase, expected, "{state} {usage:?} {uid}");
            if usage.is_none() {
                let mut record = cancelled(state);
                add(&mut record, usage, uid, false);
                assert_eq!(record.phase, cancel, "no steps will come: {state} {uid}");
            }
        }
    }

    #[test]
    fn only_a_short_job_with_nodes_can_have_failed_in_its_prolog() {
        let changes: [fn(&mut JobFacts); 4] = [
            |facts| facts.node_list = None,
            |facts| facts.started_at = None,
            |facts| facts.elapsed_s = Some(LONGEST_PROLOG_S + 1),
            |facts| facts.exit_code = Some("1:0".into()),
        ];
        for change in changes {
            let mut record = cancelled("CANCELLED by 0");
            change(&mut record.facts);
            add(&mut record, None, 1000, true);
            assert_eq!(record.phase, Phase::Failed(Reason::Cancelled));
        }
    }
}
