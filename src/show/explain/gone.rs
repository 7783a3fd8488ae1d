//! Rows that nothing in the study stands behind any more: their session was renamed or moved away, or their
//! procedure left the configuration. Nothing is decided about them, so they are told from what is on record.

use serde::Serializer;

use super::{Explanation, View};
use crate::gather::completion::explain::{Findings, Verdict};
use crate::gather::logs;
use crate::model::procedure::Scope;
use crate::model::state::{TaskKey, TaskRow};
use crate::show::failures::silence;
use crate::show::tables::TaskState;

/// Stands where tasks have a word of `session-status`.
const GONE: &str = "gone";

impl View<'_> {
    /// Lists the rows of the subject that are no tasks of the study.
    pub fn gone(&self) -> Vec<&TaskRow> {
        let tasks = self.tasks.iter();
        let keys: Vec<&TaskKey> = tasks.map(|task| &task.key).collect();
        let rows = self.state.rows().iter();
        rows.filter(|row| *row.key.subject == *self.subject.as_str() && !keys.contains(&&row.key))
            .collect()
    }

    /// Explains one of them.
    pub fn explain_gone(&self, row: &TaskRow) -> Explanation {
        let key = &row.key;
        let (text, advice) = self.gone_text(key);
        let todo = match row.is_in_flight() {
            true => super::advice::of_gone(self, row),
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
            row: Some(self.newest(row)),
            silence: logs::files_of(self.config, self.store, row)
                .and_then(|files| silence(row, &files)),
            job: job.and_then(|id| self.job(id, row.facts.cluster.as_deref())),
            attempts: self.attempts_of(key),
            retry: None,
            next: None,
            held_by: Vec::new(),
        }
    }

    /// What is gone, and what to do about it.
    fn gone_text(&self, key: &TaskKey) -> (String, String) {
        let aside = "`snbb-scheduler clean --rows --older-than 90d` puts old rows aside";
        let here = match self.is_all_read {
            true => "is gone from the data (renamed or moved away?)",
            false => "is not found in the data, parts of which cannot be read",
        };
        let back = format!("give its directory the name back; if it is gone for good, {aside}");
        let is_there = |label: &str| self.sessions.iter().any(|s| s.session.as_str() == label);
        let scope = |id| self.config.procedures.get(id).scope;
        let (what, todo) = match self.config.procedures.find(&key.procedure) {
            None => (
                format!("{} is not in the configuration any more", key.procedure),
                format!("put it back into the configuration; if it is gone for good, {aside}"),
            ),
            Some(_) if self.sessions.is_empty() => (format!("{} {here}", key.subject), back),
            Some(id) if scope(id) == Scope::Session && !is_there(&key.session) => {
                (format!("{} {here}", key.session), back)
            }
            Some(_) => (
                format!(
                    "{} has no such task any more (was its scope changed?)",
                    key.procedure
                ),
                "nothing, the row only tells what was".to_owned(),
            ),
        };
        (format!("{what}; a row of it stands on record"), todo)
    }

    fn outputs_of(&self, key: &TaskKey) -> Findings {
        let procedure = self.config.procedures.find(&key.procedure);
        match (procedure, key.labels()) {
            (Some(procedure), Some((_, session))) => self.outputs.findings(procedure, &session),
            // Nobody knows where they would be.
            _ => Findings {
                verdict: Verdict::NotApplicable,
                directory: String::new(),
                required: Vec::new(),
                forbidden: Vec::new(),
            },
        }
    }
}

pub(super) fn standing<S: Serializer>(
    standing: &Option<TaskState>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(standing.map_or(GONE, TaskState::as_str))
}
