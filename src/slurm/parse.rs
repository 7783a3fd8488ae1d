//! The text of squeue and sacct, read into job reports.
//!
//! Pure. Any bytes are accepted. A line that cannot be read is a warning and, if at least its job id
//! can, a job of which nothing is known ([`Phase::Unknown`]): never an absence.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::{DateTime, Local, NaiveDateTime, TimeZone, Utc};

use super::job_state::{self, Said, Source};
use crate::executor::{JobId, JobReport, JobTag, Phase, array};
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
            name,
            is_whole: !memory.contains('?'),
        };
        Some((id, raw))
    })
    .of_cluster(cluster)
}

/// Returns true for an id that a query can name (`123`, `123_4`): one that sacct cannot read spoils
/// the whole query.
pub fn is_askable(id: &JobId) -> bool {
    let number = |text: &str| {
        !text.is_empty() && text.len() <= 10 && text.bytes().all(|b| b.is_ascii_digit())
    };
    match id.as_str().split_once('_') {
        Some((job, task)) => number(job) && number(task),
        None => number(id.as_str()),
    }
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
                let shown: String = line
                    .chars()
                    .take(80)
                    .flat_map(char::escape_default)
                    .collect();
                parsed.broken.get_or_insert_with(|| {
                    format!("a line of {program}'s answer could not be read: {shown}")
                });
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
                    parsed.warn(format!(
                        "{program} shows only a part of the array tasks '{id}'"
                    ));
                }
                ranges.push((tasks, raw));
            }
            Some(Ids::Other) => {}
            None => unread.push(line),
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
        let shown: String = first
            .chars()
            .take(80)
            .flat_map(char::escape_default)
            .collect();
        parsed.warn(format!(
            "{} of {program}'s lines could not be read; the first: {shown}",
            unread.len()
        ));
    }
    parsed
}

