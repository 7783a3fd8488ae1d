//! Selects what is old and no longer needed: rows of tasks that no longer exist, logs of complete tasks.
//!
//! The selection is pure; [`logs`] reads the log directory and removes files. Old events are selected and
//! archived in [`crate::store::audit_log::archive`].

pub mod logs;

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Utc};

use crate::gather::logs::log_path;
use crate::model::bids::Session;
use crate::model::procedure::{ProcedureDag, Scope};
use crate::model::state::{State, TaskKey, TaskRow, TaskStatus};

/// Rows of removed procedures and of sessions that no longer exist, unless they changed since
/// `before`. Never a row in flight or in doubt. `sessions` must be complete.
pub fn obsolete_rows<'a>(
    state: &'a State,
    sessions: &[Session],
    dag: &ProcedureDag,
    before: DateTime<Utc>,
) -> Vec<&'a TaskRow> {
    let subjects: HashSet<&str> = sessions.iter().map(|s| s.subject.as_str()).collect();
    let pairs: HashSet<(&str, &str)> = sessions
        .iter()
        .map(|session| (session.subject.as_str(), session.session.as_str()))
        .collect();
    let exists = |key: &TaskKey| match dag.find(&key.procedure) {
        None => false,
        Some(id) => match dag.get(id).scope {
            Scope::Session => pairs.contains(&(&*key.subject, &*key.session)),
            Scope::Subject => key.session.is_empty() && subjects.contains(&*key.subject),
        },
    };
    let mut obsolete: Vec<&TaskRow> = state
        .rows()
        .iter()
        .filter(|row| !row.is_in_flight() && is_older(row, before) && !exists(&row.key))
        .collect();
    obsolete.sort_by(|a, b| a.key.cmp(&b.key));
    obsolete
}

/// By procedure, the log names of all attempts of complete tasks that did not change since `before`.
pub fn log_names(
    state: &State,
    attempts: &[TaskRow],
    before: DateTime<Utc>,
) -> BTreeMap<String, HashSet<String>> {
    let mut names: BTreeMap<String, HashSet<String>> = BTreeMap::new();
    let complete: HashMap<&TaskKey, &TaskRow> = state
        .rows()
        .iter()
        .filter(|row| row.status == TaskStatus::Complete && is_older(row, before))
        .map(|row| (&row.key, row))
        .collect();
    let earlier = attempts
        .iter()
        .filter(|row| complete.contains_key(&row.key) && !row.is_in_flight());
    for row in complete.values().copied().chain(earlier) {
        let of_procedure = names.entry(row.key.procedure.to_string()).or_default();
        of_procedure.extend(own_logs(row));
    }
    names.retain(|_, names| !names.is_empty());
    // Logs of live jobs are kept, even if an old attempt has the same log name.
    for row in state.rows().iter().filter(|row| row.is_in_flight()) {
        if let Some(names) = names.get_mut(&*row.key.procedure) {
            own_logs(row).for_each(|name| _ = names.remove(&name));
        }
    }
    names
}

/// The names of an attempt's logs. A name with a `/` in it matches no file.
fn own_logs(row: &TaskRow) -> impl Iterator<Item = String> {
    let output = log_path(row, "");
    let stem = output.and_then(|output| {
        let name = output.strip_prefix(&format!("/{}/", row.key.procedure))?;
        Some(name.strip_suffix(".out")?.to_owned())
    });
    let names = stem.map(|stem| [format!("{stem}.out"), format!("{stem}.err")]);
    names.into_iter().flatten()
}

/// False for a row without any time: its age is unknown.
fn is_older(row: &TaskRow, before: DateTime<Utc>) -> bool {
    let times = [row.submitted_at, row.facts.ended_at, row.updated_at];
    times
        .into_iter()
        .flatten()
        .max()
        .is_some_and(|newest| newest < before)
}

#[cfg(test)]
mod tests;
