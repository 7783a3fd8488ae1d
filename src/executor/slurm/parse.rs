//! Parses the text of squeue and sacct into job reports.
//!
//! Pure; accepts any bytes. An answer with text that is not a job is broken ([`Parsed::broken`]). A record that was
//! cut is a job in an unknown state ([`Phase::Unknown`]), never an absence.

mod records;
pub mod steps;
mod values;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;

pub use records::is_askable;
use records::{Ids, MOST_TASKS_OF_ALL, ids, records, tasks};
use values::{
    Twice, clock, known, old_name_in_submit_line, requested_memory, tag_of_submit_line, time,
};

use super::job_state::{self, Source, StateWords};
use crate::executor::{JobReport, Phase};
use crate::model::job::{JobId, JobTag, array};
use crate::model::state::JobFacts;

/// The first and the last character of a separator.
pub const SEPARATOR: &str = "\u{1f}";

/// A separator that no text of a job contains. It stays the same, so that a site's cache in front of Slurm can reuse
/// its answers.
pub fn separator(study: &impl Hash) -> String {
    let mut hasher = DefaultHasher::new();
    study.hash(&mut hasher);
    format!("{SEPARATOR}{:016x}{SEPARATOR}", hasher.finish())
}

/// squeue's `--format`, without separators. Free texts are last.
pub const QUEUE_FORMAT: [&str; 10] = ["%i", "%T", "%r", "%V", "%S", "%e", "%N", "%l", "%k", "%j"];

/// sacct's `--format`: fields that exist since 20.11. The free text is last.
pub const ACCOUNTING_FIELDS: [&str; 14] = [
    "JobID",
    "State",
    "ExitCode",
    "Submit",
    "Start",
    "End",
    "ElapsedRaw",
    "TimelimitRaw",
    "ReqMem",
    "NNodes",
    "ReqCPUS",
    "NodeList",
    "Reason",
    "JobName",
];

/// The field with the complete submit line, since 21.08; before the name.
pub const SUBMIT_LINE: &str = "SubmitLine";

/// The jobs of an answer, with problems.
#[derive(Debug, Default)]
pub struct Parsed {
    pub jobs: Vec<JobReport>,
    pub warnings: Vec<String>,
    /// Set if the answer has text that is not a job, or was cut. Jobs that are missing from such an answer may exist.
    pub broken: Option<String>,
}

/// The number of squeue's fields before the free texts.
const QUEUE_SAFE: usize = QUEUE_FORMAT.len() - 2;

/// The number of sacct's fields before the free texts.
const ACCOUNTING_SAFE: usize = ACCOUNTING_FIELDS.len() - 1;

/// If Slurm prints a value in an unknown way, it does so for each of many thousand jobs.
const MOST_WARNINGS: usize = 100;

/// Reads squeue's answer to [`QUEUE_FORMAT`].
pub fn queue(text: &str, separator: &str, cluster: Option<&Arc<str>>) -> Parsed {
    let found = records::<{ QUEUE_FORMAT.len() }>(text, separator, QUEUE_SAFE);
    let jobs = found.records.into_iter().map(|fields| {
        let [
            id,
            state,
            reason,
            submit,
            start,
            end,
            nodes,
            limit,
            comment,
            name,
        ] = fields;
        let raw = Raw {
            source: Source::Queue,
            state,
            reason,
            submit,
            start,
            end,
            nodes,
            time_limit_s: clock(limit),
            tag: JobTag::parse(comment),
            name,
            ..Raw::default()
        };
        (id, raw)
    });
    read("squeue", jobs, &found.foreign, separator).of_cluster(cluster)
}

/// Reads sacct's answer to [`ACCOUNTING_FIELDS`], with [`SUBMIT_LINE`] before the name if asked for.
pub fn accounting(
    text: &str,
    separator: &str,
    with_submit_line: bool,
    cluster: Option<&Arc<str>>,
) -> Parsed {
    const FIELDS: usize = ACCOUNTING_FIELDS.len();
    match with_submit_line {
        true => accounting_of::<{ FIELDS + 1 }>(text, separator),
        false => accounting_of::<FIELDS>(text, separator),
    }
    .of_cluster(cluster)
}

