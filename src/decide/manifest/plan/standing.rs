//! Where a task stands by itself: its newest attempt decides before the disk is believed.

use std::sync::Arc;

use super::{Subject, in_flight};
use crate::decide::manifest::{Blocked, Due, Outlook, Skip, Waiting, retry};
use crate::gather::completion::Completion;
use crate::model::bids::SessionLabel;
use crate::model::procedure::{ProcedureId, Scope};
use crate::model::state::{Reason, TaskKey, TaskRow, TaskStatus};

/// Says where a task stands, whatever it waits for.
#[derive(Debug, Clone)]
pub(super) enum TaskStanding {
    InFlight(Box<Skip>),
    Failed(Box<Skip>),
    /// Failed, and to be tried again: its markers are not believed.
    Retry(Due),
    /// Complete by the disk's word alone, while a task that it builds on may be writing these very files, or left them
    /// half-written.
    Doubted(Box<Waiting>),
    Disk(Completion),
}

impl Subject<'_> {
    /// Returns where a task stands by itself; found out at most once.
    pub(super) fn standing(&self, procedure: ProcedureId, session: &SessionLabel) -> TaskStanding {
        let known = (procedure, session.clone());
        if let Some(standing) = self.standings.borrow().get(&known) {
            return standing.clone();
        }
        let mut standing = self
            .recorded(procedure, session)
            .unwrap_or_else(|| TaskStanding::Disk(self.outputs(procedure, session)));
        if matches!(standing, TaskStanding::Disk(Completion::Complete)) {
            if self.is_left_by_failed(procedure, session) {
                standing = TaskStanding::Retry(Due::FailedBefore { complete: true });
            } else if let Some(waiting) = self.other_writer(procedure, session) {
                standing = TaskStanding::Doubted(Box::new(waiting));
            }
        }
        self.standings.borrow_mut().insert(known, standing.clone());
        standing
    }

    fn outputs(&self, procedure: ProcedureId, session: &SessionLabel) -> Completion {
        match self.is_trusted(procedure, self.row(procedure, session)) {
            true => Completion::Complete,
            false => self.disk.completion(procedure, session),
        }
    }

    /// True if the newest attempt of a task without a row failed, so that its complete outputs prove nothing.
    fn is_left_by_failed(&self, procedure: ProcedureId, session: &SessionLabel) -> bool {
        let key = self.key(procedure, session);
        if self.row(procedure, session).is_some()
            || self.is_forced(&key)
            || self.dag.get(procedure).rules.accept_outputs
        {
            return false;
        }
        (self.world.newest)().may_have_left(&key, procedure, (self.label, session), || {
            self.disk.newest_output(procedure, session)
        })
    }

    /// Returns the task that this one builds on, has the same output directory and is in flight or failed: what looks
    /// like this task's outputs may be that one's. A complete row proves that they are not.
    fn other_writer(&self, procedure: ProcedureId, session: &SessionLabel) -> Option<Waiting> {
        let row = self.row(procedure, session);
        if row.is_some_and(|row| row.status == TaskStatus::Complete) {
            return None;
        }
        let own = self.dag.get(procedure);
        let mut seen = vec![procedure];
        let mut next = 0;
        while let Some(one) = seen.get(next).copied() {
            next += 1;
            for (other, _) in self.dag.dependencies(one) {
                if !seen.contains(other) {
                    seen.push(*other);
                }
            }
            let declared = self.dag.get(one);
            if one == procedure || declared.output_dir != own.output_dir {
                continue;
            }
            let sessions = match declared.scope {
                Scope::Subject => vec![SessionLabel::none()],
                Scope::Session if own.scope == Scope::Session => vec![session.clone()],
                Scope::Session => self.wanted.iter().map(|one| one.session.clone()).collect(),
            };
            for session in sessions {
                let blocked = match self.recorded(one, &session) {
                    Some(TaskStanding::InFlight(_) | TaskStanding::Retry(_)) => None,
                    Some(TaskStanding::Failed(skip)) => failure(&skip),
                    None if self.is_left_by_failed(one, &session) => None,
                    _ => continue,
                };
                return Some(Waiting {
                    procedure: Arc::clone(&declared.name),
                    session: (own.scope == Scope::Subject).then_some(session),
                    sessions_missing: 0,
                    blocked,
                });
            }
        }
        None
    }

    /// Returns where a task stands by its records; none if only the disk can tell.
    ///
    /// A marker is believed only when its writer is gone: rows in flight and failed rows decide
    /// before the disk is looked at.
    fn recorded(&self, procedure: ProcedureId, session: &SessionLabel) -> Option<TaskStanding> {
        let row = self.row(procedure, session);
        if let Some(row) = row.filter(|row| row.is_in_flight()) {
            Some(TaskStanding::InFlight(Box::new(in_flight(row))))
        } else if let Some(job) = self.job_without_row(procedure, session) {
            let skip = Skip::JobWithoutRow(job.clone());
            Some(TaskStanding::InFlight(Box::new(skip)))
        } else if let Some(renamed) = self.renamed(procedure, session) {
            Some(TaskStanding::InFlight(Box::new(renamed)))
        } else {
            let row = row.filter(|row| is_unproven(row) && !self.is_forced(&row.key))?;
            Some(self.failed(procedure, session, row))
        }
    }

    /// Returns where a task stands whose newest attempt failed, or ended while nobody knew its markers.
    fn failed(
        &self,
        procedure: ProcedureId,
        session: &SessionLabel,
        row: &TaskRow,
    ) -> TaskStanding {
        let rules = &self.dag.get(procedure).rules;
        // The Python program's failed rows have no reason: the disk decides about them.
        let is_judged = row.status == TaskStatus::Failed && row.reason.is_some();
        if rules.accept_outputs || !is_judged {
            let completion = self.disk.completion(procedure, session);
            if completion != Completion::Incomplete || self.policy.resubmit_failed {
                return TaskStanding::Disk(completion);
            }
        }
        let own_uid = self.world.rows.meta.owner_uid;
        let outlook = retry::outlook(rules.retry.as_ref(), row, own_uid, self.world.now);
        let is_due = self.policy.resubmit_failed || outlook == Outlook::Now;
        let (Some(reason), true) = (row.reason, is_due) else {
            return TaskStanding::Failed(Box::new(Skip::Failed {
                reason: match row.reason {
                    Some(Reason::Unverified) => Some(Reason::NoOutput),
                    reason => reason,
                },
                attempt: row.attempt.unwrap_or(1),
                outlook,
            }));
        };
        // Whether its input is there and its directory can be read does not depend on what the failed attempt left.
        let complete = match self.disk.completion(procedure, session) {
            Completion::Complete => true,
            Completion::Incomplete => false,
            other => return TaskStanding::Disk(other),
        };
        TaskStanding::Retry(match self.policy.resubmit_failed {
            true => Due::FailedBefore { complete },
            false => Due::Retry { reason, complete },
        })
    }

    fn is_forced(&self, key: &TaskKey) -> bool {
        let selection = &self.policy.selection;
        self.policy.force && selection.contains(&key.subject, &key.session, &key.procedure)
    }
}

/// Returns why a failed task does not get ready by itself; none if it is tried again.
pub(super) fn failure(skip: &Skip) -> Option<Blocked> {
    match skip {
        Skip::Failed { outlook, .. } if outlook.is_retry() => None,
        Skip::Failed { reason, .. } => Some(Blocked::Failed(*reason)),
        _ => Some(Blocked::Failed(None)),
    }
}

/// True for a row that keeps its task from being complete by the disk's word alone.
fn is_unproven(row: &TaskRow) -> bool {
    row.status == TaskStatus::Failed || row.reason == Some(Reason::Unverified)
}
