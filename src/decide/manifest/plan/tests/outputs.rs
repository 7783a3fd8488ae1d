//! What the outputs of a task decide, and for whom.

use super::*;

/// `a` of each session, `b` of each session or of the subject, `c` of each session; each depends on the one before.
fn chain(
    scope: Scope,
    change: impl FnOnce(&mut crate::model::procedure::Procedure),
) -> ProcedureDag {
    let mut second = procedure("b", scope, &[("a", SessionsRule::ByScope)]);
    change(&mut second);
    ProcedureDag::new(vec![
        procedure("a", Scope::Session, &[]),
        second,
        procedure("c", Scope::Session, &[("b", SessionsRule::ByScope)]),
    ])
    .unwrap()
}

fn label(scope: Scope) -> &'static str {
    match scope {
        Scope::Session => "ses-01",
        Scope::Subject => "",
    }
}

#[test]
fn c7_a_complete_task_counts_for_its_dependents_whatever_its_inputs() {
    for scope in [Scope::Session, Scope::Subject] {
        let dag = chain(scope, |_| {});
        let mut disk = Disk::default();
        disk.set("sub-01", label(scope), 1, Completion::Complete);
        let sessions = [session("sub-01", "ses-01", true)];
        let rows = State::default();
        let got = decide(&dag, &sessions, &rows, &disk, &Policy::default());
        assert_eq!(got["a/sub-01/ses-01"], Decision::Submit(Due::New));
        assert_eq!(
            got[&format!("b/sub-01/{}", label(scope))],
            Decision::Skip(Skip::Complete)
        );
        assert_eq!(got["c/sub-01/ses-01"], Decision::Submit(Due::New));
    }
}

#[test]
fn c7_a_session_whose_dicom_files_were_archived_counts_where_it_is_complete() {
    let dag = ProcedureDag::new(vec![
        procedure("a", Scope::Session, &[]),
        procedure("b", Scope::Subject, &[("a", SessionsRule::All)]),
    ])
    .unwrap();
    let sessions = [
        session("sub-01", "ses-01", true),
        session("sub-01", "ses-02", false),
        session("sub-01", "ses-03", false),
    ];
    let mut disk = Disk::default();
    for session in ["ses-01", "ses-02"] {
        disk.set("sub-01", session, 0, Completion::Complete);
    }
    let world = World {
        sessions: &sessions,
        rows: &State::default(),
        completions: &disk,
        jobs_without_row: &HashMap::new(),
        removed: &RemovedProcedures::default(),
        newest: &Arc::default,
        gate: &|_| None,
        late: &|_, _, _| false,
        trusts: &|_| false,
        now: at(0),
    };
    let manifest = plan(&dag, &world, &Policy::default(), 1, &|| ());
    let inputs: Vec<String> = manifest
        .due()
        .flat_map(|task| task.input_sessions.iter().flatten())
        .map(ToString::to_string)
        .collect();
    assert_eq!(inputs, ["ses-01", "ses-02"]);
}

#[test]
fn b2_without_input_a_task_is_not_applicable_or_blocked() {
    use Completion::{Complete, Incomplete, NotApplicable};
    let sessions = [
        session("sub-01", "ses-01", true),
        session("sub-01", "ses-02", true),
    ];
    let blocked = |procedure: &str| {
        Decision::Skip(Skip::WaitingFor(Box::new(
            crate::decide::manifest::Waiting {
                procedure: procedure.into(),
                session: None,
                sessions_missing: 0,
                blocked: Some(Blocked::NotApplicable),
            },
        )))
    };
    let excused = Decision::Skip(Skip::NotApplicable);
    for (rule, min_sessions) in [
        (SessionsRule::ByScope, 1),
        (SessionsRule::All, 2),
        (SessionsRule::Any, 1),
    ] {
        let mut second = procedure("b", Scope::Subject, &[("a", rule)]);
        second.rules.min_sessions = min_sessions;
        let dag = ProcedureDag::new(vec![
            procedure("a", Scope::Session, &[]),
            second,
            procedure("c", Scope::Subject, &[("b", SessionsRule::ByScope)]),
        ])
        .unwrap();
        let decide_with = |own: Completion, of_sessions: [Completion; 2]| {
            let mut disk = Disk::default();
            for (session, found) in ["ses-01", "ses-02"].into_iter().zip(of_sessions) {
                disk.set("sub-01", session, 0, found);
            }
            disk.set("sub-01", "", 1, own);
            let policy = Policy::default();
            decide(&dag, &sessions, &State::default(), &disk, &policy)
        };
        let nowhere = || [NotApplicable, NotApplicable];
        let got = decide_with(NotApplicable, nowhere());
        assert_eq!(got["b/sub-01/"], excused, "{rule:?}");
        assert_eq!(got["c/sub-01/"], Decision::Submit(Due::New), "{rule:?}");
        let got = decide_with(Incomplete, nowhere());
        assert_eq!(got["b/sub-01/"], blocked("a"), "{rule:?}");
        let got = decide_with(Complete, nowhere());
        assert_eq!(got["b/sub-01/"], Decision::Skip(Skip::Complete), "{rule:?}");
        // The first session may still get what the task works on.
        let got = decide_with(NotApplicable, [Incomplete, NotApplicable]);
        let Decision::Skip(Skip::WaitingFor(waiting)) = &got["b/sub-01/"] else {
            panic!("{rule:?}: {got:?}");
        };
        assert_eq!(waiting.blocked, None, "{rule:?}");
    }
}

