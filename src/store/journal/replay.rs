//! Applies the journal's entries to the rows.
//!
//! Pure. Applying entries twice, or to rows that have changed further since, changes nothing. In
//! doubt, a submission counts as sent: it was never sent only if there is no `sending` entry, or if
//! every one of them was refused.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Entry, Intent};
use crate::model::job::JobId;
use crate::model::state::columns::About;
use crate::model::state::{JobFacts, Reason, State, TaskKey, TaskRow, TaskStatus};

/// Applies entries to the rows. Returns the tasks whose row is in doubt or has its job now.
pub fn replay(entries: &[Entry], state: &mut State) -> Vec<TaskKey> {
    let (mut submissions, mut index) = (Vec::new(), HashMap::new());
    for entry in entries {
        let id = entry.submission_id();
        let at = *index.entry(id.clone()).or_insert(submissions.len());
        if at == submissions.len() {
            submissions.push(Submission {
                id: id.clone(),
                ..Submission::default()
            });
        }
        if let Some(submission) = submissions.get_mut(at) {
            submission.add(entry);
        }
    }
    // Refusals come first: the row of a refused submission must not count as a later attempt. The task's previous row is
    // restored, or is already in the attempts file.
    for submission in &submissions {
        if submission.refused
            && submission.sent().is_none()
            && let Some(row) = submission.row(state).filter(|row| row.is_in_doubt())
            && row.submission_id.as_ref() == Some(&submission.id)
        {
            let key = row.key.clone();
            state.withdraw(&key);
        }
    }
    let superseded = state.superseded().iter();
    let superseded: HashSet<Arc<str>> = superseded
        .filter_map(|row| row.submission_id.clone())
        .collect();
    let mut changed = Vec::new();
    for (at, submission) in submissions.iter().enumerate() {
        let Some(sent) = submission.sent() else {
            continue;
        };
        let row = submission.row(state);
        let Some(intent) = submission.intent else {
            // Its intent was folded into a row earlier.
            changed.extend(row.cloned().and_then(|row| fill(row, None, &sent, state)));
            continue;
        };
        let of_row = row.and_then(|row| index.get(row.submission_id.as_ref()?));
        if !superseded.contains(&submission.id) {
            let has_later_row = of_row.is_some_and(|of_row| *of_row > at);
            changed.extend(settle(intent, &sent, has_later_row, state));
        }
    }
    changed
}

/// Applies a sent submission to the row of its task.
fn settle(
    intent: &Intent,
    sent: &Sent<'_>,
    has_later_row: bool,
    state: &mut State,
) -> Option<TaskKey> {
    let mut other_columns = None;
    if let Some(row) = state.get(&intent.key) {
        if is_of(row, intent, sent) {
            return fill(row.clone(), Some(intent), sent, state);
        }
        if has_later_row || is_later(row, &intent.row()) {
            // The attempts file usually has its job, but not if two processes wrote to the journal at once.
            if sent.job.is_some() {
                state.overtaken.push(new_row(intent, sent, None));
            }
            return None;
        }
        other_columns = row.other_columns;
    }
    state.put(new_row(intent, sent, other_columns));
    Some(intent.key.clone())
}

/// Fills the values that a submission's row lacks. Returns its task if it got the job.
fn fill(
    before: TaskRow,
    intent: Option<&Intent>,
    sent: &Sent<'_>,
    state: &mut State,
) -> Option<TaskKey> {
    let mut filled = before.clone();
    if let Some(intent) = intent {
        filled.take_from(&intent.row(), |about, is_known| {
            about != About::Row && !is_known
        });
    }
    let got_job = fill_job(&mut filled, sent);
    if filled != before
        && let Some(row) = state.row_mut(&before.key)
    {
        *row = filled;
    }
    got_job.then_some(before.key)
}

/// The outcome of a submission that was sent.
struct Sent<'a> {
    /// The job that Slurm made of it, with its cluster; `None` in doubt.
    job: Option<(&'a JobId, &'a Option<Arc<str>>)>,
    /// When the answer came, or, in doubt, when it was sent.
    at: DateTime<Utc>,
}

/// The entries of one submission.
#[derive(Default)]
struct Submission<'a> {
    id: Arc<str>,
    intent: Option<&'a Intent>,
    /// The number of `sending` entries without a result.
    open: usize,
    doubted: bool,
    refused: bool,
    since: Option<DateTime<Utc>>,
    accepted: Option<Sent<'a>>,
}

