//! Totals, counts per procedure, and the matrix of sessions and procedures. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::health;
use super::report::{Cell, Count, Matrix, MatrixRow, ProcedureCounts, StatusCounts, Totals};
use crate::decide::manifest::{Decision, Due, Planned, Selection, Skip};
use crate::model::bids::{Session, SessionLabel, SubjectLabel};
use crate::model::job::JobId;
use crate::model::procedure::{Procedure, ProcedureDag, ProcedureId, Scope};
use crate::model::state::{Reason, TaskRow, TaskStatus};
use crate::show::tables::{TaskState, decision_text, reason_of};

/// The selected part of the study.
pub struct Selected<'a> {
    pub dag: &'a ProcedureDag,
    pub selection: &'a Selection,
    /// Sorted by subject and session.
    pub sessions: Vec<&'a Session>,
    /// In the manifest's order, without unselected ones.
    pub tasks: Vec<&'a Planned>,
    pub rows: Vec<&'a TaskRow>,
}

impl<'a> Selected<'a> {
    /// A task of subject scope belongs to each session of its subject.
    pub fn new(
        dag: &'a ProcedureDag,
        selection: &'a Selection,
        sessions: &'a [Session],
        tasks: &'a [Planned],
        rows: &'a [TaskRow],
    ) -> Self {
        let is_chosen = |subject: &SubjectLabel, session: &SessionLabel| {
            selection.contains_subject(subject.as_str())
                && selection.contains_session(session.as_str())
        };
        let sessions = sessions.iter();
        let sessions = sessions.filter(|session| is_chosen(&session.subject, &session.session));
        let sessions: Vec<&Session> = sessions.collect();
        let subjects: HashSet<&SubjectLabel> = sessions.iter().map(|s| &s.subject).collect();
        let tasks = tasks.iter().filter(|task| {
            let procedure = dag.get(task.procedure);
            !matches!(task.decision, Decision::Skip(Skip::NotSelected))
                && selection.contains_procedure(&procedure.name)
                && match procedure.scope {
                    Scope::Subject => subjects.contains(&task.subject),
                    Scope::Session => is_chosen(&task.subject, &task.session),
                }
        });
        let tasks = tasks.collect();
        let mut selected = Self {
            dag,
            selection,
            sessions,
            tasks,
            rows: Vec::new(),
        };
        selected.rows = rows.iter().filter(|row| selected.has(row)).collect();
        selected
    }

    /// True if a row (or an earlier attempt) belongs to the report.
    pub fn has(&self, row: &TaskRow) -> bool {
        self.has_task(&row.key.subject, &row.key.session, &row.key.procedure)
    }

    /// The same for a task by its names. `--session` does not exclude tasks of the whole subject.
    pub fn has_task(&self, subject: &str, session: &str, procedure: &str) -> bool {
        let of_subject = session.is_empty()
            && self
                .dag
                .find(procedure)
                .is_none_or(|id| self.dag.get(id).scope == Scope::Subject);
        self.selection.contains_subject(subject)
            && self.selection.contains_procedure(procedure)
            && (of_subject || self.selection.contains_session(session))
    }
}

pub fn totals(selected: &Selected<'_>) -> Totals {
    let subjects: HashSet<&SubjectLabel> = selected.sessions.iter().map(|s| &s.subject).collect();
    Totals {
        subjects: subjects.len(),
        sessions: selected.sessions.len(),
        tasks: selected.tasks.len(),
        decisions: decisions(selected.tasks.iter().copied()),
        rows: statuses(selected.rows.iter().copied()),
    }
}

