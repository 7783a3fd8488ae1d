//! The decision itself, one subject at a time: tasks of different subjects never look at each other.

mod target;
mod waiting;

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Decision, Due, Manifest, Outlook, Planned, Policy, Skip, World, retry};
use crate::bids::dicom::Hold;
use crate::bids::{Dicom, Session, SessionLabel, SubjectLabel};
use crate::completion::{Completion, SubjectCompletions};
use crate::job::JobId;
use crate::parallel;
use crate::procedure::{ProcedureDag, ProcedureId, Scope};
use crate::state::{Reason, TaskKey, TaskRow, TaskStatus};
use target::Target;

/// Gives each task of each session its one decision, in order of priority, subject and session.
///
/// `threads` says how many subjects wait for the disk at the same time; the answer is the same for
/// any number. `tick` is called after each subject, for a progress bar.
pub fn plan(
    dag: &ProcedureDag,
    world: &World<'_>,
    policy: &Policy,
    threads: usize,
    tick: &(dyn Fn() + Sync),
) -> Manifest {
    let subjects: Vec<&[Session]> = world
        .sessions
        .chunk_by(|a, b| a.subject == b.subject)
        .collect();
    let planned = parallel::map(&subjects, threads, |sessions| {
        let tasks = plan_subject(dag, world, policy, sessions);
        tick();
        tasks
    });
    let mut by_priority: Vec<Vec<Planned>> = vec![Vec::new(); dag.len()];
    for task in planned.into_iter().flatten() {
        by_priority[task.procedure.index()].push(task);
    }
    Manifest {
        tasks: by_priority.into_iter().flatten().collect(),
    }
}

fn plan_subject(
    dag: &ProcedureDag,
    world: &World<'_>,
    policy: &Policy,
    sessions: &[Session],
) -> Vec<Planned> {
    let Some(first) = sessions.first() else {
        return Vec::new();
    };
    let subject = Subject {
        dag,
        world,
        policy,
        sessions,
        wanted: sessions
            .iter()
            .filter(|session| !policy.cohort.excludes(session))
            .collect(),
        label: &first.subject,
        disk: world.completions.for_subject(&first.subject),
        standings: RefCell::default(),
        holds: RefCell::default(),
    };
    let mut tasks = Vec::with_capacity(dag.len() * sessions.len());
    for (procedure, declared) in dag.iter() {
        let targets: Vec<Target<'_>> = match declared.scope {
            Scope::Subject => vec![Target::Subject],
            Scope::Session => sessions.iter().map(Target::Session).collect(),
        };
        for target in targets {
            let decision = subject.decide(procedure, target);
            let works_on = matches!((&decision, target), (Decision::Submit(_), Target::Subject));
            tasks.push(Planned {
                procedure,
                subject: first.subject.clone(),
                session: target.label(),
                dicom_path: target.dicom_path(),
                input_sessions: works_on.then(|| subject.ready_sessions(procedure, |_| true)),
                decision,
            });
        }
    }
    tasks
}

/// Is one subject under decision, with what has been found out about its tasks so far.
struct Subject<'a> {
    dag: &'a ProcedureDag,
    world: &'a World<'a>,
    policy: &'a Policy,
    sessions: &'a [Session],
    /// Those that the site does not exclude.
    wanted: Vec<&'a Session>,
    label: &'a SubjectLabel,
    disk: Box<dyn SubjectCompletions + 'a>,
    standings: RefCell<HashMap<(ProcedureId, SessionLabel), TaskStanding>>,
    holds: RefCell<HashMap<SessionLabel, Option<Hold>>>,
}

/// Says where a task stands, whatever it waits for.
#[derive(Debug, Clone)]
enum TaskStanding {
    InFlight(Box<Skip>),
    Failed(Box<Skip>),
    /// Failed, and to be tried again: its markers are not believed.
    Retry(Due),
    Disk(Completion),
}

