//! Pauses: what keeps a whole procedure, or the study, from being submitted until a person resumes it. Pure.

use super::{Decision, Manifest, Skip};
use crate::model::procedure::ProcedureDag;
use crate::store::control::Control;

/// Turns the due tasks of what is paused into skipped ones.
pub fn apply(manifest: &mut Manifest, control: &Control, dag: &ProcedureDag) {
    for task in &mut manifest.tasks {
        if !matches!(task.decision, Decision::Submit(_)) {
            continue;
        }
        if let Some(pause) = control.pause_of(&dag.get(task.procedure).name) {
            task.decision = Decision::Skip(Skip::Paused(Box::new(pause.clone())));
        }
    }
}
