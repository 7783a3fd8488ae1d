//! What a submission remembers: the journal between two folds into the state, what lasts across all folds, and the
//! answers of sbatch in the audit log.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::{Halt, HeldBack, HeldBy, Submitted, Submitter};
use crate::base::regular::FileError;
use crate::decide::manifest::Due;
use crate::decide::request::{Batch, Prepared, RequestNotes};
use crate::executor::{JobRequest, Refusal, Submission};
use crate::model::job::{JobId, array};
use crate::model::state::{State, TaskStatus};
use crate::store::audit_log;
use crate::store::audit_log::{Event, EventKind};
use crate::store::journal::{Entry, Journal, JournalError};

/// This many submissions in doubt in a row stop their procedure, or the whole run if squeue fails too. Otherwise
/// sbatch would be started for thousands of jobs, and the next runs would have to look for each.
pub(super) const MAX_DOUBTS: usize = 3;

/// Seconds. If a refusal takes longer, sbatch itself tried again: the controller is full.
pub(super) const LONG_WAIT_S: i64 = 60;

/// What lasts for the whole submission.
pub(super) struct Progress {
    pub(super) out: Submitted,
    /// Submissions in doubt since the last clear answer, in total and by procedure.
    doubts_in_a_row: usize,
    doubts: HashMap<Arc<str>, usize>,
    /// Jobs of rows in flight and of this submission: Slurm cannot give their ids to another job.
    taken: HashSet<WholeJob>,
}

/// A job or a whole array, with its cluster.
type WholeJob = (String, Option<Arc<str>>);

fn whole_job(id: &JobId, cluster: Option<&Arc<str>>) -> WholeJob {
    let array = array::split_job_id(id).map(|(array, _)| array);
    (array.unwrap_or(id.as_str()).to_owned(), cluster.cloned())
}

impl Progress {
    pub(super) fn new(state: &State) -> Self {
        Self {
            out: Submitted::default(),
            doubts_in_a_row: 0,
            doubts: HashMap::new(),
            taken: state
                .in_flight()
                .filter_map(|row| Some(whole_job(row.job_id.as_ref()?, row.facts.cluster.as_ref())))
                .collect(),
        }
    }

    /// If similar tasks were refused or held, counts the batch with them: it is not tried then.
    pub(super) fn holds_back(&mut self, batch: &Batch, first: &Prepared) -> bool {
        let mut held_back = self.out.held_back.iter_mut();
        let like = held_back.find(|held| held.holds(first));
        like.is_some_and(|held| {
            held.count += batch.tasks.len();
            true
        })
    }

    /// Doubts an answer that names another task's job: the right job will be found by its tag.
    pub(super) fn doubt_duplicate(&mut self, submission: Submission) -> Submission {
        match submission {
            Submission::Accepted { job_id, cluster }
                if !self.taken.insert(whole_job(&job_id, cluster.as_ref())) =>
            {
                Submission::InDoubt {
                    message: format!(
                        "sbatch answered with job {job_id}, which belongs to another task"
                    ),
                }
            }
            other => other,
        }
    }

    /// Notes the last answer about a batch and how long it took. An error ends the run. `queue_answers` asks Slurm.
    pub(super) fn conclude(
        &mut self,
        batch: &Batch,
        first: &Prepared,
        (submission, took): (Submission, TimeDelta),
        queue_answers: impl FnOnce() -> bool,
    ) -> Result<(), Halt> {
        let procedure = Arc::clone(&first.intent.key.procedure);
        if !matches!(submission, Submission::InDoubt { .. }) {
            self.doubts_in_a_row = 0;
            self.doubts.remove(&procedure);
        }
        let (kind, message) = match submission {
            Submission::Accepted { .. } => return Ok(()),
            Submission::InDoubt { message } => {
                self.doubts_in_a_row += 1;
                if self.doubts_in_a_row.is_multiple_of(MAX_DOUBTS) && !queue_answers() {
                    return Err(Halt::NoAnswers(message));
                }
                let doubts = self.doubts.entry(Arc::clone(&procedure)).or_default();
                *doubts += 1;
                if *doubts == MAX_DOUBTS {
                    self.hold(first, HeldBy::Doubts, message, 0);
                }
                return Ok(());
            }
            Submission::Refused { kind, message } => (kind, message),
        };
        let by = match kind {
            Refusal::Permanent if first.notes.has_own_resources => {
                HeldBy::RefusedRetry(Box::new(first.request.resources.clone()))
            }
            Refusal::Permanent | Refusal::ArraySize => HeldBy::Refusal,
            Refusal::Limit if took.num_seconds() >= LONG_WAIT_S => {
                return Err(Halt::Limit(message));
            }
            // The limit may be on an account or quality of service that other procedures do not use.
            Refusal::Limit => HeldBy::Limit,
            Refusal::Transient => return Err(Halt::Transient(message)),
        };
        self.hold(first, by, message, batch.tasks.len());
        Ok(())
    }

    fn hold(&mut self, first: &Prepared, by: HeldBy, message: String, count: usize) {
        let key = first.intent.key.clone();
        self.out.held_back.push(HeldBack {
            key,
            by,
            message,
            count,
        });
    }
}