impl Subject<'_> {
    fn decide(&self, procedure: ProcedureId, target: Target<'_>) -> Decision {
        let session = target.label();
        let name = &self.dag.get(procedure).name;
        if !self
            .policy
            .selection
            .contains(self.label.as_str(), session.as_str(), name)
        {
            return Decision::Skip(Skip::NotSelected);
        }
        let row = self.row(procedure, &session);
        if let Some(row) = row.filter(|row| row.is_in_flight()) {
            return Decision::Skip(in_flight(row));
        }
        if self.is_excluded(target) {
            return Decision::Skip(Skip::Excluded);
        }
        if let Some(job) = self.job_without_row(procedure, &session) {
            return Decision::Skip(Skip::JobWithoutRow(job.clone()));
        }
        if let Some(row) = row
            && let Some(outlook) = self.blocks(procedure, row)
            && outlook != Outlook::Now
        {
            return Decision::Skip(failed(row, outlook));
        }
        if !self.has_dicom(target) {
            return Decision::Skip(Skip::NoDicom);
        }
        // The outputs of a task that waits are not looked at: that is what makes a pass cheap.
        if let Some(waiting) = self.waits_for(procedure, target) {
            return Decision::Skip(waiting);
        }
        if let Some(renamed) = self.renamed(procedure, &session) {
            return Decision::Skip(renamed);
        }
        let decision = self.by_disk(procedure, &session, row);
        match decision {
            // DICOM files are counted only for what would be submitted now: it takes a walk.
            Decision::Submit(_) => self.held(target).map_or(decision, Decision::Skip),
            Decision::Skip(_) => decision,
        }
    }

    /// Returns why the target's DICOM files are not ready to be worked on.
    fn held(&self, target: Target<'_>) -> Option<Skip> {
        let one;
        let sessions: &[&Session] = match target {
            Target::Session(session) => {
                one = [session];
                &one
            }
            Target::Subject => &self.wanted,
        };
        let mut too_few = None;
        let mut is_one_free = false;
        for session in sessions.iter().filter(|s| s.dicom != Dicom::Missing) {
            match self.hold(session) {
                None => is_one_free = true,
                Some(Hold::TooFewFiles { files, needed }) => {
                    too_few.get_or_insert(Skip::TooFewFiles { files, needed });
                }
                Some(Hold::Settling { until }) => return Some(Skip::Settling { until }),
                Some(Hold::Unreadable(what)) => return Some(Skip::Unreadable(Box::new(what))),
            }
        }
        // A subject goes on without its sessions that are too small, but not without any.
        too_few.filter(|_| !is_one_free)
    }

    /// Asks the gate about a session, once.
    fn hold(&self, session: &Session) -> Option<Hold> {
        let Dicom::At(path) = &session.dicom else {
            return None;
        };
        let mut holds = self.holds.borrow_mut();
        holds
            .entry(session.session.clone())
            .or_insert_with(|| (self.world.gate)(path))
            .clone()
    }

    fn by_disk(
        &self,
        procedure: ProcedureId,
        session: &SessionLabel,
        row: Option<&TaskRow>,
    ) -> Decision {
        let completion = match self.standing(procedure, session) {
            TaskStanding::InFlight(skip) | TaskStanding::Failed(skip) if !self.policy.force => {
                return Decision::Skip(*skip);
            }
            TaskStanding::InFlight(_) | TaskStanding::Failed(_) => {
                self.disk.completion(procedure, session)
            }
            TaskStanding::Retry(due) => return Decision::Submit(due),
            TaskStanding::Disk(completion) => completion,
        };
        let failed_before = row.is_some_and(|row| row.status == TaskStatus::Failed);
        match completion {
            Completion::Unreadable(what) => Decision::Skip(Skip::Unreadable(what)),
            Completion::NotApplicable => Decision::Skip(Skip::NotApplicable),
            Completion::Complete if self.policy.force => {
                Decision::Submit(Due::Forced { complete: true })
            }
            Completion::Complete => self.complete(procedure, row),
            Completion::Incomplete if self.policy.force => {
                Decision::Submit(Due::Forced { complete: false })
            }
            Completion::Incomplete if failed_before => Decision::Submit(Due::FailedBefore),
            Completion::Incomplete if row.is_some() => Decision::Submit(Due::OutputsGone),
            Completion::Incomplete => Decision::Submit(Due::New),
        }
    }

    /// Judges a task whose outputs are complete: a subject may have sessions since that it did not
    /// work on. Rows that do not say on which ones it did are not judged.
    fn complete(&self, procedure: ProcedureId, row: Option<&TaskRow>) -> Decision {
        let known = row
            .filter(|row| row.status == TaskStatus::Complete)
            .and_then(|row| row.input_sessions.as_deref());
        let declared = self.dag.get(procedure);
        let (Some(known), Scope::Subject) = (known, declared.scope) else {
            return Decision::Skip(Skip::Complete);
        };
        let known: HashSet<&str> = known.split(' ').collect();
        let later = self.ready_sessions(procedure, |session| {
            !session.is_none() && !known.contains(session.as_str())
        });
        if later.is_empty() {
            Decision::Skip(Skip::Complete)
        } else if declared.rules.rerun_when_stale {
            Decision::Submit(Due::Stale)
        } else {
            Decision::Skip(Skip::Stale(later))
        }
    }

    /// Returns where a task stands by itself; found out at most once.
    ///
    /// A marker is believed only when its writer is gone: rows in flight and failed rows decide
    /// before the disk is looked at.
    fn standing(&self, procedure: ProcedureId, session: &SessionLabel) -> TaskStanding {
        let known = (procedure, session.clone());
        if let Some(standing) = self.standings.borrow().get(&known) {
            return standing.clone();
        }
        let row = self.row(procedure, session);
        let without_row = self.job_without_row(procedure, session);
        let standing = match row {
            _ if let Some(job) = without_row => {
                TaskStanding::InFlight(Box::new(Skip::JobWithoutRow(job.clone())))
            }
            Some(row) if row.is_in_flight() => TaskStanding::InFlight(Box::new(in_flight(row))),
            _ if let Some(renamed) = self.renamed(procedure, session) => {
                TaskStanding::InFlight(Box::new(renamed))
            }
            Some(row) if let Some(outlook) = self.blocks(procedure, row) => match row.reason {
                Some(reason) if outlook == Outlook::Now => self.retry(procedure, session, reason),
                _ => TaskStanding::Failed(Box::new(failed(row, outlook))),
            },
            _ => match (self.disk.completion(procedure, session), row) {
                // The Python program's failed rows have no reason: the disk decides about them.
                // So it does where nobody knew what the job should leave.
                (Completion::Incomplete, Some(row))
                    if !row.is_proven_complete() && !self.policy.resubmit_failed =>
                {
                    TaskStanding::Failed(Box::new(failed(row, Outlook::None)))
                }
                (completion, _) => TaskStanding::Disk(completion),
            },
        };
        self.standings.borrow_mut().insert(known, standing.clone());
        standing
    }

    /// Returns where a failed task stands that is tried again. Whether its input is there and its
    /// directory can be read does not depend on what the failed attempt left.
    fn retry(
        &self,
        procedure: ProcedureId,
        session: &SessionLabel,
        reason: Reason,
    ) -> TaskStanding {
        match self.disk.completion(procedure, session) {
            Completion::Complete => TaskStanding::Retry(Due::Retry {
                reason,
                complete: true,
            }),
            Completion::Incomplete => TaskStanding::Retry(Due::Retry {
                reason,
                complete: false,
            }),
            other => TaskStanding::Disk(other),
        }
    }

    /// Returns what becomes of a failed row, if it keeps its task's outputs from being believed.
    fn blocks(&self, procedure: ProcedureId, row: &TaskRow) -> Option<Outlook> {
        let blocks = row.status == TaskStatus::Failed
            && row.reason.is_some()
            && !self.policy.resubmit_failed
            && !self.is_forced(row);
        blocks.then(|| {
            retry::outlook(
                self.dag.get(procedure).rules.retry.as_ref(),
                row,
                self.world.rows.meta.owner_uid,
                self.world.now,
            )
        })
    }

    fn is_forced(&self, row: &TaskRow) -> bool {
        self.policy.force
            && self.policy.selection.contains(
                &row.key.subject,
                &row.key.session,
                &row.key.procedure,
            )
    }

    fn target(&self, procedure: ProcedureId, session: &SessionLabel) -> Option<Target<'_>> {
        match self.dag.get(procedure).scope {
            Scope::Subject => Some(Target::Subject),
            Scope::Session => self
                .sessions
                .iter()
                .find(|s| s.session == *session)
                .map(Target::Session),
        }
    }

    fn has_dicom(&self, target: Target<'_>) -> bool {
        match target {
            Target::Session(session) => session.dicom != Dicom::Missing,
            Target::Subject => self.wanted.iter().any(|s| s.dicom != Dicom::Missing),
        }
    }

    fn is_excluded(&self, target: Target<'_>) -> bool {
        match target {
            Target::Session(session) => self.policy.cohort.excludes(session),
            Target::Subject => self.wanted.is_empty(),
        }
    }

    fn row(&self, procedure: ProcedureId, session: &SessionLabel) -> Option<&TaskRow> {
        if self.world.rows.is_empty() {
            return None;
        }
        self.world.rows.get(&self.key(procedure, session))
    }

    fn job_without_row(&self, procedure: ProcedureId, session: &SessionLabel) -> Option<&JobId> {
        if self.world.jobs_without_row.is_empty() {
            return None;
        }
        self.world
            .jobs_without_row
            .get(&self.key(procedure, session))
    }

    fn renamed(&self, procedure: ProcedureId, session: &SessionLabel) -> Option<Skip> {
        let vanished = self.world.vanished;
        let former = vanished.before(procedure, self.label, session)?;
        Some(Skip::Renamed(Box::new(former.clone())))
    }

    fn key(&self, procedure: ProcedureId, session: &SessionLabel) -> TaskKey {
        TaskKey {
            subject: self.label.shared(),
            session: session.shared(),
            procedure: Arc::clone(&self.dag.get(procedure).name),
        }
    }
}

fn in_flight(row: &TaskRow) -> Skip {
    Skip::InFlight {
        job_id: row.job_id.clone(),
        status: row.status,
        reason: row.reason,
    }
}

fn failed(row: &TaskRow, outlook: Outlook) -> Skip {
    Skip::Failed {
        reason: row.reason.map(|reason| match reason {
            Reason::Unverified => Reason::NoOutput,
            other => other,
        }),
        attempt: row.attempt.unwrap_or(1),
        outlook,
    }
}

#[cfg(test)]
mod tests;
