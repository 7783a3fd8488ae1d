//! Tables of decisions: one row per session, one column per procedure, and their counts.

use std::collections::{HashMap, HashSet};

use polars::prelude::*;
use serde_json::{Map, Value, json};

use super::words::{decision_cell, decision_text, job_of, reason_of};
use super::{TableError, TaskState, counts, frame, json_array, texts};
use crate::decide::manifest::{Decision, Manifest, Planned, Selection};
use crate::model::bids::{Session, SessionLabel, SubjectLabel};
use crate::model::job::JobId;
use crate::model::procedure::{ProcedureDag, Scope};
use crate::model::state::Reason;

/// One row per session: `subject, session`, and one column per procedure with its [`decision_cell`].
/// A task of subject scope appears in each session of its subject. A task without a decision is null.
pub fn session_status(
    sessions: &[Session],
    manifest: &Manifest,
    dag: &ProcedureDag,
) -> Result<DataFrame, TableError> {
    let titles = column_titles(dag);
    let mut columns = vec![vec![None; sessions.len()]; titles.len()];
    for (session, task) in places(sessions, manifest, dag) {
        let column = columns.get_mut(task.procedure.index());
        if let Some(cell) = column.and_then(|column| column.get_mut(session)) {
            cell.get_or_insert_with(|| decision_cell(&task.decision));
        }
    }
    let mut table = vec![
        texts("subject", sessions.iter().map(|s| Some(s.subject.as_str()))),
        texts("session", sessions.iter().map(|s| Some(s.session.as_str()))),
    ];
    for (title, cells) in titles.iter().zip(columns) {
        table.push(texts(title, cells.into_iter()));
    }
    frame(table)
}

/// A JSON array with one object per session: `subject, session, procedures`. The last maps each procedure
/// to `{decision, reason, job_id, text}`.
pub fn session_status_json(
    sessions: &[Session],
    manifest: &Manifest,
    dag: &ProcedureDag,
) -> Result<Vec<u8>, TableError> {
    let mut cells: Vec<Vec<&Planned>> = vec![Vec::new(); sessions.len()];
    for (session, task) in places(sessions, manifest, dag) {
        if let Some(tasks) = cells.get_mut(session) {
            tasks.push(task);
        }
    }
    let mut lines = Vec::with_capacity(sessions.len());
    for (session, tasks) in sessions.iter().zip(cells) {
        let procedures = tasks.into_iter().map(|task| {
            let name = dag.get(task.procedure).name.to_string();
            (name, decision_json(&task.decision))
        });
        let procedures: Map<String, Value> = procedures.collect();
        lines.push(serde_json::to_vec(&json!({
            "subject": session.subject.as_str(),
            "session": session.session.as_str(),
            "procedures": procedures,
        }))?);
    }
    Ok(json_array(lines.iter().map(Vec::as_slice)))
}

/// Task counts: one row per [`TaskState`] that occurs (`decision`), one column per procedure, then `total`.
pub fn decision_counts(manifest: &Manifest, dag: &ProcedureDag) -> Result<DataFrame, TableError> {
    let titles = column_titles(dag);
    let pairs = manifest.tasks.iter().map(|task| {
        let title = titles.get(task.procedure.index());
        let word = TaskState::of(&task.decision).as_str();
        (word, title.map_or("", String::as_str))
    });
    let pairs: Vec<(&str, &str)> = pairs.collect();
    let mut present = TaskState::ALL.map(TaskState::as_str).to_vec();
    present.retain(|word| pairs.iter().any(|(known, _)| known == word));
    counts(pairs.into_iter(), "decision", &present, &titles)
}

/// The tasks of the selected procedures, and the column titles of the others. Takes the tasks, of which there may be
/// millions.
pub fn selected(
    mut manifest: Manifest,
    dag: &ProcedureDag,
    selection: &Selection,
) -> (Manifest, Vec<String>) {
    let is_selected = |id| selection.contains_procedure(&dag.get(id).name);
    let titles = dag.iter().zip(column_titles(dag));
    let hidden = titles.filter(|((id, _), _)| !is_selected(*id));
    manifest.tasks.retain(|task| is_selected(task.procedure));
    (manifest, hidden.map(|(_, title)| title).collect())
}

/// The tasks in the rows of these sessions. Takes the tasks, likewise.
pub fn in_sessions(sessions: &[Session], mut manifest: Manifest, dag: &ProcedureDag) -> Manifest {
    let subjects: HashSet<&SubjectLabel> = sessions.iter().map(|s| &s.subject).collect();
    let pairs: HashSet<(&SubjectLabel, &SessionLabel)> =
        sessions.iter().map(|s| (&s.subject, &s.session)).collect();
    manifest
        .tasks
        .retain(|task| match dag.get(task.procedure).scope {
            Scope::Session => pairs.contains(&(&task.subject, &task.session)),
            Scope::Subject => subjects.contains(&task.subject),
        });
    manifest
}

/// The sessions whose rows contain one of these words.
pub fn with_words(
    sessions: &[Session],
    manifest: &Manifest,
    dag: &ProcedureDag,
    words: &[TaskState],
) -> Vec<Session> {
    let places = places(sessions, manifest, dag);
    let chosen = places.filter(|(_, task)| words.contains(&TaskState::of(&task.decision)));
    let chosen: HashSet<usize> = chosen.map(|(at, _)| at).collect();
    let sessions = sessions.iter().enumerate();
    let sessions = sessions.filter(|(at, _)| chosen.contains(at));
    sessions.map(|(_, session)| session.clone()).collect()
}

/// Pairs each task with the sessions (by index) in whose rows it appears.
pub(super) fn places<'a>(
    sessions: &'a [Session],
    manifest: &'a Manifest,
    dag: &'a ProcedureDag,
) -> impl Iterator<Item = (usize, &'a Planned)> {
    let mut by_subject: HashMap<&SubjectLabel, Vec<usize>> = HashMap::new();
    let mut by_session: HashMap<(&SubjectLabel, &SessionLabel), usize> = HashMap::new();
    for (at, session) in sessions.iter().enumerate() {
        by_subject.entry(&session.subject).or_default().push(at);
        by_session.insert((&session.subject, &session.session), at);
    }
    manifest.tasks.iter().flat_map(move |task| {
        let places = match dag.get(task.procedure).scope {
            Scope::Session => by_session
                .get(&(&task.subject, &task.session))
                .map(|at| vec![*at]),
            Scope::Subject => by_subject.get(&task.subject).cloned(),
        };
        places
            .unwrap_or_default()
            .into_iter()
            .map(move |at| (at, task))
    })
}

/// The procedures' names. A name that is also a fixed column gets a suffix.
fn column_titles(dag: &ProcedureDag) -> Vec<String> {
    let names = dag.iter().map(|(_, procedure)| &*procedure.name);
    let titles = names.map(|name| match name {
        "subject" | "session" | "decision" | "total" => format!("{name} (procedure)"),
        name => name.to_owned(),
    });
    titles.collect()
}

fn decision_json(decision: &Decision) -> Value {
    json!({
        "decision": TaskState::of(decision),
        "reason": reason_of(decision).map(Reason::as_str),
        "job_id": job_of(decision).map(JobId::as_str),
        "text": decision_text(decision),
    })
}
