//! The decision as a truth table, and against a second, simpler oracle.

mod cohort;
mod gate;
mod late;
mod oracle;
mod outputs;
mod renamed;
mod retries;
mod subjects;

use std::collections::BTreeMap;
use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::decide::manifest::testing::Disk;
use crate::decide::manifest::{
    Blocked, Input, NewestAttempts, Outlook, RemovedProcedure, RemovedProcedures, Selection,
};
use crate::gather::disk::Unreadable;
use crate::model::job::JobId;
use crate::model::procedure::testing::procedure;
use crate::model::procedure::{RetryRules, SessionsRule};
use crate::model::state::testing::{at, row};
use crate::model::state::{Reason, State, TaskRow};

fn session(subject: &str, session: &str, dicom: bool) -> Session {
    Session {
        subject: SubjectLabel::new(subject).unwrap(),
        session: SessionLabel::new(session).unwrap(),
        dicom: if dicom {
            Dicom::At(std::path::Path::new("/dicom").into())
        } else {
            Dicom::Missing
        },
    }
}

fn decide(
    dag: &ProcedureDag,
    sessions: &[Session],
    rows: &State,
    disk: &Disk,
    policy: &Policy,
) -> BTreeMap<String, Decision> {
    decide_after(dag, sessions, rows, &[], disk, policy)
}

/// Does the same after earlier attempts.
fn decide_after(
    dag: &ProcedureDag,
    sessions: &[Session],
    rows: &State,
    attempts: &[TaskRow],
    disk: &Disk,
    policy: &Policy,
) -> BTreeMap<String, Decision> {
    decide_with(dag, sessions, rows, attempts, disk, policy, &|_, _, _| {
        false
    })
}

/// Answers whether a session's input has files newer than a time.
type Late<'a> = &'a (dyn Fn(&Session, Input, chrono::DateTime<chrono::Utc>) -> bool + Sync);

/// Does the same with files that came late.
fn decide_with(
    dag: &ProcedureDag,
    sessions: &[Session],
    rows: &State,
    attempts: &[TaskRow],
    disk: &Disk,
    policy: &Policy,
    late: Late<'_>,
) -> BTreeMap<String, Decision> {
    let removed = RemovedProcedures::among(rows.in_flight(), rows, dag, || attempts);
    let newest = Arc::new(NewestAttempts::of(rows, attempts, dag));
    let world = World {
        sessions,
        rows,
        completions: disk,
        jobs_without_row: &HashMap::new(),
        removed: &removed,
        newest: &|| Arc::clone(&newest),
        gate: &|_| None,
        late,
        trusts: &|_| false,
        now: at(0),
    };
    let one = plan(dag, &world, policy, 1, &|| ());
    let many = plan(dag, &world, policy, 5, &|| ());
    assert_eq!(one.tasks, many.tasks, "threads change the answer");
    one.tasks
        .into_iter()
        .map(|task| {
            (
                format!(
                    "{}/{}/{}",
                    dag.get(task.procedure).name,
                    task.subject,
                    task.session
                ),
                task.decision,
            )
        })
        .collect()
}

/// The one task of a procedure `b` that depends on `a`, on one session, in a word.
fn word(
    dicom: bool,
    dependency: Completion,
    own: Completion,
    status: Option<TaskRow>,
    scope: Scope,
) -> String {
    let policy = Policy::default();
    word_of(&policy, dicom, dependency, own, status, scope)
}

fn word_of(
    policy: &Policy,
    dicom: bool,
    dependency: Completion,
    own: Completion,
    status: Option<TaskRow>,
    scope: Scope,
) -> String {
    let dag = ProcedureDag::new(vec![
        procedure("a", Scope::Session, &[]),
        procedure("b", scope, &[("a", SessionsRule::ByScope)]),
    ])
    .unwrap();
    let session_of_b = match scope {
        Scope::Session => "ses-01",
        Scope::Subject => "",
    };
    let mut disk = Disk::default();
    disk.set("sub-01", "ses-01", 0, dependency);
    disk.set("sub-01", session_of_b, 1, own);
    let mut rows = State::default();
    if let Some(mut row) = status {
        row.key.session = session_of_b.into();
        rows.put(row);
    }
    let decisions = decide(
        &dag,
        &[session("sub-01", "ses-01", dicom)],
        &rows,
        &disk,
        policy,
    );
    match &decisions[&format!("b/sub-01/{session_of_b}")] {
        Decision::Submit(Due::New) => "submit".into(),
        Decision::Submit(due) => format!("submit {due:?}"),
        Decision::Skip(Skip::Failed { reason, .. }) => {
            format!("failed {}", reason.map_or("-", Reason::as_str))
        }
        Decision::Skip(Skip::InFlight { .. }) => "in flight".into(),
        Decision::Skip(Skip::WaitingFor(waiting)) => format!(
            "waiting{}",
            if waiting.blocked.is_some() {
                ", blocked"
            } else {
                ""
            }
        ),
        Decision::Skip(Skip::Unreadable(_)) => "Unreadable".into(),
        Decision::Skip(other) => format!("{other:?}"),
    }
}

fn unreadable() -> Completion {
    Completion::Unreadable(Box::new(Unreadable {
        path: "/x".into(),
        error: "Permission denied".into(),
    }))
}