#[test]
fn c12_outputs_decide_about_a_failed_job_with_accept_outputs() {
    for (accepts, own, expected, next) in [
        (false, Completion::Complete, "failed", "blocked"),
        (true, Completion::Complete, "complete", "due"),
        (true, Completion::Incomplete, "failed", "blocked"),
        (true, unreadable(), "unreadable", "blocked"),
    ] {
        for scope in [Scope::Session, Scope::Subject] {
            let dag = chain(scope, |second| second.rules.accept_outputs = accepts);
            let mut disk = Disk::default();
            disk.set("sub-01", "ses-01", 0, Completion::Complete);
            disk.set("sub-01", label(scope), 1, own.clone());
            let mut rows = State::default();
            let mut failed = row("b", TaskStatus::Failed, Reason::ExitCode);
            failed.key.session = label(scope).into();
            rows.put(failed);
            let sessions = [session("sub-01", "ses-01", true)];
            let got = decide(&dag, &sessions, &rows, &disk, &Policy::default());
            let word = |task: &str| crate::show::tables::TaskState::of(&got[task]).as_str();
            let own_task = format!("b/sub-01/{}", label(scope));
            assert_eq!(
                (word(&own_task), word("c/sub-01/ses-01")),
                (expected, next),
                "{accepts} {own:?}"
            );
        }
    }
}

#[test]
fn c5_a_row_without_a_reason_does_not_prove_outputs() {
    for (reason, due) in [
        (None, Due::NeverVerified),
        (Some(Reason::Verified), Due::OutputsGone),
    ] {
        let mut done = row("a", TaskStatus::Complete, Reason::Verified);
        done.reason = reason;
        let mut rows = State::default();
        rows.put(done);
        let dag = ProcedureDag::new(vec![procedure("a", Scope::Session, &[])]).unwrap();
        let sessions = [session("sub-01", "ses-01", true)];
        let got = decide(&dag, &sessions, &rows, &Disk::default(), &Policy::default());
        assert_eq!(got["a/sub-01/ses-01"], Decision::Submit(due));
    }
}

#[test]
fn outputs_that_another_login_node_has_just_verified_are_not_lost() {
    let ago = |seconds: i64| at(0) - chrono::TimeDelta::seconds(seconds);
    let dag = ProcedureDag::new(vec![procedure("a", Scope::Session, &[])]).unwrap();
    let sessions = [session("sub-01", "ses-01", true)];
    let decision = |savers: &[(&str, i64)], verified: i64, force: bool| {
        let mut done = row("a", TaskStatus::Complete, Reason::Verified);
        done.updated_at = Some(ago(verified));
        let mut rows = State::default();
        rows.put(done);
        for (host, saved) in savers {
            rows.meta.note_saver(host, ago(*saved));
        }
        let policy = Policy {
            host: "login1".to_owned(),
            force,
            ..Policy::default()
        };
        let mut got = decide(&dag, &sessions, &rows, &Disk::default(), &policy);
        got.remove("a/sub-01/ses-01").unwrap()
    };
    let lost = Decision::Submit(Due::OutputsGone);
    let both = [("login2", 20), ("login1", 5)];
    assert_eq!(decision(&both, 30, false), Decision::Skip(Skip::Complete));
    assert_eq!(decision(&both, 60, false), lost);
    assert_eq!(decision(&[("login2", 61), ("login1", 5)], 30, false), lost);
    assert_eq!(decision(&[("login1", 5)], 30, false), lost);
    assert_eq!(
        decision(&both, 30, true),
        Decision::Submit(Due::Forced { complete: false })
    );
}

