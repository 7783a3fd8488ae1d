//! What the journal's entries mean for the rows.
//!
//! Pure. Doing it twice, or on rows that hold the entries already and have gone on, changes
//! nothing. What is less certain wins: a submission counts as never sent only if there is no trace
//! of a sending, or every sending of it was refused.

mod rows;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Entry, Intent};
use crate::model::job::JobId;
use crate::model::state::{State, TaskKey, TaskRow};
use rows::{fill_intent, fill_job, is_later, is_of, new_row};

/// Says what became of one submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SubmissionState {
    NotSent,
    /// It may have been accepted. `since` is the time of its first sending.
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

/// Says what one submission changed in the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The rows said so already, or there is nothing to say.
    Nothing,
    /// The task's row is in doubt now.
    InDoubt,
    /// The task's row has its job now.
    Accepted,
    /// The row of a refused submission is gone again. If `restored`, the row before is back; else it
    /// is in the attempts file already.
    Withdrawn { restored: bool },
    /// The task has a later attempt that the journal does not know: left as it is.
    Overtaken,
}

/// Sums up what a replay changed, for messages and for the store.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Replayed {
    /// Tasks whose row is in doubt now.
    pub in_doubt: Vec<TaskKey>,
    /// Tasks whose row has its job now.
    pub accepted: Vec<(TaskKey, JobId)>,
    /// Tasks whose submission was refused after its row had been saved as in doubt: they have no
    /// row now, the row before is the newest of their attempts file.
    pub withdrawn: Vec<TaskKey>,
    /// Jobs that were accepted for tasks that have a later attempt which the journal does not know.
    pub overtaken: Vec<(TaskKey, JobId)>,
    /// Submissions with a sending or a result, for which there is neither an intent nor a row.
    pub unknown: Vec<Arc<str>>,
}

impl Replayed {
    /// True if the rows said all of it already.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Applies entries to the rows. Doing it twice, or on a state that holds them already and has
/// gone on, changes nothing.
pub fn replay(entries: &[Entry], state: &mut State) -> Replayed {
    let courses = Courses::of(entries);
    let mut replayed = Replayed::default();
    // Refusals come first: a row that never was must not pass for a later attempt.
    for course in &courses.list {
        if course.fate() == SubmissionState::Refused
            && let Some(key) = course.key(state, &courses)
            && withdraw(&key, &course.submission_id, state)
                == (Effect::Withdrawn { restored: false })
        {
            replayed.withdrawn.push(key);
        }
    }
    let superseded: HashSet<Arc<str>> = state
        .superseded()
        .iter()
        .filter_map(|row| row.submission_id.clone())
        .collect();
    for (at, course) in courses.list.iter().enumerate() {
        let fate = course.fate();
        if matches!(fate, SubmissionState::NotSent | SubmissionState::Refused) {
            continue;
        }
        let Some(intent) = course.intent else {
            without_intent(course, &fate, state, &courses, &mut replayed);
            continue;
        };
        let row = state.get(&intent.key);
        let later_row = row
            .and_then(|row| row.submission_id.as_deref())
            .and_then(|id| courses.index.get(id))
            .is_some_and(|&of_row| of_row > at);
        if superseded.contains(&course.submission_id) {
            continue;
        }
        if later_row {
            keep_beside(intent, &fate, state);
            continue;
        }
        let effect = settle(intent, &fate, state);
        if effect == Effect::Overtaken {
            keep_beside(intent, &fate, state);
        }
        replayed.note(&intent.key, &fate, effect);
    }
    replayed.withdrawn.retain(|key| state.get(key).is_none());
    replayed
}

/// Keeps a job that was accepted, and whose task has a later attempt by now: usually the attempts
/// file has it already; not so if two calls wrote to the journal at once.
fn keep_beside(intent: &Intent, fate: &SubmissionState, state: &mut State) {
    if matches!(fate, SubmissionState::Accepted { .. }) {
        state.add_overtaken(new_row(intent, fate, None));
    }
}

/// Applies what became of one submission to the row of its task.
pub fn settle(intent: &Intent, fate: &SubmissionState, state: &mut State) -> Effect {
    let done = match fate {
        SubmissionState::NotSent => return Effect::Nothing,
        SubmissionState::Refused => return withdraw(&intent.key, &intent.submission_id, state),
        SubmissionState::InDoubt { .. } => Effect::InDoubt,
        SubmissionState::Accepted { .. } => Effect::Accepted,
    };
    let Some(row) = state.get(&intent.key) else {
        state.put(new_row(intent, fate, None));
        return done;
    };
    if is_of(row, intent, fate) {
        let mut filled = row.clone();
        fill_intent(&mut filled, intent);
        let got_job = fill_job(&mut filled, fate);
        if filled != *row
            && let Some(row) = state.row_mut(&intent.key)
        {
            *row = filled;
        }
        return if got_job { done } else { Effect::Nothing };
    }
    if is_later(row, intent) {
        return Effect::Overtaken;
    }
    let row = new_row(intent, fate, row.other_columns);
    state.put(row);
    done
}

/// The job that Slurm made of a submission: its id, its cluster, and when the answer came.
type Accepted<'a> = (&'a JobId, &'a Option<Arc<str>>, DateTime<Utc>);

/// What the entries say of one submission.
#[derive(Debug, Default)]
struct Course<'a> {
    submission_id: Arc<str>,
    intent: Option<&'a Intent>,
    /// Sendings without a result.
    open: usize,
    doubted: bool,
    refused: bool,
    since: Option<DateTime<Utc>>,
    accepted: Option<Accepted<'a>>,
}

