//! The first step of a pass: asks the executor about the rows in flight, reads the outputs of ended jobs, and updates
//! the rows.
//!
//! In memory only: nothing here submits or saves.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};

use super::adopt::{event, may_lack_rows};
use super::{Pass, chrono_duration};
use crate::base::parallel;
use crate::base::text::maybe;
use crate::decide::reconcile;
use crate::decide::reconcile::{OutputSource, Outputs, Patience};
use crate::executor::{Answer, Executor, Observation, OtherExecutor, Phase, Question};
use crate::gather::completion::{Completion, Completions};
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::config::Config;
use crate::model::job::{JobId, array};
use crate::model::procedure::{ProcedureId, SubmitRules, options};
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
        let is_settled = |at: DateTime<Utc>| now - at >= chrono_duration(config.settle_time);
        !is_known && row.submitted_at.is_none_or(is_settled)
    }
}

impl Pass<'_> {
    /// Asks the executor about the rows in flight and updates them, in memory.
    pub fn look(&mut self, state: &mut State) -> Looked {
        let config = self.config;
        // The time between two clean answers counts from the start of the second.
        let asked_at = (self.clock)();
        let mut question = reconcile::question(state, asked_at);
        question.everywhere |= may_lack_rows(config, state);
        add_clusters(config, &mut question);
        self.executor.set_deadline(config.deadline);
        let mut looked = observe(state, self.executor, &question);
        let mut disk = Disk::new(config, self.completions);
        let patience = Patience {
            lost_grace: chrono_duration(config.lost_grace),
            absence_grace: chrono_duration(config.absence_grace),
            settle_time: chrono_duration(config.settle_time),
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

/// The outputs of the configured procedures.
pub struct Disk<'a> {
    pub config: &'a Config,
    completions: &'a dyn Completions,
    /// Outputs that were read in advance.
    known: HashMap<(TaskKey, bool), Outputs>,
}

/// A recorder of the outputs that are asked for, and whether their age matters; reports all as missing.
#[derive(Debug, Default)]
struct Asked(RefCell<BTreeSet<(TaskKey, bool)>>);

impl<'a> Disk<'a> {
    pub fn new(config: &'a Config, completions: &'a dyn Completions) -> Self {
        Self {
            config,
            completions,
            known: HashMap::new(),
        }
    }

    /// Reads all outputs that were asked for, several subjects in parallel.
    fn read_ahead(&mut self, asked: Asked) {
        let asked: Vec<(TaskKey, bool)> = asked.0.into_inner().into_iter().collect();
        // Tasks of one subject share what is read.
        let subjects: Vec<&[(TaskKey, bool)]> = asked
            .chunk_by(|(a, _), (b, _)| a.subject == b.subject)
            .collect();
        let found = parallel::map(&subjects, self.config.scan_threads, |tasks| {
            let look = |(key, wants_age): &(TaskKey, bool)| self.outputs(key, *wants_age);
            tasks.iter().map(look).collect::<Vec<_>>()
        });
        self.known = asked.into_iter().zip(found.into_iter().flatten()).collect();
    }

    /// `None` if the key names nothing in the current configuration.
    fn task(&self, key: &TaskKey) -> Option<(ProcedureId, SubjectLabel, SessionLabel)> {
        let (subject, session) = key.labels()?;
        let procedure = self.config.procedures.find(&key.procedure)?;
        Some((procedure, subject, session))
    }
}

impl OutputSource for Disk<'_> {
    fn outputs(&self, key: &TaskKey, wants_age: bool) -> Outputs {
        if let Some(outputs) = self.known.get(&(key.clone(), wants_age)) {
            return *outputs;
        }
        let Some((procedure, subject, session)) = self.task(key) else {
            return Outputs::NoRule;
        };
        let disk = self.completions.for_subject_now_and_later(&subject);
        match disk.completion(procedure, &session) {
            Completion::Complete | Completion::NotApplicable => Outputs::Complete {
                newest: wants_age
                    .then(|| disk.newest_output(procedure, &session))
                    .flatten(),
            },
            Completion::Incomplete => Outputs::Missing,
            Completion::Unreadable(_) => Outputs::Unreadable,
        }
    }

    fn output_grace(&self, key: &TaskKey) -> Duration {
        let mut grace = self.config.output_grace;
        if let Some((procedure, subject, session)) = self.task(key) {
            let own = self.config.procedures.get(procedure).output_grace;
            grace = own.unwrap_or(grace);
            let disk = self.completions.for_subject_now_and_later(&subject);
            if !grace.is_zero() && disk.is_forbidden(procedure, &session) {
                return Duration::zero();
            }
        }
        chrono_duration(grace)
    }

    fn rules(&self, key: &TaskKey) -> Option<&SubmitRules> {
        let own = self.config.procedures.named(&key.procedure)?;
        Some(&own.rules)
    }
}

impl OutputSource for Asked {
    fn outputs(&self, key: &TaskKey, wants_age: bool) -> Outputs {
        self.0.borrow_mut().insert((key.clone(), wants_age));
        Outputs::Missing
    }

    fn output_grace(&self, _: &TaskKey) -> Duration {
        Duration::zero()
    }
}
