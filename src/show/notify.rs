//! What a call tells those who do not watch it: a digest by mail or command, a heartbeat, metrics.
//!
//! All of it is made from the files of the state, from what the call itself found ([`Call`]), and from
//! what earlier calls left ([`Memory`]). [`matters`], [`digest`], [`heartbeat`] and [`metrics`] are pure.
//! Nothing here may keep a submission from being made or recorded: it comes after the work, without
//! the lock, and whatever fails is a warning.

pub mod digest;
pub mod events;
pub mod heartbeat;
pub mod memory;
pub mod messenger;
pub mod metrics;

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

pub use memory::Memory;

use crate::base::exit::Exit;
use crate::base::words::words;
use crate::decide::manifest::{Decision, Manifest, Skip};
use crate::model::procedure::ProcedureDag;
use crate::show::tables::TaskState;

words! {
    /// The commands that notify.
    pub enum Command {
        Run = "run",
        Monitor = "monitor",
        Retry = "retry",
    }
}

/// Describes one call: what it is, how it ended and what it found.
#[derive(Debug, Clone)]
pub struct Call {
    pub command: Command,
    pub started_at: DateTime<Utc>,
    pub ended_at: DateTime<Utc>,
    pub exit: Exit,
    /// What ended it early, in a sentence.
    pub error: Option<String>,
    pub hint: Option<String>,
    /// Of a run that came to its decisions.
    pub figures: Option<Figures>,
}

/// Holds the figures of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    /// False with a selection: then they are about a part of the study.
    pub whole: bool,
    pub sessions: usize,
    /// By procedure and the word for the decision.
    pub decisions: BTreeMap<String, BTreeMap<String, usize>>,
    pub submitted: usize,
    /// By cause.
    pub refused: Vec<(String, usize)>,
    pub in_doubt: usize,
    /// Tasks that a later pass may find changed although no person does anything. For `run --watch`, and not kept.
    #[serde(skip)]
    pub moving: usize,
}

impl Call {
    pub fn begin(command: Command, at: DateTime<Utc>) -> Self {
        Self {
            command,
            started_at: at,
            ended_at: at,
            exit: Exit::Done,
            error: None,
            hint: None,
            figures: None,
        }
    }

    /// Returns how long it took, never less than nothing: clocks are set.
    pub fn seconds(&self) -> f64 {
        let milliseconds = (self.ended_at - self.started_at).num_milliseconds().max(0);
        // Exact: calls are far shorter than 2^53 ms.
        milliseconds as f64 / 1000.0
    }
}

impl Figures {
    /// Counts what a run decided; what came of its submissions is filled in later.
    pub fn of(whole: bool, sessions: usize, manifest: &Manifest, dag: &ProcedureDag) -> Self {
        let mut decisions: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
        for task in &manifest.tasks {
            if matches!(task.decision, Decision::Skip(Skip::NotSelected)) {
                continue;
            }
            let procedure = dag.get(task.procedure).name.to_string();
            let word = TaskState::of(&task.decision).to_string();
            *decisions
                .entry(procedure)
                .or_default()
                .entry(word)
                .or_default() += 1;
        }
        Self {
            whole,
            sessions,
            decisions,
            ..Self::default()
        }
    }

    /// Counts the tasks of all procedures that stand there.
    pub fn count(&self, standing: TaskState) -> usize {
        let counts = self.decisions.values();
        counts
            .filter_map(|words| words.get(standing.as_str()))
            .sum()
    }

    pub fn refused(&self) -> usize {
        self.refused.iter().map(|(_, count)| count).sum()
    }
}
