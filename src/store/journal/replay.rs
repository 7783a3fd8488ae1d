//! Applies the journal's entries to the rows.
//!
//! Pure. Applying entries twice, or to rows that have changed further since, changes nothing. In
//! doubt, a submission counts as sent: it was never sent only if there is no `sending` entry, or if
//! every one of them was refused.

mod rows;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Entry, Intent};
use crate::model::job::JobId;
use crate::model::state::{State, TaskKey, TaskRow};
use rows::{fill_intent, fill_job, is_later, is_of, new_row};

/// The outcome of one submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmissionState {
    NotSent,
    /// It may have been accepted. `since` is the time of its first `sending` entry.
    InDoubt {
        since: DateTime<Utc>,
    },
    Accepted {
        job_id: JobId,
        cluster: Option<Arc<str>>,
        at: DateTime<Utc>,
    },
    Refused,
}

/// The changes of a replay, for messages and for the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Tasks whose row is in doubt now.
    pub in_doubt: Vec<TaskKey>,
    /// Tasks whose row has its job now.
    pub accepted: Vec<(TaskKey, JobId)>,
    /// Tasks whose submission was refused after its row had been saved as in doubt. They have no row
    /// now; the previous row is the newest in the attempts file.
    pub withdrawn: Vec<TaskKey>,
    /// Accepted jobs of tasks that have a later attempt which is not in the journal.
    pub overtaken: Vec<(TaskKey, JobId)>,
    /// Submissions that were sent, but have neither an intent nor a row.
    pub unknown: Vec<Arc<str>>,
}

impl Replayed {
    /// True if the replay changed nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Applies entries to the rows.
pub fn replay(entries: &[Entry], state: &mut State) -> Replayed {
    let submissions = Submissions::of(entries);
    let mut replayed = Replayed::default();
    // Refusals come first: the row of a refused submission must not count as a later attempt.
    for submission in &submissions.list {
        if submission.outcome() == SubmissionState::Refused
            && let Some(key) = submission.key(state, &submissions)
            && withdraw(&key, &submission.submission_id, state)
        {
            replayed.withdrawn.push(key);
        }
    }
    let superseded: HashSet<Arc<str>> = state
        .superseded()
        .iter()
        .filter_map(|row| row.submission_id.clone())
        .collect();
    for (at, submission) in submissions.list.iter().enumerate() {
        let outcome = submission.outcome();
        if matches!(outcome, SubmissionState::NotSent | SubmissionState::Refused) {
            continue;
        }
        let Some(intent) = submission.intent else {
            without_intent(submission, &outcome, state, &submissions, &mut replayed);
            continue;
        };
        let row = state.get(&intent.key);
        let later_row = row
            .and_then(|row| row.submission_id.as_deref())
            .and_then(|id| submissions.index.get(id))
            .is_some_and(|&of_row| of_row > at);
        if superseded.contains(&submission.submission_id) {
            continue;
        }
        if later_row {
            keep_beside(intent, &outcome, state);
            continue;
        }
        settle(intent, &outcome, state, &mut replayed);
    }
    replayed.withdrawn.retain(|key| state.get(key).is_none());
    replayed
}

/// Keeps an accepted job whose task already has a later attempt. The attempts file usually has it,
/// but not if two processes wrote to the journal at once.
fn keep_beside(intent: &Intent, outcome: &SubmissionState, state: &mut State) {
    if matches!(outcome, SubmissionState::Accepted { .. }) {
        state.overtaken.push(new_row(intent, outcome, None));
    }
}

/// Applies the outcome of one sent submission to the row of its task.
fn settle(intent: &Intent, outcome: &SubmissionState, state: &mut State, replayed: &mut Replayed) {
    let mut other_columns = None;
    if let Some(row) = state.get(&intent.key) {
        if is_of(row, intent, outcome) {
            let mut filled = row.clone();
            fill_intent(&mut filled, intent);
            let got_job = fill_job(&mut filled, outcome);
            if filled != *row
                && let Some(row) = state.row_mut(&intent.key)
            {
                *row = filled;
            }
            if got_job {
                replayed.note(&intent.key, outcome);
            }
            return;
        }
        if is_later(row, intent) {
            keep_beside(intent, outcome, state);
            if let SubmissionState::Accepted { job_id, .. } = outcome {
                let overtaken = (intent.key.clone(), job_id.clone());
                replayed.overtaken.push(overtaken);
            }
            return;
        }
        other_columns = row.other_columns;
    }
    state.put(new_row(intent, outcome, other_columns));
    replayed.note(&intent.key, outcome);
}

/// The job that Slurm made of a submission: its id, its cluster, and when the answer came.
type Accepted<'a> = (&'a JobId, &'a Option<Arc<str>>, DateTime<Utc>);

/// The entries of one submission.
#[derive(Debug, Default)]
struct Submission<'a> {
    submission_id: Arc<str>,
    intent: Option<&'a Intent>,
    /// The number of `sending` entries without a result.
    open: usize,
    doubted: bool,
    refused: bool,
    since: Option<DateTime<Utc>>,
    accepted: Option<Accepted<'a>>,
}

