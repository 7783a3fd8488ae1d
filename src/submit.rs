//! Carries a manifest out: journal, executor, state, one job or job array after the other.
//!
//! The rule that everything here serves: an intent is on disk before sbatch starts, and its answer
//! is on disk before the next one starts. Nothing that the executor says ends a run with accepted
//! jobs unrecorded. See `docs/reliability.md`.

mod run;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::executor::{Executor, JobRequest, Refusal, Submission};
use crate::job::{JobId, array};
use crate::manifest::Due;
use crate::procedure::Resources;
use crate::request::Batch;
use crate::request::{Notes, Prepared};
use crate::state::audit_log::{self, AuditLog, Event, EventKind};
use crate::state::journal::{self, Entry};
use crate::state::lock::LockError;
use crate::state::store::{LockedStore, StateError};
use crate::state::{State, TaskKey, TaskStatus};
use run::{Run, entry, whole_job};

/// Holds what a submission needs of the outside.
pub struct Submitter<'a> {
    pub store: &'a LockedStore,
    pub state: &'a mut State,
    pub executor: &'a mut dyn Executor,
    pub audit: &'a mut AuditLog,
    pub clock: &'a dyn Fn() -> DateTime<Utc>,
    /// Waits between tries after a transient refusal.
    pub pause: &'a dyn Fn(Duration),
    /// Called after each task, for a progress bar.
    pub tick: &'a dyn Fn(),
    /// No submission starts after this time.
    pub deadline: DateTime<Utc>,
}

/// Tells what became of the tasks.
#[derive(Debug, Default)]
pub struct Submitted {
    pub accepted: Vec<(TaskKey, JobId)>,
    /// Per procedure: the first refusal's words and how many tasks it keeps back.
    pub refused: BTreeMap<Arc<str>, (String, usize)>,
    /// Retries whose own resources were refused: that says nothing of the procedure's other tasks.
    pub refused_retries: Vec<RefusedRetry>,
    pub in_doubt: Vec<(TaskKey, String)>,
    /// Why the run stopped before all tasks were tried, and how many were left.
    pub stopped: Option<(Halt, usize)>,
    /// Events that could not be written to the audit log, once.
    pub audit_error: Option<String>,
    /// Why the rows could not be saved. What was accepted is in the journal, unless that failed too.
    pub unsaved: Option<StateError>,
}

/// Describes retries of equal resources that were refused.
#[derive(Debug)]
pub struct RefusedRetry {
    /// The first one.
    pub key: TaskKey,
    pub resources: Resources,
    pub message: String,
    pub count: usize,
}

impl RefusedRetry {
    fn is_like(&self, task: &Prepared) -> bool {
        self.key.procedure == task.intent.key.procedure && self.resources == task.request.resources
    }
}

/// Says why a run submits nothing more.
#[derive(Debug)]
pub enum Halt {
    /// A limit of the site: the rest waits for the next run.
    Limit(String),
    /// The controller cannot be reached.
    Transient(String),
    /// Several submissions in a row ended in doubt.
    NoAnswers(String),
    /// An intent could not be written: nothing may be submitted without one.
    Journal(StateError),
    /// The rows could not be saved: [`Submitted::unsaved`] says why.
    Unsaved,
    /// The lock is no longer ours.
    Lock(LockError),
    Deadline,
}

/// A controller that does not answer is not asked for thousands of jobs, each of which would then
/// have to be looked for: so many submissions without an answer in a row end the run.
const MAX_DOUBTS: usize = 3;

/// Tries after a transient refusal, with these pauses between them.
const PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(9),
];

/// A refusal that took longer came after tries of sbatch's own, seconds.
const LONG_WAIT_S: i64 = 60;

/// How often the journal is folded into the state file, seconds.
const FOLD_EVERY_S: i64 = 30;

