//! Jobs of another executor than the configured one, and ended jobs that may have been requeued.

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::job::{ExecutorKind, JobId};
use crate::model::state::{Reason, TaskRow, TaskStatus};

/// How long after its end a job may be requeued, as long as Slurm remembers it.
pub const REQUEUE_TIME: TimeDelta = TimeDelta::days(1);

/// A job of another executor than the configured one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherExecutor<'a> {
    /// `None` for a submission in doubt.
    job_id: Option<&'a JobId>,
    pub owner: ExecutorKind,
    configured: ExecutorKind,
}

impl<'a> OtherExecutor<'a> {
    /// `None` if the row's job belongs to this executor, or its end is known.
    pub fn of(row: &'a TaskRow, configured: ExecutorKind) -> Option<Self> {
        let is_open = row.is_in_flight() && row.reason != Some(Reason::AwaitingOutput);
        Self::of_any(row, configured).filter(|_| is_open)
    }

    /// The same for a failed row whose job Slurm may have requeued.
    pub fn of_failed(
        row: &'a TaskRow,
        configured: ExecutorKind,
        now: DateTime<Utc>,
    ) -> Option<Self> {
        let other =
            Self::of_any(row, configured).filter(|other| other.owner == ExecutorKind::Slurm);
        other.filter(|_| may_live_again(row, now))
    }

    fn of_any(row: &'a TaskRow, configured: ExecutorKind) -> Option<Self> {
        let job_id = row.job_id.as_ref();
        let owner = match (job_id, &row.submission_id) {
            (Some(id), _) => id.executor(),
            (None, Some(submission)) => ExecutorKind::of_submission(submission),
            (None, None) => return None,
        };
        (owner != configured).then_some(Self {
            job_id,
            owner,
            configured,
        })
    }

    /// `job 7`, or `a submission in doubt`.
    pub fn name(&self) -> String {
        let job = self.job_id.map(|id| format!("job {id}"));
        job.unwrap_or_else(|| "a submission in doubt".to_owned())
    }

    pub fn remedy(&self) -> String {
        let own = self.owner;
        match self.job_id {
            Some(id) => format!(
                "set `executor: {own}` again until {id} has ended, or cancel it with that setting"
            ),
            None => format!(
                "set `executor: {own}` again until `monitor` has found the job or released the task"
            ),
        }
    }
}

impl std::fmt::Display for OtherExecutor<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, owner, own) = (self.name(), self.owner, self.configured);
        write!(
            f,
            "{name} belongs to `executor: {owner}`, so its state is unknown with `executor: {own}`"
        )
    }
}

/// True if the job of a failed row may have been requeued.
pub fn may_live_again(row: &TaskRow, now: DateTime<Utc>) -> bool {
    let ended = row.facts.ended_at.or(row.updated_at);
    row.status == TaskStatus::Failed && ended.is_some_and(|ended| now - ended < REQUEUE_TIME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::state::testing::row;

    #[test]
    fn attack_a_submission_in_doubt_belongs_to_its_executor() {
        use ExecutorKind::{Local, Slurm};
        for owner in [Slurm, Local] {
            let mut row = row("a", TaskStatus::Pending, Reason::Submitting);
            row.job_id = None;
            row.submission_id = Some(owner.submission_id("0123456789abcdef").into());
            for configured in [Slurm, Local] {
                let other = OtherExecutor::of(&row, configured);
                assert_eq!(other.is_some(), owner != configured);
            }
        }
    }
}
