//! What `run`, `monitor` and a dry run have in common: gather the world, reconcile the rows.
//!
//! Nothing here submits or saves.

use std::collections::HashMap;

use chrono::{DateTime, Duration, Utc};

use crate::bids::{SessionLabel, SubjectLabel};
use crate::completion::{Completion, Completions};
use crate::config::Config;
use crate::executor::{Answer, Executor, JobReport, Observation, Phase};
use crate::reconcile::{self, OutputSource, Outputs, Patience};
use crate::state::audit_log::{self, Event, EventKind};
use crate::state::transition::{self, Cause, Outcome};
use crate::state::{JobFacts, Reason, State, TaskKey, TaskRow, TaskStatus};

/// Least time between the two clean answers that release a submission in doubt, if the site says
/// nothing else.
const SETTLE_TIME: Duration = Duration::seconds(120);

/// Tells what a look at the world changed in the rows.
#[derive(Debug, Default)]
pub struct Looked {
    /// Rows whose status or reason changed, with what they were.
    pub changed: Vec<((TaskStatus, Option<Reason>), TaskRow)>,
    /// Tasks that are free again: their submission in doubt never became a job.
    pub released: Vec<TaskRow>,
    /// Why the queue or accounting did not answer.
    pub queue_failed: Option<String>,
    pub accounting_failed: Option<String>,
    pub warnings: Vec<String>,
    pub events: Vec<Event>,
    /// The queue's answer, for the comparison with the plan.
    pub observation: Observation,
}

/// Asks the executor about the rows in flight and brings them up to date, in memory.
pub fn look(
    config: &Config,
    state: &mut State,
    executor: &mut dyn Executor,
    completions: &dyn Completions,
    clock: &dyn Fn() -> DateTime<Utc>,
) -> Looked {
    let question = reconcile::question(state);
    // A second clean answer counts from its beginning.
    let asked_at = clock();
    let observation = executor.observe(&question);
    let disk = Disk {
        config,
        completions,
    };
    let patience = Patience {
        lost_grace: chrono_duration(config.lost_grace),
        settle_time: config.settle_time.map_or(SETTLE_TIME, chrono_duration),
    };
    let found = reconcile::reconcile(state, &question, &observation, &disk, &patience, asked_at);
    let mut looked = Looked {
        queue_failed: failure(&observation.queue),
        accounting_failed: failure(&observation.accounting),
        warnings: observation.warnings.clone(),
        observation,
        ..Looked::default()
    };
    for change in found.changes {
        let cause = change.cause.clone();
        if let Outcome::Changed { old, row } = transition::apply(state, change, asked_at) {
            looked.events.push(event(asked_at, &cause, old.0, &row));
            looked.changed.push((old, *row));
        }
    }
    for key in found.released {
        if let Some(row) = state.forget(&key) {
            looked.events.push(Event {
                kind: EventKind::Released,
                new_status: None,
                detail: Some("neither queue nor accounting knows the submission".to_owned()),
                ..event(asked_at, &Cause::Verdict, row.status, &row)
            });
            looked.released.push(row);
        }
    }
    looked
}

fn failure<T>(answer: &Answer<T>) -> Option<String> {
    match answer {
        Answer::Failed(message) => Some(message.clone()),
        Answer::Got(_) | Answer::Off => None,
    }
}

fn event(at: DateTime<Utc>, cause: &Cause, old: TaskStatus, row: &TaskRow) -> Event {
    Event {
        at,
        kind: match cause {
            Cause::Adoption(_) => EventKind::Adopted,
            _ => EventKind::StatusChange,
        },
        key: Some(row.key.clone()),
        job_id: row.job_id.clone(),
        old_status: Some(old),
        new_status: Some(row.status),
        detail: None,
        extra: audit_log::extras_of(row),
    }
}

