//! The journal of a run between two folds into the state.

use std::collections::HashSet;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::executor::Submission;
use crate::store::journal::{Entry, Journal, JournalError};

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