fn accounting_of<const N: usize>(text: &str, separator: &str) -> Parsed {
    let found = records::<N>(text, separator, ACCOUNTING_SAFE);
    let jobs = found.records.iter().filter_map(|fields| {
        let (head, texts) = fields.split_first_chunk()?;
        let (name, submit_line) = texts.split_last()?;
        let submit_line = submit_line.first().copied().unwrap_or_default();
        Some(record(*head, submit_line, name))
    });
    read("sacct", jobs, &found.foreign, separator)
}

/// Assigns the fields of one record of accounting.
fn record<'a>(
    head: [&'a str; ACCOUNTING_SAFE],
    submit_line: &'a str,
    name: &'a str,
) -> (&'a str, Raw<'a>) {
    let tag = tag_of_submit_line(submit_line);
    let [
        id,
        state,
        code,
        submit,
        start,
        end,
        elapsed,
        limit,
        memory,
        node_count,
        cpus,
        nodes,
        reason,
    ] = head;
    let raw = Raw {
        source: Source::Accounting,
        state,
        exit_code: Some(code).filter(|code| code.contains(':')),
        reason,
        submit,
        start,
        end,
        nodes,
        time_limit_s: limit
            .parse::<i64>()
            .ok()
            .and_then(|minutes| minutes.checked_mul(60)),
        req_mem_mb: requested_memory(memory, node_count, cpus),
        req_cpus: cpus.trim().parse().ok().filter(|count| *count > 0),
        elapsed_s: elapsed.parse().ok(),
        has_submit_line: known(submit_line).is_some(),
        // Scripts, plugins and people change a job's name.
        name: old_name_in_submit_line(submit_line, name)
            .filter(|_| tag.is_some())
            .unwrap_or(name),
        tag,
        is_partial: memory.contains('?'),
    };
    (id, raw)
}

/// The raw fields of a record; those that differ between the sources are already parsed.
#[derive(Default)]
struct Raw<'a> {
    source: Source,
    state: &'a str,
    exit_code: Option<&'a str>,
    reason: &'a str,
    submit: &'a str,
    start: &'a str,
    end: &'a str,
    nodes: &'a str,
    time_limit_s: Option<i64>,
    req_mem_mb: Option<i64>,
    req_cpus: Option<i64>,
    elapsed_s: Option<i64>,
    tag: Option<JobTag>,
    has_submit_line: bool,
    name: &'a str,
    /// True for a record of accounting whose first half has not arrived yet: for some seconds its
    /// name is `allocation`, its memory `16?`, and the canceller is missing.
    is_partial: bool,
}

impl Parsed {
    /// Fails if the answer is broken.
    pub fn whole(self) -> Result<Self, String> {
        match self.broken {
            Some(text) => Err(text),
            None => Ok(self),
        }
    }

    pub fn add(&mut self, other: Self) {
        self.jobs.extend(other.jobs);
        self.warnings.extend(other.warnings);
        self.broken = self.broken.take().or(other.broken);
    }

    fn of_cluster(mut self, cluster: Option<&Arc<str>>) -> Self {
        for job in &mut self.jobs {
            job.facts.cluster = cluster.cloned();
        }
        self
    }

