//! The next submission of a task: its attempt number, resources and exact command line; and what holds it
//! back besides its decision.

use serde::Serialize;

use super::View;
use crate::act::pass::AttemptNumbers;
use crate::base::shell;
use crate::decide::manifest::{Decision, Due, Planned, Skip};
use crate::decide::request::{self, Prepared, RequestContext};
use crate::executor::JobRequest;
use crate::executor::script::header_of;
use crate::gather::completion::explain::{Findings, Verdict};
use crate::model::procedure::Resources;
use crate::model::procedure::options::Arguments;
use crate::model::state::TaskRow;
use crate::show::tables::words::pause_text;
use crate::show::tables::{TaskState, decision_text};

/// The submission that `run` would make next.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Next {
    pub attempt: i32,
    /// The resource request as options of sbatch.
    pub asks: Vec<String>,
    /// Differences from the previous attempt.
    pub changes: Vec<String>,
    /// Values that were reduced to the site's maximum.
    pub reduced: Vec<String>,
    /// Size of the job array it is part of.
    pub array_tasks: Option<usize>,
    /// Quoted for a shell. The id in `--comment` differs in each submission.
    pub command: String,
    /// Why the script cannot be submitted.
    pub script_problem: Option<String>,
}

/// The submission of this task if it were due now. `None` if it is complete, in flight or without input.
pub(super) fn next_submission(
    view: &View<'_>,
    planned: &Planned,
    row: Option<&TaskRow>,
    outputs: &Findings,
) -> Option<Next> {
    let planned = Planned {
        decision: Decision::Submit(due(view, planned, row, outputs)?),
        ..planned.clone()
    };
    let procedure = view.config.procedures.get(planned.procedure);
    let script = view.executor.find_script(&procedure.script);
    let is_retry = matches!(planned.decision, Decision::Submit(Due::Retry { .. }));
    let header = match &script {
        Ok(path) if is_retry => header_of(path),
        _ => Arguments::default(),
    };
    let (attempt, last_reason) = AttemptNumbers::new(view.attempts, view.state).next(&planned.key);
    let prepared = request::prepare(
        view.config,
        &planned,
        &RequestContext {
            project: view.project,
            attempt,
            last_reason,
            row,
            script: &header,
            now: view.now,
            run_id: view.run_id,
        },
    );
    let is_own = |task: &Prepared| task.request.key == prepared.request.key;
    let mut batches = view.batches.iter();
    let own = batches.find(|batch| batch.tasks.iter().any(is_own));
    let array = own.and_then(|own| Some((own.array.as_ref()?, &own.tasks)));
    let line = match array {
        Some((array, tasks)) => {
            let requests: Vec<&JobRequest> = tasks.iter().map(|task| &task.request).collect();
            view.executor.array_command_line(array, &requests)
        }
        None => view.executor.command_line(&prepared.request),
    };
    Some(Next {
        attempt,
        array_tasks: array.map(|(_, tasks)| tasks.len()),
        asks: match view.config.executor.has_cluster() {
            true => asks(&prepared.request.resources),
            false => Vec::new(),
        },
        changes: prepared.notes.changes,
        reduced: (prepared.notes.reduced.iter().map(ToString::to_string)).collect(),
        command: shell::join(&line),
        script_problem: script.err().map(|error| error.with_hint()),
    })
}

fn due(
    view: &View<'_>,
    planned: &Planned,
    row: Option<&TaskRow>,
    outputs: &Findings,
) -> Option<Due> {
    match &planned.decision {
        Decision::Submit(due) => return Some(*due),
        Decision::Skip(Skip::NoDicom | Skip::NotSelected) => return None,
        other if is_over(other) => return None,
        _ => {}
    }
    let row = row.filter(|row| view.outlook(planned.procedure, row).is_retry());
    Some(match row.and_then(|row| row.reason) {
        Some(reason) => Due::Retry {
            reason,
            complete: outputs.verdict == Verdict::Complete,
        },
        None => Due::New,
    })
}

/// True if no submission follows from this decision: the task has a job, is complete or is left out.
fn is_over(decision: &Decision) -> bool {
    use TaskState::{Complete, Excluded, NotApplicable, Pending, Running};
    let state = TaskState::of(decision);
    matches!(
        state,
        Running | Pending | Complete | Excluded | NotApplicable
    )
}

/// A resource request as options of sbatch.
pub fn asks(resources: &Resources) -> Vec<String> {
    let named = resources
        .named()
        .map(|(name, value)| format!("--{name}={value}"));
    let requeue = resources.no_requeue.then(|| "--no-requeue".to_owned());
    let further = resources.sbatch_args.words().cloned();
    named.chain(requeue).chain(further).collect()
}

impl View<'_> {
    /// The safety stops, the pause and the exhausted limits, whether the task is due or not.
    pub(super) fn held_by(&self, procedure: &str, planned: &Planned) -> Vec<String> {
        if is_over(&planned.decision) {
            return Vec::new();
        }
        let stops = self.stops.iter();
        let mut held: Vec<String> = stops
            .map(|stop| format!("safety stop: {}", stop.message))
            .collect();
        if let Some(pause) = self.control.pause_of(procedure) {
            let what = match &self.control.study.paused {
                Some(_) => "study",
                None => "procedure",
            };
            held.push(format!("the {what} is {}", pause_text(pause)));
        }
        if let Decision::Skip(Skip::OverLimit(_)) = &planned.decision {
            held.push(decision_text(&planned.decision));
        }
        let flying = |of: Option<&str>| {
            let rows = self.state.rows().iter().filter(|row| row.is_in_flight());
            rows.filter(|row| of.is_none_or(|name| *row.key.procedure == *name))
                .count()
        };
        let rules = self.config.procedures.find(procedure);
        let own = rules.and_then(|id| self.config.procedures.get(id).rules.max_in_flight);
        for (limit, of, name) in [
            (self.config.max_in_flight, None, "max_in_flight"),
            (own, Some(procedure), "the procedure's max_in_flight"),
        ] {
            if let Some(limit) = limit
                && flying(of) >= limit
            {
                held.push(format!("{name}: {} of {limit} are in flight", flying(of)));
            }
        }
        held
    }
}
