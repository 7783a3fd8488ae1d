//! A procedure that may be another's new name waits for that one's jobs.

use super::*;

/// A row in flight of `qc`, which is not in the configuration, submitted at a minute.
fn flying(session: &str, minute: i64) -> TaskRow {
    let mut row = row("qc", TaskStatus::Running, Reason::Running);
    row.key.session = session.into();
    row.submitted_at = Some(at(minute));
    row
}

fn record(procedure: &str, minute: Option<i64>) -> TaskRow {
    let mut row = row(procedure, TaskStatus::Complete, Reason::Verified);
    row.key.subject = "sub-09".into();
    row.submitted_at = minute.map(at);
    row
}

fn removed_procedure(session: &str) -> Decision {
    Decision::Skip(Skip::Renamed(Box::new(RemovedProcedure {
        procedure: "qc".into(),
        session: session.into(),
        job_id: Some(JobId::new("100")),
        is_old_scope: false,
    })))
}

fn dag() -> ProcedureDag {
    ProcedureDag::new(vec![
        procedure("qc2", Scope::Session, &[]),
        procedure("report", Scope::Session, &[("qc2", SessionsRule::ByScope)]),
        procedure("group", Scope::Subject, &[]),
    ])
    .unwrap()
}

fn sessions() -> [Session; 3] {
    [
        session("sub-01", "ses-01", true),
        session("sub-01", "ses-02", true),
        session("sub-02", "ses-01", true),
    ]
}

#[test]
fn a_task_waits_for_a_job_of_its_session_or_subject() {
    let new = Decision::Submit(Due::New);
    for (session, expected) in [
        // Of a session: its session waits, and what works on the whole subject.
        ("ses-01", [true, false, true]),
        ("ses-02", [false, true, true]),
        // Of a subject: all of it waits.
        ("", [true, true, true]),
        ("ses-09", [false, false, true]),
    ] {
        let mut rows = State::default();
        rows.put(flying(session, 5));
        for force in [false, true] {
            let policy = Policy {
                force,
                ..Policy::default()
            };
            let got = decide(&dag(), &sessions(), &rows, &Disk::default(), &policy);
            let due = if force {
                Decision::Submit(Due::Forced { complete: false })
            } else {
                new.clone()
            };
            for (task, waits) in ["qc2/sub-01/ses-01", "qc2/sub-01/ses-02", "group/sub-01/"]
                .into_iter()
                .zip(expected)
            {
                let wanted = if waits {
                    removed_procedure(session)
                } else {
                    due.clone()
                };
                assert_eq!(got[task], wanted, "{session}: {task}, force {force}");
            }
            assert_eq!(got["qc2/sub-02/ses-01"], due, "{session}: another subject");
            assert_eq!(got["group/sub-02/"], due);
        }
    }
}

#[test]
fn no_task_depends_on_outputs_that_such_a_job_may_be_writing() {
    let mut rows = State::default();
    rows.put(flying("ses-01", 5));
    let mut disk = Disk::default();
    disk.set("sub-01", "ses-01", 0, Completion::Complete);
    // `report` itself is known to be none of its names.
    let attempts = [record("report", Some(5))];
    let got = decide_after(
        &dag(),
        &sessions(),
        &rows,
        &attempts,
        &disk,
        &Policy::default(),
    );
    assert_eq!(got["qc2/sub-01/ses-01"], removed_procedure("ses-01"));
    assert!(
        matches!(&got["report/sub-01/ses-01"], Decision::Skip(Skip::WaitingFor(w)) if &*w.procedure == "qc2"),
        "{got:?}"
    );
}

/// Two names that one call submitted are two procedures.
#[test]
fn submissions_in_one_invocation_prove_different_procedures() {
    // Of `qc`: a record at minute 10, a job in flight of minute 20.
    for (records, waits) in [
        (&[][..], true),
        (&[Some(9)], true),
        (&[Some(10)], false),
        (&[Some(20)], false),
        // Submitted for other sessions since it was renamed; and renamed back.
        (&[Some(21)], true),
        (&[Some(9), Some(21)], true),
        // Renamed, renamed back, and renamed again.
        (&[Some(15)], true),
        (&[Some(9), Some(12), Some(21)], true),
        (&[Some(9), Some(20), Some(21)], false),
        // Of another program, long ago.
        (&[None], true),
    ] {
        let mut rows = State::default();
        rows.put(flying("ses-01", 20));
        let mut attempts: Vec<TaskRow> = records
            .iter()
            .map(|minute| record("qc2", *minute))
            .collect();
        attempts.push(record("qc", Some(10)));
        // As rows too: the kind of record does not matter.
        for as_row in [false, true] {
            if as_row && let Some(one) = attempts.first() {
                rows.put(one.clone());
            }
            let got = decide_after(
                &dag(),
                &sessions(),
                &rows,
                &attempts,
                &Disk::default(),
                &Policy::default(),
            );
            let expected = if waits {
                removed_procedure("ses-01")
            } else {
                Decision::Submit(Due::New)
            };
            assert_eq!(got["qc2/sub-01/ses-01"], expected, "{records:?}");
        }
    }
    // Both from another program's file, which has no times.
    let mut rows = State::default();
    let mut old = flying("ses-01", 0);
    old.submitted_at = None;
    rows.put(old);
    let got = |attempts: &[TaskRow]| {
        let policy = Policy::default();
        let disk = Disk::default();
        decide_after(&dag(), &sessions(), &rows, attempts, &disk, &policy)["qc2/sub-01/ses-01"]
            .clone()
    };
    assert_eq!(got(&[record("qc2", None)]), removed_procedure("ses-01"));
    assert_eq!(got(&[record("qc2", Some(1))]), removed_procedure("ses-01"));
}

