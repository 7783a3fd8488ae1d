//! Tables of the state's rows, and of decisions: one row per session, one column per procedure.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use chrono::{DateTime, SecondsFormat, Utc};
use itertools::Itertools as _;
use polars::prelude::*;
use serde_json::{Map, Value, json};

use super::words::{decision_cell, decision_text, job_of, reason_of};
use super::{TableError, TaskState, counts, failure_text, frame, json_array, numbers, texts};
use crate::decide::manifest::{Manifest, Planned, Selection};
use crate::gather::logs::log_path;
use crate::model::bids::{Session, SessionLabel, SubjectLabel};
use crate::model::job::JobId;
use crate::model::procedure::{ProcedureDag, Scope};
use crate::model::state::columns::{COLUMNS, Kind};
use crate::model::state::{Reason, TaskRow, TaskStatus};

/// Columns of the state file that only the program needs.
const INTERNAL: [&str; 3] = ["replaces_outputs", "retry_state", "input_sessions"];

/// The columns of [`ordered_rows_frame`].
pub fn row_columns() -> Vec<&'static str> {
    let own = COLUMNS.iter().map(|column| column.name);
    own.filter(|name| !INTERNAL.contains(name))
        .chain(["log_path", "failure"])
        .collect()
}

/// Rows in the given order: the public columns of the state file, then `log_path` (if the row has a job and
/// `log_dir` is known) and `failure` (the failure in words). Times are in UTC, as in `2026-01-02T03:04:05Z`.
pub fn ordered_rows_frame(
    rows: &[&TaskRow],
    log_dir: Option<&Path>,
) -> Result<DataFrame, TableError> {
    rows_frame_of(rows, log_dir, &row_columns(), utc_time)
}

/// Rows with only these columns. `time` formats times.
pub fn rows_frame_of(
    rows: &[&TaskRow],
    log_dir: Option<&Path>,
    names: &[&str],
    time: fn(DateTime<Utc>) -> String,
) -> Result<DataFrame, TableError> {
    let log_dir = log_dir.map(Path::to_string_lossy);
    let columns = names
        .iter()
        .map(|name| row_column(name, rows, log_dir.as_deref(), time))
        .collect::<PolarsResult<_>>()?;
    frame(columns)
}

/// One of these columns.
pub(crate) fn row_column(
    name: &str,
    rows: &[&TaskRow],
    log_dir: Option<&str>,
    time_text: fn(DateTime<Utc>) -> String,
) -> PolarsResult<Column> {
    let row_texts =
        |get: &dyn Fn(&TaskRow) -> Option<String>| texts(name, rows.iter().map(|row| get(row)));
    match name {
        "log_path" => return Ok(row_texts(&|row| log_path(row, log_dir?))),
        "failure" => return Ok(texts(name, rows.iter().map(|row| failure_text(row)))),
        _ => {}
    }
    let own = COLUMNS.iter().find(|own| own.name == name);
    let own = own.ok_or_else(|| PolarsError::ColumnNotFound(name.to_owned().into()))?;
    Ok(match own.kind {
        Kind::Int32 | Kind::Int64 => numbers(name, rows.iter().map(|row| (own.get)(row)?.number())),
        Kind::Time => row_texts(&|row| (own.get)(row)?.time().map(time_text)),
        _ => row_texts(&|row| (own.get)(row)?.text().map(str::to_owned)),
    })
}

/// Row counts: `procedure, pending, running, complete, failed, total`. Procedures of the configuration come
/// first, in its order, then others by name. `with_empty` includes procedures without rows.
pub fn status_counts<'a>(
    rows: impl IntoIterator<Item = &'a TaskRow> + Clone,
    dag: &ProcedureDag,
    with_empty: bool,
) -> Result<DataFrame, TableError> {
    let pairs = rows
        .clone()
        .into_iter()
        .map(|row| (&*row.key.procedure, row.status.as_str()));
    let with_rows: BTreeSet<&str> = rows.into_iter().map(|row| &*row.key.procedure).collect();
    let others = with_rows.iter().filter(|name| dag.find(name).is_none());
    let procedures: Vec<String> = dag
        .iter()
        .map(|(_, procedure)| &*procedure.name)
        .filter(|name| with_empty || with_rows.contains(name))
        .chain(others.copied())
        .map(str::to_owned)
        .collect();
    counts(
        pairs,
        "procedure",
        &procedures,
        &TaskStatus::ALL.map(TaskStatus::as_str),
    )
}

