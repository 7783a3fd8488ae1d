//! A task's own state, apart from its dependencies: the newest attempt decides before the disk is trusted. Also finds
//! input that changed after the attempt that used it.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Subject, Target, in_flight, label};
use crate::decide::manifest::{Blocked, Due, Input, Outlook, Skip, Waiting, retry};
use crate::gather::completion::Completion;
use crate::model::bids::{Dicom, Session, SessionLabel};
use crate::model::procedure::marker::Required;
use crate::model::procedure::{ProcedureId, Scope};
use crate::model::state::{CLOCK_SLACK, Reason, TaskKey, TaskRow, TaskStatus};

/// The state of a task, apart from its dependencies.
#[derive(Debug, Clone)]
pub(super) enum OwnState {
    /// In flight, failed, or waiting for a job that may be writing its outputs.
    Recorded(Box<Skip>),
    /// Due whatever its markers are: failed and to be retried, or forced.
    Retry(Due),
    Disk(Completion),
}

/// Seconds for which a client of a network file system may not see a new file in a directory: NFS's `acdirmax`.
const DIRECTORY_CACHE: u64 = 60;

impl Subject<'_> {
    /// True if another host may have verified a row so lately that this one does not see the outputs yet.
    pub(super) fn is_just_verified_elsewhere(&self, row: Option<&TaskRow>) -> bool {
        let (now, meta) = (self.world.now, &self.world.rows.meta);
        let verified = row.filter(|row| row.reason == Some(Reason::Verified));
        let at = verified.and_then(|row| row.updated_at);
        at.is_some_and(|at| now.timestamp().abs_diff(at.timestamp()) < DIRECTORY_CACHE)
            && meta.has_other_saver(&self.policy.host, now, DIRECTORY_CACHE)
    }

    /// Cached.
    pub(super) fn own_state(&self, procedure: ProcedureId, session: &SessionLabel) -> OwnState {
        let known = (procedure, session.clone());
        if let Some(state) = self.own_states.borrow().get(&known) {
            return state.clone();
        }
        let recorded = self.recorded(procedure, session);
        let mut state = recorded.unwrap_or_else(|| {
            let is_trusted = self.is_trusted(procedure, self.row(procedure, session));
            OwnState::Disk(match is_trusted {
                true => Completion::Complete,
                false => self.disk.completion(procedure, session),
            })
        });
        if matches!(state, OwnState::Disk(Completion::Complete)) {
            if self.is_left_by_failed(procedure, session) {
                state = OwnState::Retry(Due::FailedBefore { complete: true });
            } else if let Some(waiting) = self.other_writer(procedure, session) {
                // A dependency may be writing the same files, or left them unfinished.
                state = match self.is_forced(&self.key(procedure, session)) {
                    true => OwnState::Retry(Due::Forced { complete: true }),
                    false => OwnState::Recorded(Box::new(Skip::WaitingFor(Box::new(waiting)))),
                };
            }
        }
        self.own_states.borrow_mut().insert(known, state.clone());
        state
    }

    /// True if the newest attempt of a task without a row failed, so that its complete outputs are not trusted.
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

    /// The dependency with the same output directory that is in flight or failed: apparent outputs of this task may be
    /// its outputs. A complete row proves that they are not.
    fn other_writer(&self, procedure: ProcedureId, session: &SessionLabel) -> Option<Waiting> {
        let row = self.row(procedure, session);
        if row.is_some_and(|row| row.status == TaskStatus::Complete) {
            return None;
        }
        let own = self.dag.get(procedure);
        for one in self.all_dependencies(procedure) {
            let declared = self.dag.get(one);
            if declared.output_dir != own.output_dir {
                continue;
            }
            let sessions = match declared.scope {
                Scope::Subject => vec![SessionLabel::none()],
                Scope::Session if own.scope == Scope::Session => vec![session.clone()],
                Scope::Session => self.wanted.iter().map(|one| one.session.clone()).collect(),
            };
            for session in sessions {
                let blocked = match self.recorded(one, &session) {
                    Some(OwnState::Recorded(skip)) => failure(&skip),
                    Some(OwnState::Retry(_)) => None,
                    None if self.is_left_by_failed(one, &session) => None,
                    _ => continue,
                };
                return Some(Waiting {
                    procedure: Arc::clone(&declared.name),
                    session: (own.scope == Scope::Subject).then_some(session),
                    blocked,
                    ..Waiting::default()
                });
            }
        }
        None
    }

    /// The state by the records; `None` if the disk decides.
    ///
    /// Markers are trusted only after their writer has ended, so rows in flight and failed rows decide before the disk.
    fn recorded(&self, procedure: ProcedureId, session: &SessionLabel) -> Option<OwnState> {
        let key = self.key(procedure, session);
        let row = self.world.rows.get(&key);
        let in_flight = row.filter(|row| row.is_in_flight()).map(in_flight);
        let without_row = || (self.world.jobs_without_row.get(&key)).cloned();
        let skip = in_flight
            .or_else(|| without_row().map(Skip::JobWithoutRow))
            .or_else(|| {
                let mut removed = self.world.removed.all_for(procedure, self.label, session);
                removed
                    .next()
                    .map(|(one, _)| Skip::Renamed(Box::new(one.clone())))
            });
        if let Some(skip) = skip {
            return Some(OwnState::Recorded(Box::new(skip)));
        }
        // Not just because of the disk.
        let is_unproven = |row: &TaskRow| {
            row.status == TaskStatus::Failed || row.reason == Some(Reason::Unverified)
        };
        let row = row.filter(|row| is_unproven(row) && !self.is_forced(&key))?;
        Some(self.failed(procedure, session, row))
    }

    /// The state of a task whose newest attempt failed, or ended while its markers were unknown.
    fn failed(&self, procedure: ProcedureId, session: &SessionLabel, row: &TaskRow) -> OwnState {
        let rules = &self.dag.get(procedure).rules;
        // The Python program's failed rows have no reason: the disk decides about them.
        let is_decided = row.status == TaskStatus::Failed && row.reason.is_some();
        if rules.accept_outputs || !is_decided {
            let completion = self.disk.completion(procedure, session);
            if completion != Completion::Incomplete || self.policy.resubmit_failed {
                return OwnState::Disk(completion);
            }
        }
        let own_uid = self.world.rows.meta.owner_uid;
        let outlook = retry::outlook(rules.retry.as_ref(), row, own_uid, self.world.now);
        let is_due = self.policy.resubmit_failed || outlook == Outlook::Now;
        let (Some(reason), true) = (row.reason, is_due) else {
            return OwnState::Recorded(Box::new(Skip::Failed {
                reason: match row.reason {
                    Some(Reason::Unverified) => Some(Reason::NoOutput),
                    reason => reason,
                },
                attempt: row.attempt.unwrap_or(1),
                outlook,
            }));
        };
        // A missing input or an unreadable directory does not depend on what the failed attempt left.
        let complete = match self.disk.completion(procedure, session) {
            Completion::Complete => true,
            Completion::Incomplete => false,
            other => return OwnState::Disk(other),
        };
        OwnState::Retry(match self.policy.resubmit_failed {
            true => Due::FailedBefore { complete },
            false => Due::Retry { reason, complete },
        })
    }

    fn is_forced(&self, key: &TaskKey) -> bool {
        self.policy.force && self.policy.selection.contains_key(key)
    }
}