#[test]
fn attempts_are_read_only_for_removed_procedures() {
    let dag = dag();
    let mut rows = State::default();
    rows.put(record("qc", Some(1)));
    rows.put(row("qc2", TaskStatus::Running, Reason::Running));
    let is_read = |rows: &State| {
        let mut is_read = false;
        RemovedProcedures::among(rows.in_flight(), rows, &dag, || {
            is_read = true;
            &[]
        });
        is_read
    };
    assert!(!is_read(&rows));
    rows.put(flying("ses-01", 5));
    assert!(is_read(&rows));
}

/// A failed row of `qc`, which is not in the configuration, may have left what looks like outputs of its new name.
#[test]
fn attack_outputs_are_not_trusted_after_a_failed_attempt_under_an_old_name() {
    let failed = |minute| {
        let mut row = row("qc", TaskStatus::Failed, Reason::Timeout);
        row.submitted_at = Some(at(minute));
        row
    };
    let complete = |minute| {
        let mut row = row("qc2", TaskStatus::Complete, Reason::Verified);
        row.submitted_at = Some(at(minute));
        row
    };
    let again = Decision::Submit(Due::FailedBefore { complete: true });
    let done = Decision::Skip(Skip::Complete);
    // Records; the age of the outputs; the task.
    let with_success = |mut row: TaskRow| {
        row.status = TaskStatus::Complete;
        row.reason = Some(Reason::Verified);
        row
    };
    for (records, newest, expected) in [
        (vec![failed(20)], None, &again),
        (vec![failed(20)], Some(30), &again),
        (vec![failed(20)], Some(1), &done),
        // The old name succeeded later, or the task itself has been complete since.
        (vec![failed(20), with_success(failed(30))], Some(40), &done),
        (vec![failed(20), complete(30)], Some(40), &done),
        (vec![failed(20), complete(10)], Some(40), &again),
        // One invocation submitted both: they are two procedures.
        (vec![failed(20), record("qc2", Some(20))], Some(40), &done),
    ] {
        let disk = || {
            let mut disk = Disk {
                newest: newest.map(at),
                ..Disk::default()
            };
            disk.set("sub-01", "ses-01", 0, Completion::Complete);
            disk
        };
        let mut rows = State::default();
        let policy = Policy::default();
        let task = |rows: &State, attempts: &[TaskRow]| {
            decide_after(&dag(), &sessions(), rows, attempts, &disk(), &policy)["qc2/sub-01/ses-01"]
                .clone()
        };
        assert_eq!(task(&rows, &records), *expected, "{records:?} {newest:?}");
        // As a row too.
        if let [one] = records.as_slice() {
            rows.put(one.clone());
            assert_eq!(task(&rows, &[]), *expected, "{newest:?}");
        }
    }
}

#[test]
fn e11_a_task_waits_for_jobs_of_its_procedure_from_before_its_scope_was_changed() {
    // The procedure in flight, its session then, and who waits.
    for (procedure, session, waits) in [
        ("group", "ses-01", ["group/sub-01/"].as_slice()),
        ("qc2", "", &["qc2/sub-01/ses-01", "qc2/sub-01/ses-02"]),
        ("group", "", &[]),
        ("qc2", "ses-01", &[]),
    ] {
        let mut rows = State::default();
        let mut flying = row(procedure, TaskStatus::Running, Reason::Running);
        flying.key.session = session.into();
        rows.put(flying);
        let mut disk = Disk::default();
        disk.set("sub-01", "ses-01", 0, Completion::Complete);
        for force in [false, true] {
            let policy = Policy {
                force,
                ..Policy::default()
            };
            let got = decide(&dag(), &sessions(), &rows, &disk, &policy);
            let waiting: Vec<&str> = got
                .iter()
                .filter(|(_, decision)| {
                    matches!(decision, Decision::Skip(Skip::Renamed(removed_procedure)) if removed_procedure.is_old_scope)
                })
                .map(|(task, _)| task.as_str())
                .collect();
            assert_eq!(waiting, waits, "{procedure} {session}, force {force}");
            if procedure == "qc2" {
                assert!(
                    matches!(
                        &got["report/sub-01/ses-01"],
                        Decision::Skip(Skip::WaitingFor(_))
                    ),
                    "nothing builds on what such a job may be writing: {got:?}"
                );
            }
        }
    }
}
