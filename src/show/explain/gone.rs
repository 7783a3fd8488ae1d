//! Rows whose task no longer exists: the session was renamed or moved, or the procedure was removed. There is
//! no decision about them, so their explanation comes from the record.

use serde::Serializer;

use super::{Explanation, View};
use crate::gather::completion::explain::{Findings, Verdict};
use crate::gather::logs;
use crate::model::procedure::Scope;
use crate::model::state::{TaskKey, TaskRow};
use crate::show::failures::silence;
use crate::show::tables::TaskState;

/// Replaces the decision word of a task.
const GONE: &str = "gone";

impl View<'_> {
    /// The subject's rows whose task no longer exists.
    pub fn rows_without_task(&self) -> Vec<&TaskRow> {
        let tasks = self.tasks.iter();
        let keys: Vec<&TaskKey> = tasks.map(|task| &task.key).collect();
        let rows = self.state.rows().iter();
        rows.filter(|row| *row.key.subject == *self.subject.as_str() && !keys.contains(&&row.key))
            .collect()
    }

    pub fn explain_row(&self, row: &TaskRow) -> Explanation {
        let key = &row.key;
        let (text, advice) = self.missing_text(key);
        let todo = match row.is_in_flight() {
            true => super::advice::of_removed_task(self, row),
            false => advice,
        };
        let job = row.job_id.as_ref().filter(|_| row.is_in_flight());
        Explanation {
            key: key.clone(),
            decision: None,
            headline: GONE.into(),
            text,
            because: Vec::new(),
            todo,
            dicom: None,
            dependencies: Vec::new(),
            outputs: self.outputs_of(key),
            row: Some(self.attempt(row)),
            silence: logs::files_of(self.config, self.store, row)
                .and_then(|files| silence(row, &files)),
            job: job.and_then(|id| self.job(id, row.facts.cluster.as_deref())),
            attempts: self.attempts_of(key),
            retry: None,
            next: None,
            held_by: Vec::new(),
        }
    }

    /// What is missing, and the remedy.
    fn missing_text(&self, key: &TaskKey) -> (String, String) {
        let archive = "otherwise archive old rows: snbb-scheduler clean --rows --older-than 90d";
        let here = match self.is_all_read {
            true => "is missing from the data (renamed or moved?)",
            false => "was not found in the data, parts of which cannot be read",
        };
        let back = format!("restore the directory's name if it was renamed; {archive}");
        let is_there = |label: &str| self.sessions.iter().any(|s| s.session.as_str() == label);
        let scope = |id| self.config.procedures.get(id).scope;
        let (what, todo) = match self.config.procedures.find(&key.procedure) {
            None => (
                format!("{} is not in the configuration", key.procedure),
                format!("add the procedure to the configuration again if you need it; {archive}"),
            ),
            Some(_) if self.sessions.is_empty() => (format!("{} {here}", key.subject), back),
            Some(id) if scope(id) == Scope::Session && !is_there(&key.session) => {
                (format!("{} {here}", key.session), back)
            }
            Some(_) => (
                format!(
                    "{} no longer has such a task (was its scope changed?)",
                    key.procedure
                ),
                "nothing; the row is only a record".to_owned(),
            ),
        };
        (format!("{what}, but the state has a row for it"), todo)
    }

    fn outputs_of(&self, key: &TaskKey) -> Findings {
        let procedure = self.config.procedures.find(&key.procedure);
        match (procedure, key.labels()) {
            (Some(procedure), Some((_, session))) => self.outputs.findings(procedure, &session),
            // Their location is unknown.
            _ => Findings {
                verdict: Verdict::NotApplicable,
                directory: String::new(),
                required: Vec::new(),
                forbidden: Vec::new(),
            },
        }
    }
}

pub(super) fn decision<S: Serializer>(
    decision: &Option<TaskState>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(decision.map_or(GONE, TaskState::as_str))
}
