//! The attempts of a task, and what becomes of a failed one by itself.

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::{View, telling};
use crate::decide::manifest::{Outlook, retry};
use crate::gather::logs;
use crate::model::procedure::ProcedureId;
use crate::model::state::{TaskKey, TaskRow, TaskStatus};
use crate::show::audit::patterns::Patterns;
use crate::show::tables::words::outlook_text_of;
use crate::show::tables::{row_text, used_text};

/// Describes one attempt. Sizes in MB (2^20 bytes).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attempt {
    pub attempt: i32,
    pub status: &'static str,
    pub reason: Option<&'static str>,
    /// Status and reason, and what a failure means.
    pub text: String,
    /// What it used of what it asked for.
    pub used: Option<String>,
    pub job_id: Option<String>,
    pub cluster: Option<String>,
    pub submitted_at: Option<DateTime<Utc>>,
    pub started_at: Option<DateTime<Utc>>,
    pub ended_at: Option<DateTime<Utc>>,
    pub updated_at: Option<DateTime<Utc>>,
    pub node_list: Option<String>,
    pub exit_code: Option<String>,
    pub slurm_state: Option<String>,
    pub req_mem_mb: Option<i64>,
    pub max_rss_mb: Option<i64>,
    pub time_limit_s: Option<i64>,
    pub elapsed_s: Option<i64>,
    pub log_path: Option<String>,
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
        let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(str::to_owned);
        let facts = &row.facts;
        Attempt {
            attempt: row.attempt.unwrap_or(1),
            status: row.status.as_str(),
            reason: row.reason.map(|reason| reason.as_str()),
            text: row_text(row),
            used: used_text(row),
            job_id: row.job_id.as_ref().map(ToString::to_string),
            cluster: text(&facts.cluster),
            submitted_at: row.submitted_at,
            started_at: facts.started_at,
            ended_at: facts.ended_at,
            updated_at: row.updated_at,
            node_list: text(&facts.node_list),
            exit_code: text(&facts.exit_code),
            slurm_state: text(&facts.slurm_state),
            req_mem_mb: facts.req_mem_mb,
            max_rss_mb: facts.max_rss_mb,
            time_limit_s: facts.time_limit_s,
            elapsed_s: facts.elapsed_s,
            log_path: logs::of(self.config, self.store, row)
                .map(|files| files.output.to_string_lossy().into_owned()),
        }
    }

    /// Describes the row's attempt; of a failed one the log is that which tells most.
    pub(super) fn newest(&self, row: &TaskRow) -> Attempt {
        let mut attempt = self.attempt(row);
        if row.status != TaskStatus::Failed {
            return attempt;
        }
        if let Some(files) = logs::of(self.config, self.store, row) {
            let patterns = Patterns::new(&self.config.audit.log_patterns);
            let patterns = patterns.unwrap_or_else(|_| Patterns::builtin().clone());
            let path = telling(&files, &patterns).map_or(&*files.error, |(path, _)| path);
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
            text: outlook_text_of(outlook, row.attempt.unwrap_or(1)),
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