/// Why a task will not become ready automatically, if it failed and is not retried.
pub(super) fn failure(skip: &Skip) -> Option<Blocked> {
    match skip {
        Skip::Failed {
            outlook, reason, ..
        } if !outlook.is_retry() => Some(Blocked::Failed(*reason)),
        _ => None,
    }
}

impl Subject<'_> {
    /// True if a stale task is rerun now.
    pub(super) fn is_rerun(&self, procedure: ProcedureId, target: Target<'_>) -> bool {
        self.dag.get(procedure).rules.rerun_when_stale
            && self.has_dicom(target)
            && self.waits_for(procedure, target).is_none()
            && self.held(target).is_none()
    }

    /// True if input files of a complete task changed after its attempt started. Cached.
    pub(super) fn has_late_input(
        &self,
        procedure: ProcedureId,
        target: Target<'_>,
        row: Option<&TaskRow>,
    ) -> bool {
        let rules = &self.dag.get(procedure).rules;
        let complete = row.filter(|row| row.status == TaskStatus::Complete);
        let Some((row, start)) = complete.and_then(|row| Some((row, start(row)?))) else {
            return false;
        };
        let is_left_out = match rules.rerun_when_stale {
            true => self.is_trusted(procedure, Some(row)),
            // A run does not check it, so an earlier run's check cannot be trusted.
            false => !self.policy.reports_late_input,
        };
        if is_left_out {
            return false;
        }
        let key = (procedure, label(target));
        if let Some(known) = self.late.borrow().get(&key) {
            return *known;
        }
        // A subject's attempt whose row does not list its sessions is not checked.
        let known = row.input_sessions.as_deref();
        let was_input = |session: &&Session| match target {
            Some(_) => true,
            None => known.is_some_and(|known| {
                let mut labels = known.split(' ');
                labels.any(|label| label == session.session.as_str())
            }),
        };
        let mut sessions = self.sessions_of(target).filter(was_input);
        let is_late = sessions.any(|session| self.is_late(procedure, session, start));
        self.late.borrow_mut().insert(key, is_late);
        is_late
    }

    fn is_late(&self, procedure: ProcedureId, session: &Session, start: DateTime<Utc>) -> bool {
        let declared = self.dag.get(procedure);
        let has_when = match &declared.completion.required {
            Required::Markers(markers) => markers.iter().any(|marker| !marker.when.is_empty()),
            Required::NonEmptyDirectory => false,
        };
        let is_first = self.dag.dependencies(procedure).is_empty();
        let in_place = declared.is_below_bids();
        let is_dicom = matches!(session.dicom, Dicom::At(_)) && is_first;
        if is_dicom && (in_place || !has_when) {
            return (self.world.late)(session, Input::Dicom, start);
        }
        if in_place {
            // Its own outputs are part of its input, so only the rows of other writers count.
            return self.writers(procedure, session).into_iter().any(|row| {
                let is_complete = row.status == TaskStatus::Complete;
                is_complete && self::start(row).is_some_and(|at| at > start)
            });
        }
        // The file server's clock may be ahead: files of earlier tasks are not late.
        let written = self.writers(procedure, session).into_iter();
        let ends = written.filter_map(|row| row.facts.ended_at.or(row.updated_at));
        let since = ends
            .filter(|end| *end <= start)
            .map(|end| end + CLOCK_SLACK)
            .fold(start, DateTime::max);
        (self.world.late)(session, Input::Bids, since)
    }

    /// The rows of dependencies that write into the session's directory below `bids_root`.
    fn writers(&self, procedure: ProcedureId, session: &Session) -> Vec<&TaskRow> {
        let dependencies = self.all_dependencies(procedure).into_iter();
        let below_bids = dependencies.filter(|one| self.dag.get(*one).is_below_bids());
        let rows = below_bids.filter_map(|dependency| match self.dag.get(dependency).scope {
            Scope::Subject => self.row(dependency, &SessionLabel::none()),
            Scope::Session => self.row(dependency, &session.session),
        });
        rows.collect()
    }
}

/// The submission counts if it is later than the start: then the controller's clock is behind.
fn start(row: &TaskRow) -> Option<DateTime<Utc>> {
    row.facts.started_at.max(row.submitted_at)
}
