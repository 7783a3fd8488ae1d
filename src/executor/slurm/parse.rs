//! Parses the text of squeue and sacct into job reports.
//!
//! Pure; accepts any bytes. An answer with text that is not a job is broken ([`Parsed::broken`]). A record that was
//! cut is a job in an unknown state ([`Phase::Unknown`]), never an absence.

pub(crate) mod records;
pub(crate) mod values;

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::sync::Arc;

pub use records::is_askable;
use records::{Ids, MOST_TASKS_OF_ALL, Record, Records, ids, records, tasks};
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

/// The fields of squeue's answer by sacct's names, with their symbols for `--format`. Free texts are last.
pub const QUEUE_FORMAT: [(&str, &str); 10] = [
    ("JobID", "%i"),
    ("State", "%T"),
    ("Reason", "%r"),
    ("Submit", "%V"),
    ("Start", "%S"),
    ("End", "%e"),
    ("NodeList", "%N"),
    ("TimelimitRaw", "%l"),
    ("Comment", "%k"),
    ("JobName", "%j"),
];

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

/// If Slurm prints a value in an unknown way, it does so for each of many thousand jobs.
const MOST_WARNINGS: usize = 100;

/// [`ACCOUNTING_FIELDS`], with [`SUBMIT_LINE`] if asked for.
pub fn accounting_fields(with_submit_line: bool) -> Vec<&'static str> {
    let mut fields = ACCOUNTING_FIELDS.to_vec();
    if with_submit_line {
        fields.insert(fields.len() - 1, SUBMIT_LINE);
    }
    fields
}

/// Reads squeue's answer to [`QUEUE_FORMAT`].
pub fn queue(text: &str, separator: &str, cluster: Option<&Arc<str>>) -> Parsed {
    let names = QUEUE_FORMAT.map(|(name, _)| name);
    let found = records(text, separator, &names, names.len() - 2);
    read(Source::Queue, &found, separator, cluster)
}

/// Reads sacct's answer to [`accounting_fields`].
pub fn accounting(
    text: &str,
    separator: &str,
    with_submit_line: bool,
    cluster: Option<&Arc<str>>,
) -> Parsed {
    let names = accounting_fields(with_submit_line);
    let found = records(text, separator, &names, ACCOUNTING_FIELDS.len() - 1);
    read(Source::Accounting, &found, separator, cluster)
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

    fn warn(&mut self, warning: String) {
        if self.warnings.len() < MOST_WARNINGS && !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

fn read(
    source: Source,
    found: &Records<'_>,
    separator: &str,
    cluster: Option<&Arc<str>>,
) -> Parsed {
    let program = match source {
        Source::Queue => "squeue",
        Source::Accounting => "sacct",
    };
    let mut parsed = Parsed::default();
    let mut arrays = Vec::new();
    let mut left = MOST_TASKS_OF_ALL;
    for line in &found.foreign {
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
    for record in &found.records {
        let id = record.get("JobID");
        match ids(id) {
            Some(Ids::One(id)) => {
                let job = report(source, record, id, &mut parsed);
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
                let report = report(source, record, array, &mut parsed);
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
    for job in &mut parsed.jobs {
        job.facts.cluster = cluster.cloned();
    }
    parsed
}

/// Why an answer does not count.
pub(super) fn broken(program: &str, line: &str) -> String {
    let shown = line.chars().take(80).flat_map(char::escape_default);
    let shown: String = shown.collect();
    format!("{program} printed unexpected text: '{shown}'")
}

fn report(source: Source, record: &Record<'_>, id: JobId, parsed: &mut Parsed) -> JobReport {
    let get = |name: &str| record.get(name);
    let mut times = [
        // A submission must not appear older than its intent, as if it were another job's record.
        ("Submit", Twice::Latest),
        ("Start", Twice::Earliest),
        ("End", Twice::Earliest),
    ]
    .map(|(name, twice)| {
        let text = get(name);
        time(text, twice).unwrap_or_else(|| {
            let warning = format!("invalid time '{text}' in Slurm's answer (job {id})");
            parsed.warn(warning);
            None
        })
    });
    let (state, nodes) = (get("State"), known(get("NodeList")));
    let reason = known(get("Reason"));
    let exit_code = Some(get("ExitCode")).filter(|code| code.contains(':'));
    let (mut phase, warning) = job_state::phase(StateWords {
        source,
        state,
        exit_code,
        reason,
        has_run: times[1].is_some() && nodes.is_some(),
    });
    if let Some(warning) = warning {
        parsed.warn(warning);
    }
    // A record of accounting whose first half has not arrived yet: for some seconds its name is `allocation`, its
    // memory `16?`, and the canceller is missing.
    let is_partial = get("ReqMem").contains('?');
    // An end without its time: accounting got the job's start after the job had ended, and the end itself (who
    // cancelled it, its exit code) has not arrived yet.
    let lacks_end = source == Source::Accounting
        && matches!(phase, Phase::Completed | Phase::Failed(_))
        && times[1].is_some()
        && times[2].is_none();
    if is_partial || lacks_end {
        phase = Phase::Unknown;
    }
    let waits = matches!(phase, Phase::Queued | Phase::Held);
    // The queue's start of a pending job is a forecast, and so is the end of a running one.
    if waits {
        times[1] = None;
    }
    if phase.is_live() {
        times[2] = None;
    }
    let [submitted_at, started_at, ended_at] = times;
    let (submit_line, name) = (get(SUBMIT_LINE), get("JobName"));
    let tag = JobTag::parse(get("Comment")).or_else(|| tag_of_submit_line(submit_line));
    // Scripts, plugins and people change a job's name.
    let submitted_name = old_name_in_submit_line(submit_line, name).filter(|_| tag.is_some());
    let cpus = get("ReqCPUS");
    JobReport {
        name: submitted_name.unwrap_or(name).to_owned(),
        phase,
        pending_reason: reason.filter(|_| waits).map(str::to_owned),
        submitted_at,
        facts: JobFacts {
            slurm_state: Some(Arc::from(state.trim())),
            started_at,
            ended_at,
            node_list: nodes.map(Arc::from),
            req_mem_mb: requested_memory(get("ReqMem"), get("NNodes"), cpus),
            time_limit_s: clock(get("TimelimitRaw")),
            elapsed_s: get("ElapsedRaw").parse().ok().or_else(|| {
                let (start, end) = (started_at?, ended_at?);
                Some((end - start).num_seconds().max(0))
            }),
            req_cpus: cpus.trim().parse().ok().filter(|count| *count > 0),
            // The other values come with the steps.
            ..JobFacts::default()
        }
        .with_exit_code(exit_code),
        tag: tag.map(|tag| tag_of_task(tag, &id)),
        has_submit_line: known(submit_line).is_some(),
        id,
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
