//! Records one answer of sbatch in the audit log and in the outcome.

use std::io;
use std::path::PathBuf;

use serde_json::Value;

use super::{Submitted, Submitter};
use crate::decide::manifest::Due;
use crate::decide::request::{Batch, Prepared, RequestNotes};
use crate::executor::{JobRequest, Submission};
use crate::model::job::array;
use crate::model::state::TaskStatus;
use crate::store::audit_log;
use crate::store::audit_log::{Event, EventKind};

impl Submitter<'_> {
    /// Records the answer for each task; a refused batch also if it is tried again.
    pub(super) fn report(
        &mut self,
        batch: &Batch,
        submission: &Submission,
        is_tried_again: bool,
        out: &mut Submitted,
    ) {
        let requests: Vec<&JobRequest> = batch.tasks.iter().map(|task| &task.request).collect();
        let argv = self.executor.command_line(&requests, batch.array.as_ref());
        let at = (self.clock)();
        let mut events = Vec::new();
        for (index, task) in batch.tasks.iter().enumerate() {
            let key = &task.intent.key;
            let mut event = Event {
                key: Some(key.clone()),
                new_status: Some(TaskStatus::Pending),
                extra: audit_log::extras_of_intent(&task.intent),
                ..Event::new(at, EventKind::Submitted)
            };
            event.extra.extend(notes(task));
            // Two studies may share a log, and the log may be all that is left of one.
            let extra = &mut event.extra;
            extra.push(("project", task.request.project.as_str().into()));
            let path = self.store.store.paths.real_path();
            let cluster = self.state.meta.cluster.clone();
            for (name, value) in [("state_file", path), ("home_cluster", cluster)] {
                extra.extend(value.map(|value| (name, value.into())));
            }
            if batch.array.is_some() {
                extra.push(("array_index", index.into()));
            }
            match of_task(submission, batch, index) {
                Submission::Accepted { job_id, cluster } => {
                    out.accepted.push((key.clone(), job_id.clone()));
                    event.job_id = Some(job_id);
                    extra.push(("argv", argv.clone().into()));
                    extra.push(("version", env!("CARGO_PKG_VERSION").into()));
                    extra.extend(cluster.map(|name| ("cluster", name.to_string().into())));
                }
                Submission::Refused { message, .. } => {
                    event.kind = EventKind::Error;
                    event.new_status = None;
                    event.detail = Some(message);
                }
                Submission::InDoubt { message } => {
                    event.kind = EventKind::Error;
                    event.detail = Some(format!("in doubt: {message}"));
                    out.in_doubt.push((key.clone(), message));
                }
            }
            events.push(event);
        }
        if is_tried_again {
            // All events would be the same.
            events.truncate(1);
        }
        let written = self.audit.append_unsynced(&events);
        note_audit_error(written, out);
    }
}

pub(super) fn note_audit_error(written: Result<(), (PathBuf, io::Error)>, out: &mut Submitted) {
    if let Err((path, error)) = written {
        out.audit_error
            .get_or_insert_with(|| format!("cannot write {}: {error}", path.display()));
    }
}

/// The answer for one task of a batch.
pub(super) fn of_task(submission: &Submission, batch: &Batch, index: usize) -> Submission {
    match submission {
        Submission::Accepted { job_id, cluster } if batch.array.is_some() => Submission::Accepted {
            job_id: array::job_id_of_task(job_id, index),
            cluster: cluster.clone(),
        },
        other => other.clone(),
    }
}

/// Why a task is submitted, and how its request differs from the configuration.
fn notes(task: &Prepared) -> Vec<(&'static str, Value)> {
    let RequestNotes { due, retry_of, .. } = &task.notes;
    let reduced = task.notes.reduced.iter().map(ToString::to_string);
    let list = |items: Vec<String>| (!items.is_empty()).then(|| Value::from(items));
    [
        ("cause", due.and_then(Due::cause).map(Value::from)),
        ("retry_of", retry_of.map(|reason| reason.as_str().into())),
        ("changes", list(task.notes.changes.clone())),
        ("reduced", list(reduced.collect())),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
    .collect()
}
