//! The attempts of a task, and what becomes of a failed one by itself.

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

/// One attempt at the task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attempt {
    pub attempt: i32,
    pub text: String,
    /// What it used of what it asked for.
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

/// Says what becomes of a failed task by itself.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Retry {
    pub text: String,
    /// True if it is tried again without a person.
    pub automatic: bool,
    /// Not before this time.
    pub at: Option<DateTime<Utc>>,
    pub attempts_used: u32,
    /// None: the procedure has no `retry` rules.
    pub attempts_allowed: Option<u32>,
    pub infrastructure_used: u32,
    pub infrastructure_allowed: Option<u32>,
}

impl View<'_> {
    /// Lists all attempts on record, the row's last.
    pub(super) fn attempts_of(&self, key: &TaskKey) -> Vec<Attempt> {
        let mut rows: Vec<&TaskRow> = Vec::new();
        let all = self.attempts.iter().chain(self.state.superseded());
        for row in all.chain(self.state.get(key)).filter(|row| row.key == *key) {
            // A save that was cut off leaves an attempt in both files.
            rows.retain(|known| {
                known.submission_id.is_none() || known.submission_id != row.submission_id
            });
            rows.push(row);
        }
        rows.sort_by_key(|row| (row.attempt.unwrap_or(1), row.submitted_at));
        rows.into_iter().map(|row| self.attempt(row)).collect()
    }

    pub(super) fn attempt(&self, row: &TaskRow) -> Attempt {
        let logs = logs::files_of(self.config, self.store, row);
        Attempt {
            attempt: row.attempt.unwrap_or(1),
            text: row_text(row),
            used: used_text(row),
            log_path: logs.map(|files| files.output.to_string_lossy().into_owned()),
            row: row.clone(),
        }
    }

    /// Describes the row's attempt; of a failed one the log is that which tells most.
    pub(super) fn newest(&self, row: &TaskRow) -> Attempt {
        let mut attempt = self.attempt(row);
        if row.status != TaskStatus::Failed {
            return attempt;
        }
        if let Some(files) = logs::files_of(self.config, self.store, row) {
            let path =
                excerpt(&files, &Patterns::of(self.config)).map_or(&*files.error, |(path, _)| path);
            attempt.log_path = Some(path.to_string_lossy().into_owned());
        }
        attempt
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
            text: outlook_text(outlook, row.attempt.unwrap_or(1)),
            automatic: outlook.is_retry(),
            at: match outlook {
                Outlook::At(at) => Some(at),
                Outlook::None | Outlook::Now | Outlook::Spent(_) => None,
            },
            attempts_used: row.retry.attempts(),
            attempts_allowed: rules.map(|rules| rules.max_attempts),
            infrastructure_used: row.retry.infrastructure,
            infrastructure_allowed: rules.map(|rules| rules.max_infrastructure),
        })
    }
}
