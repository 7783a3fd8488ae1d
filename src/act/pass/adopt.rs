//! Adopts live jobs of ours that have no row, and numbers the attempts of a task.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::look::event;
use crate::executor::{JobReport, Phase};
use crate::model::state::transition::Cause;
use crate::model::state::{JobFacts, Reason, State, TaskKey, TaskRow, TaskStatus};
use crate::store::audit_log::Event;

/// Adds rows for live jobs of ours that have none (the state was rolled back or deleted).
pub fn adopt(
    state: &mut State,
    jobs: &[(TaskKey, JobReport)],
    history: &AttemptNumbers,
    now: DateTime<Utc>,
) -> Vec<Event> {
    jobs.iter()
        .map(|(key, job)| {
            let old = state.get(key).map(|row| row.status);
            // The retries that were used so far still count.
            let retry = state.get(key).map(|row| row.retry.clone());
            let (status, reason) = match job.phase {
                Phase::Running | Phase::Suspended => (TaskStatus::Running, Reason::Running),
                _ => (TaskStatus::Pending, Reason::Queued),
            };
            let row = TaskRow {
                submitted_at: job.submitted_at.or(Some(now)),
                job_id: Some(job.id.clone()),
                reason: Some(reason),
                attempt: Some(history.next(key).0),
                facts: JobFacts {
                    elapsed_s: None,
                    ..job.facts.clone()
                },
                updated_at: Some(now),
                job_name: Some(job.name.as_str().into()),
                // A cut id would contradict the full one, which accounting may show later.
                submission_id: job
                    .tag
                    .as_ref()
                    .filter(|tag| !tag.is_cut())
                    .map(|tag| tag.submission_id.as_str().into()),
                // Earlier outputs may exist, so new ones must be newer than the job's start.
                replaces_outputs: Some(true),
                retry: retry.unwrap_or_default(),
                ..TaskRow::new(key.clone(), status)
            };
            let event = Event {
                old_status: old,
                ..event(now, &Cause::Adoption(job.id.clone()), row.status, &row)
            };
            state.put(row);
            event
        })
        .collect()
}

/// The number and the last failure of each task's earlier attempts.
#[derive(Debug, Default)]
pub struct AttemptNumbers {
    attempts: HashMap<TaskKey, (i32, Option<Reason>)>,
}

impl AttemptNumbers {
    pub fn new(attempts: &[TaskRow], state: &State) -> Self {
        let mut history = Self::default();
        for row in attempts
            .iter()
            .chain(state.superseded())
            .chain(state.rows())
        {
            let entry = history.attempts.entry(row.key.clone()).or_default();
            let attempt = row.attempt.unwrap_or(1);
            if attempt >= entry.0 {
                let failed = row.status == TaskStatus::Failed;
                *entry = (attempt, row.reason.filter(|_| failed));
            }
        }
        history
    }

    /// The number of the next attempt, and why the previous one failed.
    pub fn next(&self, key: &TaskKey) -> (i32, Option<Reason>) {
        match self.attempts.get(key) {
            Some((attempt, reason)) => (attempt.saturating_add(1), *reason),
            None => (1, None),
        }
    }
}