impl Submitter<'_> {
    /// Submits the batches in their order and saves the state.
    pub fn submit(mut self, batches: &[Batch]) -> Submitted {
        let mut out = Submitted::default();
        if batches.is_empty() {
            return out;
        }
        let mut left: VecDeque<Cow<'_, Batch>> = batches.iter().map(Cow::Borrowed).collect();
        let mut run = match self.open(&left) {
            Ok(run) => run,
            Err(error) => {
                out.stopped = Some((Halt::Journal(error), count(&left)));
                return out;
            }
        };
        let in_flight = self.state.rows().iter().filter(|row| row.is_in_flight());
        run.taken = in_flight
            .filter_map(|row| Some(whole_job(row.job_id.as_ref()?, row.facts.cluster.as_ref())))
            .collect();
        while let Some(batch) = left.pop_front() {
            match self.submit_batch(&batch, &mut run, &mut out) {
                Ok(Next::Done) => batch.tasks.iter().for_each(|_| (self.tick)()),
                Ok(Next::Instead(parts)) => {
                    let intents = parts.iter().flat_map(intents);
                    run.unsynced.extend(intents);
                    for part in parts.into_iter().rev() {
                        left.push_front(Cow::Owned(part));
                    }
                }
                Err(stop) => {
                    let was_tried = matches!(stop, Halt::NoAnswers(_));
                    let own = if was_tried { 0 } else { batch.tasks.len() };
                    out.stopped = Some((stop, count(&left) + own));
                    break;
                }
            }
            let now = (self.clock)();
            if (now - run.folded_at).num_seconds() >= FOLD_EVERY_S && !left.is_empty() {
                let next = self.fold(&mut run, &mut out).map(|()| self.open(&left));
                match next {
                    Ok(Ok(next)) => {
                        // A controller that answers nobody takes longer than a fold comes late.
                        run = Run {
                            doubts_in_a_row: run.doubts_in_a_row,
                            taken: run.taken,
                            ..next
                        }
                    }
                    Ok(Err(error)) => {
                        out.stopped = Some((Halt::Journal(error), count(&left)));
                        return out;
                    }
                    Err(error) => {
                        out.stopped = Some((Halt::Unsaved, count(&left)));
                        out.unsaved = Some(error);
                        return out;
                    }
                }
            }
        }
        out.unsaved = self.fold(&mut run, &mut out).err();
        out
    }

    /// Opens the journal and syncs the intents of all tasks.
    fn open(&self, batches: &VecDeque<Cow<'_, Batch>>) -> Result<Run, StateError> {
        self.store.check_unchanged(self.state)?;
        let mut run = Run {
            journal: self.store.journal()?,
            unsynced: batches.iter().flat_map(|batch| intents(batch)).collect(),
            done: Vec::new(),
            folded_at: (self.clock)(),
            doubts_in_a_row: 0,
            taken: HashSet::new(),
        };
        run.flush()?;
        Ok(run)
    }

    fn submit_batch(
        &mut self,
        batch: &Batch,
        run: &mut Run,
        out: &mut Submitted,
    ) -> Result<Next, Halt> {
        let Some(first) = batch.tasks.first() else {
            return Ok(Next::Done);
        };
        let procedure = &first.intent.key.procedure;
        if let Some((_, count)) = out.refused.get_mut(procedure) {
            *count += batch.tasks.len();
            return Ok(Next::Done);
        }
        if let Some(like) = out.refused_retries.iter_mut().find(|r| r.is_like(first)) {
            like.count += batch.tasks.len();
            return Ok(Next::Done);
        }
        let requests: Vec<&JobRequest> = batch.tasks.iter().map(|task| &task.request).collect();
        for attempt in 0.. {
            let now = (self.clock)();
            if now >= self.deadline {
                return Err(Halt::Deadline);
            }
            self.store.check_lock().map_err(Halt::Lock)?;
            let sending = batch.tasks.iter().map(|task| Entry::Sending {
                submission_id: Arc::clone(&task.intent.submission_id),
                at: now,
            });
            run.unsynced.extend(sending);
            if let Err(error) = run.flush() {
                run.take_back(batch.tasks.len());
                return Err(Halt::Journal(error.into()));
            }
            let submission = match &batch.array {
                Some(array) => self.executor.submit_array(array, &requests),
                None => self.executor.submit(&first.request),
            };
            let submission = run.doubt_what_is_taken(submission);
            let after = (self.clock)();
            for (index, task) in batch.tasks.iter().enumerate() {
                let own = of_task(&submission, batch, index);
                run.unsynced
                    .push(entry(&task.intent.submission_id, &own, after));
            }
            let instead = match &submission {
                Submission::Refused { kind, .. } => smaller(batch, *kind, after - now),
                _ => None,
            };
            let pause = match &submission {
                Submission::Refused {
                    kind: Refusal::Transient,
                    ..
                } => PAUSES
                    .get(attempt)
                    .filter(|pause| self.has_time_for(**pause)),
                _ => None,
            };
            self.report(
                batch,
                &submission,
                instead.is_some() || pause.is_some(),
                out,
            );
            if let Some(parts) = instead {
                return Ok(Next::Instead(parts));
            }
            match submission {
                Submission::Accepted { .. } => {
                    run.doubts_in_a_row = 0;
                    return Ok(Next::Done);
                }
                Submission::InDoubt { message } => {
                    run.doubts_in_a_row += 1;
                    return match run.doubts_in_a_row {
                        MAX_DOUBTS => Err(Halt::NoAnswers(message)),
                        _ => Ok(Next::Done),
                    };
                }
                Submission::Refused { kind, message } => match kind {
                    Refusal::Permanent if first.notes.has_own_resources => {
                        out.refused_retries.push(RefusedRetry {
                            key: first.intent.key.clone(),
                            resources: first.request.resources.clone(),
                            message,
                            count: batch.tasks.len(),
                        });
                        return Ok(Next::Done);
                    }
                    Refusal::Permanent | Refusal::ArraySize => {
                        out.refused
                            .insert(Arc::clone(procedure), (message, batch.tasks.len()));
                        return Ok(Next::Done);
                    }
                    Refusal::Limit => return Err(Halt::Limit(message)),
                    Refusal::Transient => match pause {
                        Some(pause) => (self.pause)(*pause),
                        None => return Err(Halt::Transient(message)),
                    },
                },
            }
        }
        Ok(Next::Done)
    }

    fn has_time_for(&self, pause: Duration) -> bool {
        (self.deadline - (self.clock)())
            .to_std()
            .is_ok_and(|left| left > pause)
    }

    /// Brings the rows up to what is known and saves them, after the events; that ends the journal.
    fn fold(&mut self, run: &mut Run, out: &mut Submitted) -> Result<(), StateError> {
        note_audit_error(self.audit.sync(), out);
        // A result that cannot be synced any more is in the rows that are saved next; should that
        // fail too, its submission is in doubt on disk and will be looked for.
        let _ = run.flush_facts();
        journal::replay(&run.done, self.state);
        let saved = self.store.save(self.state);
        if matches!(
            saved,
            Err(StateError::Conflict { .. } | StateError::Lock(LockError::Lost { .. }))
        ) {
            run.leave_behind();
        }
        saved.map(drop)
    }

    /// Notes what became of each task. What is tried again otherwise was refused all the same.
    fn report(
        &mut self,
        batch: &Batch,
        submission: &Submission,
        is_tried_again: bool,
        out: &mut Submitted,
    ) {
        let requests: Vec<&JobRequest> = batch.tasks.iter().map(|task| &task.request).collect();
        let argv = match (&batch.array, requests.as_slice()) {
            (Some(array), tasks) => self.executor.array_command_line(array, tasks),
            (None, [task, ..]) => self.executor.command_line(task),
            (None, []) => Vec::new(),
        };
        let at = (self.clock)();
        let mut events = Vec::new();
        for (index, task) in batch.tasks.iter().enumerate() {
            let key = &task.intent.key;
            let mut event = Event {
                at,
                kind: EventKind::Submitted,
                key: Some(key.clone()),
                job_id: None,
                old_status: None,
                new_status: Some(TaskStatus::Pending),
                detail: None,
                extra: audit_log::extras_of_intent(&task.intent),
            };
            event.extra.extend(notes(task));
            if batch.array.is_some() {
                event.extra.push(("array_index", index.into()));
            }
            match of_task(submission, batch, index) {
                Submission::Accepted { job_id, cluster } => {
                    out.accepted.push((key.clone(), job_id.clone()));
                    event.job_id = Some(job_id);
                    event.extra.push(("argv", argv.clone().into()));
                    event
                        .extra
                        .push(("version", env!("CARGO_PKG_VERSION").into()));
                    if let Some(cluster) = cluster {
                        event.extra.push(("cluster", cluster.to_string().into()));
                    }
                }
                Submission::Refused { message, .. } => {
                    event.kind = EventKind::Error;
                    event.new_status = None;
                    event.detail = Some(message);
                }
                Submission::InDoubt { message } => {
                    event.kind = EventKind::Error;
                    event.detail = Some(format!("in doubt: {message}"));
                    out.in_doubt.push((key.clone(), message));
                }
            }
            events.push(event);
        }
        if is_tried_again {
            // One line tells as much as one for each task.
            events.truncate(1);
        }
        let written = self.audit.append_unsynced(&events);
        note_audit_error(written, out);
    }
}

