//! Pauses: what keeps a whole procedure, or the study, from being submitted until a person resumes it. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Decision, Manifest, Skip};
use crate::procedure::ProcedureDag;

/// Holds all pauses that are in force.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pauses {
    pub study: Option<Pause>,
    pub procedures: BTreeMap<Arc<str>, Pause>,
}

/// Describes one pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pause {
    pub since: DateTime<Utc>,
    pub cause: PauseCause,
}

/// Says who or what paused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PauseCause {
    /// `pause` was called, with the words given there.
    Person { by: String, note: Option<String> },
    /// So many jobs in a row failed.
    Failures { count: u32 },
}

/// Turns the due tasks of what is paused into skipped ones.
pub fn apply(manifest: &mut Manifest, pauses: &Pauses, dag: &ProcedureDag) {
    for task in &mut manifest.tasks {
        if !matches!(task.decision, Decision::Submit(_)) {
            continue;
        }
        let name = &dag.get(task.procedure).name;
        if let Some(pause) = pauses
            .study
            .as_ref()
            .or_else(|| pauses.procedures.get(name))
        {
            task.decision = Decision::Skip(Skip::Paused(Box::new(pause.clone())));
        }
    }
}
