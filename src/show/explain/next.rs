//! The next submission of a task: which attempt, what it asks for, the exact command line.

use serde::Serialize;

use super::View;
use crate::base::shell;
use crate::decide::manifest::{Decision, Due, Planned, Skip};
use crate::decide::request;
use crate::decide::request::RequestContext;
use crate::executor::JobRequest;
use crate::executor::script::header_of;
use crate::gather::completion::explain::{Findings, Verdict};
use crate::model::procedure::Resources;
use crate::model::procedure::options::Arguments;
use crate::model::state::TaskRow;
use crate::show::tables::TaskState;

/// Describes a submission that was not made yet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Next {
    pub attempt: i32,
    /// What is asked for, as options of sbatch.
    pub asks: Vec<String>,
    /// How that differs from the attempt before.
    pub changes: Vec<String>,
    /// What was above the site's ceiling.
    pub reduced: Vec<String>,
    /// How many tasks are submitted with it as one job array.
    pub array_tasks: Option<usize>,
    /// Quoted for a shell. The id in `--comment` is another one at each submission.
    pub command: String,
    /// Why it cannot be submitted.
    pub script_problem: Option<String>,
}

/// Builds what `run` would submit if the task were due now. None: it is complete or in flight, or
/// there is nothing to work on.
pub(super) fn of(
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
    let (attempt, last_reason) = view.history().next(&planned.key);
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
    let batch = view.batches.iter().find(|batch| {
        batch.array.is_some()
            && batch
                .tasks
                .iter()
                .any(|task| task.request.key == prepared.request.key)
    });
    let array = batch.and_then(|batch| Some((batch.array.as_ref()?, &batch.tasks)));
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
        reduced: prepared
            .notes
            .reduced
            .iter()
            .map(ToString::to_string)
            .collect(),
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
    let is_left = matches!(
        planned.decision,
        Decision::Skip(Skip::NoDicom | Skip::NotSelected)
    );
    match &planned.decision {
        Decision::Submit(due) => return Some(*due),
        other if is_left || is_over(other) => return None,
        Decision::Skip(_) => {}
    }
    let reason = row
        .filter(|row| view.outlook(planned.procedure, row).is_retry())
        .and_then(|row| row.reason);
    Some(match reason {
        Some(reason) => Due::Retry {
            reason,
            complete: outputs.verdict == Verdict::Complete,
        },
        None => Due::New,
    })
}

/// True if nothing is submitted for the task however long one waits, or something is at work on it.
pub(super) fn is_over(decision: &Decision) -> bool {
    let standing = TaskState::of(decision);
    standing.is_in_flight()
        || matches!(
            standing,
            TaskState::Complete | TaskState::Excluded | TaskState::NotApplicable
        )
}

/// What a job asks for, as options of sbatch.
pub fn asks(resources: &Resources) -> Vec<String> {
    let named = resources
        .named()
        .map(|(name, value)| format!("--{name}={value}"));
    let requeue = resources.no_requeue.then(|| "--no-requeue".to_owned());
    let further = resources.sbatch_args.words().cloned();
    named.chain(requeue).chain(further).collect()
}
