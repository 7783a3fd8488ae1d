//! Limits and pauses: which of the due tasks a run may submit. The plan itself is independent of both.

use std::collections::HashMap;

use itertools::Itertools as _;

use super::{Decision, Limit, Manifest, Planned, Skip};
use crate::model::config::{Config, Fairness};
use crate::model::procedure::{ProcedureDag, ProcedureId};
use crate::model::state::{State, TaskStatus};
use crate::store::control::Control;

/// Skips due tasks beyond the limits of the configuration and of `--max-jobs`. Procedures keep their order of priority;
/// within a procedure, tasks keep their order or follow [`Fairness::Subjects`]. `queued_user_jobs` counts all live jobs
/// of the user in the queue.
pub fn apply(
    manifest: &mut Manifest,
    config: &Config,
    max_jobs: Option<usize>,
    rows: &State,
    queued_user_jobs: usize,
) {
    let is_due = |task: &Planned| matches!(task.decision, Decision::Submit(_));
    let due: Vec<usize> = manifest.tasks.iter().positions(is_due).collect();
    if due.is_empty() {
        return;
    }
    let order = match config.fair {
        Fairness::Order => due,
        Fairness::Subjects => in_turn(manifest, &due, &config.procedures, rows),
    };
    let mut room = Room::new(config, max_jobs, rows, queued_user_jobs);
    for at in order {
        let Some(task) = manifest.tasks.get_mut(at) else {
            continue;
        };
        let row = rows.get(&task.key);
        let has_failed = row.is_some_and(|row| row.status == TaskStatus::Failed);
        if let Some(limit) = room.take(task.procedure, has_failed) {
            task.decision = Decision::Skip(Skip::OverLimit(limit));
        }
    }
}

/// Skips the due tasks of paused procedures, or of a paused study.
pub fn apply_pauses(manifest: &mut Manifest, control: &Control, dag: &ProcedureDag) {
    for task in &mut manifest.tasks {
        if !matches!(task.decision, Decision::Submit(_)) {
            continue;
        }
        if let Some(pause) = control.pause_of(&dag.get(task.procedure).name) {
            task.decision = Decision::Skip(Skip::Paused(Box::new(pause.clone())));
        }
    }
}

/// Orders due tasks so that within a procedure, the (first) subject with the fewest tasks in flight is always next.
fn in_turn(manifest: &Manifest, due: &[usize], dag: &ProcedureDag, rows: &State) -> Vec<usize> {
    let mut taken: HashMap<(usize, &str), usize> = HashMap::new();
    for row in rows.in_flight() {
        if let Some(id) = dag.find(&row.key.procedure) {
            *taken.entry((id.index(), &row.key.subject)).or_default() += 1;
        }
    }
    let mut turns: Vec<(usize, usize, usize)> = due
        .iter()
        .filter_map(|&at| {
            let task = manifest.tasks.get(at)?;
            let procedure = task.procedure.index();
            let turn = taken.entry((procedure, task.subject.as_str())).or_default();
            *turn += 1;
            Some((procedure, *turn, at))
        })
        .collect();
    turns.sort_unstable();
    turns.into_iter().map(|(_, _, at)| at).collect()
}

/// The current counts, including tasks that this run adds.
struct Room<'a> {
    config: &'a Config,
    max_jobs: Option<usize>,
    submitted: usize,
    in_flight: usize,
    queued_user_jobs: usize,
    /// By index of the procedure.
    procedures: Vec<Counts>,
}

#[derive(Clone, Default)]
struct Counts {
    complete: usize,
    in_flight: usize,
    /// Failed rows, which count among the first jobs.
    failed: usize,
    /// The same before this run, for messages.
    failed_before: usize,
}

impl<'a> Room<'a> {
    fn new(
        config: &'a Config,
        max_jobs: Option<usize>,
        rows: &State,
        queued_user_jobs: usize,
    ) -> Self {
        let dag = &config.procedures;
        let mut procedures = vec![Counts::default(); dag.len()];
        let mut in_flight = 0;
        for row in rows.rows() {
            in_flight += usize::from(row.is_in_flight());
            let id = dag.find(&row.key.procedure);
            if let Some(own) = id.and_then(|id| procedures.get_mut(id.index())) {
                match row.status {
                    TaskStatus::Pending | TaskStatus::Running => own.in_flight += 1,
                    TaskStatus::Complete => own.complete += 1,
                    TaskStatus::Failed => {
                        own.failed += 1;
                        own.failed_before += 1;
                    }
                }
            }
        }
        Self {
            config,
            max_jobs,
            submitted: 0,
            in_flight,
            queued_user_jobs,
            procedures,
        }
    }

    /// Takes a place for a task, or returns the limit that it has reached. `has_failed` if it has a failed row, which the
    /// new attempt replaces.
    fn take(&mut self, procedure: ProcedureId, has_failed: bool) -> Option<Limit> {
        let limits = self.config;
        let rules = &limits.procedures.get(procedure).rules;
        let own = self.procedures.get_mut(procedure.index())?;
        let full = |limit: Option<usize>, count: usize| limit.filter(|limit| count >= *limit);
        let reached = None
            .or_else(|| full(self.max_jobs, self.submitted).map(Limit::MaxJobs))
            .or_else(|| full(limits.max_submit_per_run, self.submitted).map(Limit::MaxSubmitPerRun))
            .or_else(|| full(limits.max_in_flight, self.in_flight).map(Limit::MaxInFlight))
            .or_else(|| full(rules.max_in_flight, own.in_flight).map(Limit::ProcedureMaxInFlight))
            .or_else(|| {
                full(limits.max_queued_user_jobs, self.queued_user_jobs).map(Limit::QueuedUserJobs)
            })
            .or_else(|| own.warmup_reached(rules.warmup, has_failed));
        if reached.is_none() {
            self.submitted += 1;
            self.in_flight += 1;
            self.queued_user_jobs += 1;
            own.in_flight += 1;
            own.failed -= usize::from(has_failed);
        }
        reached
    }
}

impl Counts {
    /// The first jobs are those that succeeded, are in flight, or failed. A failed task is one of them already.
    fn warmup_reached(&self, needed: usize, has_failed: bool) -> Option<Limit> {
        let places = self.complete + self.in_flight + if has_failed { 0 } else { self.failed };
        (self.complete < needed && places >= needed).then_some(Limit::Warmup {
            needed,
            succeeded: self.complete,
            failed: self.failed_before,
        })
    }
}

#[cfg(test)]
mod tests;
