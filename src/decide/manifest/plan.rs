//! The decision itself, one subject at a time: tasks of different subjects never look at each other.

mod late;
mod standing;
mod target;
mod waiting;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::{Decision, Due, Manifest, Planned, Policy, Skip, World};
use crate::base::parallel;
use crate::gather::completion::{Completion, SubjectCompletions};
use crate::gather::sessions::dicom::Hold;
use crate::model::bids::{Dicom, Session, SessionLabel, SubjectLabel};
use crate::model::job::JobId;
use crate::model::procedure::{ProcedureDag, ProcedureId, Scope};
use crate::model::state::{Reason, TaskKey, TaskRow, TaskStatus};
use standing::TaskStanding;
use target::Target;

/// Seconds for which a client of a network file system may not see a new file in a directory: NFS's `acdirmax`.
const DIRECTORY_CACHE: u64 = 60;

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
        if let Some(tasks) = by_priority.get_mut(task.procedure.index()) {
            tasks.push(task);
        }
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
        late: RefCell::default(),
        looked_at: RefCell::default(),
        has_trusted: Cell::default(),
    };
    loop {
        let tasks = subject.plan();
        if !subject.looks_closer(&tasks) {
            return tasks;
        }
    }
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
    late: RefCell<HashMap<(ProcedureId, SessionLabel), bool>>,
    /// Procedures of which no row is trusted.
    looked_at: RefCell<HashSet<ProcedureId>>,
    /// A row was believed without a look.
    has_trusted: Cell<bool>,
}

