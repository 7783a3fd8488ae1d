//! The attempts of a task, and the automatic retry of a failed one.

use chrono::{DateTime, Utc};
use serde::{Serialize, Serializer};

use super::View;
use crate::decide::manifest::{Outlook, retry};
use crate::gather::logs;
use crate::model::procedure::ProcedureId;
use crate::model::state::{TaskKey, TaskRow, TaskStatus};
use crate::show::failures::excerpt;
use crate::show::failures::patterns::Patterns;
use crate::show::tables::words::outlook_text;
use crate::show::tables::{row_json, row_text, used_text};

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
