//! Input that changed after the attempt that used it.

use chrono::{DateTime, Utc};

use super::{Subject, Target};
use crate::decide::manifest::Input;
use crate::model::bids::{Dicom, Session, SessionLabel};
use crate::model::procedure::marker::Required;
use crate::model::procedure::{ProcedureId, Scope};
use crate::model::state::{CLOCK_SLACK, TaskRow, TaskStatus};

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
