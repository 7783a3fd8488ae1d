//! The newest attempts of tasks that have no row: cleared by `retry`, moved out by `clean`, recorded under a name that
//! the procedure had before, or lost with the state file. Pure.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Utc};

use super::RemovedProcedures;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::procedure::{ProcedureDag, ProcedureId};
use crate::model::state::transition::may_still_become_complete;
use crate::model::state::{CLOCK_SLACK, State, TaskKey, TaskRow, TaskStatus};

/// How the newest attempts ended, wherever that is recorded.
#[derive(Debug, Clone, Default)]
pub struct NewestAttempts {
    failed: HashSet<TaskKey>,
    /// When each task was submitted last.
    submitted: HashMap<TaskKey, Option<DateTime<Utc>>>,
    /// Failed attempts of procedures that are not in the configuration, or have another scope there.
    removed: RemovedProcedures,
}

impl NewestAttempts {
    /// Compares the rows and all earlier attempts.
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

    /// True if a failed attempt may have left the complete outputs of a task without a row. `newest_output` looks at
    /// their age: outputs that are older than the attempt of a removed procedure are not its own.
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
        let removed = self.removed.all_before(procedure, subject, session);
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

/// True for a failed attempt whose outputs are not believed, also if they are complete. The disk decides about failed
/// rows of the Python program, which have no reason, and about attempts that failed only for want of outputs.
pub fn proves_nothing(row: &TaskRow) -> bool {
    row.status == TaskStatus::Failed && row.reason.is_some() && !may_still_become_complete(row)
}