impl<'a> Submission<'a> {
    fn add(&mut self, entry: &'a Entry) {
        match entry {
            Entry::Intent(intent) => {
                self.intent.get_or_insert(intent);
            }
            Entry::Sending { at, .. } => {
                self.open += 1;
                self.since.get_or_insert(*at);
            }
            Entry::Accepted {
                job_id,
                cluster,
                at,
                ..
            } => {
                let job = Some((job_id, cluster));
                self.accepted.get_or_insert(Sent { job, at: *at });
            }
            Entry::Refused { .. } => {
                self.open = self.open.saturating_sub(1);
                self.refused = true;
            }
            Entry::InDoubt { at, .. } => {
                self.doubted = true;
                self.since.get_or_insert(*at);
            }
        }
    }

    /// `None` if it was never sent, or refused.
    fn sent(&self) -> Option<Sent<'_>> {
        match (&self.accepted, self.since) {
            (Some(Sent { job, at }), since) => Some(Sent {
                job: *job,
                // Never before its sending, even if the clock was set back: a row made from the one must
                // equal a row that was filled from the other.
                at: since.map_or(*at, |since| since.max(*at)),
            }),
            (None, Some(at)) if self.doubted || self.open > 0 => Some(Sent { job: None, at }),
            _ => None,
        }
    }

    /// The row of its task. Without an intent, which an intact journal has, all rows are searched.
    fn row<'s>(&self, state: &'s State) -> Option<&'s TaskRow> {
        match self.intent {
            Some(intent) => state.get(&intent.key),
            None => {
                let mut rows = state.rows().iter();
                rows.find(|row| row.submission_id.as_ref() == Some(&self.id))
            }
        }
    }
}

/// True if the row belongs to this submission.
fn is_of(row: &TaskRow, intent: &Intent, sent: &Sent<'_>) -> bool {
    if let Some(id) = &row.submission_id {
        return *id == intent.submission_id;
    }
    // A row without submission id was adopted from the queue after the state file was lost.
    sent.job.is_some_and(|(job_id, cluster)| {
        let row_cluster = &row.facts.cluster;
        row.is_in_flight()
            && row.job_id.as_ref() == Some(job_id)
            && (row_cluster == cluster || row_cluster.is_none() || cluster.is_none())
    })
}

/// True if `a` is a later attempt than `b`. The attempt number decides if possible: clocks of two login nodes differ.
pub fn is_later(a: &TaskRow, b: &TaskRow) -> bool {
    match (a.attempt, b.attempt) {
        (Some(a), Some(b)) if a != b => a > b,
        _ => a.submitted_at > b.submitted_at,
    }
}

impl Intent {
    /// The row of this submission before there is an answer.
    pub fn row(&self) -> TaskRow {
        TaskRow {
            submitted_at: Some(self.submitted_at),
            reason: Some(Reason::Submitting),
            attempt: Some(self.attempt),
            facts: JobFacts {
                req_mem_mb: self.req_mem_mb,
                time_limit_s: self.time_limit_s,
                ..JobFacts::default()
            },
            job_name: Some(self.job_name.clone()),
            submission_id: Some(self.submission_id.clone()),
            replaces_outputs: Some(self.replaces_outputs),
            retry: self.retry.clone(),
            input_sessions: self.input_sessions.clone(),
            ..TaskRow::new(self.key.clone(), TaskStatus::Pending)
        }
    }
}

fn new_row(intent: &Intent, sent: &Sent<'_>, other_columns: Option<u32>) -> TaskRow {
    let mut row = TaskRow {
        other_columns,
        updated_at: Some(sent.at),
        ..intent.row()
    };
    fill_job(&mut row, sent);
    row
}

/// Adds the accepted job to a row without one. Returns whether it did.
fn fill_job(row: &mut TaskRow, sent: &Sent<'_>) -> bool {
    let Some((job_id, cluster)) = sent.job.filter(|_| row.job_id.is_none()) else {
        return false;
    };
    if row.is_in_doubt() {
        row.reason = Some(Reason::Queued);
        row.missing_since = None;
    }
    row.job_id = Some(job_id.clone());
    row.facts.cluster = row.facts.cluster.take().or_else(|| cluster.clone());
    row.updated_at = row.updated_at.max(Some(sent.at));
    true
}