/// Holds all submissions in the order of the journal.
#[derive(Debug, Default)]
struct Courses<'a> {
    list: Vec<Course<'a>>,
    index: HashMap<Arc<str>, usize>,
    /// Some submission has no intent, so that its row must be looked for.
    lacks_intent: bool,
}

impl<'a> Courses<'a> {
    fn of(entries: &'a [Entry]) -> Self {
        let mut courses = Self::default();
        for entry in entries {
            courses.add(entry);
        }
        courses.lacks_intent = courses.list.iter().any(|course| course.intent.is_none());
        courses
    }

    fn add(&mut self, entry: &'a Entry) {
        let Some(course) = self.course(entry.submission_id()) else {
            return;
        };
        match entry {
            Entry::Intent(intent) => {
                course.intent.get_or_insert(intent);
            }
            Entry::Sending { at, .. } => {
                course.open += 1;
                course.since.get_or_insert(*at);
            }
            Entry::Accepted {
                job_id,
                cluster,
                at,
                ..
            } => {
                course.accepted.get_or_insert((job_id, cluster, *at));
            }
            Entry::Refused { .. } => {
                course.open = course.open.saturating_sub(1);
                course.refused = true;
            }
            Entry::InDoubt { at, .. } => {
                course.doubted = true;
                course.since.get_or_insert(*at);
            }
        }
    }

    fn course(&mut self, id: &Arc<str>) -> Option<&mut Course<'a>> {
        let next = self.list.len();
        let place = *self.index.entry(id.clone()).or_insert(next);
        if place == next {
            self.list.push(Course {
                submission_id: id.clone(),
                ..Course::default()
            });
        }
        self.list.get_mut(place)
    }
}

impl Course<'_> {
    fn fate(&self) -> SubmissionState {
        match (self.accepted, self.since) {
            (Some((job_id, cluster, at)), since) => SubmissionState::Accepted {
                job_id: job_id.clone(),
                cluster: cluster.clone(),
                // Never before its sending, whatever the clock did: a row from the one must not
                // differ from a row that the other was filled into.
                at: since.map_or(at, |since| since.max(at)),
            },
            (None, Some(since)) if self.doubted || self.open > 0 => {
                SubmissionState::InDoubt { since }
            }
            _ if self.refused => SubmissionState::Refused,
            _ => SubmissionState::NotSent,
        }
    }

    fn key(&self, state: &State, courses: &Courses<'_>) -> Option<TaskKey> {
        match self.intent {
            Some(intent) => Some(intent.key.clone()),
            None => row_of(&self.submission_id, state, courses).map(|row| row.key.clone()),
        }
    }
}

impl Replayed {
    fn note(&mut self, key: &TaskKey, fate: &SubmissionState, effect: Effect) {
        match (effect, fate) {
            (Effect::InDoubt, _) => self.in_doubt.push(key.clone()),
            (Effect::Accepted, SubmissionState::Accepted { job_id, .. }) => {
                self.accepted.push((key.clone(), job_id.clone()));
            }
            (Effect::Overtaken, SubmissionState::Accepted { job_id, .. }) => {
                self.overtaken.push((key.clone(), job_id.clone()));
            }
            _ => {}
        }
    }
}

/// Handles results whose intent left the journal with an earlier fold: the row is there then.
fn without_intent(
    course: &Course<'_>,
    fate: &SubmissionState,
    state: &mut State,
    courses: &Courses<'_>,
    replayed: &mut Replayed,
) {
    let Some(row) = row_of(&course.submission_id, state, courses) else {
        replayed.unknown.push(course.submission_id.clone());
        return;
    };
    let mut filled = row.clone();
    if !fill_job(&mut filled, fate) {
        return;
    }
    let key = filled.key.clone();
    if let Some(row) = state.row_mut(&key) {
        *row = filled;
        replayed.note(&key, fate, Effect::Accepted);
    }
}

fn row_of<'s>(id: &str, state: &'s State, courses: &Courses<'_>) -> Option<&'s TaskRow> {
    // A search through all rows; in a sound journal nothing asks for it.
    if !courses.lacks_intent {
        return None;
    }
    state
        .rows()
        .iter()
        .find(|row| row.submission_id.as_deref() == Some(id))
}

/// Takes the row of a refused submission out, if it stands there as in doubt.
fn withdraw(key: &TaskKey, id: &str, state: &mut State) -> Effect {
    let stands = state
        .get(key)
        .is_some_and(|row| row.submission_id.as_deref() == Some(id) && row.is_in_doubt());
    if !stands {
        return Effect::Nothing;
    }
    Effect::Withdrawn {
        restored: state.withdraw(key),
    }
}