fn note_audit_error(written: Result<(), (PathBuf, io::Error)>, out: &mut Submitted) {
    if let Err((path, error)) = written {
        out.audit_error
            .get_or_insert_with(|| format!("cannot write {}: {error}", path.display()));
    }
}

/// Says how a run goes on after a batch.
enum Next {
    Done,
    /// Nothing was accepted; these are tried in its place.
    Instead(Vec<Batch>),
}

/// Makes smaller batches of an array that was refused for its size. One that was refused after a long wait
/// of sbatch's own is not: the controller is full, and each further try would take as long.
fn smaller(batch: &Batch, kind: Refusal, took: chrono::Duration) -> Option<Vec<Batch>> {
    match kind {
        Refusal::Limit if took.num_seconds() < LONG_WAIT_S => batch.halves().map(Vec::from),
        // An array of one that is too large: there are no arrays here.
        Refusal::ArraySize if batch.array.is_some() => Some(match batch.halves() {
            Some(halves) => Vec::from(halves),
            None => batch.one_by_one(),
        }),
        _ => None,
    }
}

/// Tells of one task what sbatch told of its batch.
fn of_task(submission: &Submission, batch: &Batch, index: usize) -> Submission {
    match submission {
        Submission::Accepted { job_id, cluster } if batch.array.is_some() => Submission::Accepted {
            job_id: array::job_id_of_task(job_id, index),
            cluster: cluster.clone(),
        },
        other => other.clone(),
    }
}

fn intents(batch: &Batch) -> impl Iterator<Item = Entry> {
    let intents = batch.tasks.iter().map(|task| task.intent.clone());
    intents.map(Entry::Intent)
}

fn count(batches: &VecDeque<Cow<'_, Batch>>) -> usize {
    batches.iter().map(|batch| batch.tasks.len()).sum()
}

/// Returns why a task is submitted, and how the request differs from what is configured.
fn notes(task: &Prepared) -> Vec<(&'static str, Value)> {
    let Notes {
        due,
        retry_of,
        changes,
        reduced,
        has_own_resources: _,
    } = &task.notes;
    let reduced: Vec<String> = reduced.iter().map(ToString::to_string).collect();
    [
        ("cause", due.and_then(Due::cause).map(Value::from)),
        ("retry_of", retry_of.map(|reason| reason.as_str().into())),
        (
            "changes",
            Some(changes.clone())
                .filter(|list| !list.is_empty())
                .map(Value::from),
        ),
        (
            "reduced",
            Some(reduced)
                .filter(|list| !list.is_empty())
                .map(Value::from),
        ),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
    .collect()
}
