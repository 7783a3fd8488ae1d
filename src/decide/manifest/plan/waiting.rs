//! The dependencies of a task that are not ready, and the sessions of a subject that are.

use std::sync::Arc;

use super::own_state::{OwnState, failure};
use super::{Subject, Target, label};
use crate::decide::manifest::{Blocked, Decision, Skip, Waiting};
use crate::gather::completion::Completion;
use crate::gather::sessions::dicom::Hold;
use crate::model::bids::{Dicom, Session, SessionLabel};
use crate::model::procedure::{ProcedureId, Scope, SessionsRule};

/// Whether a dependency is ready.
enum Ready {
    Yes,
    NotApplicable,
    No(Option<Blocked>),
}

impl Subject<'_> {
    /// The first dependency that is not ready, or a lack of sessions.
    pub(super) fn waits_for(&self, procedure: ProcedureId, target: Target<'_>) -> Option<Skip> {
        if let Some(waiting) = self.missing_dependencies(procedure, target).next() {
            return Some(Skip::WaitingFor(Box::new(waiting)));
        }
        let needed = self.dag.get(procedure).rules.min_sessions;
        // Dependencies and DICOM files already ensure that there is one.
        if needed < 2 || target.is_some() {
            return None;
        }
        let ready = self.ready_sessions(procedure, |_| true).len();
        (ready < needed).then_some(Skip::TooFewSessions { needed, ready })
    }

    /// The dependency or the arriving session that may still provide the input of a task without input. `None` if the
    /// task is not applicable.
    pub(super) fn awaits_input(&self, procedure: ProcedureId, target: Target<'_>) -> Option<Skip> {
        let mut missing = self.missing_dependencies(procedure, target).peekable();
        let is_any_missing = missing.peek().is_some();
        if is_any_missing && missing.all(|it| it.blocked == Some(Blocked::NotApplicable)) {
            return None;
        }
        // Dependencies were made from settled sessions, so DICOM directories are not read again.
        let is_made = !self.dag.dependencies(procedure).is_empty()
            && self.sessions.iter().all(|s| s.dicom != Dicom::NotNeeded);
        self.waits_for(procedure, target).or_else(|| {
            let held = (!is_made).then(|| self.held(target)).flatten();
            held.filter(|held| matches!(held, Skip::Settling { .. }))
        })
    }

    /// A task in flight that depends on this complete one: its inputs must not be replaced while it runs.
    pub(super) fn in_use_by(&self, procedure: ProcedureId, target: Target<'_>) -> Option<Skip> {
        self.dag.iter().find_map(|(user, declared)| {
            let mut dependencies = self.dag.dependencies(user).iter();
            let (_, rule) = dependencies.find(|(dependency, _)| *dependency == procedure)?;
            let is_same = matches!(rule, SessionsRule::Same | SessionsRule::ByScope);
            let sessions: Vec<SessionLabel> = match (declared.scope, target) {
                (Scope::Subject, _) => vec![SessionLabel::none()],
                (Scope::Session, Some(one)) if is_same => vec![one.session.clone()],
                (Scope::Session, _) => self.sessions.iter().map(|s| s.session.clone()).collect(),
            };
            let session = sessions.into_iter().find(|session| {
                let row = self.row(user, session);
                row.is_some_and(|row| row.is_in_flight())
            })?;
            Some(Skip::WaitingFor(Box::new(Waiting {
                procedure: Arc::clone(&declared.name),
                session: (session != label(target)).then_some(session),
                ..Waiting::default()
            })))
        })
    }

    /// The dependencies that are not ready.
    fn missing_dependencies<'a>(
        &'a self,
        procedure: ProcedureId,
        target: Target<'a>,
    ) -> impl Iterator<Item = Waiting> + 'a {
        let dependencies = self.dag.dependencies(procedure).iter();
        dependencies.filter_map(move |(dependency, rule)| {
            let declared = self.dag.get(*dependency);
            let is_same = matches!(rule, SessionsRule::Same | SessionsRule::ByScope);
            let ready = match (declared.scope, target) {
                (Scope::Subject, _) => self.readiness(*dependency, &SessionLabel::none()),
                (Scope::Session, Some(session)) if is_same => {
                    self.readiness(*dependency, &session.session)
                }
                (Scope::Session, _) => {
                    return self.missing_sessions(*dependency, *rule, target.is_none());
                }
            };
            match ready {
                Ready::Yes | Ready::NotApplicable => None,
                Ready::No(blocked) => Some(Waiting {
                    procedure: Arc::clone(&declared.name),
                    blocked,
                    ..Waiting::default()
                }),
            }
        })
    }

    /// The sessions that a task of subject scope processes, among those that are `asked` for: wanted, and complete in its
    /// session-scoped dependencies, or with DICOM files if it has none.
    pub(super) fn ready_sessions(
        &self,
        procedure: ProcedureId,
        asked: impl Fn(&SessionLabel) -> bool,
    ) -> Vec<SessionLabel> {
        let dependencies = self.dag.session_dependencies(procedure);
        let is_ready = |session: &&&Session| {
            if !asked(&session.session) {
                return false;
            }
            if dependencies.is_empty() {
                let is_held = matches!(self.hold(session), Some(Hold::TooFewFiles { .. }));
                return session.dicom != Dicom::Missing && !is_held;
            }
            let mut is_complete = false;
            let none_missing = dependencies.iter().all(|dependency| {
                let ready = self.readiness(*dependency, &session.session);
                is_complete |= matches!(ready, Ready::Yes);
                !matches!(ready, Ready::No(_))
            });
            none_missing && is_complete
        };
        let ready = self.wanted.iter().filter(is_ready);
        ready.map(|session| session.session.clone()).collect()
    }

    /// Checks a session-scoped dependency in all wanted sessions, whatever is selected on the command line. A session
    /// without DICOM files counts only if the dependency is complete there. With `needs_one`, a dependency that applies
    /// to no session is missing.
    fn missing_sessions(
        &self,
        dependency: ProcedureId,
        rule: SessionsRule,
        needs_one: bool,
    ) -> Option<Waiting> {
        let (mut ready, mut excused, mut too_small) = (0usize, 0usize, 0usize);
        let mut missing: Vec<(SessionLabel, Option<Blocked>)> = Vec::new();
        for session in &self.wanted {
            match self.readiness(dependency, &session.session) {
                Ready::Yes if rule == SessionsRule::Any => return None,
                Ready::Yes => ready += 1,
                _ if session.dicom == Dicom::Missing => {}
                Ready::NotApplicable => excused += 1,
                // Too small to be processed, so it does not count.
                Ready::No(None) if matches!(self.hold(session), Some(Hold::TooFewFiles { .. })) => {
                    too_small += 1;
                }
                Ready::No(blocked) => missing.push((session.session.clone(), blocked)),
            }
        }
        if missing.is_empty() && (ready > 0 || !needs_one) {
            return None;
        }
        let is_nowhere = missing.is_empty() && excused > 0 && too_small == 0;
        let sessions_missing = missing.len();
        // A blocked session is named first.
        missing.sort_by_key(|(_, blocked)| blocked.is_none());
        let (session, blocked) = missing.into_iter().next().unzip();
        Some(Waiting {
            procedure: Arc::clone(&self.dag.get(dependency).name),
            session,
            sessions_missing,
            blocked: match is_nowhere {
                true => Some(Blocked::NotApplicable),
                false => blocked.flatten(),
            },
        })
    }

    fn readiness(&self, procedure: ProcedureId, session: &SessionLabel) -> Ready {
        match self.own_state(procedure, session) {
            // The input is only certain once the dependencies that make it are complete.
            OwnState::Disk(Completion::NotApplicable) => {
                let waits = self
                    .target(procedure, session)
                    .and_then(|target| self.awaits_input(procedure, target));
                match waits {
                    None => Ready::NotApplicable,
                    Some(Skip::WaitingFor(waiting)) => Ready::No(waiting.blocked),
                    Some(_) => Ready::No(None),
                }
            }
            OwnState::Disk(Completion::Complete) if !self.is_replaced_now(procedure, session) => {
                Ready::Yes
            }
            OwnState::Disk(Completion::Unreadable(what)) => {
                Ready::No(Some(Blocked::Unreadable(what.path.clone())))
            }
            OwnState::Recorded(skip) => Ready::No(failure(&skip)),
            _ => Ready::No(None),
        }
    }

    /// True if this run will replace the task's outputs, so that no task may depend on them now.
    fn is_replaced_now(&self, procedure: ProcedureId, session: &SessionLabel) -> bool {
        let declared = self.dag.get(procedure);
        if !self.policy.force && !declared.rules.rerun_when_stale {
            return false;
        }
        self.target(procedure, session)
            .is_some_and(|target| matches!(self.decide(procedure, target), Decision::Submit(_)))
    }
}
