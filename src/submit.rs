//! Carries a manifest out: journal, executor, state, one job after the other.
//!
//! The rule that everything here serves: an intent is on disk before sbatch starts, and its answer
//! is on disk before the next one starts. Nothing that the executor says ends a run with accepted
//! jobs unrecorded. See "Exactly once" in the documentation of the state.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::executor::{Executor, JobId, Refusal, Submission};
use crate::procedure::Resources;
use crate::request::{Notes, Prepared};
use crate::state::audit_log::{self, AuditLog, Event, EventKind};
use crate::state::journal::{self, Entry, Journal, JournalError};
use crate::state::lock::LockError;
use crate::state::store::{LockedStore, StateError};
use crate::state::{State, TaskKey, TaskStatus};

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
    pub stopped: Option<(Stop, usize)>,
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
pub enum Stop {
    /// A limit of the site: the rest waits for the next run.
    Limit(String),
    /// The controller cannot be reached.
    Transient(String),
    /// Several submissions in a row ended in doubt.
    NoAnswers(String),
    /// An intent could not be written: nothing may be submitted without one.
    Journal(StateError),
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

/// How often the journal is folded into the state file, seconds.
const FOLD_EVERY_S: i64 = 30;

impl Submitter<'_> {
    /// Submits the tasks in their order and saves the state.
    pub fn submit(mut self, tasks: &[Prepared]) -> Submitted {
        let mut out = Submitted::default();
        if tasks.is_empty() {
            return out;
        }
        let mut run = match self.open(tasks) {
            Ok(run) => run,
            Err(error) => {
                out.stopped = Some((Stop::Journal(error), tasks.len()));
                return out;
            }
        };
        for (at, task) in tasks.iter().enumerate() {
            let name = &task.intent.key.procedure;
            if let Some((_, count)) = out.refused.get_mut(name) {
                *count += 1;
            } else if let Some(like) = out.refused_retries.iter_mut().find(|r| r.is_like(task)) {
                like.count += 1;
            } else if let Err(stop) = self.submit_one(task, &mut run, &mut out) {
                let was_tried = usize::from(matches!(stop, Stop::NoAnswers(_)));
                out.stopped = Some((stop, tasks.len() - at - was_tried));
                break;
            }
            (self.tick)();
            let now = (self.clock)();
            let rest = &tasks[at + 1..];
            if (now - run.folded_at).num_seconds() >= FOLD_EVERY_S && !rest.is_empty() {
                let next = self.fold(&mut run).map(|()| self.open(rest));
                match next {
                    Ok(Ok(next)) => run = next,
                    Ok(Err(error)) => {
                        out.stopped = Some((Stop::Journal(error), rest.len()));
                        return out;
                    }
                    Err(error) => {
                        out.unsaved = Some(error);
                        return out;
                    }
                }
            }
        }
        out.unsaved = self.fold(&mut run).err();
        out
    }

    /// Opens the journal and syncs the intents of all tasks.
    fn open(&self, tasks: &[Prepared]) -> Result<Run, StateError> {
        self.store.check_unchanged(self.state)?;
        let mut run = Run {
            journal: self.store.journal()?,
            unsynced: tasks
                .iter()
                .map(|task| Entry::Intent(task.intent.clone()))
                .collect(),
            done: Vec::new(),
            folded_at: (self.clock)(),
            doubts_in_a_row: 0,
        };
        run.flush()?;
        Ok(run)
    }

    fn submit_one(
        &mut self,
        task: &Prepared,
        run: &mut Run,
        out: &mut Submitted,
    ) -> Result<(), Stop> {
        let id = &task.intent.submission_id;
        for attempt in 0.. {
            let now = (self.clock)();
            if now >= self.deadline {
                return Err(Stop::Deadline);
            }
            self.store.check_lock().map_err(Stop::Lock)?;
            run.unsynced.push(Entry::Sending {
                submission_id: Arc::clone(id),
                at: now,
            });
            if let Err(error) = run.flush() {
                run.take_back_sending();
                return Err(Stop::Journal(error.into()));
            }
            let submission = self.executor.submit(&task.request);
            run.unsynced.push(entry(id, &submission, (self.clock)()));
            self.report(task, &submission, out);
            match submission {
                Submission::Accepted { .. } => {
                    run.doubts_in_a_row = 0;
                    return Ok(());
                }
                Submission::InDoubt { message } => {
                    run.doubts_in_a_row += 1;
                    return match run.doubts_in_a_row {
                        MAX_DOUBTS => Err(Stop::NoAnswers(message)),
                        _ => Ok(()),
                    };
                }
                Submission::Refused { kind, message } => match kind {
                    Refusal::Permanent if task.notes.has_own_resources => {
                        out.refused_retries.push(RefusedRetry {
                            key: task.intent.key.clone(),
                            resources: task.request.resources.clone(),
                            message,
                            count: 1,
                        });
                        return Ok(());
                    }
                    Refusal::Permanent => {
                        out.refused
                            .insert(Arc::clone(&task.intent.key.procedure), (message, 1));
                        return Ok(());
                    }
                    Refusal::Limit => return Err(Stop::Limit(message)),
                    Refusal::Transient => match PAUSES.get(attempt) {
                        Some(pause) if self.has_time_for(*pause) => (self.pause)(*pause),
                        _ => return Err(Stop::Transient(message)),
                    },
                },
            }
        }
        Ok(())
    }