#[test]
fn c7_truth_table() {
    use Completion::{Complete, Incomplete, NotApplicable};
    let failed = |reason| {
        let mut row = row("b", TaskStatus::Failed, Reason::Timeout);
        row.reason = reason;
        Some(row)
    };
    let live = || Some(row("b", TaskStatus::Running, Reason::Running));
    let doubt = || {
        let mut row = row("b", TaskStatus::Pending, Reason::Submitting);
        row.job_id = None;
        Some(row)
    };
    let done = || Some(row("b", TaskStatus::Complete, Reason::Verified));
    let u = unreadable;
    // DICOM, dependency, own marker, row, what happens
    let table: Vec<(bool, Completion, Completion, Option<TaskRow>, &str)> = vec![
        (true, Complete, Incomplete, None, "submit"),
        (true, Complete, Complete, None, "Complete"),
        (true, Complete, NotApplicable, None, "NotApplicable"),
        (true, Complete, Incomplete, live(), "in flight"),
        (true, Complete, Complete, live(), "in flight"),
        (true, Complete, u(), live(), "in flight"),
        (true, Incomplete, Complete, live(), "in flight"),
        (false, Complete, Incomplete, live(), "in flight"),
        (true, Complete, Incomplete, doubt(), "in flight"),
        (true, Complete, Complete, doubt(), "in flight"),
        (true, Complete, Incomplete, done(), "submit OutputsGone"),
        (true, Complete, Complete, done(), "Complete"),
        (
            true,
            Complete,
            Incomplete,
            failed(Some(Reason::Timeout)),
            "failed timeout",
        ),
        (
            true,
            Complete,
            Complete,
            failed(Some(Reason::Timeout)),
            "failed timeout",
        ),
        (
            true,
            Complete,
            Complete,
            failed(Some(Reason::NoOutput)),
            "failed no_output",
        ),
        (true, Complete, Incomplete, failed(None), "failed -"),
        (true, Complete, Complete, failed(None), "Complete"),
        (
            false,
            Complete,
            Incomplete,
            failed(Some(Reason::Timeout)),
            "failed timeout",
        ),
        (false, Complete, Incomplete, None, "NoDicom"),
        (false, Complete, Complete, None, "Complete"),
        (false, Complete, u(), None, "Unreadable"),
        (false, Complete, Incomplete, done(), "NoDicom"),
        (true, Incomplete, Incomplete, None, "waiting"),
        (true, Incomplete, Complete, None, "Complete"),
        (true, Incomplete, Complete, done(), "Complete"),
        (
            true,
            Incomplete,
            Complete,
            failed(Some(Reason::Timeout)),
            "failed timeout",
        ),
        (true, Incomplete, NotApplicable, None, "waiting"),
        (true, u(), Complete, None, "Complete"),
        (true, u(), u(), None, "Unreadable"),
        (true, Incomplete, Incomplete, done(), "waiting"),
        (true, u(), Incomplete, None, "waiting, blocked"),
    ];
    for (dicom, dependency, own, row, expected) in table {
        for scope in [Scope::Session, Scope::Subject] {
            let got = word(dicom, dependency.clone(), own.clone(), row.clone(), scope);
            assert_eq!(
                got, expected,
                "{scope}: dicom {dicom}, {dependency:?}, {own:?}, {row:?}"
            );
        }
    }
    assert_eq!(
        word(true, Complete, u(), None, Scope::Session),
        "Unreadable"
    );
    let policy = Policy {
        resubmit_failed: true,
        ..Policy::default()
    };
    for reason in [None, Some(Reason::Timeout)] {
        let word = |own| word_of(&policy, true, Complete, own, failed(reason), Scope::Session);
        assert_eq!(
            word(Incomplete),
            "submit FailedBefore { complete: false }",
            "{reason:?}"
        );
        let complete = if reason.is_some() {
            "submit FailedBefore { complete: true }"
        } else {
            "Complete"
        };
        assert_eq!(word(Complete), complete, "{reason:?}");
    }
    // An input that does not apply satisfies a session's task; a subject's needs one real result.
    assert_eq!(
        word(true, NotApplicable, Incomplete, None, Scope::Session),
        "submit"
    );
    assert_eq!(
        word(true, NotApplicable, Incomplete, None, Scope::Subject),
        "waiting, blocked"
    );
}

#[test]
fn order_is_priority_subject_session() {
    let dag = ProcedureDag::new(vec![
        procedure("z", Scope::Session, &[]),
        procedure("a", Scope::Session, &[]),
    ])
    .unwrap();
    let sessions = [
        session("sub-01", "ses-01", true),
        session("sub-01", "ses-02", true),
        session("sub-02", "ses-01", true),
    ];
    let disk = Disk::default();
    let rows = State::default();
    let manifest = plan(
        &dag,
        &World {
            sessions: &sessions,
            rows: &rows,
            completions: &disk,
            jobs_without_row: &HashMap::new(),
            removed: &RemovedProcedures::default(),
            newest: &Arc::default,
            gate: &|_| None,
            late: &|_, _, _| false,
            trusts: &|_| false,
            now: at(0),
        },
        &Policy::default(),
        2,
        &|| (),
    );
    let order: Vec<String> = manifest
        .due()
        .map(|t| format!("{} {} {}", dag.get(t.procedure).name, t.subject, t.session))
        .collect();
    insta::assert_snapshot!(order.join("\n"), @r"
    z sub-01 ses-01
    z sub-01 ses-02
    z sub-02 ses-01
    a sub-01 ses-01
    a sub-01 ses-02
    a sub-02 ses-01
    ");
}
