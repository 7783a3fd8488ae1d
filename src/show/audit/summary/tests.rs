//! The numbers of the report add up for any study.

mod forms;
mod health;

use std::path::PathBuf;

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::decide::manifest::{Blocked, Limit, Outlook, Waiting};
use crate::gather::disk::Unreadable;
use crate::model::bids::{Dicom, SessionLabel, SubjectLabel};
use crate::model::procedure::testing::procedure;
use crate::model::state::testing::row;
use crate::show::audit::Report;
use crate::show::audit::attention::failures;
use crate::show::audit::count_of;
use crate::show::audit::testing;
use crate::show::audit::testing::bare;
use crate::show::tables::TaskState;

const SUBJECTS: [&str; 3] = ["sub-01", "sub-02", "sub-03"];
const SESSIONS: [&str; 3] = ["ses-01", "ses-02", "ses-03"];
const PROCEDURES: [(&str, Scope); 3] = [
    ("bids", Scope::Session),
    ("freesurfer", Scope::Subject),
    ("qsiprep", Scope::Session),
];

fn decision() -> impl Strategy<Value = Decision> {
    let waiting = |blocked| {
        Decision::Skip(Skip::WaitingFor(Box::new(Waiting {
            procedure: "bids".into(),
            session: None,
            sessions_missing: 1,
            blocked,
        })))
    };
    let unreadable = Unreadable {
        path: PathBuf::from("/x"),
        error: "denied".to_owned(),
    };
    select(vec![
        Decision::Submit(Due::New),
        Decision::Submit(Due::OutputsGone),
        Decision::Skip(Skip::Complete),
        Decision::Skip(Skip::Complete),
        Decision::Skip(Skip::NotApplicable),
        Decision::Skip(Skip::Excluded),
        Decision::Skip(Skip::Stale(Vec::new())),
        Decision::Skip(Skip::NotSelected),
        Decision::Skip(Skip::NoDicom),
        Decision::Skip(Skip::OverLimit(Limit::MaxJobs(1))),
        Decision::Skip(Skip::Failed {
            reason: Some(Reason::Timeout),
            attempt: 1,
            outlook: Outlook::None,
        }),
        Decision::Skip(Skip::InFlight {
            job_id: None,
            status: TaskStatus::Running,
            reason: None,
        }),
        Decision::Skip(Skip::Unreadable(Box::new(unreadable))),
        waiting(None),
        waiting(Some(Blocked::Failed(None))),
    ])
}