/// All submissions in the order of the journal.
#[derive(Debug, Default)]
struct Submissions<'a> {
    list: Vec<Submission<'a>>,
    index: HashMap<Arc<str>, usize>,
    /// Some submission has no intent, so its row must be searched for.
    lacks_intent: bool,
}

impl<'a> Submissions<'a> {
    fn of(entries: &'a [Entry]) -> Self {
        let mut submissions = Self::default();
        for entry in entries {
            submissions.add(entry);
        }
        submissions.lacks_intent = submissions
            .list
            .iter()
            .any(|submission| submission.intent.is_none());
        submissions
    }

    fn add(&mut self, entry: &'a Entry) {
        let Some(submission) = self.submission(entry.submission_id()) else {
            return;
        };
        match entry {
            Entry::Intent(intent) => {
                submission.intent.get_or_insert(intent);
            }
            Entry::Sending { at, .. } => {
                submission.open += 1;
                submission.since.get_or_insert(*at);
            }
            Entry::Accepted {
                job_id,
                cluster,
                at,
                ..
            } => {
                submission.accepted.get_or_insert((job_id, cluster, *at));
            }
            Entry::Refused { .. } => {
                submission.open = submission.open.saturating_sub(1);
                submission.refused = true;
            }
            Entry::InDoubt { at, .. } => {
                submission.doubted = true;
                submission.since.get_or_insert(*at);
            }
        }
    }

    fn submission(&mut self, id: &Arc<str>) -> Option<&mut Submission<'a>> {
        let next = self.list.len();
        let place = *self.index.entry(id.clone()).or_insert(next);
        if place == next {
            self.list.push(Submission {
                submission_id: id.clone(),
                ..Submission::default()
            });
        }
        self.list.get_mut(place)
    }
}

impl Submission<'_> {
    fn outcome(&self) -> SubmissionState {
        match (self.accepted, self.since) {
            (Some((job_id, cluster, at)), since) => SubmissionState::Accepted {
                job_id: job_id.clone(),
                cluster: cluster.clone(),
                // Never before its sending, even if the clock was set back: a row made from the one must
                // equal a row that was filled from the other.
                at: since.map_or(at, |since| since.max(at)),
            },
            (None, Some(since)) if self.doubted || self.open > 0 => {
                SubmissionState::InDoubt { since }
            }
            _ if self.refused => SubmissionState::Refused,
            _ => SubmissionState::NotSent,
        }
    }

    fn key(&self, state: &State, submissions: &Submissions<'_>) -> Option<TaskKey> {
        match self.intent {
            Some(intent) => Some(intent.key.clone()),
            None => row_of(&self.submission_id, state, submissions).map(|row| row.key.clone()),
        }
    }
}

impl Replayed {
    fn note(&mut self, key: &TaskKey, outcome: &SubmissionState) {
        match outcome {
            SubmissionState::Accepted { job_id, .. } => {
                self.accepted.push((key.clone(), job_id.clone()));
            }
            _ => self.in_doubt.push(key.clone()),
        }
    }
}

/// Applies a result whose intent was folded into a row earlier.
fn without_intent(
    submission: &Submission<'_>,
    outcome: &SubmissionState,
    state: &mut State,
    submissions: &Submissions<'_>,
    replayed: &mut Replayed,
) {
    let Some(row) = row_of(&submission.submission_id, state, submissions) else {
        replayed.unknown.push(submission.submission_id.clone());
        return;
    };
    let mut filled = row.clone();
    if !fill_job(&mut filled, outcome) {
        return;
    }
    let key = filled.key.clone();
    if let Some(row) = state.row_mut(&key) {
        *row = filled;
        replayed.note(&key, outcome);
    }
}

fn row_of<'s>(id: &str, state: &'s State, submissions: &Submissions<'_>) -> Option<&'s TaskRow> {
    // A search through all rows, never needed for an intact journal.
    if !submissions.lacks_intent {
        return None;
    }
    state
        .rows()
        .iter()
        .find(|row| row.submission_id.as_deref() == Some(id))
}

/// Removes the row of a refused submission if it is in doubt. True if the task has no row then: its
/// previous row is already in the attempts file.
fn withdraw(key: &TaskKey, id: &str, state: &mut State) -> bool {
    let is_in_doubt = state
        .get(key)
        .is_some_and(|row| row.submission_id.as_deref() == Some(id) && row.is_in_doubt());
    is_in_doubt && !state.withdraw(key)
}
