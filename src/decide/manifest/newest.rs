//! What the records alone say about tasks: the newest attempts of tasks without a row, jobs of removed procedures, and
//! stale tasks of subjects.
//!
//! A row is cleared by `retry`, removed by `clean`, recorded under an earlier name of the procedure, or lost with the
//! state file.
//!
//! A renamed procedure looks like a removed one and a new one, which may write to the same places. So a task waits for
//! such a job of its session or subject, unless the records prove that both procedures were in one configuration: one
//! invocation submitted tasks of both. Interleaved submissions do not prove that two names are different procedures,
//! because a procedure can be renamed and renamed back. A procedure whose scope was changed waits for its own jobs with
//! the old scope.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::model::bids::{Cohort, Dicom, Session, SessionLabel, SubjectLabel};
use crate::model::job::JobId;
use crate::model::procedure::{ProcedureDag, ProcedureId, Scope};
use crate::model::state::transition::may_still_become_complete;
use crate::model::state::{CLOCK_SLACK, State, TaskKey, TaskRow, TaskStatus};

/// The newest attempts, from all records.
#[derive(Debug, Clone, Default)]
pub struct NewestAttempts {
    /// Whether each task's newest attempt failed, and its submission.
    newest: HashMap<TaskKey, (bool, Option<DateTime<Utc>>)>,
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
        let failed = newest.values().copied().filter(|row| proves_nothing(row));
        Self {
            removed: RemovedProcedures::among(failed, rows, dag, || attempts),
            newest: newest
                .values()
                .map(|row| (row.key.clone(), (proves_nothing(row), row.submitted_at)))
                .collect(),
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
        let (has_failed, own) = self.newest.get(key).copied().unwrap_or_default();
        if has_failed {
            return true;
        }
        let removed = self.removed.all_for(procedure, subject, session);
        let mut later = removed
            .filter(|(_, at)| own.is_none() || *at > own)
            .peekable();
        if later.peek().is_none() {
            return false;
        }
        let written = newest_output();
        later.any(|(_, at)| {
            (written.zip(at)).is_none_or(|(written, at)| written >= at - CLOCK_SLACK)
        })
    }
}

/// True for a failed attempt whose outputs are not trusted even if they are complete. The disk decides about failed rows
/// of the Python program, which have no reason, and about attempts that failed only because outputs were missing.
pub fn proves_nothing(row: &TaskRow) -> bool {
    row.status == TaskStatus::Failed && row.reason.is_some() && !may_still_become_complete(row)
}

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

impl RemovedProcedures {
    /// Such rows among `candidates`. `attempts` reads the earlier attempts of all tasks; it is called only if there are
    /// any such rows.
    pub fn among<'a>(
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
        // All tasks of one invocation share a time that no other invocation has.
        let names = removed.iter().map(|row| &*row.key.procedure);
        let mut times: HashMap<&str, HashSet<DateTime<Utc>>> =
            names.map(|name| (name, HashSet::new())).collect();
        for row in records() {
            if let Some(times) = times.get_mut(&*row.key.procedure) {
                times.extend(row.submitted_at);
            }
        }
        let mut others: HashMap<&str, HashSet<ProcedureId>> = HashMap::new();
        for row in records() {
            let procedure = dag.find(&row.key.procedure);
            if let Some((procedure, at)) = procedure.zip(row.submitted_at) {
                let shared = times.iter().filter(|(_, times)| times.contains(&at));
                for (name, _) in shared {
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

    /// The rows that may belong to a task under another name, with their submission times.
    pub(super) fn all_for<'a>(
        &'a self,
        procedure: ProcedureId,
        subject: &SubjectLabel,
        session: &'a SessionLabel,
    ) -> impl Iterator<Item = (&'a RemovedProcedure, Option<DateTime<Utc>>)> {
        let rows = self.by_subject.get(subject.as_str()).into_iter().flatten();
        rows.filter(move |row| {
            let other = &row.removed_procedure.session;
            let is_of_session =
                session.is_none() || other.is_empty() || **other == *session.as_str();
            is_of_session && !row.others.contains(&procedure)
        })
        .map(|row| (&row.removed_procedure, row.submitted_at))
    }
}

/// The rows of complete tasks whose subject has a ready session that they did not process, for commands that do not read
/// the disk. Finds fewer than the plan, because sessions that were processed without this program have no rows, but no
/// wrong ones.
pub fn stale_rows<'a>(state: &'a State, dag: &ProcedureDag, cohort: &Cohort) -> Vec<&'a TaskRow> {
    let is_complete = |row: &&TaskRow| row.status == TaskStatus::Complete;
    let complete = || state.rows().iter().filter(is_complete);
    let candidates: Vec<(&TaskRow, ProcedureId)> = complete()
        .filter(|row| row.input_sessions.is_some())
        .filter_map(|row| Some((row, dag.find(&row.key.procedure)?)))
        .filter(|(_, id)| dag.get(*id).scope == Scope::Subject)
        .collect();
    // The complete procedures of each session of their subjects.
    let mut done: HashMap<&str, HashMap<&str, Vec<ProcedureId>>> = candidates
        .iter()
        .map(|(row, _)| (&*row.key.subject, HashMap::new()))
        .collect();
    for row in complete() {
        if let Some(sessions) = done.get_mut(&*row.key.subject)
            && let Some(id) = dag.find(&row.key.procedure)
            && dag.get(id).scope == Scope::Session
        {
            sessions.entry(&row.key.session).or_default().push(id);
        }
    }
    let is_stale = |(row, id): &(&TaskRow, ProcedureId)| {
        let known = row.input_sessions.as_deref().unwrap_or_default();
        let known: HashSet<&str> = known.split(' ').collect();
        let needed = dag.session_dependencies(*id);
        let sessions = done.get(&*row.key.subject).into_iter().flatten();
        sessions
            .filter(|(session, _)| !session.is_empty() && !known.contains(*session))
            .filter(|(_, complete)| needed.iter().all(|needed| complete.contains(needed)))
            .filter_map(|(session, _)| TaskKey::new(&row.key.subject, session, "").labels())
            .map(|(subject, session)| Session {
                subject,
                session,
                dicom: Dicom::Missing,
            })
            .any(|session| !cohort.excludes(&session))
    };
    let stale = candidates.into_iter().filter(is_stale);
    stale.map(|(row, _)| row).collect()
}
