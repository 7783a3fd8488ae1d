//! The progress of each procedure in a few numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::TaskState;
use super::task_state::Group;
use crate::decide::manifest::{Decision, Manifest};
use crate::model::procedure::{ProcedureDag, ProcedureId};
use crate::model::state::State;

/// The tasks of one procedure, counted by state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tally {
    pub procedure: Arc<str>,
    counts: BTreeMap<TaskState, usize>,
}

impl Tally {
    pub fn count(&self, state: TaskState) -> usize {
        self.counts.get(&state).copied().unwrap_or_default()
    }

    pub fn all(&self) -> usize {
        self.counts.values().sum()
    }

    /// The part after `3/6`, such as `complete, 2 running, 1 failed`.
    pub fn text(&self) -> String {
        let others = self.counts.iter();
        let others = others.filter(|(state, _)| **state != TaskState::Complete);
        let others = others.map(|(state, count)| format!(", {count} {state}"));
        format!("complete{}", others.collect::<String>())
    }
}

/// Such as `fmriprep: 3/6 complete, 2 running, 1 failed`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, all, text) = (&self.procedure, self.all(), self.text());
        write!(
            f,
            "{name}: {}/{all} {text}",
            self.count(TaskState::Complete)
        )
    }
}

/// Counts the tasks of each procedure that has any, except excluded, unselected and inapplicable ones.
/// `rows` are those after the submissions of this pass.
pub fn tallies(manifest: &Manifest, rows: &State, dag: &ProcedureDag) -> Vec<Tally> {
    let states = manifest.tasks.iter().map(|task| {
        let row = rows.get(&task.key).filter(|row| row.is_in_flight());
        let state = match (&task.decision, row) {
            (Decision::Submit(_), Some(row)) => TaskState::of_status(row.status),
            (decision, _) => TaskState::of(decision),
        };
        (task.procedure, state)
    });
    let states = states.filter(|(_, state)| state.style().group != Group::Out);
    let counts = dag.iter().zip(count_states(states, dag));
    let counts = counts.filter(|(_, counts)| !counts.is_empty());
    let tallies = counts.map(|((_, procedure), counts)| Tally {
        procedure: Arc::clone(&procedure.name),
        counts,
    });
    tallies.collect()
}

/// Task counts by state, for each procedure of the configuration.
pub fn count_states(
    tasks: impl Iterator<Item = (ProcedureId, TaskState)>,
    dag: &ProcedureDag,
) -> Vec<BTreeMap<TaskState, usize>> {
    let mut all = vec![BTreeMap::new(); dag.iter().count()];
    for (procedure, state) in tasks {
        if let Some(counts) = all.get_mut(procedure.index()) {
            *counts.entry(state).or_default() += 1;
        }
    }
    all
}
