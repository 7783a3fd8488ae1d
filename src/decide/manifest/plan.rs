//! The decision, one subject at a time: tasks of different subjects are independent.

mod own_state;
mod waiting;

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::Arc;

use super::{Decision, Due, Manifest, Planned, Policy, Skip, World};
use crate::base::parallel;
use crate::base::text::FastMap;
use crate::gather::completion::{Completion, SubjectCompletions};
use crate::gather::sessions::dicom::Hold;
use crate::model::bids::{Dicom, Session, SessionLabel, SubjectLabel};
use crate::model::procedure::{ProcedureDag, ProcedureId, Scope};
use crate::model::state::{TaskKey, TaskRow, TaskStatus};
use own_state::OwnState;

/// Decides about each task of each session, in order of priority, subject and session.
///
/// `threads` is the number of subjects that wait for the disk at the same time; it does not change the result. `tick`
/// is called after each subject, for a progress bar.
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
        own_states: RefCell::default(),
        holds: RefCell::default(),
        late: RefCell::default(),
        rechecked: RefCell::default(),
        has_trusted: Cell::default(),
    };
    loop {
        let tasks = subject.plan();
        if !subject.needs_recheck(&tasks) {
            return tasks;
        }
    }
}

/// The session of a task; `None` for a task of the subject.
type Target<'a> = Option<&'a Session>;

fn label(target: Target<'_>) -> SessionLabel {
    target.map_or_else(SessionLabel::none, |session| session.session.clone())
}

/// One subject, with what is known about its tasks so far.
struct Subject<'a> {
    dag: &'a ProcedureDag,
    world: &'a World<'a>,
    policy: &'a Policy,
    sessions: &'a [Session],
    /// The sessions that the site does not exclude.
    wanted: Vec<&'a Session>,
    label: &'a SubjectLabel,
    disk: Box<dyn SubjectCompletions + 'a>,
    own_states: RefCell<FastMap<(ProcedureId, SessionLabel), OwnState>>,
    holds: RefCell<FastMap<SessionLabel, Option<Hold>>>,
    late: RefCell<FastMap<(ProcedureId, SessionLabel), bool>>,
    /// Procedures whose rows are not trusted.
    rechecked: RefCell<HashSet<ProcedureId>>,
    /// A row was trusted without a check.
    has_trusted: Cell<bool>,
}

