//! Procedures for tests.
#![cfg(test)]

use super::{Check, Dependency, Procedure, Resources, Scope, SessionsRule};
use crate::model::procedure::marker::CompletionRule;

/// A procedure whose output is complete if its directory is not empty.
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
