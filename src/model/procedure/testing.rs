//! A small maker of procedures for tests.
#![cfg(test)]

use super::{Check, Dependency, Procedure, Resources, Scope, SessionsRule};
use crate::model::procedure::marker::CompletionRule;

/// Returns a procedure whose output is complete when its directory is not empty.
pub fn procedure(name: &str, scope: Scope, depends_on: &[(&str, SessionsRule)]) -> Procedure {
    Procedure {
        name: name.into(),
        output_dir: name.into(),
        script: "job.sh".into(),
        scope,
        depends_on: depends_on
            .iter()
            .map(|(name, sessions)| Dependency {
                procedure: (*name).into(),
                sessions: *sessions,
            })
            .collect(),
        check: Check::Markers,
        completion: CompletionRule::default(),
        resources: Resources::default(),
        env: Default::default(),
        output_grace: None,
        rules: Default::default(),
    }
}