impl Subject<'_> {
    fn plan(&self) -> Vec<Planned> {
        let mut tasks = Vec::with_capacity(self.dag.len() * self.sessions.len());
        for (procedure, declared) in self.dag.iter() {
            let targets: Vec<Target<'_>> = match declared.scope {
                Scope::Subject => vec![None],
                Scope::Session => self.sessions.iter().map(Some).collect(),
            };
            for target in targets {
                let decision = self.decide(procedure, target);
                let works_on = matches!((&decision, target), (Decision::Submit(_), None));
                let labels = (self.label.clone(), label(target));
                tasks.push(Planned {
                    dicom_path: match target.map(|session| &session.dicom) {
                        Some(Dicom::At(path)) => Some(Arc::clone(path)),
                        _ => None,
                    },
                    input_sessions: works_on.then(|| self.ready_sessions(procedure, |_| true)),
                    ..Planned::new(self.dag, procedure, labels, decision)
                });
            }
        }
        tasks
    }

    /// Stops trusting the procedures of tasks to be submitted, and their dependencies, because a job is only submitted
    /// after its outputs and inputs were checked. True if that may change decisions.
    fn needs_recheck(&self, tasks: &[Planned]) -> bool {
        if !self.has_trusted.get() {
            return false;
        }
        let mut rechecked = self.rechecked.borrow_mut();
        let before = rechecked.len();
        for task in tasks {
            if matches!(task.decision, Decision::Submit(_)) {
                rechecked.insert(task.procedure);
                let inputs = self.dag.dependencies(task.procedure).iter();
                rechecked.extend(inputs.map(|(input, _)| *input));
            }
        }
        self.own_states.borrow_mut().clear();
        rechecked.len() > before
    }

    /// True if a task's row is trusted this time.
    fn is_trusted(&self, procedure: ProcedureId, row: Option<&TaskRow>) -> bool {
        let is_trusted = row.is_some_and(|row| (self.world.trusts)(row))
            && !self.rechecked.borrow().contains(&procedure);
        self.has_trusted.set(self.has_trusted.get() || is_trusted);
        is_trusted
    }

    /// Decides about one task: first whether a job may be writing its outputs, then by the disk, then by dependencies.
    fn decide(&self, procedure: ProcedureId, target: Target<'_>) -> Decision {
        let session = label(target);
        let key = self.key(procedure, &session);
        if !self.policy.selection.contains_key(&key) {
            return Decision::Skip(Skip::NotSelected);
        }
        let row = self.world.rows.get(&key);
        if let Some(row) = row.filter(|row| row.is_in_flight()) {
            return Decision::Skip(in_flight(row));
        }
        // Excluded sessions are not read, and no task depends on them.
        if self.is_excluded(target) {
            return Decision::Skip(Skip::Excluded);
        }
        let due = match self.own_state(procedure, &session) {
            OwnState::Recorded(skip) => {
                // A task that waits for a dependency names it, rather than a job that may be unrelated.
                let is_guess = matches!(*skip, Skip::Renamed(_));
                let waits = is_guess.then(|| self.waits_for(procedure, target));
                return Decision::Skip(waits.flatten().unwrap_or(*skip));
            }
            OwnState::Retry(due) => Some(due),
            OwnState::Disk(Completion::Unreadable(what)) => {
                return Decision::Skip(Skip::Unreadable(what));
            }
            OwnState::Disk(Completion::Complete) if !self.policy.force => {
                let (due, skip) = match self.added_sessions(procedure, row) {
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
            OwnState::Disk(Completion::Incomplete)
                if !self.policy.force && self.is_just_verified_elsewhere(row) =>
            {
                return Decision::Skip(Skip::Complete);
            }
            OwnState::Disk(Completion::NotApplicable) => None,
            OwnState::Disk(completion) => Some(self.due(completion == Completion::Complete, row)),
        };
        if !self.has_dicom(target) {
            return Decision::Skip(Skip::NoDicom);
        }
        let Some(due) = due else {
            let awaited = self.awaits_input(procedure, target);
            return Decision::Skip(awaited.unwrap_or(Skip::NotApplicable));
        };
        // DICOM files are counted only for tasks to be submitted now: that reads whole directories.
        let waits = self.waits_for(procedure, target);
        let in_use = || match due {
            Due::Forced { complete: true } => self.in_use_by(procedure, target),
            _ => None,
        };
        let held = waits.or_else(in_use).or_else(|| self.held(target));
        held.map_or(Decision::Submit(due), Decision::Skip)
    }

    /// Why an incomplete or forced task is due.
    fn due(&self, complete: bool, row: Option<&TaskRow>) -> Due {
        match row {
            _ if self.policy.force => Due::Forced { complete },
            None => Due::New,
            Some(row) if row.status == TaskStatus::Failed => Due::FailedBefore { complete },
            Some(row) if row.reason.is_none() => Due::NeverVerified,
            Some(_) => Due::OutputsGone,
        }
    }

    /// Why the target's DICOM files are not ready.
    fn held(&self, target: Target<'_>) -> Option<Skip> {
        let mut too_few = None;
        let mut is_one_free = false;
        for session in self
            .sessions_of(target)
            .filter(|s| s.dicom != Dicom::Missing)
        {
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
        // A subject can be processed without its small sessions, but not without any session.
        too_few.filter(|_| !is_one_free)
    }

    /// Calls the gate once per session.
    fn hold(&self, session: &Session) -> Option<Hold> {
        let mut holds = self.holds.borrow_mut();
        let hold = holds.entry(session.session.clone());
        hold.or_insert_with(|| (self.world.gate)(session)).clone()
    }

    /// The ready sessions that a complete task of a subject did not process. `None` for rows that do not list their
    /// sessions.
    fn added_sessions(
        &self,
        procedure: ProcedureId,
        row: Option<&TaskRow>,
    ) -> Option<Vec<SessionLabel>> {
        let row = row.filter(|row| row.status == TaskStatus::Complete)?;
        let known = row.input_sessions.as_deref()?;
        if self.dag.get(procedure).scope == Scope::Session {
            return None;
        }
        let known: HashSet<&str> = known.split(' ').collect();
        let later = self.ready_sessions(procedure, |session| {
            !session.is_none() && !known.contains(session.as_str())
        });
        (!later.is_empty()).then_some(later)
    }

    fn target(&self, procedure: ProcedureId, session: &SessionLabel) -> Option<Target<'_>> {
        let mut sessions = self.sessions.iter();
        match self.dag.get(procedure).scope {
            Scope::Subject => Some(None),
            Scope::Session => sessions.find(|s| s.session == *session).map(Some),
        }
    }

    /// The session of a task, or the wanted sessions of its subject.
    fn sessions_of<'s>(&'s self, target: Target<'s>) -> impl Iterator<Item = &'s Session> {
        let all = self.wanted.iter().filter(move |_| target.is_none());
        target.into_iter().chain(all.copied())
    }

    fn has_dicom(&self, target: Target<'_>) -> bool {
        self.sessions_of(target).any(|s| s.dicom != Dicom::Missing)
    }

    fn is_excluded(&self, target: Target<'_>) -> bool {
        match target {
            Some(session) => self.policy.cohort.excludes(session),
            None => self.wanted.is_empty(),
        }
    }

    fn row(&self, procedure: ProcedureId, session: &SessionLabel) -> Option<&TaskRow> {
        self.world.rows.get(&self.key(procedure, session))
    }

    /// Direct and indirect dependencies, the nearest first.
    fn all_dependencies(&self, procedure: ProcedureId) -> Vec<ProcedureId> {
        let mut found = vec![procedure];
        let mut next = 0;
        while let Some(one) = found.get(next).copied() {
            next += 1;
            for (other, _) in self.dag.dependencies(one) {
                if !found.contains(other) {
                    found.push(*other);
                }
            }
        }
        found.split_off(1)
    }

    fn key(&self, procedure: ProcedureId, session: &SessionLabel) -> TaskKey {
        TaskKey::of(self.label, session, &self.dag.get(procedure).name)
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
