//! The newest attempts of tasks without a row: cleared by `retry`, removed by `clean`, recorded under an earlier name of
//! the procedure, or lost with the state file.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};

use super::RemovedProcedures;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::procedure::{ProcedureDag, ProcedureId};
use crate::model::state::transition::may_still_become_complete;
use crate::model::state::{CLOCK_SLACK, State, TaskKey, TaskRow, TaskStatus};

/// The newest attempts, from all records.
#[derive(Debug, Clone, Default)]
pub struct NewestAttempts {
    failed: HashSet<TaskKey>,
    /// The last submission of each task.
    submitted: HashMap<TaskKey, Option<DateTime<Utc>>>,
    /// Failed attempts of removed procedures, or of procedures whose scope has changed.
    removed: RemovedProcedures,
}

impl NewestAttempts {
    /// Finds them among the rows and all earlier attempts.
    pub fn of(rows: &State, attempts: &[TaskRow], dag: &ProcedureDag) -> Self {
        let mut newest: HashMap<&TaskKey, &TaskRow> = HashMap::new();
        let rank = |row: &TaskRow| (row.submitted_at, row.attempt);
        for row in attempts.iter().chain(rows.superseded()) {
            let known = newest.entry(&row.key).or_insert(row);
            if rank(row) >= rank(known) {
                *known = row;
            }
        }
        newest.extend(rows.rows().iter().map(|row| (&row.key, row)));
        let failed = || newest.values().copied().filter(|row| proves_nothing(row));
        Self {
            failed: failed().map(|row| row.key.clone()).collect(),
            submitted: newest
                .values()
                .map(|row| (row.key.clone(), row.submitted_at))
                .collect(),
            removed: RemovedProcedures::among(failed(), rows, dag, || attempts),
        }
    }

    /// True if a failed attempt may have left the complete outputs of a task without a row. Outputs older than the
    /// attempt of a removed procedure (by `newest_output`) are not its own.
    pub fn may_have_left(
        &self,
        key: &TaskKey,
        procedure: ProcedureId,
        (subject, session): (&SubjectLabel, &SessionLabel),
        newest_output: impl Fn() -> Option<DateTime<Utc>>,
    ) -> bool {
        if self.failed.contains(key) {
            return true;
        }
        let own = self.submitted.get(key).copied().flatten();
        let removed = self.removed.all_for(procedure, subject, session);
        let mut later = removed
            .filter(|(_, at)| own.is_none() || *at > own)
            .peekable();
        if later.peek().is_none() {
            return false;
        }
        let written = newest_output();
        later.any(|(_, at)| match (written, at) {
            (Some(written), Some(at)) => written >= at - CLOCK_SLACK,
            _ => true,
        })
    }
}

/// True for a failed attempt whose outputs are not trusted even if they are complete. The disk decides about failed rows
/// of the Python program, which have no reason, and about attempts that failed only because outputs were missing.
pub fn proves_nothing(row: &TaskRow) -> bool {
    row.status == TaskStatus::Failed && row.reason.is_some() && !may_still_become_complete(row)
}
