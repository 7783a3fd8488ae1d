//! Which sessions count: excluded ones, all or any of a subject, too few, and those that came since.

use super::*;

/// A pipeline of one procedure per session and one per subject that is declared by `change`.
fn two_steps(change: impl FnOnce(&mut crate::model::procedure::Procedure)) -> ProcedureDag {
    let mut second = procedure("b", Scope::Subject, &[("a", SessionsRule::ByScope)]);
    change(&mut second);
    ProcedureDag::new(vec![procedure("a", Scope::Session, &[]), second]).unwrap()
}

pub(super) fn cohort(exclude: &[&str]) -> Policy {
    use crate::model::bids::cohort::{Cohort, Entry};
    let entries = exclude.iter();
    let entries = entries.map(|text| Entry::parse("exclude", text, String::new()).unwrap());
    Policy {
        cohort: Cohort::new(None, entries.collect()).unwrap(),
        ..Policy::default()
    }
}

#[test]
fn an_excluded_session_is_ignored_and_blocks_no_task() {
    let dag = two_steps(|_| {});
    let sessions = [
        session("sub-01", "ses-01", true),
        session("sub-01", "ses-02", true),
        session("sub-02", "ses-01", true),
    ];
    let mut disk = Disk::default();
    disk.set("sub-01", "ses-01", 0, Completion::Complete);
    let mut rows = State::default();
    let mut live = row("a", TaskStatus::Running, Reason::Running);
    live.key.subject = "sub-02".into();
    rows.put(live);
    let policy = Policy {
        force: true,
        ..cohort(&["sub-01/ses-02", "sub-02"])
    };
    for policy in [
        policy.clone(),
        Policy {
            force: false,
            ..policy
        },
    ] {
        let got = decide(&dag, &sessions, &rows, &disk, &policy);
        assert_eq!(got["a/sub-01/ses-02"], Decision::Skip(Skip::Excluded));
        assert_eq!(got["b/sub-02/"], Decision::Skip(Skip::Excluded));
        let live = &got["a/sub-02/ses-01"];
        assert!(
            matches!(live, Decision::Skip(Skip::InFlight { .. })),
            "{live:?}"
        );
        if !policy.force {
            assert_eq!(got["b/sub-01/"], Decision::Submit(Due::New));
        }
    }
}

#[test]
fn a_session_may_wait_for_all_or_any_of_its_subject() {
    let sessions = [
        session("sub-01", "ses-01", true),
        session("sub-01", "ses-02", true),
        session("sub-01", "ses-03", false),
        session("sub-02", "ses-01", true),
    ];
    // Dependency on disk per session of sub-01, and which of its sessions are due by each rule.
    use Completion::{Complete, Incomplete, NotApplicable};
    for (first, second, same, all, any) in [
        (Incomplete, Incomplete, "", "", ""),
        (Complete, Incomplete, "1", "", "12"),
        (Incomplete, Complete, "2", "", "12"),
        (Complete, Complete, "12", "12", "12"),
        (Complete, NotApplicable, "12", "12", "12"),
        (NotApplicable, Incomplete, "1", "", ""),
        (NotApplicable, NotApplicable, "12", "12", "12"),
    ] {
        for (rule, expected) in [
            (SessionsRule::ByScope, same),
            (SessionsRule::Same, same),
            (SessionsRule::All, all),
            (SessionsRule::Any, any),
        ] {
            let dag = ProcedureDag::new(vec![
                procedure("a", Scope::Session, &[]),
                procedure("b", Scope::Session, &[("a", rule)]),
            ])
            .unwrap();
            let mut disk = Disk::default();
            disk.set("sub-01", "ses-01", 0, first.clone());
            disk.set("sub-01", "ses-02", 0, second.clone());
            let got = decide(
                &dag,
                &sessions,
                &State::default(),
                &disk,
                &Policy::default(),
            );
            let due: String = (1..=3)
                .filter(|n| matches!(got[&format!("b/sub-01/ses-0{n}")], Decision::Submit(_)))
                .map(|n| n.to_string())
                .collect();
            assert_eq!(due, expected, "{rule:?} {first:?} {second:?}");
        }
    }
}

#[test]
fn a_subject_may_need_several_sessions() {
    let dag = two_steps(|second| second.rules.min_sessions = 2);
    let mut sessions = vec![
        session("sub-01", "ses-01", true),
        session("sub-01", "ses-02", false),
    ];
    let mut disk = Disk::default();
    for s in ["ses-01", "ses-03"] {
        disk.set("sub-01", s, 0, Completion::Complete);
    }
    let rows = State::default();
    let waits = |ready| Decision::Skip(Skip::TooFewSessions { needed: 2, ready });
    let b = |sessions: &[Session], disk: &Disk, policy: &Policy| {
        decide(&dag, sessions, &rows, disk, policy)["b/sub-01/"].clone()
    };
    assert_eq!(b(&sessions, &disk, &Policy::default()), waits(1));
    sessions.push(session("sub-01", "ses-03", true));
    assert_eq!(
        b(&sessions, &disk, &Policy::default()),
        Decision::Submit(Due::New)
    );
    assert_eq!(b(&sessions, &disk, &cohort(&["01/01"])), waits(1));
    disk.set("sub-01", "ses-03", 0, Completion::NotApplicable);
    assert_eq!(b(&sessions, &disk, &Policy::default()), waits(1));
    // Without dependencies the sessions with DICOM files count.
    let dag = two_steps(|second| {
        second.rules.min_sessions = 3;
        second.depends_on.clear();
    });
    let got = decide(&dag, &sessions, &rows, &disk, &Policy::default());
    assert_eq!(
        got["b/sub-01/"],
        Decision::Skip(Skip::TooFewSessions {
            needed: 3,
            ready: 2
        })
    );
}

