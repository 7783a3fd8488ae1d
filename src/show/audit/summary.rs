//! Totals, counts per procedure, and the matrix of sessions and procedures. Pure.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::health;
use super::report::{Cell, Count, Matrix, MatrixRow, ProcedureCounts, StatusCounts, Totals};
use crate::decide::manifest::{Decision, Due, Planned, Selection, Skip};
use crate::model::bids::{Session, SessionLabel, SubjectLabel};
use crate::model::job::JobId;
use crate::model::procedure::{ProcedureDag, Scope};
use crate::model::state::{Reason, TaskRow, TaskStatus};
use crate::show::tables::words::WORDS;
use crate::show::tables::{decision_text, decision_word};

/// Is what a report is about: everything that was selected, and nothing else.
pub struct Selected<'a> {
    pub dag: &'a ProcedureDag,
    pub selection: &'a Selection,
    /// Sorted by subject and session.
    pub sessions: Vec<&'a Session>,
    /// In the manifest's order; none is "not selected".
    pub tasks: Vec<&'a Planned>,
    pub rows: Vec<&'a TaskRow>,
}

impl<'a> Selected<'a> {
    /// Chooses. A task of subject scope belongs to each session of its subject.
    pub fn new(
        dag: &'a ProcedureDag,
        selection: &'a Selection,
        sessions: &'a [Session],
        tasks: &'a [Planned],
        rows: &'a [TaskRow],
    ) -> Self {
        let sessions: Vec<&Session> = sessions
            .iter()
            .filter(|session| {
                selection.contains_subject(session.subject.as_str())
                    && selection.contains_session(session.session.as_str())
            })
            .collect();
        let subjects: HashSet<&SubjectLabel> = sessions.iter().map(|s| &s.subject).collect();
        let tasks = tasks
            .iter()
            .filter(|task| {
                let procedure = dag.get(task.procedure);
                !matches!(task.decision, Decision::Skip(Skip::NotSelected))
                    && selection.contains_procedure(&procedure.name)
                    && match procedure.scope {
                        Scope::Subject => subjects.contains(&task.subject),
                        Scope::Session => {
                            selection.contains_subject(task.subject.as_str())
                                && selection.contains_session(task.session.as_str())
                        }
                    }
            })
            .collect();
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

    /// The same for a task in words. `--session` leaves tasks of the whole subject in.
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

/// Sums everything up.
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

/// Counts per procedure: the selected ones of the configuration, then those of which only rows are left.
pub fn procedures(selected: &Selected<'_>) -> Vec<ProcedureCounts> {
    let known = selected.dag.iter();
    let known = known.filter(|(_, p)| selected.selection.contains_procedure(&p.name));
    let mut tasks: HashMap<usize, Vec<&Planned>> = HashMap::new();
    for task in &selected.tasks {
        tasks.entry(task.procedure.index()).or_default().push(task);
    }
    let mut rows: HashMap<&str, Vec<&TaskRow>> = HashMap::new();
    for row in &selected.rows {
        rows.entry(&row.key.procedure).or_default().push(row);
    }
    let mut counts: Vec<ProcedureCounts> = known
        .map(|(id, procedure)| {
            let tasks = tasks.remove(&id.index()).unwrap_or_default();
            let rows = rows.remove(&*procedure.name).unwrap_or_default();
            ProcedureCounts {
                name: Arc::clone(&procedure.name),
                scope: Some(match procedure.scope {
                    Scope::Session => "session",
                    Scope::Subject => "subject",
                }),
                tasks: tasks.len(),
                decisions: decisions(tasks.into_iter()),
                rows: statuses(rows.into_iter()),
            }
        })
        .collect();
    let left: BTreeSet<&str> = rows.keys().copied().collect();
    counts.extend(left.into_iter().map(|name| {
        let rows = rows.get(name).map(Vec::as_slice).unwrap_or_default();
        ProcedureCounts {
            name: name.into(),
            scope: None,
            tasks: 0,
            decisions: Vec::new(),
            rows: statuses(rows.iter().copied()),
        }
    }));
    counts
}

/// Builds the matrix. `detail` gives the number of a task's details, by its place in
/// [`Selected::tasks`]; `job` the newest job of a task that is not complete.
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
    let mut column_of = vec![None; selected.dag.len()];
    for (at, (id, _)) in columns.iter().enumerate() {
        if let Some(column) = column_of.get_mut(id.index()) {
            *column = Some(at);
        }
    }
    let mut by_subject: HashMap<&SubjectLabel, Vec<usize>> = HashMap::new();
    let mut by_session: HashMap<(&SubjectLabel, &SessionLabel), usize> = HashMap::new();
    for (at, session) in selected.sessions.iter().enumerate() {
        by_subject.entry(&session.subject).or_default().push(at);
        by_session.insert((&session.subject, &session.session), at);
    }
    let mut cells: Vec<Vec<Option<usize>>> =
        vec![vec![None; columns.len()]; selected.sessions.len()];
    for (number, task) in selected.tasks.iter().enumerate() {
        let places = match selected.dag.get(task.procedure).scope {
            Scope::Subject => by_subject.get(&task.subject).cloned().unwrap_or_default(),
            Scope::Session => {
                let place = by_session.get(&(&task.subject, &task.session));
                place.copied().into_iter().collect()
            }
        };
        let column = column_of.get(task.procedure.index()).copied().flatten();
        for place in places {
            let row = cells.get_mut(place);
            if let Some(cell) = row.zip(column).and_then(|(row, at)| row.get_mut(at)) {
                *cell = Some(number);
            }
        }
    }
    let mut texts = Texts::default();
    let mut cell = |number: usize| {
        let task = selected.tasks.get(number)?;
        Some(cell_of(task, detail(number), job, &mut texts))
    };
    let sessions = selected
        .sessions
        .iter()
        .zip(cells)
        .map(|(session, numbers)| {
            let tasks = numbers.iter().flatten();
            let tasks = tasks.filter_map(|number| selected.tasks.get(*number));
            MatrixRow {
                subject: session.subject.shared(),
                session: session.session.shared(),
                health: health::of(tasks.map(|task| &task.decision)),
                cells: numbers
                    .into_iter()
                    .map(|number| number.and_then(&mut cell))
                    .collect(),
            }
        })
        .collect();
    Matrix {
        procedures: columns
            .iter()
            .map(|(_, procedure)| Arc::clone(&procedure.name))
            .collect(),
        sessions,
    }
}

fn cell_of(
    task: &Planned,
    detail: Option<usize>,
    job: &dyn Fn(&Planned) -> Option<JobId>,
    texts: &mut Texts,
) -> Cell {
    let is_silent = matches!(
        task.decision,
        Decision::Skip(Skip::Complete | Skip::NotApplicable)
    );
    Cell {
        decision: decision_word(&task.decision),
        reason: reason(&task.decision),
        job_id: (!is_silent)
            .then(|| job(task))
            .flatten()
            .map(|id| id.as_str().into()),
        text: (!is_silent && detail.is_none()).then(|| texts.shared(decision_text(&task.decision))),
        detail,
    }
}

/// Returns the reason in the words of the state file.
pub fn reason(decision: &Decision) -> Option<&'static str> {
    match decision {
        Decision::Submit(Due::Retry { reason, .. }) => Some(reason.as_str()),
        Decision::Skip(Skip::Failed { reason, .. } | Skip::InFlight { reason, .. }) => {
            reason.map(Reason::as_str)
        }
        _ => None,
    }
}

