//! Submits the jobs and job arrays of a manifest, one after the other.
//!
//! The invariant: an intent is on disk before sbatch starts, and its answer is on disk before the
//! next one starts. No answer of the executor can end a run with accepted jobs unrecorded. See
//! `docs/reliability.md`.

mod progress;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::decide::request::{Batch, Prepared};
use crate::executor::{Answer, Executor, JobRequest, Question, Refusal, Submission};
use crate::model::job::JobId;
use crate::model::procedure::Resources;
use crate::model::state::{State, TaskKey};
use crate::store::audit_log::AuditLog;
use crate::store::journal;
use crate::store::journal::{Entry, Intent};
use crate::store::lock::LockError;
use crate::store::state_file::{LockedStore, StateError};
use progress::{LONG_WAIT_S, Progress, Run, entry, note_audit_error, of_task};

/// Everything that a submission needs.
pub struct Submitter<'a> {
    pub store: &'a LockedStore,
    pub state: &'a mut State,
    pub executor: &'a mut dyn Executor,
    pub audit: &'a mut AuditLog,
    pub clock: &'a dyn Fn() -> DateTime<Utc>,
    /// Sleeps between tries after a transient refusal.
    pub pause: &'a dyn Fn(Duration),
    /// Called after each task, for a progress bar.
    pub tick: &'a dyn Fn(),
    /// No submission starts after this time.
    pub deadline: DateTime<Utc>,
}

/// The outcome of a submission.
#[derive(Debug, Default)]
pub struct Submitted {
    pub accepted: Vec<(TaskKey, JobId)>,
    /// Tasks that this run does not submit, by the cause.
    pub held_back: Vec<HeldBack>,
    pub in_doubt: Vec<(TaskKey, String)>,
    /// Why the run stopped before all tasks were tried, and the number of tasks left.
    pub stopped: Option<(Halt, usize)>,
    /// The first error of writing to the audit log.
    pub audit_error: Option<String>,
    /// Why the rows could not be saved. The journal has the accepted jobs, unless it failed too.
    pub unsaved: Option<StateError>,
}

/// Tasks of one procedure that were refused, or not even tried.
#[derive(Debug)]
pub struct HeldBack {
    /// The first task.
    pub key: TaskKey,
    pub by: HeldBy,
    /// Slurm's message.
    pub message: String,
    pub count: usize,
}

#[derive(Debug, Clone, PartialEq)]
pub enum HeldBy {
    Refusal,
    /// The own resources of a retry were refused, which does not affect the procedure's other tasks.
    RefusedRetry(Box<Resources>),
    /// A limit on the jobs of the account or quality of service.
    Limit,
    /// Several submissions in a row ended in doubt, although squeue works.
    Doubts,
}

impl HeldBack {
    fn holds(&self, task: &Prepared) -> bool {
        self.key.procedure == task.intent.key.procedure
            && match &self.by {
                HeldBy::RefusedRetry(resources) => **resources == task.request.resources,
                HeldBy::Refusal | HeldBy::Limit | HeldBy::Doubts => true,
            }
    }
}

/// Why a run stops submitting.
#[derive(Debug)]
pub enum Halt {
    /// The controller accepts no more jobs; the rest waits for the next run.
    Limit(String),
    /// The controller cannot be reached.
    Transient(String),
    /// Several submissions in a row ended in doubt, and squeue fails too.
    NoAnswers(String),
    /// An intent could not be written, and nothing may be submitted without one.
    Journal(StateError),
    /// The rows could not be saved, for the reason in [`Submitted::unsaved`].
    Unsaved,
    /// Another invocation took the lock.
    Lock(LockError),
    Deadline,
}

/// Pauses before each further try after a transient refusal.
const PAUSES: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(3),
    Duration::from_secs(9),
];

/// Seconds between two folds of the journal into the state file.
const FOLD_EVERY_S: i64 = 30;