impl Subject<'_> {
    fn plan(&self) -> Vec<Planned> {
        let mut tasks = Vec::with_capacity(self.dag.len() * self.sessions.len());
        for (procedure, declared) in self.dag.iter() {
            let targets: Vec<Target<'_>> = match declared.scope {
                Scope::Subject => vec![Target::Subject],
                Scope::Session => self.sessions.iter().map(Target::Session).collect(),
            };
            for target in targets {
                let decision = self.decide(procedure, target);
                let works_on =
                    matches!((&decision, target), (Decision::Submit(_), Target::Subject));
                let labels = (self.label.clone(), target.label());
                tasks.push(Planned {
                    dicom_path: target.dicom_path(),
                    input_sessions: works_on.then(|| self.ready_sessions(procedure, |_| true)),
                    ..Planned::new(self.dag, procedure, labels, decision)
                });
            }
        }
        tasks
    }

    /// Takes the trust from what would be submitted and from what it builds on. True if that may change decisions:
    /// a job is only submitted for outputs and inputs that were looked at.
    fn looks_closer(&self, tasks: &[Planned]) -> bool {
        if !self.has_trusted.get() {
            return false;
        }
        let mut looked_at = self.looked_at.borrow_mut();
        let before = looked_at.len();
        for task in tasks {
            if matches!(task.decision, Decision::Submit(_)) {
                looked_at.insert(task.procedure);
                let inputs = self.dag.dependencies(task.procedure).iter();
                looked_at.extend(inputs.map(|(input, _)| *input));
            }
        }
        self.standings.borrow_mut().clear();
        looked_at.len() > before
    }

    /// True if a task's row is believed this time.
    fn is_trusted(&self, procedure: ProcedureId, row: Option<&TaskRow>) -> bool {
        let is_trusted = row.is_some_and(|row| (self.world.trusts)(row))
            && !self.looked_at.borrow().contains(&procedure);
        self.has_trusted.set(self.has_trusted.get() || is_trusted);
        is_trusted
    }

    /// Decides about one task: who may be writing its outputs, what the disk shows, and only then what it waits for.
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
        // Nothing is read about a session that the site excludes, and nothing builds on it.
        if self.is_excluded(target) {
            return Decision::Skip(Skip::Excluded);
        }
        let due = match self.standing(procedure, &session) {
            TaskStanding::InFlight(skip) | TaskStanding::Failed(skip) => {
                // What waits anyway names what it waits for, not a job that may have nothing to do with it.
                let is_guess = matches!(*skip, Skip::Renamed(_));
                let waits = is_guess.then(|| self.waits_for(procedure, target));
                return Decision::Skip(waits.flatten().unwrap_or(*skip));
            }
            TaskStanding::Retry(due) => Some(due),
            TaskStanding::Doubted(waiting) if !self.policy.force => {
                return Decision::Skip(Skip::WaitingFor(waiting));
            }
            TaskStanding::Doubted(_) => Some(Due::Forced { complete: true }),
            TaskStanding::Disk(Completion::Unreadable(what)) => {
                return Decision::Skip(Skip::Unreadable(what));
            }
            TaskStanding::Disk(Completion::Complete) if !self.policy.force => {
                let (due, skip) = match self.came_since(procedure, row) {
                    Some(sessions) => (Due::Stale, Skip::Stale(sessions)),
                    None if self.has_late_input(procedure, target, row) => {
                        (Due::LateInput, Skip::LateInput)
                    }
                    None => return Decision::Skip(Skip::Complete),
                };
                if !self.is_rerun(procedure, target) {
                    return Decision::Skip(skip);
                }
                let in_use = self.in_use_by(procedure, target);
                return in_use.map_or(Decision::Submit(due), Decision::Skip);
            }
            TaskStanding::Disk(Completion::Incomplete)
                if !self.policy.force && self.is_just_verified_elsewhere(row) =>
            {
                return Decision::Skip(Skip::Complete);
            }
            TaskStanding::Disk(Completion::NotApplicable) => None,
            TaskStanding::Disk(completion) => {
                Some(self.due(completion == Completion::Complete, row))
            }
        };
        if !self.has_dicom(target) {
            return Decision::Skip(Skip::NoDicom);
        }
        let Some(due) = due else {
            let awaited = self.awaits_input(procedure, target);
            return Decision::Skip(awaited.unwrap_or(Skip::NotApplicable));
        };
        // DICOM files are counted only for what would be submitted now: it takes a walk.
        let waits = self.waits_for(procedure, target);
        let in_use = || match due {
            Due::Forced { complete: true } => self.in_use_by(procedure, target),
            _ => None,
        };
        let held = waits.or_else(in_use).or_else(|| self.held(target));
        held.map_or(Decision::Submit(due), Decision::Skip)
    }

    /// True if another host may have verified a row so lately that this one does not see the outputs yet.
    fn is_just_verified_elsewhere(&self, row: Option<&TaskRow>) -> bool {
        let now = self.world.now.timestamp();
        let is_recent = |row: &TaskRow| {
            row.reason == Some(Reason::Verified)
                && row
                    .updated_at
                    .is_some_and(|at| now.abs_diff(at.timestamp()) < DIRECTORY_CACHE)
        };
        row.is_some_and(is_recent)
            && u64::try_from(now).is_ok_and(|now| {
                let meta = &self.world.rows.meta;
                meta.has_other_saver(&self.policy.host, now, DIRECTORY_CACHE)
            })
    }

    /// Returns why a task that is incomplete or forced is due.
    fn due(&self, complete: bool, row: Option<&TaskRow>) -> Due {
        match row {
            _ if self.policy.force => Due::Forced { complete },
            None => Due::New,
            Some(row) if row.status == TaskStatus::Failed => Due::FailedBefore { complete },
            Some(row) if row.reason.is_none() => Due::NeverVerified,
            Some(_) => Due::OutputsGone,
        }
    }

    /// True if a stale task runs again now.
    fn is_rerun(&self, procedure: ProcedureId, target: Target<'_>) -> bool {
        self.dag.get(procedure).rules.rerun_when_stale
            && self.has_dicom(target)
            && self.waits_for(procedure, target).is_none()
            && self.held(target).is_none()
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
                Some(Hold::TooFewFiles { files: 0, .. }) => {
                    too_few.get_or_insert(Skip::NoDicom);
                }
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
        let mut holds = self.holds.borrow_mut();
        holds
            .entry(session.session.clone())
            .or_insert_with(|| (self.world.gate)(session))
            .clone()
    }

    /// Returns the sessions that a complete task of a subject did not work on. Rows that do not list the sessions
    /// that they worked on are not judged.
    fn came_since(
        &self,
        procedure: ProcedureId,
        row: Option<&TaskRow>,
    ) -> Option<Vec<SessionLabel>> {
        let known = row
            .filter(|row| row.status == TaskStatus::Complete)
            .filter(|_| self.dag.get(procedure).scope == Scope::Subject)?
            .input_sessions
            .as_deref()?;
        let known: HashSet<&str> = known.split(' ').collect();
        let later = self.ready_sessions(procedure, |session| {
            !session.is_none() && !known.contains(session.as_str())
        });
        (!later.is_empty()).then_some(later)
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
        let removed = self.world.removed;
        let removed_procedure = removed.before(procedure, self.label, session)?;
        Some(Skip::Renamed(Box::new(removed_procedure.clone())))
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

#[cfg(test)]
mod tests;