#[test]
fn a_complete_task_is_stale_after_a_new_session() {
    let label = |text: &str| SessionLabel::new(text).unwrap();
    let mut sessions = vec![
        session("sub-01", "ses-01", true),
        session("sub-01", "ses-02", true),
    ];
    let mut disk = Disk::default();
    for s in ["ses-01", "ses-02", "ses-03"] {
        disk.set("sub-01", s, 0, Completion::Complete);
    }
    disk.set("sub-01", "", 1, Completion::Complete);
    let rows = |worked_on: Option<&str>| {
        let mut rows = State::default();
        let mut done = row("b", TaskStatus::Complete, Reason::Verified);
        done.key.session = "".into();
        done.input_sessions = worked_on.map(Into::into);
        rows.put(done);
        rows
    };
    let reports = two_steps(|_| {});
    let reruns = two_steps(|second| second.rules.rerun_when_stale = true);
    let b = |dag: &ProcedureDag, sessions: &[Session], disk: &Disk, rows: &State| {
        decide(dag, sessions, rows, disk, &Policy::default())["b/sub-01/"].clone()
    };
    let complete = Decision::Skip(Skip::Complete);
    for known in [None, Some("ses-01 ses-02"), Some("ses-00 ses-01 ses-02")] {
        assert_eq!(
            b(&reruns, &sessions, &disk, &rows(known)),
            complete,
            "{known:?}"
        );
    }
    assert_eq!(
        b(&reruns, &sessions, &disk, &State::default()),
        complete,
        "never ours"
    );
    sessions.push(session("sub-01", "ses-03", true));
    let both = || rows(Some("ses-01 ses-02"));
    assert_eq!(
        b(&reports, &sessions, &disk, &both()),
        Decision::Skip(Skip::Stale(vec![label("ses-03")]))
    );
    assert_eq!(
        b(&reruns, &sessions, &disk, &both()),
        Decision::Submit(Due::Stale)
    );
    let excluded = decide(&reruns, &sessions, &both(), &disk, &cohort(&["01/03"]));
    assert_eq!(excluded["b/sub-01/"], complete);
    // Nothing builds on what is made anew.
    let mut third = procedure("c", Scope::Session, &[("b", SessionsRule::ByScope)]);
    let mut second = procedure("b", Scope::Subject, &[("a", SessionsRule::ByScope)]);
    second.rules.rerun_when_stale = true;
    third.rules.min_sessions = 1;
    let chain =
        ProcedureDag::new(vec![procedure("a", Scope::Session, &[]), second, third]).unwrap();
    let got = decide(&chain, &sessions, &both(), &disk, &Policy::default());
    assert!(
        matches!(got["c/sub-01/ses-01"], Decision::Skip(Skip::WaitingFor(_))),
        "{got:?}"
    );
    // The session's own step is not complete: there is nothing new to work on yet.
    disk.set("sub-01", "ses-03", 0, Completion::Incomplete);
    assert_eq!(b(&reruns, &sessions, &disk, &both()), complete);
    // It is, and another one's is not: what depends on them is stale, and waits.
    disk.set("sub-01", "ses-03", 0, Completion::Complete);
    disk.set("sub-01", "ses-02", 0, Completion::Incomplete);
    assert_eq!(
        b(&reruns, &sessions, &disk, &both()),
        Decision::Skip(Skip::Stale(vec![label("ses-03")]))
    );
}

#[test]
fn a_due_task_of_a_subject_lists_its_sessions() {
    let dag = two_steps(|_| {});
    let mut sessions = vec![
        session("sub-01", "ses-01", true),
        session("sub-01", "ses-02", true),
        session("sub-01", "ses-03", false),
    ];
    sessions.push(session("sub-01", "ses-04", true));
    let mut disk = Disk::default();
    for s in ["ses-01", "ses-02"] {
        disk.set("sub-01", s, 0, Completion::Complete);
    }
    disk.set("sub-01", "ses-04", 0, Completion::NotApplicable);
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
    let due: Vec<_> = manifest
        .due()
        .map(|task| task.input_sessions.clone())
        .collect();
    let label = |text: &str| SessionLabel::new(text).unwrap();
    assert_eq!(due, [Some(vec![label("ses-01"), label("ses-02")])]);
}
