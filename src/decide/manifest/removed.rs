//! Jobs in flight that are no tasks of the configuration: whose outputs may they be writing? Pure.
//!
//! A procedure whose scope was changed waits for its own jobs of the old scope.
//!
//! A procedure that was renamed looks like one that is gone and one that is new; both may write to the same places.
//! So a task waits for such a job of its session, or of its subject, unless the records prove that both procedures
//! were in one configuration: one call has submitted tasks of both, and neither is a new name of the other. That one was
//! submitted between two submissions of the other proves nothing: a name may be given back.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::job::JobId;
use crate::model::procedure::{ProcedureDag, ProcedureId, Scope};
use crate::model::state::{State, TaskRow};

/// Rows in flight whose procedure is not in the configuration, or has another scope there.
#[derive(Debug, Clone, Default)]
pub struct RemovedProcedures {
    by_subject: HashMap<Arc<str>, Vec<Row>>,
}

/// A row in flight that is no task of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedProcedure {
    pub procedure: Arc<str>,
    /// Empty for subject scope.
    pub session: Arc<str>,
    /// None while its submission is in doubt.
    pub job_id: Option<JobId>,
    /// True if its procedure is in the configuration, with another scope.
    pub is_old_scope: bool,
}

#[derive(Debug, Clone)]
struct Row {
    removed_procedure: RemovedProcedure,
    submitted_at: Option<DateTime<Utc>>,
    /// Procedures that can be no new name of its own.
    others: Arc<HashSet<ProcedureId>>,
}

/// When a procedure was submitted: all tasks of one call have the same time, and no two calls have.
type Times = HashSet<DateTime<Utc>>;

impl RemovedProcedures {
    /// Looks for such rows. `attempts` reads the earlier attempts of all tasks; it is called only if there are any.
    pub fn look<'a>(
        rows: &'a State,
        dag: &ProcedureDag,
        attempts: impl FnOnce() -> &'a [TaskRow],
    ) -> Self {
        let in_flight = rows.rows().iter().filter(|row| row.is_in_flight());
        Self::among(in_flight, rows, dag, attempts)
    }

    /// Finds those of `candidates` that are no tasks of the configuration.
    pub(super) fn among<'a>(
        candidates: impl Iterator<Item = &'a TaskRow>,
        rows: &'a State,
        dag: &ProcedureDag,
        attempts: impl FnOnce() -> &'a [TaskRow],
    ) -> Self {
        let mut found = Self::default();
        let mut removed: Vec<&TaskRow> = Vec::new();
        for row in candidates {
            match dag.find(&row.key.procedure) {
                None => removed.push(row),
                Some(own) => {
                    let is_subject = dag.get(own).scope == Scope::Subject;
                    if is_subject != row.key.session.is_empty() {
                        let others = dag.iter().map(|(id, _)| id).filter(|id| *id != own);
                        found.add(row, true, Arc::new(others.collect()));
                    }
                }
            }
        }
        if removed.is_empty() {
            return found;
        }
        let attempts = attempts();
        let records = || rows.rows().iter().chain(rows.superseded()).chain(attempts);
        let mut calls: HashMap<&str, Times> = removed
            .iter()
            .map(|row| (&*row.key.procedure, Times::new()))
            .collect();
        for row in records() {
            if let Some(times) = calls.get_mut(&*row.key.procedure) {
                times.extend(row.submitted_at);
            }
        }
        let mut others: HashMap<&str, HashSet<ProcedureId>> = HashMap::new();
        for row in records() {
            let (Some(procedure), Some(at)) = (dag.find(&row.key.procedure), row.submitted_at)
            else {
                continue;
            };
            for (name, times) in &calls {
                if times.contains(&at) {
                    others.entry(name).or_default().insert(procedure);
                }
            }
        }
        let others: HashMap<&str, Arc<HashSet<ProcedureId>>> = others
            .into_iter()
            .map(|(name, others)| (name, Arc::new(others)))
            .collect();
        for row in removed {
            let others = others.get(&*row.key.procedure).cloned();
            found.add(row, false, others.unwrap_or_default());
        }
        found
    }

    fn add(&mut self, row: &TaskRow, is_old_scope: bool, others: Arc<HashSet<ProcedureId>>) {
        let key = &row.key;
        let entry = self.by_subject.entry(Arc::clone(&key.subject));
        entry.or_default().push(Row {
            removed_procedure: RemovedProcedure {
                procedure: Arc::clone(&key.procedure),
                session: Arc::clone(&key.session),
                job_id: row.job_id.clone(),
                is_old_scope,
            },
            submitted_at: row.submitted_at,
            others,
        });
    }

    /// Returns the row that a task has to wait for, if there is one.
    pub fn before<'a>(
        &'a self,
        procedure: ProcedureId,
        subject: &SubjectLabel,
        session: &'a SessionLabel,
    ) -> Option<&'a RemovedProcedure> {
        let mut all = self.all_before(procedure, subject, session);
        all.next().map(|(removed_procedure, _)| removed_procedure)
    }

    /// Lists the rows that may be of a task under another name, and when they were submitted.
    pub(super) fn all_before<'a>(
        &'a self,
        procedure: ProcedureId,
        subject: &SubjectLabel,
        session: &'a SessionLabel,
    ) -> impl Iterator<Item = (&'a RemovedProcedure, Option<DateTime<Utc>>)> {
        let is_of_session = move |removed_procedure: &RemovedProcedure| {
            session.is_none()
                || removed_procedure.session.is_empty()
                || *removed_procedure.session == *session.as_str()
        };
        let rows = self.by_subject.get(subject.as_str());
        rows.into_iter()
            .flatten()
            .filter(move |row| {
                is_of_session(&row.removed_procedure) && !row.others.contains(&procedure)
            })
            .map(|row| (&row.removed_procedure, row.submitted_at))
    }
}
