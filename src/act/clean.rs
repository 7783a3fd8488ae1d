//! What is old and no longer needed: rows of tasks that there are no more, logs of complete tasks.
//!
//! The choice is pure; [`logs`] looks at the log directory and removes. Old events are chosen and
//! archived in [`crate::store::audit_log::archive`].

pub mod logs;

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Utc};

use crate::gather::logs::log_path;
use crate::model::bids::Session;
use crate::model::procedure::{ProcedureDag, Scope};
use crate::model::state::{State, TaskKey, TaskRow, TaskStatus};

/// Returns the rows of procedures that left the configuration and of sessions that are gone, if they
/// did not change since a point in time. Never one in flight or in doubt. `sessions` must be all.
pub fn gone_rows<'a>(
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
    let mut gone: Vec<&TaskRow> = state
        .rows()
        .iter()
        .filter(|row| !row.is_in_flight() && is_older(row, before) && !exists(&row.key))
        .collect();
    gone.sort_by(|a, b| a.key.cmp(&b.key));
    gone
}

/// Returns the names of the logs, by procedure, of all attempts of tasks that are complete and did not
/// change since a point in time.
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
        let Some(output) = log_path(row, "") else {
            continue;
        };
        // A name with a `/` in it is no file's; it matches nothing.
        let prefix = format!("/{}/", row.key.procedure);
        let Some(stem) = output
            .strip_prefix(&prefix)
            .and_then(|name| name.strip_suffix(".out"))
        else {
            continue;
        };
        let of_procedure = names.entry(row.key.procedure.to_string()).or_default();
        of_procedure.extend([format!("{stem}.out"), format!("{stem}.err")]);
    }
    // What a living job writes to is left alone, whatever else has its name.
    for row in state.rows().iter().filter(|row| row.is_in_flight()) {
        if let (Some(output), Some(names)) = (log_path(row, ""), names.get_mut(&*row.key.procedure))
        {
            let name = output.rsplit_once('/').map_or("", |(_, name)| name);
            let stem = name.strip_suffix(".out").unwrap_or(name);
            names.remove(&format!("{stem}.out"));
            names.remove(&format!("{stem}.err"));
        }
    }
    names
}

/// A row without any time is of unknown age: it stays.
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
