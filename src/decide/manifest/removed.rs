//! Jobs in flight of removed procedures, and the tasks whose outputs they may be writing.
//!
//! A procedure whose scope was changed waits for its own jobs with the old scope.
//!
//! A renamed procedure looks like a removed one and a new one, which may write to the same places. So a task waits for
//! such a job of its session or subject, unless the records prove that both procedures were in one configuration: one
//! invocation submitted tasks of both. Interleaved submissions do not prove that two names are different procedures,
//! because a procedure can be renamed and renamed back.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::job::JobId;
use crate::model::procedure::{ProcedureDag, ProcedureId, Scope};
use crate::model::state::{State, TaskRow};

/// Rows whose procedure is not in the configuration, or has another scope there.
#[derive(Debug, Clone, Default)]
pub struct RemovedProcedures {
    by_subject: HashMap<Arc<str>, Vec<Row>>,
}

/// A row that belongs to no task of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedProcedure {
    pub procedure: Arc<str>,
    /// Empty for subject scope.
    pub session: Arc<str>,
    /// `None` while its submission is in doubt.
    pub job_id: Option<JobId>,
    /// True if its procedure is in the configuration, with another scope.
    pub is_old_scope: bool,
}

#[derive(Debug, Clone)]
struct Row {
    removed_procedure: RemovedProcedure,
    submitted_at: Option<DateTime<Utc>>,
    /// Procedures that cannot be its new name.
    others: Arc<HashSet<ProcedureId>>,
}

/// The times of a procedure's submissions: all tasks of one invocation share a time that no other invocation has.
type Times = HashSet<DateTime<Utc>>;

impl RemovedProcedures {
    /// Such rows in flight. `attempts` reads the earlier attempts of all tasks; it is called only if there are any.
    pub fn in_flight<'a>(
        rows: &'a State,
        dag: &ProcedureDag,
        attempts: impl FnOnce() -> &'a [TaskRow],
    ) -> Self {
        let in_flight = rows.rows().iter().filter(|row| row.is_in_flight());
        Self::among(in_flight, rows, dag, attempts)
    }

    /// Such rows among `candidates`.
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

    /// The first row for which a task has to wait.
    pub fn first_for<'a>(
        &'a self,
        procedure: ProcedureId,
        subject: &SubjectLabel,
        session: &'a SessionLabel,
    ) -> Option<&'a RemovedProcedure> {
        let mut all = self.all_for(procedure, subject, session);
        all.next().map(|(removed_procedure, _)| removed_procedure)
    }

    /// The rows that may belong to a task under another name, with their submission times.
    pub(super) fn all_for<'a>(
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