    fn warn(&mut self, warning: String) {
        if self.warnings.len() < MOST_WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

fn read<'a>(
    program: &str,
    records: impl Iterator<Item = (&'a str, Raw<'a>)>,
    foreign: &[&str],
    separator: &str,
) -> Parsed {
    let mut parsed = Parsed::default();
    let mut arrays = Vec::new();
    let mut left = MOST_TASKS_OF_ALL;
    for line in foreign {
        parsed.broken.get_or_insert_with(|| broken(program, line));
        // A record that was cut: the job exists.
        if let Some((id, _)) = line.split_once(separator)
            && let Some(Ids::One(id)) = ids(id)
        {
            parsed.jobs.push(JobReport {
                id,
                ..JobReport::default()
            });
        }
    }
    for (id, raw) in records {
        match ids(id) {
            Some(Ids::One(id)) => {
                let job = raw.report(id, &mut parsed);
                parsed.jobs.push(job);
            }
            Some(Ids::Tasks {
                array,
                ranges,
                is_complete,
            }) => {
                let (tasks, are_all) = tasks(&array, &ranges, left);
                left -= tasks.len();
                // One report for all, so that a problem is reported once.
                let report = raw.report(array, &mut parsed);
                // The array exists, even if some of its tasks were cut off.
                if !is_complete || !are_all {
                    parsed.jobs.push(report.clone());
                    let text = format!("{program} shows only a part of the array tasks '{id}'");
                    parsed.broken.get_or_insert_with(|| text.clone());
                    parsed.warn(text);
                }
                arrays.push((tasks, report));
            }
            // No record begins with other text.
            Some(Ids::Other) | None => {}
        }
    }
    // A task can be in its own row and in a range; its own row is newer.
    let single: HashSet<JobId> = parsed.jobs.iter().map(|job| job.id.clone()).collect();
    for (tasks, report) in arrays {
        let tasks = tasks.into_iter().filter(|id| !single.contains(id));
        parsed.jobs.extend(tasks.map(|id| JobReport {
            tag: report.tag.clone().map(|tag| tag_of_task(tag, &id)),
            id,
            ..report.clone()
        }));
    }
    parsed
}

/// Why an answer does not count.
fn broken(program: &str, line: &str) -> String {
    let shown = line.chars().take(80).flat_map(char::escape_default);
    let shown: String = shown.collect();
    format!("{program} printed unexpected text: '{shown}'")
}

impl Raw<'_> {
    fn report(&self, job: JobId, parsed: &mut Parsed) -> JobReport {
        let mut times = [
            // A submission must not appear older than its intent, as if it were another job's record.
            (self.submit, Twice::Latest),
            (self.start, Twice::Earliest),
            (self.end, Twice::Earliest),
        ]
        .map(|(text, twice)| {
            time(text, twice).unwrap_or_else(|| {
                parsed.warn(format!(
                    "invalid time '{text}' in Slurm's answer (job {job})"
                ));
                None
            })
        });
        let reason = known(self.reason);
        let (mut phase, warning) = job_state::phase(StateWords {
            source: self.source,
            state: self.state,
            exit_code: self.exit_code,
            reason,
            has_run: times[1].is_some() && known(self.nodes).is_some(),
        });
        if let Some(warning) = warning {
            parsed.warn(warning);
        }
        // An end without its time: accounting got the job's start after the job had ended, and the end itself (who
        // cancelled it, its exit code) has not arrived yet.
        let lacks_end = self.source == Source::Accounting
            && matches!(phase, Phase::Completed | Phase::Failed(_))
            && times[1].is_some()
            && times[2].is_none();
        if self.is_partial || lacks_end {
            phase = Phase::Unknown;
        }
        // The queue's start of a pending job is a forecast, and so is the end of a running one.
        if matches!(phase, Phase::Queued | Phase::Held) {
            times[1] = None;
        }
        if phase.is_live() {
            times[2] = None;
        }
        let [submitted_at, started_at, ended_at] = times;
        let waits = matches!(phase, Phase::Queued | Phase::Held);
        JobReport {
            name: self.name.to_owned(),
            phase,
            pending_reason: reason.filter(|_| waits).map(str::to_owned),
            submitted_at,
            facts: JobFacts {
                slurm_state: Some(Arc::from(self.state.trim())),
                started_at,
                ended_at,
                node_list: known(self.nodes).map(Arc::from),
                req_mem_mb: self.req_mem_mb,
                time_limit_s: self.time_limit_s,
                elapsed_s: self.elapsed_s.or_else(|| {
                    let (start, end) = (started_at?, ended_at?);
                    Some((end - start).num_seconds().max(0))
                }),
                req_cpus: self.req_cpus,
                // The other values come with the steps.
                ..JobFacts::default()
            }
            .with_exit_code(self.exit_code),
            tag: self.tag.clone().map(|tag| tag_of_task(tag, &job)),
            has_submit_line: self.has_submit_line,
            id: job,
        }
    }
}

/// All tasks of our arrays have the array's tag; adds the index.
fn tag_of_task(tag: JobTag, job: &JobId) -> JobTag {
    match array::split_job_id(job) {
        Some((_, index)) if array::is_array_id(&tag.submission_id) => JobTag {
            submission_id: array::task_id(&tag.submission_id, index),
            ..tag
        },
        _ => tag,
    }
}

#[cfg(test)]
mod tests;
