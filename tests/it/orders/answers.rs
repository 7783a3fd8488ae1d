//! What squeue and sacct say of the jobs, and what is wrong with it.

use proptest::prelude::*;
use snbb_scheduler::executor::slurm::parse;
use snbb_scheduler::executor::slurm::parse::SEPARATOR;
use snbb_scheduler::executor::{
    Answer, ArrayJob, Executor, ExecutorError, JobRequest, Observation, Question, Submission,
};
use snbb_scheduler::model::job::JobRef;

use super::course::{Job, Run};
use super::{START, TASKS, key};

/// The id of a job that accounting has known before.
pub const CANARY: &str = "7";

/// How long the queue remembers an end, seconds.
const MEMORY_S: i64 = 300;

/// What is wrong with one look's answers; a bit per task.
#[derive(Debug, Clone, Default)]
pub struct Noise {
    pub queue_fails: bool,
    pub accounting_fails: bool,
    /// Accounting answers as if it were empty.
    pub accounting_empty: bool,
    lost_queue: u8,
    lost_accounting: u8,
    /// Accounting does not know the newest event of the job yet.
    late: u8,
    /// Accounting does not know the newest run of the job yet.
    later: u8,
    /// Another job had or has this id.
    stranger: u8,
    doubled: u8,
    /// A word of tomorrow.
    unknown: u8,
    /// The record's first half is missing.
    half: u8,
}

pub fn noise() -> impl Strategy<Value = Noise> {
    let mask = || prop_oneof![5 => Just(0u8), 2 => any::<u8>(), 1 => Just(u8::MAX)];
    let rarely = || prop::bool::weighted(0.15);
    (
        (rarely(), rarely(), rarely()),
        (mask(), mask(), mask(), mask(), mask()),
        prop_oneof![3 => Just(0u8), 1 => any::<u8>()],
        prop_oneof![3 => Just(0u8), 1 => any::<u8>()],
        mask(),
    )
        .prop_map(
            |(
                (queue_fails, accounting_fails, accounting_empty),
                (lost_queue, lost_accounting, late, stranger, doubled),
                unknown,
                half,
                later,
            )| Noise {
                later,
                queue_fails,
                accounting_fails,
                accounting_empty,
                lost_queue,
                lost_accounting,
                late,
                stranger,
                doubled,
                unknown,
                half,
            },
        )
}

impl Noise {
    pub fn shows_in_queue(&self, task: usize, job: &Job, now: i64) -> bool {
        is_remembered(job, now) && self.lost_queue & (1 << task) == 0
    }

    pub fn hides_newest_run(&self, task: usize) -> bool {
        (self.later | self.late | self.lost_accounting) & (1 << task) != 0
    }
}

fn is_remembered(job: &Job, now: i64) -> bool {
    job.last()
        .ended
        .is_none_or(|(ended, _, _)| now - ended < MEMORY_S)
}

/// Answers one look.
pub struct Hand {
    queue: Option<String>,
    /// None: the query fails.
    accounting: Option<String>,
}

impl Hand {
    pub fn new(jobs: &[Job], noise: &Noise, now: i64) -> Self {
        Self {
            queue: (!noise.queue_fails).then(|| queue(jobs, noise, now)),
            accounting: (!noise.accounting_fails).then(|| {
                if noise.accounting_empty {
                    String::new()
                } else {
                    accounting(jobs, noise)
                }
            }),
        }
    }
}

fn queue(jobs: &[Job], noise: &Noise, now: i64) -> String {
    let mut text = String::new();
    for (task, job) in jobs.iter().enumerate() {
        let has = |mask: u8| mask & (1 << task) != 0;
        let run = job.last();
        let remembered = is_remembered(job, now);
        if !remembered || has(noise.lost_queue) {
            // The controller has forgotten the job, and its id came round.
            if !remembered && has(noise.stranger) {
                text += &queue_row(
                    task,
                    "RUNNING",
                    &Run {
                        ended: None,
                        ..run.clone()
                    },
                    "other",
                    "snbb:p:other",
                );
            }
            continue;
        }
        let word = match run.ended {
            _ if has(noise.unknown) => "TELEPORTED",
            Some((_, word, _)) => word.split(' ').next().unwrap(),
            None if run.started.is_some() => "RUNNING",
            None => "PENDING",
        };
        let name = key(task).job_name();
        let line = queue_row(
            task,
            word,
            run,
            &name,
            &format!("snbb:p:s{}", Job::id(task)),
        );
        text += &line.repeat(1 + usize::from(has(noise.doubled)));
    }
    text
}

fn queue_row(task: usize, word: &str, run: &Run, name: &str, comment: &str) -> String {
    let time = |time: Option<i64>| time.map_or("N/A".to_owned(), |time| time.to_string());
    [
        Job::id(task).as_str(),
        word,
        "None",
        &run.submitted.to_string(),
        &time(run.started),
        &time(run.ended.map(|(ended, _, _)| ended)),
        if run.started.is_some() { "n1" } else { "" },
        "1:00:00",
        comment,
        name,
    ]
    .join(SEPARATOR)
        + "\n"
}

