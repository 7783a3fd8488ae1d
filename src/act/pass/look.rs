//! The first step of a pass: asks the executor about the rows in flight and updates them.
//!
//! In memory only: nothing here submits or saves.

use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};

use super::disk::{Asked, Disk};
use super::lost::may_lack_rows;
use super::{Pass, chrono_duration};
use crate::base::text::maybe;
use crate::decide::reconcile;
use crate::decide::reconcile::{OutputSource, Patience};
use crate::executor::{Answer, Executor, Observation, OtherExecutor, Phase, Question};
use crate::gather::completion::Completions;
use crate::model::config::Config;
use crate::model::job::{JobId, array};
use crate::model::procedure::options;
use crate::model::state::transition::{Cause, Change, Outcome};
use crate::model::state::{Reason, State, TaskKey, TaskRow, TaskStatus, transition};
use crate::store::audit_log::{Event, EventKind};

/// The findings of a look at Slurm and the disk.
#[derive(Debug, Default)]
pub struct Looked {
    /// Rows whose status or reason changed, with the old values.
    pub changed: Vec<((TaskStatus, Option<Reason>), TaskRow)>,
    /// Tasks that were released: their submission in doubt never became a job.
    pub released: Vec<TaskRow>,
    /// Our held jobs, with Slurm's reason.
    pub held: Vec<(TaskKey, JobId, String)>,
    /// Why the queue or accounting did not answer.
    pub queue_failed: Option<String>,
    pub accounting_failed: Option<String>,
    pub warnings: Vec<String>,
    pub events: Vec<Event>,
    /// The queue's answer, for the comparison with the plan.
    pub observation: Observation,
}

impl Looked {
    /// Applies a change to the rows, if it is allowed, and records it.
    pub fn apply(&mut self, state: &mut State, change: Change, at: DateTime<Utc>) {
        let cause = change.cause.clone();
        if let Outcome::Changed { old, row } = transition::apply(state, change, at) {
            self.events.push(event(at, &cause, old.0, &row));
            self.changed.push((old, *row));
        }
    }

    /// True if queue and accounting both answered, neither lists the row's job, and it was not submitted just now.
    /// One such look does not prove an end, since a queue can miss a job for a moment; with a person's request it is
    /// enough.
    pub fn has_forgotten(&self, row: &TaskRow, config: &Config, now: DateTime<Utc>) -> bool {
        let (Answer::Got(queue), Answer::Got(records)) =
            (&self.observation.queue, &self.observation.accounting)
        else {
            return false;
        };
        let others = &self.observation.of_other_executor;
        let Some(id) = row.job_id.as_ref().filter(|id| !others.contains(*id)) else {
            return false;
        };
        // An array may be listed in place of its tasks.
        let array = array::split_job_id(id).map(|(array, _)| array);
        let is_known = queue.iter().chain(records).any(|job| {
            (job.id == *id || Some(job.id.as_str()) == array)
                && job.facts.cluster == row.facts.cluster
        });
        !is_known
            && row
                .submitted_at
                .is_none_or(|at| now - at >= settle_time(config))
    }
}

fn settle_time(config: &Config) -> Duration {
    chrono_duration(config.settle_time)
}

/// Asks the executor about the rows in flight and updates them, in memory.
pub fn look(
    config: &Config,
    state: &mut State,
    executor: &mut dyn Executor,
    completions: &dyn Completions,
    clock: &dyn Fn() -> DateTime<Utc>,
) -> Looked {
    // The time between two clean answers counts from the start of the second.
    let asked_at = clock();
    let mut question = reconcile::question(state, asked_at);
    question.everywhere |= may_lack_rows(config, state);
    add_clusters(config, &mut question);
    executor.set_deadline(config.deadline);
    let mut looked = observe(state, executor, &question);
    let mut disk = Disk::new(config, completions);
    let patience = Patience {
        lost_grace: chrono_duration(config.lost_grace),
        absence_grace: chrono_duration(config.absence_grace),
        settle_time: settle_time(config),
    };
    let judge = |outputs: &dyn OutputSource| {
        reconcile::reconcile(state, &looked.observation, outputs, &patience, asked_at)
    };
    // The first time only finds out which outputs it asks for, to read them all in parallel.
    let asked = Asked::default();
    judge(&asked);
    disk.read_ahead(asked);
    let found = judge(&disk);
    for change in found.changes {
        looked.apply(state, change, asked_at);
    }
    let is_own = |key: &TaskKey| {
        let row = state.get(key);
        row.is_none_or(|row| OtherExecutor::of(row, config.executor).is_none())
    };
    let released: Vec<TaskKey> = found.released.into_iter().filter(is_own).collect();
    for key in released {
        if let Some(row) = state.forget(&key) {
            looked.events.push(Event {
                kind: EventKind::Released,
                new_status: None,
                detail: Some("neither queue nor accounting lists the submission".to_owned()),
                ..event(asked_at, &Cause::Verdict, row.status, &row)
            });
            looked.released.push(row);
        }
    }
    looked.held = held(state, &looked.observation);
    looked.warnings.extend(of_other_executor(config, state));
    looked
}