/// Counts per procedure: the selected ones of the configuration, then removed ones that have rows.
pub fn procedures(selected: &Selected<'_>) -> Vec<ProcedureCounts> {
    let known = selected.dag.iter();
    let known = known.map(|(_, procedure)| (&procedure.name, Some(procedure.scope.as_str())));
    let known = known.filter(|(name, _)| selected.selection.contains_procedure(name));
    let left: BTreeSet<&Arc<str>> = selected.rows.iter().map(|row| &row.key.procedure).collect();
    let left = left.into_iter();
    let left = left.filter(|name| selected.dag.find(name).is_none());
    let names = known.chain(left.map(|name| (name, None)));
    let counts = names.map(|(name, scope)| {
        let tasks = selected.tasks.iter().copied();
        let tasks = tasks.filter(|task| selected.dag.get(task.procedure).name == *name);
        let rows = selected.rows.iter().copied();
        let rows = rows.filter(|row| row.key.procedure == *name);
        ProcedureCounts {
            name: Arc::clone(name),
            scope,
            tasks: tasks.clone().count(),
            decisions: decisions(tasks),
            rows: statuses(rows),
        }
    });
    counts.collect()
}

/// The matrix of sessions and procedures. `detail` maps an index of [`Selected::tasks`] to the task's details;
/// `job` finds the newest job.
pub fn matrix(
    selected: &Selected<'_>,
    detail: &dyn Fn(usize) -> Option<usize>,
    job: &dyn Fn(&Planned) -> Option<JobId>,
) -> Matrix {
    let columns: Vec<_> = selected
        .dag
        .iter()
        .filter(|(_, procedure)| selected.selection.contains_procedure(&procedure.name))
        .collect();
    let tasks = selected.tasks.iter().enumerate();
    let tasks: HashMap<_, (usize, &Planned)> = tasks
        .map(|(number, task)| {
            let names = (task.subject.as_str(), task.session.as_str());
            ((task.procedure, names), (number, *task))
        })
        .collect();
    let sessions = selected.sessions.iter().map(|session| {
        let of_column = |(id, procedure): &(ProcedureId, &Procedure)| {
            let label = match procedure.scope {
                Scope::Subject => "",
                Scope::Session => session.session.as_str(),
            };
            tasks.get(&(*id, (session.subject.as_str(), label)))
        };
        let found: Vec<_> = columns.iter().map(of_column).collect();
        let decisions = found.iter().flatten().map(|(_, task)| &task.decision);
        let cell = |(number, task): &(usize, &Planned)| cell_of(task, detail(*number), job);
        MatrixRow {
            subject: session.subject.shared(),
            session: session.session.shared(),
            health: health::rate(decisions),
            cells: found.iter().map(|task| task.map(cell)).collect(),
        }
    });
    Matrix {
        procedures: columns
            .iter()
            .map(|(_, procedure)| Arc::clone(&procedure.name))
            .collect(),
        sessions: sessions.collect(),
    }
}

fn cell_of(task: &Planned, detail: Option<usize>, job: &dyn Fn(&Planned) -> Option<JobId>) -> Cell {
    let needs_no_text = matches!(
        task.decision,
        Decision::Skip(Skip::Complete | Skip::NotApplicable)
    );
    Cell {
        decision: TaskState::of(&task.decision),
        reason: reason(&task.decision),
        job_id: Some(task).filter(|_| !needs_no_text).and_then(job),
        text: (!needs_no_text && detail.is_none()).then(|| decision_text(&task.decision).into()),
        detail,
    }
}

/// The reason word of the state file.
pub fn reason(decision: &Decision) -> Option<&'static str> {
    match decision {
        Decision::Submit(Due::Retry { reason, .. }) => Some(reason.as_str()),
        other => reason_of(other).map(Reason::as_str),
    }
}

fn decisions<'a>(tasks: impl Iterator<Item = &'a Planned>) -> Vec<Count> {
    let mut counts: BTreeMap<TaskState, usize> = BTreeMap::new();
    for task in tasks {
        *counts.entry(TaskState::of(&task.decision)).or_default() += 1;
    }
    let counts = counts.into_iter();
    let counts = counts.map(|(state, count)| Count::new(state.as_str(), count));
    counts.collect()
}

fn statuses<'a>(rows: impl Iterator<Item = &'a TaskRow> + Clone) -> StatusCounts {
    let count = |status| rows.clone().filter(|row| row.status == status).count();
    StatusCounts {
        pending: count(TaskStatus::Pending),
        running: count(TaskStatus::Running),
        complete: count(TaskStatus::Complete),
        failed: count(TaskStatus::Failed),
        total: rows.clone().count(),
    }
}

#[cfg(test)]
mod tests;