/// Gives rows to living jobs of ours that have none (the state was rolled back or deleted).
pub fn adopt(
    state: &mut State,
    jobs: &[(TaskKey, JobReport)],
    history: &History,
    now: DateTime<Utc>,
) -> Vec<Event> {
    jobs.iter()
        .map(|(key, job)| {
            let old = state.get(key).map(|row| row.status);
            let (status, reason) = match job.phase {
                Phase::Running | Phase::Suspended => (TaskStatus::Running, Reason::Running),
                _ => (TaskStatus::Pending, Reason::Queued),
            };
            let row = TaskRow {
                key: key.clone(),
                status,
                submitted_at: job.submitted_at.or(Some(now)),
                job_id: Some(job.id.clone()),
                reason: Some(reason),
                attempt: Some(history.next(key).0),
                facts: JobFacts {
                    elapsed_s: None,
                    ..job.facts.clone()
                },
                updated_at: Some(now),
                missing_since: None,
                job_name: Some(job.name.as_str().into()),
                submission_id: job
                    .tag
                    .as_ref()
                    .map(|tag| tag.submission_id.as_str().into()),
                // Nobody knows what was there before: outputs must be newer than the job's start.
                replaces_outputs: Some(true),
                foreign: None,
            };
            let event = Event {
                old_status: old,
                ..event(now, &Cause::Adoption(job.id.clone()), row.status, &row)
            };
            state.put(row);
            event
        })
        .collect()
}

/// Shows the outputs of today's procedures to those who judge rows.
pub struct Disk<'a> {
    pub config: &'a Config,
    pub completions: &'a dyn Completions,
}

impl OutputSource for Disk<'_> {
    fn outputs(&self, key: &TaskKey) -> Outputs {
        let Some(procedure) = self.config.procedures.find(&key.procedure) else {
            return Outputs::NoRule;
        };
        let Ok(subject) = SubjectLabel::new(&key.subject) else {
            return Outputs::NoRule;
        };
        let session = if key.session.is_empty() {
            SessionLabel::none()
        } else {
            match SessionLabel::new(&key.session) {
                Ok(session) => session,
                Err(_) => return Outputs::NoRule,
            }
        };
        let disk = self.completions.for_subject(&subject);
        match disk.completion(procedure, &session) {
            Completion::Complete | Completion::NotApplicable => Outputs::Complete {
                newest: disk.newest_output(procedure, &session),
            },
            Completion::Incomplete => Outputs::Missing,
            Completion::Unreadable(_) => Outputs::Unreadable,
        }
    }

    fn output_grace(&self, key: &TaskKey) -> Duration {
        let own = self
            .config
            .procedures
            .find(&key.procedure)
            .and_then(|procedure| self.config.procedures.get(procedure).output_grace);
        chrono_duration(own.unwrap_or(self.config.output_grace))
    }
}

fn chrono_duration(duration: std::time::Duration) -> Duration {
    Duration::from_std(duration).unwrap_or(Duration::MAX)
}

/// Finds the number and the last failure of earlier attempts, for those tasks that are due.
#[derive(Debug, Default)]
pub struct History {
    attempts: HashMap<TaskKey, (i32, Option<Reason>)>,
}

impl History {
    /// Collects from the attempts file and from the rows.
    pub fn new(attempts: &[TaskRow], state: &State) -> Self {
        let mut history = Self::default();
        for row in attempts
            .iter()
            .chain(state.superseded())
            .chain(state.rows())
        {
            let entry = history.attempts.entry(row.key.clone()).or_default();
            let attempt = row.attempt.unwrap_or(1);
            if attempt >= entry.0 {
                let failed = row.status == TaskStatus::Failed;
                *entry = (attempt, row.reason.filter(|_| failed));
            }
        }
        history
    }

    /// Returns the number of the next attempt, and why the one before failed.
    pub fn next(&self, key: &TaskKey) -> (i32, Option<Reason>) {
        match self.attempts.get(key) {
            Some((attempt, reason)) => (attempt.saturating_add(1), *reason),
            None => (1, None),
        }
    }
}
