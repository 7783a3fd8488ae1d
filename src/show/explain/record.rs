//! What is on record about a task: its attempts, the automatic retry of a failed one, and rows whose task no longer
//! exists: the session was renamed or moved, or the procedure was removed. There is no decision about these.

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use super::{Explanation, View, advice};
use crate::decide::manifest::{Outlook, retry};
use crate::gather::completion::explain::{Findings, Verdict};
use crate::gather::logs;
use crate::model::bids::Session;
use crate::model::procedure::{ProcedureId, Scope};
use crate::model::state::{TaskKey, TaskRow, TaskStatus};
use crate::show::failures::patterns::Patterns;
use crate::show::failures::{excerpt, silence};
use crate::show::tables::words::outlook_text;
use crate::show::tables::{TaskState, row_json, row_text, used_text};

/// One attempt of the task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attempt {
    pub attempt: i32,
    pub text: String,
    /// Used and requested resources.
    pub used: Option<String>,
    pub log_path: Option<String>,
    #[serde(flatten, serialize_with = "columns")]
    pub row: TaskRow,
}

fn columns<S: Serializer>(row: &TaskRow, serializer: S) -> Result<S::Ok, S::Error> {
    let names = "status reason job_id cluster submitted_at started_at ended_at \
        updated_at node_list exit_code slurm_state req_mem_mb max_rss_mb time_limit_s elapsed_s";
    row_json(row, names).serialize(serializer)
}

/// The automatic retry of a failed task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Retry {
    pub text: String,
    /// True if it will be retried automatically.
    pub automatic: bool,
    /// Not before this time.
    pub at: Option<DateTime<Utc>>,
    pub attempts_used: u32,
    /// `None` if the procedure has no `retry` rules.
    pub attempts_allowed: Option<u32>,
    pub infrastructure_used: u32,
    pub infrastructure_allowed: Option<u32>,
}

impl View<'_> {
    /// All attempts on record, the row's last.
    pub(super) fn attempts_of(&self, key: &TaskKey) -> Vec<Attempt> {
        let mut rows: Vec<&TaskRow> = Vec::new();
        let all = self.attempts.iter().chain(self.state.superseded());
        for row in all.chain(self.state.get(key)).filter(|row| row.key == *key) {
            // An interrupted save leaves an attempt in both files.
            rows.retain(|known| {
                known.submission_id.is_none() || known.submission_id != row.submission_id
            });
            rows.push(row);
        }
        rows.sort_by_key(|row| (row.attempt.unwrap_or(1), row.submitted_at));
        rows.into_iter().map(|row| self.attempt(row)).collect()
    }

    /// The log of a failed attempt is the file with the log excerpt.
    pub(super) fn attempt(&self, row: &TaskRow) -> Attempt {
        let files = logs::files_of(self.config, self.store, row);
        let log = files.as_ref().map(|files| match row.status {
            TaskStatus::Failed => excerpt(files, &Patterns::for_config(self.config))
                .map_or(&*files.error, |(path, _)| path),
            _ => &*files.output,
        });
        Attempt {
            attempt: row.attempt.unwrap_or(1),
            text: row_text(row),
            used: used_text(row),
            log_path: log.map(|path| path.to_string_lossy().into_owned()),
            row: row.clone(),
        }
    }

    pub(super) fn outlook(&self, procedure: ProcedureId, row: &TaskRow) -> Outlook {
        let rules = self.config.procedures.get(procedure).rules.retry.as_ref();
        retry::outlook(rules, row, self.state.meta.owner_uid, self.now)
    }

    pub(super) fn retry(&self, procedure: ProcedureId, row: &TaskRow) -> Option<Retry> {
        if row.status != TaskStatus::Failed {
            return None;
        }
        let rules = self.config.procedures.get(procedure).rules.retry.as_ref();
        let outlook = self.outlook(procedure, row);
        Some(Retry {
            text: outlook_text(outlook),
            automatic: outlook.is_retry(),
            at: match outlook {
                Outlook::At(at) => Some(at),
                _ => None,
            },
            attempts_used: row.retry.attempts(),
            attempts_allowed: rules.map(|rules| rules.max_attempts),
            infrastructure_used: row.retry.infrastructure,
            infrastructure_allowed: rules.map(|rules| rules.max_infrastructure),
        })
    }
}

/// Replaces the decision word of a task.
const GONE: &str = "gone";

impl View<'_> {
    /// The subject's rows whose task no longer exists.
    pub fn rows_without_task(&self) -> Vec<&TaskRow> {
        let has_task = |row: &TaskRow| self.tasks.iter().any(|task| task.key == row.key);
        let rows = self.state.rows().iter();
        let own = rows.filter(|row| *row.key.subject == *self.subject.as_str());
        own.filter(|row| !has_task(row)).collect()
    }

    pub fn explain_row(&self, row: &TaskRow) -> Explanation {
        let key = &row.key;
        let (text, advice) = self.missing_text(key);
        let todo = match row.is_in_flight() {
            true => advice::of_removed_task(self, row),
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
            job: job.and_then(|id| self.job(id, Some(row))),
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
        let is_there = |it: &Session| it.session.as_str() == &*key.session;
        let is_gone = |id| {
            let scope = self.config.procedures.get(id).scope;
            scope == Scope::Session && !self.sessions.iter().any(is_there)
        };
        let (what, todo) = match self.config.procedures.find(&key.procedure) {
            None => (
                format!("{} is not in the configuration", key.procedure),
                format!("add the procedure to the configuration again if you need it; {archive}"),
            ),
            Some(id) if self.sessions.is_empty() || is_gone(id) => (
                format!("{} {here}", key.labels_text()),
                format!("restore the directory's name if it was renamed; {archive}"),
            ),
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
