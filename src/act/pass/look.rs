//! The first step of a pass: asks the executor about the rows in flight and updates them.
//!
//! In memory only: nothing here submits or saves.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};

use super::disk::{Asked, Disk};
use super::lost::may_lack_rows;
use super::{Pass, chrono_duration};
use crate::decide::reconcile;
use crate::decide::reconcile::{OutputSource, Patience};
use crate::executor::{Answer, Executor, JobReport, Observation, OtherExecutor, Phase, Question};
use crate::gather::completion::Completions;
use crate::model::config::Config;
use crate::model::job::{JobId, array, is_same_study};
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

    /// The number of live jobs with the study's tag but without a row.
    pub fn without_row(&self, state: &State, project: &str) -> usize {
        let rows = state.rows().iter();
        let ids = rows.filter_map(|row| row.submission_id.as_deref());
        let whole = |id| array::split_task_id(id).map(|(array, _)| array);
        let known: HashSet<&str> = ids.flat_map(|id| [Some(id), whole(id)]).flatten().collect();
        let jobs = self.observation.queue.got().into_iter().flatten();
        let is_lost = |job: &&JobReport| {
            let tag = job
                .tag
                .as_ref()
                .filter(|tag| is_same_study(&tag.project, project));
            job.phase.is_live() && tag.is_some_and(|tag| !known.contains(&*tag.submission_id))
        };
        jobs.filter(is_lost).count()
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
        let Some(id) = &row.job_id else {
            return false;
        };
        if self.observation.of_other_executor.contains(id) {
            return false;
        }
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
    let question = question(config, state, asked_at);
    executor.set_deadline(config.deadline);
    let mut observation = executor.observe(&question);
    note_cluster(state, &observation);
    reconcile::complete_tags(&mut observation, state);
    let disk = Disk {
        config,
        completions,
    };
    let patience = Patience {
        lost_grace: chrono_duration(config.lost_grace),
        absence_grace: chrono_duration(config.absence_grace),
        settle_time: settle_time(config),
    };
    let judge = |outputs: &dyn OutputSource| {
        reconcile::reconcile(state, &observation, outputs, &patience, asked_at)
    };
    // The first time only finds out which outputs it asks for, to read them all in parallel.
    let asked = Asked::default();
    judge(&asked);
    let found = judge(&disk.ahead(asked, config.scan_threads));
    let mut looked = Looked {
        queue_failed: failure(&observation.queue),
        accounting_failed: failure(&observation.accounting),
        warnings: observation.warnings.clone(),
        observation,
        ..Looked::default()
    };
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
        let mut observation = self.executor.observe(&question);
        note_cluster(state, &observation);
        reconcile::complete_tags(&mut observation, state);
        Looked {
            queue_failed: failure(&observation.queue),
            warnings: observation.warnings.clone(),
            observation,
            ..Looked::default()
        }
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

/// The question of a pass, about every cluster where a job of this configuration may be.
fn question(config: &Config, state: &State, now: DateTime<Utc>) -> Question {
    let mut question = reconcile::question(state, now);
    question.everywhere |= may_lack_rows(config, state);
    add_clusters(config, &mut question);
    question
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
    let more = match others.count() {
        0 => String::new(),
        count => format!(" (and {count} more such jobs)"),
    };
    let remedy = first.remedy();
    Some(format!("{first}{more}; no status is changed: {remedy}"))
}

fn held(state: &State, observation: &Observation) -> Vec<(TaskKey, JobId, String)> {
    let reasons: HashMap<(&JobId, Option<&str>), &str> = observation
        .queue
        .got()
        .into_iter()
        .flatten()
        .filter(|job| job.phase == Phase::Held)
        .map(|job| {
            let place = (&job.id, job.facts.cluster.as_deref());
            (place, job.pending_reason.as_deref().unwrap_or("held"))
        })
        .collect();
    state
        .rows()
        .iter()
        .filter(|row| row.reason == Some(Reason::Held))
        .filter_map(|row| {
            let id = row.job_id.as_ref()?;
            let reason = reasons.get(&(id, row.facts.cluster.as_deref()))?;
            Some((row.key.clone(), id.clone(), (*reason).to_owned()))
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
