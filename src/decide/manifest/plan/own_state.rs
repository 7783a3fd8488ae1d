//! A task's own state, apart from its dependencies: the newest attempt decides before the disk is trusted. Also finds
//! input that changed after the attempt that used it.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use super::{Subject, Target, in_flight};
use crate::decide::manifest::{Blocked, Due, Input, Outlook, Skip, Waiting, retry};
use crate::gather::completion::Completion;
use crate::model::bids::{Dicom, Session, SessionLabel};
use crate::model::procedure::marker::Required;
use crate::model::procedure::{ProcedureId, Scope};
use crate::model::state::{CLOCK_SLACK, Reason, TaskKey, TaskRow, TaskStatus};

/// The state of a task, apart from its dependencies.
#[derive(Debug, Clone)]
pub(super) enum OwnState {
    InFlight(Box<Skip>),
    Failed(Box<Skip>),
    /// Failed and due for a retry: its markers are not trusted.
    Retry(Due),
    /// Complete on disk only, while a dependency may be writing the same files, or left them unfinished.
    SharedOutputs(Box<Waiting>),
    Disk(Completion),
}

/// Seconds for which a client of a network file system may not see a new file in a directory: NFS's `acdirmax`.
const DIRECTORY_CACHE: u64 = 60;

impl Subject<'_> {
    /// True if another host may have verified a row so lately that this one does not see the outputs yet.
    pub(super) fn is_just_verified_elsewhere(&self, row: Option<&TaskRow>) -> bool {
        let now = self.world.now;
        let is_recent =
            |at: DateTime<Utc>| now.timestamp().abs_diff(at.timestamp()) < DIRECTORY_CACHE;
        let verified = row.filter(|row| row.reason == Some(Reason::Verified));
        verified
            .and_then(|row| row.updated_at)
            .is_some_and(is_recent)
            && self
                .world
                .rows
                .meta
                .has_other_saver(&self.policy.host, now, DIRECTORY_CACHE)
    }

    /// Cached.
    pub(super) fn own_state(&self, procedure: ProcedureId, session: &SessionLabel) -> OwnState {
        let known = (procedure, session.clone());
        if let Some(state) = self.own_states.borrow().get(&known) {
            return state.clone();
        }
        let mut state = self
            .recorded(procedure, session)
            .unwrap_or_else(|| OwnState::Disk(self.outputs(procedure, session)));
        if matches!(state, OwnState::Disk(Completion::Complete)) {
            if self.is_left_by_failed(procedure, session) {
                state = OwnState::Retry(Due::FailedBefore { complete: true });
            } else if let Some(waiting) = self.other_writer(procedure, session) {
                state = OwnState::SharedOutputs(Box::new(waiting));
            }
        }
        self.own_states.borrow_mut().insert(known, state.clone());
        state
    }

    fn outputs(&self, procedure: ProcedureId, session: &SessionLabel) -> Completion {
        match self.is_trusted(procedure, self.row(procedure, session)) {
            true => Completion::Complete,
            false => self.disk.completion(procedure, session),
        }
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
                    Some(OwnState::InFlight(_) | OwnState::Retry(_)) => None,
                    Some(OwnState::Failed(skip)) => failure(&skip),
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

    /// The state by the records; `None` if the disk decides.
    ///
    /// Markers are trusted only after their writer has ended, so rows in flight and failed rows decide before the disk.
    fn recorded(&self, procedure: ProcedureId, session: &SessionLabel) -> Option<OwnState> {
        let row = self.row(procedure, session);
        if let Some(row) = row.filter(|row| row.is_in_flight()) {
            Some(OwnState::InFlight(Box::new(in_flight(row))))
        } else if let Some(job) = self.job_without_row(procedure, session) {
            let skip = Skip::JobWithoutRow(job.clone());
            Some(OwnState::InFlight(Box::new(skip)))
        } else if let Some(renamed) = self.renamed(procedure, session) {
            Some(OwnState::InFlight(Box::new(renamed)))
        } else {
            let row = row.filter(|row| is_unproven(row) && !self.is_forced(&row.key))?;
            Some(self.failed(procedure, session, row))
        }
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
            return OwnState::Failed(Box::new(Skip::Failed {
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
        let selection = &self.policy.selection;
        self.policy.force && selection.contains(&key.subject, &key.session, &key.procedure)
    }
}

/// Why a failed task will not become ready automatically; `None` if it is retried.
pub(super) fn failure(skip: &Skip) -> Option<Blocked> {
    match skip {
        Skip::Failed { outlook, .. } if outlook.is_retry() => None,
        Skip::Failed { reason, .. } => Some(Blocked::Failed(*reason)),
        _ => Some(Blocked::Failed(None)),
    }
}

/// True for a row that keeps its task from being complete just because of the disk.
fn is_unproven(row: &TaskRow) -> bool {
    row.status == TaskStatus::Failed || row.reason == Some(Reason::Unverified)
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
        let key = (procedure, target.label());
        if let Some(known) = self.late.borrow().get(&key) {
            return *known;
        }
        let sessions = self.processed_sessions(target, row);
        let is_late = sessions
            .into_iter()
            .any(|session| self.is_late(procedure, session, start));
        self.late.borrow_mut().insert(key, is_late);
        is_late
    }

    /// The sessions that an attempt processed; none for a subject's attempt whose row does not list them.
    fn processed_sessions(&self, target: Target<'_>, row: &TaskRow) -> Vec<&Session> {
        let known = row.input_sessions.as_deref();
        let is_input = |session: &&&Session| match target {
            Target::Session(one) => one.session == session.session,
            Target::Subject => known.is_some_and(|known| {
                known
                    .split(' ')
                    .any(|label| label == session.session.as_str())
            }),
        };
        self.wanted.iter().filter(is_input).copied().collect()
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
        let rows = dependencies.filter_map(|dependency| {
            let declared = self.dag.get(dependency);
            let label = match declared.scope {
                Scope::Subject => SessionLabel::none(),
                Scope::Session => session.session.clone(),
            };
            self.row(dependency, &label)
                .filter(|_| declared.is_below_bids())
        });
        rows.collect()
    }
}

/// The submission counts if it is later than the start: then the controller's clock is behind.
fn start(row: &TaskRow) -> Option<DateTime<Utc>> {
    row.facts.started_at.max(row.submitted_at)
}
