//! The look at the world: asks the executor about the rows in flight and brings them up to date.
//!
//! In memory only: nothing here submits or saves.

use chrono::{DateTime, Duration, Utc};

use super::chrono_duration;
use super::disk::Disk;
use crate::completion::Completions;
use crate::config::Config;
use crate::executor::{Answer, Executor, Observation};
use crate::reconcile::{self, Patience};
use crate::state::audit_log::{self, Event, EventKind};
use crate::state::transition::{self, Cause, Outcome};
use crate::state::{Reason, State, TaskRow, TaskStatus};

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

pub(super) fn event(at: DateTime<Utc>, cause: &Cause, old: TaskStatus, row: &TaskRow) -> Event {
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
