//! The text of squeue and sacct, read into job reports.
//!
//! Pure. Any bytes are accepted. A line that cannot be read is a warning and, if at least its job id
//! can, a job of which nothing is known ([`Phase::Unknown`]): never an absence.

mod ids;
pub mod steps;
mod values;

use std::collections::HashSet;
use std::sync::Arc;

pub use ids::is_askable;
use ids::{Ids, ids};
use values::{Twice, clock, known, requested_memory, tag_of_submit_line, time};

use super::job_state::{self, Said, Source};
use crate::executor::{JobReport, Phase};
use crate::job::{JobId, JobTag, array};
use crate::state::JobFacts;

/// Stands between the fields: cannot be typed into a job name by mistake, as `|` can.
pub const SEPARATOR: char = '\u{1f}';

/// squeue's `--format`, without the separators. The name is last, so that whatever it holds stays in it.
pub const QUEUE_FORMAT: [&str; 10] = ["%i", "%T", "%r", "%V", "%S", "%e", "%N", "%l", "%k", "%j"];

/// sacct's `--format`: fields that exist since 20.11. The name is last.
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

/// The field that holds the whole command line of a submission, since 21.08: before the name.
pub const SUBMIT_LINE: &str = "SubmitLine";

/// Holds what could be read, and what a person should hear of.
#[derive(Debug, Default)]
pub struct Parsed {
    pub jobs: Vec<JobReport>,
    pub warnings: Vec<String>,
    /// Set if a line about a job could not be read: the answer is not whole, and what is missing
    /// from it is not absent.
    pub broken: Option<String>,
}

/// Reads squeue's answer to [`QUEUE_FORMAT`].
pub fn queue(text: &str, cluster: Option<&Arc<str>>) -> Parsed {
    read("squeue", text, |line| {
        let fields: [&str; QUEUE_FORMAT.len()] = split(line)?;
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
            exit_code: None,
            reason,
            submit,
            start,
            end,
            nodes,
            time_limit_s: clock(limit),
            req_mem_mb: None,
            elapsed_s: None,
            tag: JobTag::parse(comment),
            has_submit_line: false,
            name,
            is_whole: true,
        };
        Some((id, raw))
    })
    .of_cluster(cluster)
}

/// Reads sacct's answer to [`ACCOUNTING_FIELDS`], with [`SUBMIT_LINE`] before the name if asked for.
pub fn accounting(text: &str, with_submit_line: bool, cluster: Option<&Arc<str>>) -> Parsed {
    const FIELDS: usize = ACCOUNTING_FIELDS.len();
    read("sacct", text, |line| {
        let (head, submit_line, name) = if with_submit_line {
            let fields: [&str; FIELDS + 1] = split(line)?;
            let (head, [submit_line, name]) = fields.split_last_chunk::<2>()?;
            (
                <[&str; FIELDS - 1]>::try_from(head).ok()?,
                *submit_line,
                *name,
            )
        } else {
            let fields: [&str; FIELDS] = split(line)?;
            let (name, head) = fields.split_last()?;
            (<[&str; FIELDS - 1]>::try_from(head).ok()?, "", *name)
        };
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
            elapsed_s: elapsed.parse().ok(),
            tag: tag_of_submit_line(submit_line),
            has_submit_line: known(submit_line).is_some(),
            name,
            is_whole: !memory.contains('?'),
        };
        Some((id, raw))
    })
    .of_cluster(cluster)
}

/// Holds a line's fields as they came, with the few that are read differently per source.
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
    elapsed_s: Option<i64>,
    tag: Option<JobTag>,
    has_submit_line: bool,
    name: &'a str,
    /// False for a record of accounting's whose first half has not arrived yet: for some seconds its
    /// name is `allocation`, its memory `16?`, and nobody seems to have cancelled it.
    is_whole: bool,
}

impl Parsed {
    fn of_cluster(mut self, cluster: Option<&Arc<str>>) -> Self {
        for job in &mut self.jobs {
            job.facts.cluster = cluster.cloned();
        }
        self
    }

    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}