impl Raw<'_> {
    fn report(&self, job: JobId, parsed: &mut Parsed) -> JobReport {
        let mut times = [self.submit, self.start, self.end].map(|text| {
            time(text).unwrap_or_else(|| {
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
        if !self.is_whole {
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
                cluster: None,
            },
            tag: self.tag.clone().map(|tag| tag_of_task(tag, &job)),
            id: job,
        }
    }
}

/// All tasks of an array of ours carry the array's mark; the index makes it the task's own.
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

/// What an id field names.
#[derive(Debug, PartialEq, Eq)]
enum Ids {
    One(JobId),
    /// `123_[1-5%2]`; not whole if the list was cut.
    Tasks {
        array: JobId,
        tasks: Vec<JobId>,
        whole: bool,
    },
    /// A step (`123.batch`), or a further part of a heterogeneous job (`123+1`).
    Other,
}

/// More than any array that we submit; a line of noise must not fill the memory.
const MOST_TASKS: usize = 100_000;

fn ids(text: &str) -> Option<Ids> {
    let text = text.trim();
    let id = JobId::new(text);
    if is_askable(&id) {
        return Some(Ids::One(id));
    }
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if let Some((job, _step)) = text.split_once('.')
        && (is_askable(&JobId::new(job)) || job.split('+').all(digits))
    {
        return Some(Ids::Other);
    }
    // sbatch printed the leader's id, and the leader is the part of number 0.
    if let Some((leader, part)) = text.split_once('+') {
        return match (digits(leader), part) {
            (true, "0") => Some(Ids::One(JobId::new(leader))),
            (true, part) if digits(part) => Some(Ids::Other),
            _ => None,
        };
    }
    let (array, list) = text.split_once("_[")?;
    if !digits(array) {
        return None;
    }
    let (list, mut whole) = match list.strip_suffix(']') {
        Some(list) => (list, true),
        None => (list.trim_end_matches('.'), false),
    };
    let list = list.split('%').next().unwrap_or_default();
    let mut tasks = Vec::new();
    let parts: Vec<&str> = list.split(',').collect();
    for (place, part) in parts.iter().enumerate() {
        let is_cut = !whole && place + 1 == parts.len();
        // The last number of a cut list may lack digits.
        match task_range(part).filter(|_| !is_cut) {
            Some((first, last, step)) => {
                for task in (first..=last).step_by(step) {
                    if tasks.len() == MOST_TASKS {
                        return Some(Ids::Tasks {
                            array: JobId::new(array),
                            tasks,
                            whole: false,
                        });
                    }
                    tasks.push(JobId::new(&format!("{array}_{task}")));
                }
            }
            None => whole = false,
        }
    }
    Some(Ids::Tasks {
        array: JobId::new(array),
        tasks,
        whole,
    })
}

/// Reads `7`, `1-5` or `1-99:2`.
fn task_range(text: &str) -> Option<(u32, u32, usize)> {
    let (range, step) = text.split_once(':').unwrap_or((text, "1"));
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let step: usize = step.parse().ok()?;
    Some((first.parse().ok()?, last.parse().ok()?, step.max(1)))
}

/// Returns none for the words with which Slurm says that there is nothing.
fn known(text: &str) -> Option<&str> {
    let text = text.trim();
    let nothing = [
        "",
        "None",
        "NONE",
        "N/A",
        "(null)",
        "Unknown",
        "None assigned",
    ];
    (!nothing.contains(&text)).then_some(text)
}

/// Reads a time: epoch seconds as asked for (`SLURM_TIME_FORMAT=%s`), or the local time that a wrapper
/// which drops that variable lets through. The outer none: neither.
fn time(text: &str) -> Option<Option<DateTime<Utc>>> {
    let Some(text) = known(text) else {
        return Some(None);
    };
    if let Ok(seconds) = text.parse::<i64>() {
        // 0: never set.
        return DateTime::from_timestamp(seconds, 0).map(|time| Some(time).filter(|_| seconds > 0));
    }
    let naive = NaiveDateTime::parse_from_str(text, "%Y-%m-%dT%H:%M:%S").ok()?;
    let local = Local.from_local_datetime(&naive).earliest()?;
    Some(Some(local.with_timezone(&Utc)))
}

/// Reads squeue's time limit (`1:00`, `4:00:00`, `3-00:00:00`) in seconds; none: no limit, or not known.
fn clock(text: &str) -> Option<i64> {
    let (days, rest) = match text.trim().split_once('-') {
        Some((days, rest)) => (days.parse::<i64>().ok()?, rest),
        None => (0, text.trim()),
    };
    let mut seconds: i64 = 0;
    for part in rest.split(':') {
        let part: u32 = part.parse().ok()?;
        seconds = seconds.checked_mul(60)?.checked_add(i64::from(part))?;
    }
    // A lone number is minutes.
    if !rest.contains(':') {
        seconds = seconds.checked_mul(60)?;
    }
    days.checked_mul(86_400)?.checked_add(seconds)
}

/// Reads ReqMem in megabytes for the whole job. Newer releases print the total (`4000M`), those before
/// 21.08 a value per node (`4Gn`) or per CPU (`50Mc`). None: not known, or 0 (all of the node's).
fn requested_memory(text: &str, nodes: &str, cpus: &str) -> Option<i64> {
    let text = text.trim();
    let (text, times) = match text.strip_suffix(['n', 'c']) {
        Some(rest) if text.ends_with('n') => (rest, nodes.parse::<f64>().ok()?),
        Some(rest) => (rest, cpus.parse::<f64>().ok()?),
        None => (text, 1.0),
    };
    let (number, unit) = match text.char_indices().next_back()? {
        (place, unit) if unit.is_ascii_alphabetic() => (text.get(..place)?, unit),
        _ => (text, 'M'),
    };
    let megabytes = match unit.to_ascii_uppercase() {
        'K' => 1.0 / 1024.0,
        'M' => 1.0,
        'G' => 1024.0,
        'T' => 1024.0 * 1024.0,
        'P' => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    let total = (number.parse::<f64>().ok()? * megabytes * times).ceil();
    // Larger than any machine: noise.
    (1.0..1e15).contains(&total).then_some(total as i64)
}

/// Finds our mark in the command line of a submission. Our own comes first, before any other argument.
fn tag_of_submit_line(line: &str) -> Option<JobTag> {
    let (_, rest) = line.split_once("--comment=")?;
    let rest = rest.trim_start_matches(['\'', '"']);
    let end = rest
        .find(|c: char| c.is_whitespace() || c == '\'' || c == '"')
        .unwrap_or(rest.len());
    JobTag::parse(rest.get(..end)?)
}

#[cfg(test)]
mod tests;
