//! Totals, counts per procedure, and the matrix of sessions and procedures with the health of each session. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use itertools::Itertools as _;
use serde::{Deserialize, Serialize};

use super::Count;
use super::details::TaskDetail;
use crate::base::words::words;
use crate::decide::manifest::{Decision, Due, Planned, Selection, Skip};
use crate::model::bids::{Session, SessionLabel, SubjectLabel};
use crate::model::job::JobId;
use crate::model::procedure::{ProcedureDag, Scope};
use crate::model::state::{Reason, State, TaskKey, TaskRow, TaskStatus};
use crate::show::tables::rows::by_session;
use crate::show::tables::{TaskState, decision_text, reason_of};

/// Sums over the whole report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    pub subjects: usize,
    pub sessions: usize,
    /// Tasks of all found sessions, the sum of `decisions`.
    pub tasks: usize,
    /// By decision word, in the order of [`TaskState`]; only words that occur.
    pub decisions: Vec<Count>,
    /// The rows of the state, orphans included.
    pub rows: StatusCounts,
}

/// Rows of the state by status; `total` is the sum of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StatusCounts {
    pub pending: usize,
    pub running: usize,
    pub complete: usize,
    pub failed: usize,
    pub total: usize,
}

/// The counts of one procedure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcedureCounts {
    pub name: Arc<str>,
    /// `session` or `subject`. `None` for a removed procedure.
    pub scope: Option<&'static str>,
    /// The sum of `decisions`. A task of subject scope counts once.
    pub tasks: usize,
    pub decisions: Vec<Count>,
    pub rows: StatusCounts,
}

words! {
    /// The health of a session.
    pub enum Band {
        Good = "good",
        Fair = "fair",
        Poor = "poor",
    }
}

/// The complete share of one session.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Health {
    pub complete: usize,
    /// Procedures that apply to the session, at least 1.
    pub of: usize,
    /// `complete / of`, 0 to 1.
    pub share: f64,
    pub band: Band,
}

/// Sessions by band. The four counts add up to all sessions.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct HealthSummary {
    pub good: usize,
    pub fair: usize,
    pub poor: usize,
    /// Sessions without an applicable, selected procedure.
    pub none: usize,
    /// Mean share of the rated sessions.
    pub mean: Option<f64>,
}

/// The matrix of sessions (rows) and procedures (columns).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Matrix {
    /// The columns, in order of priority.
    pub procedures: Vec<Arc<str>>,
    /// Sorted by subject and session.
    pub sessions: Vec<MatrixRow>,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatrixRow {
    pub subject: Arc<str>,
    /// Empty in a dataset without sessions.
    pub session: Arc<str>,
    pub health: Option<Health>,
    /// One per column. A task of subject scope appears in each session of its subject. `None` if there is no
    /// such task, or it was not selected.
    pub cells: Vec<Option<Cell>>,
}

/// One task in a session's row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    pub decision: TaskState,
    /// Why it failed, or the state of its job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// A sentence about a task that is not complete and has no details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Arc<str>>,
    /// Index in [`super::Report::tasks`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<usize>,
}

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
        selected.rows = rows.iter().filter(|row| selected.has(&row.key)).collect();
        selected
    }

    /// True if a row or an earlier attempt of this task belongs to the report. `--session` does not exclude tasks of
    /// the whole subject.
    pub fn has(&self, task: &TaskKey) -> bool {
        let own = self.dag.named(&task.procedure);
        let of_subject = own.is_none_or(|own| own.scope == Scope::Subject);
        self.selection.contains_subject(&task.subject)
            && self.selection.contains_procedure(&task.procedure)
            && (of_subject && task.session.is_empty()
                || self.selection.contains_session(&task.session))
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

/// The matrix of sessions and procedures. Its cells refer to `details`.
pub fn matrix(selected: &Selected<'_>, details: &[TaskDetail], state: &State) -> Matrix {
    let dag = selected.dag;
    let columns = dag.iter();
    let columns = columns.filter(|(_, p)| selected.selection.contains_procedure(&p.name));
    let columns: Vec<_> = columns.collect();
    let places = details.iter().enumerate();
    let places: HashMap<&TaskKey, usize> = places.map(|(at, task)| (&task.key, at)).collect();
    let (sessions, tasks) = (selected.sessions.iter(), selected.tasks.iter());
    let rows = by_session(sessions.copied(), tasks.copied(), dag);
    let sessions = rows.into_iter().map(|(session, tasks)| {
        let cells = columns.iter().map(|(id, _)| {
            let task = tasks.iter().find(|task| task.procedure == *id)?;
            Some(cell_of(task, places.get(&task.key).copied(), state))
        });
        MatrixRow {
            subject: session.subject.shared(),
            session: session.session.shared(),
            health: rate(tasks.iter().map(|task| &task.decision)),
            cells: cells.collect(),
        }
    });
    Matrix {
        sessions: sessions.collect(),
        procedures: columns
            .iter()
            .map(|(_, procedure)| Arc::clone(&procedure.name))
            .collect(),
    }
}

fn cell_of(task: &Planned, detail: Option<usize>, state: &State) -> Cell {
    let needs_no_text = matches!(
        task.decision,
        Decision::Skip(Skip::Complete | Skip::NotApplicable)
    );
    let row = state.get(&task.key).filter(|_| !needs_no_text);
    Cell {
        decision: TaskState::of(&task.decision),
        reason: reason(&task.decision),
        job_id: row.and_then(|row| row.job_id.clone()),
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
    let counts = tasks.map(|task| TaskState::of(&task.decision)).counts();
    let counts = counts.into_iter().sorted();
    Count::list(counts.map(|(state, count)| (state.as_str(), count)))
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

/// Rates a share with integers, so that 4 of 5 is exactly 0.8.
pub fn band(complete: usize, of: usize) -> Band {
    if complete * 5 >= of * 4 {
        Band::Good
    } else if complete * 5 >= of * 2 {
        Band::Fair
    } else {
        Band::Poor
    }
}

/// Rates the tasks of one session. Inapplicable tasks and tasks in flight do not count, because nothing is
/// wrong with them. A session with a stuck task is never good. `None` if no task counts.
pub fn rate<'a>(decisions: impl Iterator<Item = &'a Decision>) -> Option<Health> {
    let (mut complete, mut of, mut has_stuck) = (0, 0, false);
    for decision in decisions {
        has_stuck |= TaskState::of(decision).is_stuck();
        match decision {
            Decision::Skip(
                Skip::NotApplicable | Skip::NotSelected | Skip::Excluded | Skip::InFlight { .. },
            ) => {}
            Decision::Skip(Skip::Complete | Skip::Stale(_) | Skip::LateInput) => {
                complete += 1;
                of += 1;
            }
            _ => of += 1,
        }
    }
    (of > 0).then(|| Health {
        complete,
        of,
        share: complete as f64 / of as f64,
        band: match band(complete, of) {
            Band::Good if has_stuck => Band::Fair,
            band => band,
        },
    })
}

/// Counts the sessions by band.
pub fn health(sessions: impl Iterator<Item = Option<Health>>) -> HealthSummary {
    let sessions: Vec<Option<Health>> = sessions.collect();
    let rated = || sessions.iter().flatten();
    let count = |band| rated().filter(|health| health.band == band).count();
    let sum: f64 = rated().map(|health| health.share).sum();
    HealthSummary {
        good: count(Band::Good),
        fair: count(Band::Fair),
        poor: count(Band::Poor),
        none: sessions.len() - rated().count(),
        mean: rated().next().map(|_| sum / rated().count() as f64),
    }
}

#[cfg(test)]
mod tests;