/// The journal of a run between two folds, with its entries.
pub(super) struct Run {
    pub(super) journal: Journal,
    /// Entries to sync together with the next `Sending`.
    pub(super) unsynced: Vec<Entry>,
    /// All entries since the last fold.
    pub(super) done: Vec<Entry>,
    pub(super) folded_at: DateTime<Utc>,
}

impl Run {
    /// Syncs the new entries.
    pub(super) fn flush(&mut self) -> Result<(), JournalError> {
        if self.unsynced.is_empty() {
            return Ok(());
        }
        let entries = std::mem::take(&mut self.unsynced);
        let written = self.journal.append(&entries);
        match written {
            // Nothing was written; the end of the run writes the results.
            Err(JournalError::Shared(_)) => self.unsynced = entries,
            _ => self.done.extend(entries),
        }
        written
    }

    /// Drops the last entries, which could not be written: sbatch was not started.
    pub(super) fn take_back(&mut self, sendings: usize) {
        let list = match self.unsynced.is_empty() {
            true => &mut self.done,
            false => &mut self.unsynced,
        };
        list.truncate(list.len().saturating_sub(sendings));
    }

    /// Syncs the last results.
    pub(super) fn flush_facts(&mut self) -> Result<(), JournalError> {
        let entries = std::mem::take(&mut self.unsynced);
        let written = self.journal.append_facts(&entries);
        self.done.extend(entries);
        written
    }

    /// Leaves this run's submissions in the journal for the next run, after another run has replaced
    /// the rows and may have removed the journal: the lock did not work, or was taken over.
    pub(super) fn leave_behind(&self) {
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
        // The other run may be writing at this moment: then the end of the file cannot be read.
        let write = || {
            Journal::open(self.journal.path())
                .and_then(|mut journal| journal.append_facts(&entries))
        };
        if let Err(error) = write().or_else(|_| write()).or_else(|_| write()) {
            // The next run still finds the jobs in the queue, and the audit log lists them.
            tracing::warn!("{error}");
        }
    }
}

pub(super) fn entry(id: &Arc<str>, submission: &Submission, at: DateTime<Utc>) -> Entry {
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

impl Submitter<'_> {
    /// Records the answer for each task; a refused batch also if it is tried again.
    pub(super) fn report(
        &mut self,
        batch: &Batch,
        submission: &Submission,
        is_tried_again: bool,
        out: &mut Submitted,
    ) {
        let requests: Vec<&JobRequest> = batch.tasks.iter().map(|task| &task.request).collect();
        let argv = self.executor.command_line(&requests, batch.array.as_ref());
        let at = (self.clock)();
        let mut events = Vec::new();
        for (index, task) in batch.tasks.iter().enumerate() {
            let key = &task.intent.key;
            let mut event = Event {
                key: Some(key.clone()),
                new_status: Some(TaskStatus::Pending),
                extra: audit_log::extras_of_intent(&task.intent),
                ..Event::new(at, EventKind::Submitted)
            };
            event.extra.extend(notes(task));
            // Two studies may share a log, and the log may be all that is left of one.
            let extra = &mut event.extra;
            extra.push(("project", task.request.project.as_str().into()));
            let path = self.store.store.paths.real_path();
            let cluster = self.state.meta.cluster.clone();
            for (name, value) in [("state_file", path), ("home_cluster", cluster)] {
                extra.extend(value.map(|value| (name, value.into())));
            }
            if batch.array.is_some() {
                extra.push(("array_index", index.into()));
            }
            match of_task(submission, batch, index) {
                Submission::Accepted { job_id, cluster } => {
                    out.accepted.push((key.clone(), job_id.clone()));
                    event.job_id = Some(job_id);
                    extra.push(("argv", argv.clone().into()));
                    extra.push(("version", env!("CARGO_PKG_VERSION").into()));
                    extra.extend(cluster.map(|name| ("cluster", name.to_string().into())));
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
            // All events would be the same.
            events.truncate(1);
        }
        let written = self.audit.append_unsynced(&events);
        note_audit_error(written, out);
    }
}

pub(super) fn note_audit_error(written: Result<(), FileError>, out: &mut Submitted) {
    if let Err(error) = written {
        out.audit_error.get_or_insert_with(|| error.to_string());
    }
}

/// The answer for one task of a batch.
pub(super) fn of_task(submission: &Submission, batch: &Batch, index: usize) -> Submission {
    match submission {
        Submission::Accepted { job_id, cluster } if batch.array.is_some() => Submission::Accepted {
            job_id: array::job_id_of_task(job_id, index),
            cluster: cluster.clone(),
        },
        other => other.clone(),
    }
}

/// Why a task is submitted, and how its request differs from the configuration.
fn notes(task: &Prepared) -> Vec<(&'static str, Value)> {
    let RequestNotes { due, retry_of, .. } = &task.notes;
    let list = |items: &[String]| (!items.is_empty()).then(|| Value::from(items));
    [
        ("cause", due.and_then(Due::cause).map(Value::from)),
        ("retry_of", retry_of.map(|reason| reason.as_str().into())),
        ("changes", list(&task.notes.changes)),
        ("reduced", list(&task.notes.reduced)),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
    .collect()
}
