//! Notifications: digests by e-mail or command, a heartbeat, and metrics.
//!
//! Their sources are the [`Study`] with the [`Memory`] of earlier invocations, and this [`Invocation`]. [`events`],
//! [`digest`] and [`metrics`] are pure. Nothing here may prevent a submission or its record: it runs after the work,
//! without the lock, and every failure is a warning.

pub mod digest;
pub mod events;
pub mod memory;
pub mod metrics;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

pub use memory::Memory;

use crate::base::exit::Exit;
use crate::base::sys;
use crate::base::words::words;
use crate::decide::manifest::Manifest;
use crate::model::config::Config;
use crate::model::procedure::ProcedureDag;
use crate::model::state::State;
use crate::show::tables::{TaskState, count_states};
use crate::store::control::Control;

words! {
    /// The commands that notify.
    pub enum Command {
        Run = "run",
        Monitor = "monitor",
        Retry = "retry",
    }
}

/// What is known about a study.
#[derive(Debug, Clone, Copy)]
pub struct Study<'a> {
    pub config: &'a Config,
    pub project: &'a str,
    /// `None` if it could not be read.
    pub state: Option<&'a State>,
    pub control: Option<&'a Control>,
    /// Already includes this invocation.
    pub memory: &'a Memory,
}

/// One invocation that notifies, with its result.
#[derive(Debug, Clone)]
pub struct Invocation {
    pub command: Command,
    pub host: String,
    pub started_at: DateTime<Utc>,
    pub ended_at: DateTime<Utc>,
    pub exit: Exit,
    /// The error that ended it early, as a sentence.
    pub error: Option<String>,
    pub hint: Option<String>,
    /// Only for a run that reached its decisions.
    pub figures: Option<Figures>,
}

/// Figures of one run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// False if the run had a selection, so that the figures cover only a part of the study.
    pub whole: bool,
    pub sessions: usize,
    /// By procedure and decision word.
    pub decisions: BTreeMap<String, BTreeMap<String, usize>>,
    pub submitted: usize,
    /// By cause.
    pub refused: Vec<(String, usize)>,
    pub in_doubt: usize,
    /// Tasks that a later pass may find changed without anyone's action. For `run --watch` only.
    #[serde(skip)]
    pub moving: usize,
}

impl Invocation {
    pub fn begin(command: Command, at: DateTime<Utc>) -> Self {
        Self {
            command,
            host: sys::host_name(),
            started_at: at,
            ended_at: at,
            exit: Exit::Done,
            error: None,
            hint: None,
            figures: None,
        }
    }

    /// Duration, never negative even if the clock was set back.
    pub fn seconds(&self) -> f64 {
        let milliseconds = (self.ended_at - self.started_at).num_milliseconds().max(0);
        // Exact: invocations are far shorter than 2^53 ms.
        milliseconds as f64 / 1000.0
    }
}

impl Figures {
    /// Counts the decisions of a run. The results of its submissions are added later.
    pub fn from_manifest(
        whole: bool,
        sessions: usize,
        manifest: &Manifest,
        dag: &ProcedureDag,
    ) -> Self {
        let states = manifest.tasks.iter();
        let states = states.map(|task| (task.procedure, TaskState::of(&task.decision)));
        let states = states.filter(|(_, state)| *state != TaskState::NotSelected);
        let counts = dag.iter().zip(count_states(states, dag));
        let counts = counts.filter(|(_, counts)| !counts.is_empty());
        let decisions = counts.map(|((_, procedure), counts)| {
            let counts = counts.into_iter();
            let counts = counts.map(|(state, count)| (state.to_string(), count));
            (procedure.name.to_string(), counts.collect())
        });
        Self {
            whole,
            sessions,
            decisions: decisions.collect(),
            ..Self::default()
        }
    }

    /// Tasks of all procedures in this state.
    pub fn count(&self, state: TaskState) -> usize {
        let counts = self.decisions.values();
        counts.filter_map(|words| words.get(state.as_str())).sum()
    }

    pub fn refused(&self) -> usize {
        self.refused.iter().map(|(_, count)| count).sum()
    }
}