impl Submitter<'_> {
    /// Submits the batches in their order and saves the state.
    pub fn submit(mut self, batches: &[Batch]) -> Submitted {
        let mut progress = Progress::new(self.state);
        if !batches.is_empty() {
            let left = batches.iter().map(Cow::Borrowed).collect();
            progress.out.stopped = self.submit_all(left, &mut progress).err();
        }
        progress.out
    }

    /// The error is why the run stopped, and the number of tasks left.
    fn submit_all(
        &mut self,
        mut left: VecDeque<Cow<'_, Batch>>,
        progress: &mut Progress,
    ) -> Result<(), (Halt, usize)> {
        let mut run = self.open(&left)?;
        let mut stopped = Ok(());
        while let Some(batch) = left.pop_front() {
            match self.submit_batch(&batch, &mut run, progress) {
                Ok(parts) if parts.is_empty() => batch.tasks.iter().for_each(|_| (self.tick)()),
                Ok(parts) => {
                    let intents = parts.iter().flat_map(|part| self.intents(part));
                    run.unsynced.extend(intents);
                    for part in parts.into_iter().rev() {
                        left.push_front(Cow::Owned(part));
                    }
                }
                Err(stop) => {
                    let was_tried = matches!(stop, Halt::NoAnswers(_));
                    let own = if was_tried { 0 } else { batch.tasks.len() };
                    stopped = Err((stop, count(&left) + own));
                    break;
                }
            }
            let now = (self.clock)();
            if (now - run.folded_at).num_seconds() >= FOLD_EVERY_S && !left.is_empty() {
                if let Err(error) = self.fold(&mut run, progress) {
                    progress.out.unsaved = Some(error);
                    return Err((Halt::Unsaved, count(&left)));
                }
                run = self.open(&left)?;
            }
        }
        progress.out.unsaved = self.fold(&mut run, progress).err();
        stopped
    }

    /// Opens the journal and syncs the intents of all tasks.
    fn open(&self, left: &VecDeque<Cow<'_, Batch>>) -> Result<Run, (Halt, usize)> {
        let open = || {
            self.store.check_unchanged(self.state)?;
            let intents = left.iter().flat_map(|batch| self.intents(batch));
            let mut run = Run {
                journal: self.store.journal()?,
                unsynced: intents.collect(),
                done: Vec::new(),
                folded_at: (self.clock)(),
            };
            run.flush()?;
            Ok(run)
        };
        open().map_err(|error: StateError| (Halt::Journal(error), count(left)))
    }

    /// Submits a batch, and tries again after a transient refusal. Returns smaller batches to submit instead, if any.
    fn submit_batch(
        &mut self,
        batch: &Batch,
        run: &mut Run,
        progress: &mut Progress,
    ) -> Result<Vec<Batch>, Halt> {
        let Some(first) = batch.tasks.first() else {
            return Ok(Vec::new());
        };
        if progress.holds_back(batch, first) {
            return Ok(Vec::new());
        }
        let mut pauses = PAUSES.into_iter();
        loop {
            let (submission, took) = self.send(batch, run, progress)?;
            let parts = smaller(batch, &submission, took);
            let left = (self.deadline - (self.clock)()).to_std();
            let pause = match submission {
                Submission::Refused {
                    kind: Refusal::Transient,
                    ..
                } => pauses
                    .next()
                    .filter(|pause| left.is_ok_and(|left| left > *pause)),
                _ => None,
            };
            let is_tried_again = !parts.is_empty() || pause.is_some();
            self.report(batch, &submission, is_tried_again, &mut progress.out);
            if !parts.is_empty() {
                return Ok(parts);
            }
            let Some(pause) = pause else {
                let queue_answers = || {
                    let seen = self.executor.observe(&Question::default());
                    !matches!(seen.queue, Answer::Failed(_))
                };
                let is_over = progress.conclude(batch, first, (submission, took), queue_answers);
                return is_over.map(|()| Vec::new());
            };
            (self.pause)(pause);
        }
    }

    /// Starts sbatch once, after the intents and the `sending` entries are on disk. Returns its answer and duration.
    fn send(
        &mut self,
        batch: &Batch,
        run: &mut Run,
        progress: &mut Progress,
    ) -> Result<(Submission, chrono::Duration), Halt> {
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
        let requests: Vec<&JobRequest> = batch.tasks.iter().map(|task| &task.request).collect();
        let submission = self.executor.submit(&requests, batch.array.as_ref());
        let submission = progress.doubt_duplicate(submission);
        let after = (self.clock)();
        for (index, task) in batch.tasks.iter().enumerate() {
            let own = of_task(&submission, batch, index);
            run.unsynced
                .push(entry(&task.intent.submission_id, &own, after));
        }
        Ok((submission, after - now))
    }

    fn intents(&self, batch: &Batch) -> Vec<Entry> {
        let state_file = self.store.store.paths.real_path().map(Arc::from);
        let intents = batch.tasks.iter().map(|task| Intent {
            project: Some(task.request.project.as_str().into()),
            state_file: state_file.clone(),
            ..task.intent.clone()
        });
        intents.map(Entry::Intent).collect()
    }

    /// Syncs the events, then applies the journal to the rows and saves them, which empties the journal.
    fn fold(&mut self, run: &mut Run, progress: &mut Progress) -> Result<(), StateError> {
        note_audit_error(self.audit.sync(), &mut progress.out);
        // A result that cannot be synced is in the rows that are saved next. If that fails too, its
        // submission is in doubt on disk, and the next runs will look for it.
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
}

/// Splits an array that was refused for its size. Not if sbatch waited long before the refusal: then
/// the controller is full, and each further try would take as long.
fn smaller(batch: &Batch, submission: &Submission, took: chrono::Duration) -> Vec<Batch> {
    let Submission::Refused { kind, .. } = submission else {
        return Vec::new();
    };
    match (kind, batch.halves()) {
        (Refusal::Limit, Some(halves)) if took.num_seconds() < LONG_WAIT_S => Vec::from(halves),
        (Refusal::ArraySize, Some(halves)) if batch.array.is_some() => Vec::from(halves),
        // If even an array of one task is too large, the cluster allows no arrays.
        (Refusal::ArraySize, None) if batch.array.is_some() => batch.one_by_one(),
        _ => Vec::new(),
    }
}

fn count(batches: &VecDeque<Cow<'_, Batch>>) -> usize {
    batches.iter().map(|batch| batch.tasks.len()).sum()
}
