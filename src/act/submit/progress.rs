//! The progress of a submission, across all folds of its journal.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::TimeDelta;

use super::{Halt, Held, HeldBy, RefusedRetry, Submitted};
use crate::decide::request::{Batch, Prepared};
use crate::executor::{Refusal, Submission};
use crate::model::job::{JobId, array};
use crate::model::state::State;

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
        let in_flight = state.rows().iter().filter(|row| row.is_in_flight());
        Self {
            out: Submitted::default(),
            doubts_in_a_row: 0,
            doubts: HashMap::new(),
            taken: in_flight
                .filter_map(|row| Some(whole_job(row.job_id.as_ref()?, row.facts.cluster.as_ref())))
                .collect(),
        }
    }

    /// If similar tasks were refused or held, counts the batch with them: it is not tried then.
    pub(super) fn holds_back(&mut self, batch: &Batch, first: &Prepared) -> bool {
        let out = &mut self.out;
        let procedure = &first.intent.key.procedure;
        let refused = out.refused.get_mut(procedure).map(|(_, count)| count);
        let held = out.held.get_mut(procedure).map(|held| &mut held.count);
        if let Some(count) = refused.or(held) {
            *count += batch.tasks.len();
            return true;
        }
        if let Some(like) = out.refused_retries.iter_mut().find(|r| r.is_like(first)) {
            like.count += batch.tasks.len();
            return true;
        }
        false
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
                    self.hold(procedure, HeldBy::Doubts, message, 0);
                }
                return Ok(());
            }
            Submission::Refused { kind, message } => (kind, message),
        };
        let count = batch.tasks.len();
        match kind {
            Refusal::Permanent if first.notes.has_own_resources => {
                self.out.refused_retries.push(RefusedRetry {
                    key: first.intent.key.clone(),
                    resources: first.request.resources.clone(),
                    message,
                    count,
                });
            }
            Refusal::Permanent | Refusal::ArraySize => {
                self.out.refused.insert(procedure, (message, count));
            }
            Refusal::Limit if took.num_seconds() >= LONG_WAIT_S => {
                return Err(Halt::Limit(message));
            }
            // The limit may be on an account or quality of service that other procedures do not use.
            Refusal::Limit => self.hold(procedure, HeldBy::Limit, message, count),
            Refusal::Transient => return Err(Halt::Transient(message)),
        }
        Ok(())
    }

    fn hold(&mut self, procedure: Arc<str>, by: HeldBy, message: String, count: usize) {
        let held = Held { by, message, count };
        self.out.held.insert(procedure, held);
    }
}
