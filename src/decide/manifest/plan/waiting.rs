//! What a task waits for: its dependencies, and how many sessions of a subject are ready.

use std::sync::Arc;

use super::standing::{TaskStanding, failure};
use super::{Subject, Target};
use crate::decide::manifest::{Blocked, Decision, Skip, Waiting};
use crate::gather::completion::Completion;
use crate::gather::sessions::dicom::Hold;
use crate::model::bids::{Dicom, Session, SessionLabel};
use crate::model::procedure::{ProcedureId, Scope, SessionsRule};

/// Says whether a dependency lets a task go on.
enum Ready {
    Yes,
    NotApplicable,
    No(Option<Blocked>),
}

impl Subject<'_> {
    /// Returns what the task waits for: the first dependency that is not ready, or more sessions.
    pub(super) fn waits_for(&self, procedure: ProcedureId, target: Target<'_>) -> Option<Skip> {
        self.missing(procedure, target)
            .next()
            .map(|waiting| Skip::WaitingFor(Box::new(waiting)))
            .or_else(|| self.lacks_sessions(procedure, target))
    }

    /// Returns what a task without input waits for that may still make its input, or bring it: a session that arrives.
    /// None: it is not applicable.
    pub(super) fn awaits_input(&self, procedure: ProcedureId, target: Target<'_>) -> Option<Skip> {
        let mut missing = self.missing(procedure, target).peekable();
        let is_any_missing = missing.peek().is_some();
        if is_any_missing && missing.all(|it| it.blocked == Some(Blocked::NotApplicable)) {
            return None;
        }
        // What is made of DICOM files was made of a session that had settled; their directories are not walked again.
        let is_made = !self.dag.dependencies(procedure).is_empty()
            && self.sessions.iter().all(|s| s.dicom != Dicom::NotNeeded);
        let settling = || match is_made {
            true => None,
            false => self
                .held(target)
                .filter(|held| matches!(held, Skip::Settling { .. })),
        };
        self.waits_for(procedure, target).or_else(settling)
    }

    /// Returns the task in flight that builds on a complete one: its inputs are not replaced under it.
    pub(super) fn in_use_by(&self, procedure: ProcedureId, target: Target<'_>) -> Option<Skip> {
        self.dag.iter().find_map(|(user, declared)| {
            let mut dependencies = self.dag.dependencies(user).iter();
            let (_, rule) = dependencies.find(|(dependency, _)| *dependency == procedure)?;
            let is_same = matches!(rule, SessionsRule::Same | SessionsRule::ByScope);
            let sessions: Vec<SessionLabel> = match (declared.scope, target) {
                (Scope::Subject, _) => vec![SessionLabel::none()],
                (Scope::Session, Target::Session(one)) if is_same => vec![one.session.clone()],
                (Scope::Session, _) => self.sessions.iter().map(|s| s.session.clone()).collect(),
            };
            let is_in_flight = |session: &SessionLabel| {
                let row = self.row(user, session);
                row.is_some_and(|row| row.is_in_flight())
            };
            let session = sessions.into_iter().find(is_in_flight)?;
            Some(Skip::WaitingFor(Box::new(Waiting {
                procedure: Arc::clone(&declared.name),
                session: (session != target.label()).then_some(session),
                sessions_missing: 0,
                blocked: None,
            })))
        })
    }

    /// Lists the dependencies that are not ready.
    fn missing<'a>(
        &'a self,
        procedure: ProcedureId,
        target: Target<'a>,
    ) -> impl Iterator<Item = Waiting> + 'a {
        let dependencies = self.dag.dependencies(procedure).iter();
        dependencies.filter_map(move |(dependency, rule)| self.lacks(*dependency, *rule, target))
    }

    fn lacks_sessions(&self, procedure: ProcedureId, target: Target<'_>) -> Option<Skip> {
        let needed = self.dag.get(procedure).rules.min_sessions;
        // One there is: the dependencies and the DICOM files are looked at for that.
        if needed < 2 || matches!(target, Target::Session(_)) {
            return None;
        }
        let ready = self.ready_sessions(procedure, |_| true).len();
        (ready < needed).then_some(Skip::TooFewSessions { needed, ready })
    }

    /// Returns the sessions that a task of subject scope works on, of those that are `asked` for:
    /// wanted, and complete in the session-scoped procedures that it depends on; with DICOM files if there are none.
    pub(super) fn ready_sessions(
        &self,
        procedure: ProcedureId,
        asked: impl Fn(&SessionLabel) -> bool,
    ) -> Vec<SessionLabel> {
        let dependencies: Vec<ProcedureId> = self
            .dag
            .dependencies(procedure)
            .iter()
            .map(|(dependency, _)| *dependency)
            .filter(|dependency| self.dag.get(*dependency).scope == Scope::Session)
            .collect();
        let is_ready = |session: &&&Session| {
            if !asked(&session.session) {
                return false;
            }
            if dependencies.is_empty() {
                let is_held = matches!(self.hold(session), Some(Hold::TooFewFiles { .. }));
                return session.dicom != Dicom::Missing && !is_held;
            }
            let mut is_complete = false;
            let none_lacks = dependencies.iter().all(|dependency| {
                match self.readiness(*dependency, &session.session) {
                    Ready::Yes => {
                        is_complete = true;
                        true
                    }
                    Ready::NotApplicable => true,
                    Ready::No(_) => false,
                }
            });
            none_lacks && is_complete
        };
        let ready = self.wanted.iter().filter(is_ready);
        ready.map(|session| session.session.clone()).collect()
    }

    fn lacks(
        &self,
        dependency: ProcedureId,
        rule: SessionsRule,
        target: Target<'_>,
    ) -> Option<Waiting> {
        let declared = self.dag.get(dependency);
        let one = |session: &SessionLabel| match self.readiness(dependency, session) {
            Ready::Yes | Ready::NotApplicable => None,
            Ready::No(blocked) => Some(Waiting {
                procedure: Arc::clone(&declared.name),
                session: None,
                sessions_missing: 0,
                blocked,
            }),
        };
        match (declared.scope, target) {
            (Scope::Subject, _) => one(&SessionLabel::none()),
            (Scope::Session, Target::Session(session)) => match rule {
                SessionsRule::Same | SessionsRule::ByScope => one(&session.session),
                SessionsRule::All | SessionsRule::Any => {
                    self.missing_sessions(dependency, rule, false)
                }
            },
            (Scope::Session, Target::Subject) => self.missing_sessions(dependency, rule, true),
        }
    }

    /// Judges a session-scoped dependency over all wanted sessions, whatever was selected on the command line. A
    /// session without DICOM files counts only if the dependency is complete there. `needs_one`: a dependency that
    /// applies to no session is missing.
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
                // Too small to be worked on: it does not count.
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
        // A session that will not get ready by itself is the one to be named.
        let named = missing
            .iter()
            .position(|(_, blocked)| blocked.is_some())
            .unwrap_or(0);
        let (session, blocked) = missing.into_iter().nth(named).unzip();
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
        match self.standing(procedure, session) {
            // Whether the input is there is known only once whatever makes it is complete.
            TaskStanding::Disk(Completion::NotApplicable) => {
                let waits = self
                    .target(procedure, session)
                    .and_then(|target| self.awaits_input(procedure, target));
                match waits {
                    None => Ready::NotApplicable,
                    Some(Skip::WaitingFor(waiting)) => Ready::No(waiting.blocked),
                    Some(_) => Ready::No(None),
                }
            }
            TaskStanding::Disk(Completion::Complete)
                if !self.will_be_replaced(procedure, session) =>
            {
                Ready::Yes
            }
            TaskStanding::Disk(Completion::Unreadable(what)) => {
                Ready::No(Some(Blocked::Unreadable(what.path.clone())))
            }
            TaskStanding::Disk(_)
            | TaskStanding::InFlight(_)
            | TaskStanding::Retry(_)
            | TaskStanding::Doubted(_) => Ready::No(None),
            TaskStanding::Failed(skip) => Ready::No(failure(&skip)),
        }
    }

    /// True if this very run writes the task's outputs anew, so that nothing may build on them.
    fn will_be_replaced(&self, procedure: ProcedureId, session: &SessionLabel) -> bool {
        let declared = self.dag.get(procedure);
        if !self.policy.force && !declared.rules.rerun_when_stale {
            return false;
        }
        self.target(procedure, session)
            .is_some_and(|target| matches!(self.decide(procedure, target), Decision::Submit(_)))
    }
}