#[test]
fn force_reruns_complete_and_failed_tasks_but_not_tasks_in_flight_or_dependents() {
    let dag = ProcedureDag::new(vec![
        procedure("a", Scope::Session, &[]),
        procedure("b", Scope::Session, &[("a", SessionsRule::ByScope)]),
    ])
    .unwrap();
    let sessions = [
        session("sub-01", "ses-01", true),
        session("sub-01", "ses-02", true),
        session("sub-01", "ses-03", true),
    ];
    let mut disk = Disk::default();
    for s in ["ses-01", "ses-02", "ses-03"] {
        disk.set("sub-01", s, 0, Completion::Complete);
        disk.set("sub-01", s, 1, Completion::Complete);
    }
    let mut rows = State::default();
    for (s, status, reason) in [
        ("ses-02", TaskStatus::Running, Reason::Running),
        ("ses-03", TaskStatus::Failed, Reason::Timeout),
    ] {
        let mut row = row("a", status, reason);
        row.key.session = s.into();
        rows.put(row);
    }
    let policy = |procedures: &[&str]| Policy {
        selection: Selection::new(
            &[],
            &[],
            &procedures
                .iter()
                .map(|s| (*s).to_owned())
                .collect::<Vec<_>>(),
            &["a", "b"],
        )
        .unwrap(),
        force: true,
        ..Policy::default()
    };
    let got = decide(&dag, &sessions, &rows, &disk, &policy(&["a"]));
    assert_eq!(
        got["a/sub-01/ses-01"],
        Decision::Submit(Due::Forced { complete: true })
    );
    assert!(matches!(
        got["a/sub-01/ses-02"],
        Decision::Skip(Skip::InFlight { .. })
    ));
    assert_eq!(
        got["a/sub-01/ses-03"],
        Decision::Submit(Due::Forced { complete: true })
    );
    assert_eq!(got["b/sub-01/ses-01"], Decision::Skip(Skip::NotSelected));
    let got = decide(&dag, &sessions, &rows, &disk, &policy(&["a", "b"]));
    assert!(
        matches!(got["b/sub-01/ses-01"], Decision::Skip(Skip::WaitingFor(_))),
        "nothing builds on outputs that this run replaces: {got:?}"
    );
    let got = decide(&dag, &sessions, &rows, &disk, &policy(&["b"]));
    assert_eq!(
        got["b/sub-01/ses-01"],
        Decision::Submit(Due::Forced { complete: true })
    );
}