fn accounting(jobs: &[Job], noise: &Noise) -> String {
    let mut text = String::new();
    for (task, job) in jobs.iter().enumerate().take(TASKS) {
        let has = |mask: u8| mask & (1 << task) != 0;
        if has(noise.stranger) {
            // Of an earlier turn of the ids.
            let run = Run {
                submitted: START - 90_000,
                started: Some(START - 89_000),
                ended: Some((START - 88_000, "FAILED", "1:0")),
            };
            text += &record(&Job::id(task), "FAILED", &run, "other");
        }
        if has(noise.lost_accounting) {
            continue;
        }
        let mut runs = job.runs.clone();
        if has(noise.late) {
            let last = runs.last_mut().unwrap();
            if last.ended.is_some() {
                last.ended = None;
            } else if runs.len() > 1 {
                runs.pop();
            }
        }
        if has(noise.later) && runs.len() > 1 {
            runs.pop();
        }
        let newest = runs.len() - 1;
        for (at, run) in runs.iter().enumerate() {
            let word = match run.ended {
                _ if has(noise.unknown) && at == newest => "TELEPORTED",
                Some((_, word, _)) => word,
                None if run.started.is_some() => "RUNNING",
                None => "PENDING",
            };
            let name = if has(noise.half) && at == newest {
                "allocation".to_owned()
            } else {
                key(task).job_name()
            };
            let line = record(&Job::id(task), word, run, &name);
            text += &line.repeat(1 + usize::from(has(noise.doubled)));
        }
    }
    text
}

fn record(id: &str, word: &str, run: &Run, name: &str) -> String {
    let time = |time: Option<i64>| time.map_or("Unknown".to_owned(), |time| time.to_string());
    let memory = if name == "allocation" { "16?" } else { "4000M" };
    [
        id,
        word,
        run.ended.map_or("0:0", |(_, _, code)| code),
        &run.submitted.to_string(),
        &time(run.started),
        &time(run.ended.map(|(ended, _, _)| ended)),
        "1",
        "60",
        memory,
        "1",
        "1",
        if run.started.is_some() {
            "n1"
        } else {
            "None assigned"
        },
        "None",
        name,
    ]
    .join(SEPARATOR)
        + "\n"
}

impl Executor for Hand {
    fn command_line(&self, _: &[&JobRequest], _: Option<&ArrayJob>) -> Vec<String> {
        Vec::new()
    }

    fn find_script(&self, script: &str) -> Result<std::path::PathBuf, ExecutorError> {
        Ok(script.into())
    }

    fn submit(&mut self, _: &[&JobRequest], _: Option<&ArrayJob>) -> Submission {
        unreachable!("a look submits nothing")
    }

    /// Answers as the Slurm executor does: nothing from accounting, not even of a job that it has known, is
    /// no answer.
    fn observe(&mut self, question: &Question) -> Observation {
        let mut warnings = Vec::new();
        let failed = || "it did not answer".to_owned();
        let queue = match &self.queue {
            None => Answer::Failed(failed()),
            Some(text) => {
                let parsed = parse::queue(text, SEPARATOR, None);
                warnings.extend(parsed.warnings);
                match parsed.broken {
                    Some(text) => Answer::Failed(text),
                    None => Answer::Got(parsed.jobs),
                }
            }
        };
        let accounting = match (&queue, &self.accounting) {
            (Answer::Failed(_), _) | (_, None) => Answer::Failed(failed()),
            (_, Some(text)) => {
                let mut parsed = parse::accounting(text, SEPARATOR, false, None);
                parsed
                    .jobs
                    .retain(|job| question.jobs.iter().any(|asked| asked.id == job.id));
                warnings.extend(parsed.warnings);
                let mut records = parsed.jobs;
                if let Some(canary) = question.canary.as_ref().filter(|_| !text.is_empty()) {
                    let run = Run {
                        submitted: START - 2000,
                        started: Some(START - 1900),
                        ended: Some((START - 1000, "COMPLETED", "0:0")),
                    };
                    let line = record(canary.id.as_str(), "COMPLETED", &run, "canary");
                    records.extend(parse::accounting(&line, SEPARATOR, false, None).jobs);
                }
                if records.is_empty() && !question.jobs.is_empty() {
                    Answer::Failed(failed())
                } else {
                    Answer::Got(records)
                }
            }
        };
        Observation {
            queue,
            accounting,
            warnings,
            ..Observation::default()
        }
    }

    fn cancel(&mut self, _: &[JobRef]) -> Result<(), ExecutorError> {
        unreachable!("a look cancels nothing")
    }
}
