//! What a whole submission has come to so far, over all folds of its journal.

use std::collections::HashSet;
use std::sync::Arc;

use super::{Halt, RefusedRetry, Submitted};
use crate::executor::{Refusal, Submission};
use crate::job::{JobId, array};
use crate::request::{Batch, Prepared};
use crate::state::State;

/// A controller that does not answer is not asked for thousands of jobs, each of which would then
/// have to be looked for: so many submissions without an answer in a row end the run.
pub(super) const MAX_DOUBTS: usize = 3;

/// Holds what lasts as long as the call.
pub(super) struct Progress {
    pub(super) out: Submitted,
    /// A controller that answers nobody takes longer than a fold comes late.
    doubts_in_a_row: usize,
    /// Jobs of rows in flight and those accepted by this call: no other can have their ids.
    taken: HashSet<WholeJob>,
}

/// Names a job, or all tasks of an array, at a site of one or more clusters.
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
            taken: in_flight
                .filter_map(|row| Some(whole_job(row.job_id.as_ref()?, row.facts.cluster.as_ref())))
                .collect(),
        }
    }

    /// Counts the tasks of a batch with those that were refused alike, if there are any: it is not tried then.
    pub(super) fn keeps_back(&mut self, batch: &Batch, first: &Prepared) -> bool {
        let out = &mut self.out;
        if let Some((_, count)) = out.refused.get_mut(&first.intent.key.procedure) {
            *count += batch.tasks.len();
            return true;
        }
        if let Some(like) = out.refused_retries.iter_mut().find(|r| r.is_like(first)) {
            like.count += batch.tasks.len();
            return true;
        }
        false
    }

    /// Takes an answer that names a job that another task has for none: which job this task has is found by its mark.
    pub(super) fn doubt_what_is_taken(&mut self, submission: Submission) -> Submission {
        match submission {
            Submission::Accepted { job_id, cluster }
                if !self.taken.insert(whole_job(&job_id, cluster.as_ref())) =>
            {
                Submission::InDoubt {
                    message: format!("sbatch answered with job {job_id}, which is another task's"),
                }
            }
            other => other,
        }
    }

    /// Notes the last answer about a batch, and says whether anything more may be submitted.
    pub(super) fn conclude(
        &mut self,
        batch: &Batch,
        first: &Prepared,
        submission: Submission,
    ) -> Result<(), Halt> {
        match submission {
            Submission::Accepted { .. } => {
                self.doubts_in_a_row = 0;
                Ok(())
            }
            Submission::InDoubt { message } => {
                self.doubts_in_a_row += 1;
                match self.doubts_in_a_row {
                    MAX_DOUBTS => Err(Halt::NoAnswers(message)),
                    _ => Ok(()),
                }
            }
            Submission::Refused { kind, message } => match kind {
                Refusal::Permanent if first.notes.has_own_resources => {
                    self.out.refused_retries.push(RefusedRetry {
                        key: first.intent.key.clone(),
                        resources: first.request.resources.clone(),
                        message,
                        count: batch.tasks.len(),
                    });
                    Ok(())
                }
                Refusal::Permanent | Refusal::ArraySize => {
                    let procedure = Arc::clone(&first.intent.key.procedure);
                    let refused = (message, batch.tasks.len());
                    self.out.refused.insert(procedure, refused);
                    Ok(())
                }
                Refusal::Limit => Err(Halt::Limit(message)),
                Refusal::Transient => Err(Halt::Transient(message)),
            },
        }
    }
}