#[test]
fn attack_outputs_that_another_task_may_be_writing_are_not_complete() {
    let complete = Decision::Skip(Skip::Complete);
    let new = Decision::Submit(Due::New);
    let flying = || row("convert", TaskStatus::Running, Reason::Running);
    let failed = || row("convert", TaskStatus::Failed, Reason::ExitCode);
    let waits = |scope, blocked| {
        Decision::Skip(Skip::WaitingFor(Box::new(
            crate::decide::manifest::Waiting {
                procedure: "convert".into(),
                session: (scope == Scope::Subject).then(|| SessionLabel::new("ses-01").unwrap()),
                sessions_missing: 0,
                blocked,
            },
        )))
    };
    let blocked = Some(Blocked::Failed(Some(Reason::ExitCode)));
    for scope in [Scope::Session, Scope::Subject] {
        // where the converter and the step write, the converter's row, the step has a complete row; the step
        for (dirs, converter, has_row, expected) in [
            (["", ""], flying(), false, waits(scope, None)),
            (["", ""], failed(), false, waits(scope, blocked.clone())),
            (["s", "s/"], flying(), false, waits(scope, None)),
            (["", ""], flying(), true, complete.clone()),
            (["", ""], failed(), true, complete.clone()),
            (["", "s"], flying(), false, complete.clone()),
            (["", "s"], failed(), false, complete.clone()),
        ] {
            let mut first = procedure("convert", Scope::Session, &[]);
            first.output_dir = dirs[0].into();
            // Between them is one that writes elsewhere.
            let between = procedure(
                "defacing",
                Scope::Session,
                &[("convert", SessionsRule::Same)],
            );
            let mut step = procedure("step", scope, &[("defacing", SessionsRule::ByScope)]);
            step.output_dir = dirs[1].into();
            // Another converter, without dependents.
            let mut other = procedure("other", Scope::Session, &[]);
            other.output_dir = dirs[1].into();
            let report = procedure("report", scope, &[("step", SessionsRule::ByScope)]);
            let dag = ProcedureDag::new(vec![first, between, step, other, report]).unwrap();
            let mut disk = Disk::default();
            disk.set("sub-01", label(scope), 2, Completion::Complete);
            let mut rows = State::default();
            rows.put(row("other", TaskStatus::Running, Reason::Running));
            rows.put(converter.clone());
            if has_row {
                let mut done = row("step", TaskStatus::Complete, Reason::Verified);
                done.key.session = label(scope).into();
                rows.put(done);
            }
            let sessions = [session("sub-01", "ses-01", true)];
            let got = decide(&dag, &sessions, &rows, &disk, &Policy::default());
            let case = format!("{scope} {dirs:?} {has_row} {converter:?}");
            let starts = expected == complete;
            assert_eq!(
                got[&format!("step/sub-01/{}", label(scope))],
                expected,
                "{case}"
            );
            let report = &got[&format!("report/sub-01/{}", label(scope))];
            assert_eq!(*report == new, starts, "{case}: {report:?}");
        }
    }
}

#[test]
fn attack_outputs_are_not_replaced_while_a_task_reads_them() {
    let waits = |session: Option<&str>| {
        Decision::Skip(Skip::WaitingFor(Box::new(
            crate::decide::manifest::Waiting {
                procedure: "c".into(),
                session: session.map(|label| SessionLabel::new(label).unwrap()),
                sessions_missing: 0,
                blocked: None,
            },
        )))
    };
    let forced = Decision::Submit(Due::Forced { complete: true });
    let stale = Decision::Submit(Due::Stale);
    let sessions = [
        session("sub-01", "ses-01", true),
        session("sub-01", "ses-02", true),
    ];
    // scope of b, the session of c that runs, forced; what happens to b (of ses-01)
    for (scope, running, force, expected) in [
        (Scope::Subject, Some("ses-01"), false, waits(Some("ses-01"))),
        (Scope::Subject, Some("ses-02"), true, waits(Some("ses-02"))),
        (Scope::Subject, None, false, stale),
        (Scope::Subject, None, true, forced.clone()),
        (Scope::Session, Some("ses-01"), true, waits(None)),
        (Scope::Session, Some("ses-02"), true, forced),
        (
            Scope::Session,
            Some("ses-01"),
            false,
            Decision::Skip(Skip::Complete),
        ),
    ] {
        let dag = chain(scope, |b| {
            b.rules.rerun_when_stale = scope == Scope::Subject
        });
        let mut disk = Disk::default();
        for session in ["ses-01", "ses-02"] {
            disk.set("sub-01", session, 0, Completion::Complete);
        }
        disk.set("sub-01", label(scope), 1, Completion::Complete);
        let mut rows = State::default();
        let mut done = row("b", TaskStatus::Complete, Reason::Verified);
        done.key.session = label(scope).into();
        done.input_sessions = Some("ses-01".into());
        rows.put(done);
        if let Some(session) = running {
            let mut flying = row("c", TaskStatus::Running, Reason::Running);
            flying.key.session = session.into();
            rows.put(flying);
        }
        let policy = Policy {
            force,
            selection: Selection::new(&[], &[], &["b".into()], &["b"]).unwrap(),
            ..Policy::default()
        };
        let got = decide(&dag, &sessions, &rows, &disk, &policy);
        let b = &got[&format!("b/sub-01/{}", label(scope))];
        assert_eq!(*b, expected, "{scope} {running:?} {force}");
    }
}