impl Pass<'_> {
    /// Reads only the queue; the rows stay unchanged.
    pub fn look_at_queue(&mut self, state: &mut State) -> Looked {
        self.executor.set_deadline(self.config.deadline);
        let mut question = queue_question(self.config, state);
        question.identify = Some(state.meta.project.clone().unwrap_or_default());
        question.everywhere = may_lack_rows(self.config, state);
        Looked {
            accounting_failed: None,
            ..observe(state, self.executor, &question)
        }
    }
}

fn observe(state: &mut State, executor: &mut dyn Executor, question: &Question) -> Looked {
    let mut observation = executor.observe(question);
    note_cluster(state, &observation);
    reconcile::complete_tags(&mut observation, state);
    Looked {
        queue_failed: failure(&observation.queue),
        accounting_failed: failure(&observation.accounting),
        warnings: observation.warnings.clone(),
        observation,
        ..Looked::default()
    }
}

/// Records the cluster of the jobs, so that no other cluster's answer is believed.
fn note_cluster(state: &mut State, observation: &Observation) {
    if state.meta.cluster.is_some() {
        return;
    }
    state.meta.cluster = observation.cluster.as_deref().map(str::to_owned);
    // The first run of a study saves it in any case; without a state file there are no jobs to find again.
    if state.is_stored() && state.meta.cluster.is_some() {
        state.mark_changed();
    }
}

/// The question for the queue alone.
pub fn queue_question(config: &Config, state: &State) -> Question {
    let mut question = Question {
        clusters: reconcile::clusters(state),
        ..Question::default()
    };
    add_clusters(config, &mut question);
    question
}

fn add_clusters(config: &Config, question: &mut Question) {
    for (_, procedure) in config.procedures.iter() {
        for name in options::clusters(&procedure.resources.sbatch_args) {
            if !question.clusters.iter().any(|known| **known == *name) {
                question.clusters.push(Arc::from(name));
            }
        }
    }
}

/// A warning about jobs of another executor, whose state is unknown; names the first.
fn of_other_executor(config: &Config, state: &State) -> Option<String> {
    let rows = state.rows().iter();
    let mut others = rows.filter_map(|row| OtherExecutor::of(row, config.executor));
    let first = others.next()?;
    let more = Some(others.count()).filter(|count| *count > 0);
    let more = maybe(" (and ", more, " more such jobs)");
    let remedy = first.remedy();
    Some(format!("{first}{more}; no status is changed: {remedy}"))
}

fn held(state: &State, observation: &Observation) -> Vec<(TaskKey, JobId, String)> {
    let rows = state.rows().iter();
    let held = rows.filter(|row| row.reason == Some(Reason::Held));
    held.filter_map(|row| {
        let id = row.job_id.as_ref()?;
        let mut queue = observation.queue.got()?.iter();
        let job = queue.find(|job| {
            let is_own = job.id == *id && job.facts.cluster == row.facts.cluster;
            is_own && job.phase == Phase::Held
        })?;
        let reason = job.pending_reason.as_deref().unwrap_or("held");
        Some((row.key.clone(), id.clone(), reason.to_owned()))
    })
    .collect()
}

fn failure<T>(answer: &Answer<T>) -> Option<String> {
    match answer {
        Answer::Failed(message) => Some(message.clone()),
        Answer::Got(_) | Answer::Off => None,
    }
}

pub(super) fn event(at: DateTime<Utc>, cause: &Cause, old: TaskStatus, row: &TaskRow) -> Event {
    let kind = match cause {
        Cause::Adoption(_) => EventKind::Adopted,
        _ if old == row.status => EventKind::ReasonChange,
        _ => EventKind::StatusChange,
    };
    Event {
        old_status: Some(old),
        new_status: Some(row.status),
        ..Event::of(row, at, kind)
    }
}