/// A row as JSON with some columns of the state file (names separated by spaces). Times are in UTC.
pub fn row_json(row: &TaskRow, names: &str) -> Map<String, Value> {
    let columns = names.split_whitespace().filter_map(|name| {
        let own = COLUMNS.iter().find(|own| own.name == name)?;
        let value = (own.get)(row);
        let value = value.as_ref().and_then(|value| match own.kind {
            Kind::Int32 | Kind::Int64 => value.number().map(Value::from),
            Kind::Time => value.time().map(|at| utc_time(at).into()),
            _ => value.text().map(Value::from),
        });
        Some((name.to_owned(), value.unwrap_or_default()))
    });
    columns.collect()
}

/// A time for scripts: `2026-01-02T03:04:05Z`.
pub fn utc_time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// One row per session: `subject, session`, and one column per procedure with its [`decision_cell`].
/// A task of subject scope appears in each session of its subject. A task without a decision is null.
pub fn session_status(
    sessions: &[Session],
    manifest: &Manifest,
    dag: &ProcedureDag,
) -> Result<DataFrame, TableError> {
    let rows = by_session(sessions, &manifest.tasks, dag);
    let mut table = vec![
        texts("subject", sessions.iter().map(|s| Some(s.subject.as_str()))),
        texts("session", sessions.iter().map(|s| Some(s.session.as_str()))),
    ];
    for ((id, _), title) in dag.iter().zip(column_titles(dag)) {
        let cells = rows.iter().map(|(_, tasks)| {
            let task = tasks.iter().find(|task| task.procedure == id)?;
            Some(decision_cell(&task.decision))
        });
        table.push(texts(&title, cells));
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
    let mut lines = Vec::with_capacity(sessions.len());
    for (session, tasks) in by_session(sessions, &manifest.tasks, dag) {
        let procedures = tasks.into_iter().map(|task| {
            let name = dag.get(task.procedure).name.to_string();
            let decision = json!({
                "decision": TaskState::of(&task.decision),
                "reason": reason_of(&task.decision).map(Reason::as_str),
                "job_id": job_of(&task.decision).map(JobId::as_str),
                "text": decision_text(&task.decision),
            });
            (name, decision)
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
    let rows = by_session(sessions, &manifest.tasks, dag).into_iter();
    let has_word = |task: &&Planned| words.contains(&TaskState::of(&task.decision));
    let chosen = rows.filter(|(_, tasks)| tasks.iter().any(has_word));
    chosen.map(|(session, _)| session.clone()).collect()
}

/// Each session with the tasks in its row, in their order.
pub(crate) fn by_session<'a>(
    sessions: impl IntoIterator<Item = &'a Session>,
    tasks: impl IntoIterator<Item = &'a Planned>,
    dag: &ProcedureDag,
) -> Vec<(&'a Session, Vec<&'a Planned>)> {
    let sessions = sessions.into_iter();
    let mut rows: Vec<_> = sessions.map(|session| (session, Vec::new())).collect();
    let subjects = rows.iter().enumerate();
    let subjects = subjects.map(|(at, (session, _))| (&session.subject, at));
    let by_subject = subjects.into_group_map();
    for task in tasks {
        let per_subject = dag.get(task.procedure).scope == Scope::Subject;
        for at in by_subject.get(&task.subject).into_iter().flatten() {
            if let Some((session, tasks)) = rows.get_mut(*at)
                && (per_subject || session.session == task.session)
            {
                tasks.push(task);
            }
        }
    }
    rows
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
