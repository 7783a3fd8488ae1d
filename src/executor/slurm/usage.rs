//! The resource usage of ended jobs, and what ended them: one more sacct per thousand jobs, with the jobs' steps.
//!
//! Without an answer, the usage is missing, with a warning. Only one decision depends on it: whether a prolog failed,
//! which looks like an administrator's scancel.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::client::SlurmExecutor;
use super::{identity, parse};
use crate::base::sys;
use crate::executor::slurm::client::query::jobs_options;
use crate::executor::slurm::parse::records::{Ids, ids, records};
use crate::executor::slurm::parse::values::{Twice, cpu_time_ms, known, time, used_memory};
use crate::executor::{ACCOUNTING_LAG, JobReport, Phase, Question};
use crate::model::job::{JobId, JobRef};
use crate::model::state::Reason;

/// sacct's `--format` for jobs with their steps: fields that exist since 20.11.
pub const FIELDS: [&str; 10] = [
    "JobID",
    "State",
    "ExitCode",
    "Submit",
    "AllocCPUS",
    "MaxRSS",
    "TotalCPU",
    "Partition",
    "Account",
    "QOS",
];

/// The usage of all steps of one run of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Usage {
    alloc_cpus: Option<i64>,
    partition: Option<Arc<str>>,
    account: Option<Arc<str>>,
    qos: Option<Arc<str>>,
    /// The maximum of a step, in MB of 2^20 bytes, rounded up.
    max_rss_mb: Option<i64>,
    /// The sum of all steps, in milliseconds.
    cpu_ms: Option<i64>,
    /// True if the batch script began: its step has an exit code, or used something. slurmctld
    /// records the step before the node tries to start it, so a step alone proves nothing.
    has_begun: bool,
}

/// One run of a job: a requeue gives the same id a new submit time.
type Run = (JobId, Option<DateTime<Utc>>);

/// The usage of the runs on all clusters.
type Known = HashMap<(Option<Arc<str>>, Run), Usage>;

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
        let known = answer.unwrap_or_else(|text| {
            self.warnings.push(format!(
                "resource usage of finished jobs is unavailable, and it is uncertain who cancelled them: {text}"
            ));
            Known::default()
        });
        let dependency = Phase::Failed(Reason::Dependency);
        let by_dependency = queue.iter().filter(|job| job.phase == dependency);
        let by_dependency: HashSet<JobRef> = by_dependency.map(JobReport::job).collect();
        for record in records.iter_mut().filter(|job| !job.phase.is_live()) {
            // Accounting does not always record the reason, but it shows that no one cancelled the job.
            if record.phase == Phase::Failed(Reason::Cancelled)
                && record.facts.slurm_state.as_deref() == Some("CANCELLED")
                && by_dependency.contains(&record.job())
            {
                record.phase = dependency;
            }
            let run = (record.id.clone(), record.submitted_at);
            let usage = known.get(&(record.facts.cluster.clone(), run));
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
                let text = self.ask_sacct(None, Some(jobs), since, cluster.as_ref(), &FIELDS)?;
                let found = steps(&text, &self.settings.separator)?.into_iter();
                known.extend(found.map(|(run, usage)| ((cluster.clone(), run), usage)));
            }
        }
        Ok(known)
    }
}

/// The jobs of the question that have ended according to accounting and queue.
fn ended(question: &Question, queue: &[JobReport], records: &[JobReport]) -> Vec<JobRef> {
    let over = records.iter().filter(|job| !job.phase.is_live());
    let mut ended: HashSet<JobRef> = over.map(JobReport::job).collect();
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
    let jobs = question.jobs.iter().chain(again.map(|(job, _)| job));
    let is_asked = |job: &&JobRef| parse::is_askable(&job.id) && ended.contains(job);
    jobs.filter(is_asked).cloned().collect()
}

fn add(record: &mut JobReport, usage: Option<&Usage>, own_uid: u32, may_still_come: bool) {
    if let Some(usage) = usage {
        let alloc_cpus = usage.alloc_cpus.filter(|_| has_run(record));
        let facts = &mut record.facts;
        (facts.alloc_cpus, facts.max_rss_mb) = (alloc_cpus, usage.max_rss_mb);
        facts.cpu_time_s = usage.cpu_ms.map(|ms| ms.saturating_add(500) / 1000);
        (facts.partition, facts.account) = (usage.partition.clone(), usage.account.clone());
        facts.qos.clone_from(&usage.qos);
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
        && record.facts.elapsed_s.unwrap_or(0) <= LONGEST_PROLOG_S
}

/// Reads the answer to [`FIELDS`]: the rows of a job's steps follow the job's row.
fn steps(text: &str, separator: &str) -> Result<HashMap<Run, Usage>, String> {
    let answer = records(text, separator, &FIELDS, FIELDS.len());
    if let Some(line) = answer.foreign.first() {
        return Err(parse::broken("sacct", line));
    }
    let mut found: HashMap<Run, Usage> = HashMap::new();
    let mut current: Option<Run> = None;
    for record in &answer.records {
        let id = record.get("JobID").trim();
        let Some((job, step)) = id.split_once('.') else {
            let submit = time(record.get("Submit"), Twice::Latest).flatten();
            current = match ids(id) {
                Some(Ids::One(id)) => Some((id, submit)),
                _ => None,
            };
            if let Some(run) = &current {
                let usage = found.entry(run.clone()).or_default();
                let cpus = record.get("AllocCPUS").trim().parse().ok();
                usage.alloc_cpus = cpus.filter(|count| *count > 0);
                [usage.partition, usage.account, usage.qos] = ["Partition", "Account", "QOS"]
                    .map(|name| known(record.get(name)).map(Arc::from));
            }
            continue;
        };
        let Some(run) = current
            .as_ref()
            .filter(|(id, _)| ids(job) == Some(Ids::One(id.clone())))
        else {
            continue;
        };
        let usage = found.entry(run.clone()).or_default();
        let memory = used_memory(record.get("MaxRSS"));
        let cpu = cpu_time_ms(record.get("TotalCPU"));
        usage.max_rss_mb = usage.max_rss_mb.max(memory);
        if let Some(cpu) = cpu {
            usage.cpu_ms = Some(usage.cpu_ms.unwrap_or_default().saturating_add(cpu));
        }
        // The extern step belongs to the prolog's container.
        if step != "extern" {
            let has_code = record.get("ExitCode").contains(':');
            usage.has_begun |= has_code || memory.is_some() || cpu.is_some_and(|ms| ms > 0);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