fn read<'a>(
    program: &str,
    text: &'a str,
    fields: impl Fn(&'a str) -> Option<(&'a str, Raw<'a>)>,
) -> Parsed {
    let mut parsed = Parsed::default();
    let mut ranges = Vec::new();
    let mut unread: Vec<&str> = Vec::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let Some((id, raw)) = fields(line) else {
            unread.push(line);
            let first = line.split(SEPARATOR).next().unwrap_or_default();
            if line.contains(SEPARATOR) || ids(first).is_some() {
                parsed.broken.get_or_insert_with(|| broken(program, line));
            }
            // Without a separator it is the rest of a name with a line break, or a banner.
            if line.contains(SEPARATOR)
                && let Some(Ids::One(id)) = ids(first)
            {
                parsed.jobs.push(unknown(id));
            }
            continue;
        };
        match ids(id) {
            Some(Ids::One(id)) => {
                let job = raw.report(id, &mut parsed);
                parsed.jobs.push(job);
            }
            Some(Ids::Tasks {
                array,
                tasks,
                whole,
            }) => {
                // The array is there, whichever of its tasks were cut off.
                if !whole {
                    let array = raw.report(array, &mut parsed);
                    parsed.jobs.push(array);
                    let text = format!("{program} shows only a part of the array tasks '{id}'");
                    parsed.broken.get_or_insert_with(|| text.clone());
                    parsed.warn(text);
                }
                ranges.push((tasks, raw));
            }
            Some(Ids::Other) => {}
            // A job, and nobody knows which.
            None => {
                unread.push(line);
                parsed.broken.get_or_insert_with(|| broken(program, line));
            }
        }
    }
    // A task can stand in a row of its own and in a range; its own row is the newer one.
    let single: HashSet<JobId> = parsed.jobs.iter().map(|job| job.id.clone()).collect();
    for (tasks, raw) in ranges {
        for id in tasks.into_iter().filter(|id| !single.contains(id)) {
            let job = raw.report(id, &mut parsed);
            parsed.jobs.push(job);
        }
    }
    if let Some(first) = unread.first() {
        parsed.warn(format!(
            "{} of {program}'s lines could not be read; the first: {}",
            unread.len(),
            shown(first)
        ));
    }
    parsed
}

fn broken(program: &str, line: &str) -> String {
    format!(
        "a line of {program}'s answer could not be read: {}",
        shown(line)
    )
}

fn shown(line: &str) -> String {
    line.chars()
        .take(80)
        .flat_map(char::escape_default)
        .collect()
}

impl Raw<'_> {
    fn report(&self, job: JobId, parsed: &mut Parsed) -> JobReport {
        let mut times = [
            // A submission must not seem to be older than its intent: another job's record.
            (self.submit, Twice::Latest),
            (self.start, Twice::Earliest),
            (self.end, Twice::Earliest),
        ]
        .map(|(text, twice)| {
            time(text, twice).unwrap_or_else(|| {
                parsed.warn(format!("'{text}' is no time of Slurm's (job {job})"));
                None
            })
        });
        let reason = known(self.reason);
        let (mut phase, warning) = job_state::phase(Said {
            source: self.source,
            state: self.state,
            exit_code: self.exit_code,
            reason,
            has_run: times[1].is_some() && known(self.nodes).is_some(),
        });
        if let Some(warning) = warning {
            parsed.warn(warning);
        }
        // An end without its time: accounting was told of the job's start when it had ended already, and the
        // end itself (who cancelled it, its exit code) is still on its way.
        let lacks_end = self.source == Source::Accounting
            && matches!(phase, Phase::Completed | Phase::Failed(_))
            && times[1].is_some()
            && times[2].is_none();
        if !self.is_whole || lacks_end {
            phase = Phase::Unknown;
        }
        // For a job that waits, the queue's start is a forecast, and so is the end of one that runs.
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
                exit_code: self.exit_code.map(Arc::from),
                started_at,
                ended_at,
                node_list: known(self.nodes).map(Arc::from),
                req_mem_mb: self.req_mem_mb,
                max_rss_mb: None,
                time_limit_s: self.time_limit_s,
                elapsed_s: self.elapsed_s.or_else(|| {
                    let (start, end) = (started_at?, ended_at?);
                    Some((end - start).num_seconds().max(0))
                }),
                // Stand with the steps.
                cpu_time_s: None,
                alloc_cpus: None,
                cluster: None,
            },
            tag: self.tag.clone().map(|tag| tag_of_task(tag, &job)),
            has_submit_line: self.has_submit_line,
            id: job,
        }
    }
}

/// All tasks of an array of ours carry the array's tag; the index makes it the task's own.
fn tag_of_task(tag: JobTag, job: &JobId) -> JobTag {
    match array::split_job_id(job) {
        Some((_, index)) if array::is_array_id(&tag.submission_id) => JobTag {
            submission_id: array::task_id(&tag.submission_id, index),
            ..tag
        },
        _ => tag,
    }
}

fn unknown(id: JobId) -> JobReport {
    JobReport {
        id,
        name: String::new(),
        phase: Phase::Unknown,
        pending_reason: None,
        submitted_at: None,
        facts: JobFacts::default(),
        tag: None,
        has_submit_line: false,
    }
}

/// Splits at the first N - 1 separators; the last field keeps the others.
fn split<const N: usize>(line: &str) -> Option<[&str; N]> {
    let mut parts = line.splitn(N, SEPARATOR);
    let mut fields = [""; N];
    for field in &mut fields {
        *field = parts.next()?;
    }
    Some(fields)
}

#[cfg(test)]
mod tests;