/// Keeps one copy of each text: thousands of tasks wait for the same.
#[derive(Default)]
struct Texts(HashSet<Arc<str>>);

impl Texts {
    fn shared(&mut self, text: String) -> Arc<str> {
        if let Some(known) = self.0.get(text.as_str()) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.0.insert(Arc::clone(&text));
        text
    }
}

fn decisions<'a>(tasks: impl Iterator<Item = &'a Planned>) -> Vec<Count> {
    let mut counts: HashMap<&'static str, usize> = HashMap::new();
    for task in tasks {
        *counts.entry(decision_word(&task.decision)).or_default() += 1;
    }
    WORDS
        .iter()
        .filter_map(|word| {
            counts.get(word).map(|count| Count {
                word: (*word).into(),
                count: *count,
            })
        })
        .collect()
}

fn statuses<'a>(rows: impl Iterator<Item = &'a TaskRow>) -> StatusCounts {
    let mut counts = StatusCounts::default();
    for row in rows {
        counts.total += 1;
        match row.status {
            TaskStatus::Pending => counts.pending += 1,
            TaskStatus::Running => counts.running += 1,
            TaskStatus::Complete => counts.complete += 1,
            TaskStatus::Failed => counts.failed += 1,
        }
    }
    counts
}

#[cfg(test)]
mod tests;