/// A study: which sessions exist, a decision for every possible task, rows of any task.
fn study() -> impl Strategy<Value = (Vec<bool>, Vec<Decision>, Vec<TaskRow>)> {
    let reasons = vec![None, Some(Reason::Timeout), Some(Reason::OutOfMemory)];
    let names = vec!["bids", "freesurfer", "qsiprep", "gone", "older"];
    let key = (0..4usize, 0..4usize, select(names));
    let one_row = (key, select(TaskStatus::ALL.to_vec()), select(reasons)).prop_map(
        |((subject, session, name), status, reason)| {
            let label = |labels: &[&'static str], at: usize| *labels.get(at).unwrap_or(&"");
            let mut row = row(name, status, Reason::Verified);
            row.key = TaskKey::new(label(&SUBJECTS, subject), label(&SESSIONS, session), name);
            row.reason = reason;
            row.facts.node_list = Some(format!("n{subject}").into());
            row
        },
    );
    (
        prop::collection::vec(any::<bool>(), 9),
        prop::collection::vec(decision(), 27),
        prop::collection::vec(one_row, 0..40),
    )
}

fn sum(counts: &[Count]) -> usize {
    counts.iter().map(|count| count.count).sum()
}

proptest! {
    #[test]
    fn every_number_adds_up(
        (exist, decisions, rows) in study(),
        subject in prop::option::of(select(SUBJECTS.to_vec())),
        session in prop::option::of(select(SESSIONS.to_vec())),
        name in prop::option::of(select(vec!["bids", "freesurfer", "gone"])),
    ) {
        let list = PROCEDURES.map(|(name, scope)| procedure(name, scope, &[]));
        let dag = ProcedureDag::new(list.into()).unwrap();
        let pairs = SUBJECTS.iter().flat_map(|a| SESSIONS.iter().map(move |b| (*a, *b)));
        let sessions: Vec<Session> = pairs.zip(&exist).filter(|(_, there)| **there)
            .map(|((subject, session), _)| Session {
                subject: SubjectLabel::new(subject).unwrap(),
                session: SessionLabel::new(session).unwrap(),
                dicom: Dicom::NotNeeded,
            })
            .collect();
        let mut decisions = decisions.into_iter();
        let mut tasks = Vec::new();
        for (id, procedure) in dag.iter() {
            let mut seen = HashSet::new();
            for session in &sessions {
                let of_subject = procedure.scope == Scope::Subject;
                if of_subject && !seen.insert(&session.subject) {
                    continue;
                }
                let label = if of_subject { SessionLabel::none() } else { session.session.clone() };
                let labels = (session.subject.clone(), label);
                tasks.push(Planned::new(&dag, id, labels, decisions.next().unwrap()));
            }
        }
        let one = |value: Option<&str>| value.map(str::to_owned).into_iter().collect::<Vec<_>>();
        let known = ["bids", "freesurfer", "qsiprep", "gone"];
        let selection = Selection::new(&one(subject), &one(session), &one(name), &known).unwrap();
        let selected = Selected::new(&dag, &selection, &sessions, &tasks, &rows);
        let (totals, counts) = (totals(&selected), procedures(&selected));
        let matrix = matrix(&selected, &[], &State::default());

        // Totals are the sums of the procedures.
        prop_assert_eq!(totals.tasks, sum(&totals.decisions));
        prop_assert_eq!(totals.tasks, counts.iter().map(|p| p.tasks).sum::<usize>());
        for count in &totals.decisions {
            let parts = counts.iter().map(|p| count_of(&p.decisions, &count.word));
            prop_assert_eq!(count.count, parts.sum::<usize>(), "{}", count.word);
        }
        for part in &counts {
            prop_assert_eq!(part.tasks, sum(&part.decisions));
            let rows = &part.rows;
            prop_assert_eq!(rows.total, rows.pending + rows.running + rows.complete + rows.failed);
        }
        let failed = |rows: &StatusCounts| rows.failed;
        let total = |rows: &StatusCounts| rows.total;
        for get in [failed, total] {
            let parts = counts.iter().map(|p| get(&p.rows));
            prop_assert_eq!(get(&totals.rows), parts.sum::<usize>());
        }
        prop_assert_eq!(totals.rows.total, selected.rows.len());
        if selection.is_everything() {
            prop_assert_eq!(totals.rows.total, rows.len());
        }

        // The matrix holds each task of session scope once, each of subject scope in all its sessions.
        prop_assert_eq!(matrix.sessions.len(), totals.sessions);
        for (column, name) in matrix.procedures.iter().enumerate() {
            let part = counts.iter().find(|p| p.name == *name).unwrap();
            let mut words: HashMap<TaskState, usize> = HashMap::new();
            let mut seen = HashSet::new();
            for row in &matrix.sessions {
                prop_assert_eq!(row.cells.len(), matrix.procedures.len());
                let Some(cell) = &row.cells[column] else { continue };
                if part.scope == Some("session") || seen.insert(&row.subject) {
                    *words.entry(cell.decision).or_default() += 1;
                }
            }
            prop_assert_eq!(words.values().sum::<usize>(), part.tasks);
            for (word, count) in words {
                prop_assert_eq!(count, count_of(&part.decisions, word.as_str()));
            }
        }

        // Health follows from the cells, and the bands are all sessions.
        for row in &matrix.sessions {
            let cells: Vec<_> = row.cells.iter().flatten().map(|cell| cell.decision).collect();
            let complete = cells.iter().filter(|word| **word == TaskState::Complete).count();
            let of = cells.iter().filter(|word| !word.is_in_flight() && !matches!(**word, TaskState::NotApplicable | TaskState::Excluded)).count();
            match row.health {
                None => prop_assert_eq!(of, 0),
                Some(health) => {
                    prop_assert_eq!((health.complete, health.of), (complete, of));
                    prop_assert!((0.0..=1.0).contains(&health.share));
                }
            }
        }
        let health = super::health(matrix.sessions.iter().map(|row| row.health));
        prop_assert_eq!(health.good + health.fair + health.poor + health.none, totals.sessions);

        // Failures by reason are the failed rows; by node all of the ended attempts with a node.
        let rows = || selected.rows.iter().copied();
        let failures = failures(&[], rows(), rows(), &dag);
        prop_assert_eq!(totals.rows.failed, failures.by_reason.iter().map(|r| r.count).sum::<usize>());
        for reason in &failures.by_reason {
            prop_assert_eq!(reason.count, sum(&reason.procedures));
        }
        let ended = totals.rows.complete + totals.rows.failed;
        prop_assert_eq!(ended, failures.by_node.iter().map(|n| n.jobs).sum::<usize>());
        for node in &failures.by_node {
            prop_assert_eq!(node.failed, sum(&node.reasons));
            prop_assert!(node.failed <= node.jobs);
        }

        let report = Report { totals, procedures: counts, matrix, health, failures, ..bare(&testing::report()) };
        forms::check(&report)?;
    }
}