    fn has_time_for(&self, pause: Duration) -> bool {
        (self.deadline - (self.clock)())
            .to_std()
            .is_ok_and(|left| left > pause)
    }

    /// Brings the rows up to what is known and saves them; that ends the journal.
    fn fold(&mut self, run: &mut Run) -> Result<(), StateError> {
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

    fn report(&mut self, task: &Prepared, submission: &Submission, out: &mut Submitted) {
        let key = &task.intent.key;
        let mut event = Event {
            at: (self.clock)(),
            kind: EventKind::Submitted,
            key: Some(key.clone()),
            job_id: None,
            old_status: None,
            new_status: Some(TaskStatus::Pending),
            detail: None,
            extra: audit_log::extras_of_intent(&task.intent),
        };
        event.extra.extend(notes(task));
        match submission {
            Submission::Accepted { job_id, cluster } => {
                out.accepted.push((key.clone(), job_id.clone()));
                event.job_id = Some(job_id.clone());
                event
                    .extra
                    .push(("argv", self.executor.command_line(&task.request).into()));
                if let Some(cluster) = cluster {
                    event.extra.push(("cluster", cluster.to_string().into()));
                }
            }
            Submission::Refused { message, .. } => {
                event.kind = EventKind::Error;
                event.new_status = None;
                event.detail = Some(message.clone());
            }
            Submission::InDoubt { message } => {
                out.in_doubt.push((key.clone(), message.clone()));
                event.kind = EventKind::Error;
                event.detail = Some(format!("in doubt: {message}"));
            }
        }
        if let Err((path, error)) = self.audit.append(&[event]) {
            out.audit_error
                .get_or_insert_with(|| format!("cannot write {}: {error}", path.display()));
        }
    }
}

/// Returns how a request differs from what is configured.
fn notes(task: &Prepared) -> Vec<(&'static str, Value)> {
    let Notes {
        retry_of,
        changes,
        reduced,
        has_own_resources: _,
    } = &task.notes;
    let reduced: Vec<String> = reduced.iter().map(ToString::to_string).collect();
    [
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

/// Holds the journal of a run between two folds.
struct Run {
    journal: Journal,
    /// Known, and synced together with the next `Sending`.
    unsynced: Vec<Entry>,
    /// All entries of this run, for the fold.
    done: Vec<Entry>,
    folded_at: DateTime<Utc>,
    doubts_in_a_row: usize,
}

impl Run {
    /// Syncs what is known so far.
    fn flush(&mut self) -> Result<(), JournalError> {
        if self.unsynced.is_empty() {
            return Ok(());
        }
        let entries = std::mem::take(&mut self.unsynced);
        let written = self.journal.append(&entries);
        match written {
            // Nothing was written yet; the results are once the run ends.
            Err(JournalError::Shared { .. }) => self.unsynced = entries,
            _ => self.done.extend(entries),
        }
        written
    }

    /// What could not be written never happened: sbatch was not started.
    fn take_back_sending(&mut self) {
        if self.unsynced.pop().is_none() {
            self.done.pop();
        }
    }

    /// Syncs the last results.
    fn flush_facts(&mut self) -> Result<(), JournalError> {
        let entries = std::mem::take(&mut self.unsynced);
        let written = self.journal.append_facts(&entries);
        self.done.extend(entries);
        written
    }

    /// Sees that the next call finds this run's submissions in the journal, after another call has
    /// replaced the rows and may have removed the journal: the lock lies, or was taken over.
    fn leave_behind(&self) {
        if self.journal.is_in_place() {
            return;
        }
        let sent: HashSet<&Arc<str>> = self
            .done
            .iter()
            .filter_map(|entry| match entry {
                Entry::Sending { submission_id, .. } => Some(submission_id),
                _ => None,
            })
            .collect();
        let entries: Vec<Entry> = self
            .done
            .iter()
            .filter(|entry| match entry {
                Entry::Intent(intent) => sent.contains(&intent.submission_id),
                _ => true,
            })
            .cloned()
            .collect();
        if entries.is_empty() {
            return;
        }
        // The other call may be writing: then what is at the end cannot be judged at once.
        let write = || {
            Journal::open(self.journal.path())
                .and_then(|mut journal| journal.append_facts(&entries))
        };
        if let Err(error) = write().or_else(|_| write()).or_else(|_| write()) {
            // The queue still shows the jobs to the next call, and the audit log names them.
            tracing::warn!("{error}");
        }
    }
}

fn entry(id: &Arc<str>, submission: &Submission, at: DateTime<Utc>) -> Entry {
    let submission_id = Arc::clone(id);
    match submission {
        Submission::Accepted { job_id, cluster } => Entry::Accepted {
            submission_id,
            job_id: job_id.clone(),
            cluster: cluster.clone(),
            at,
        },
        Submission::Refused { message, .. } => Entry::Refused {
            submission_id,
            message: message.clone(),
            at,
        },
        Submission::InDoubt { message } => Entry::InDoubt {
            submission_id,
            message: message.clone(),
            at,
        },
    }
}
