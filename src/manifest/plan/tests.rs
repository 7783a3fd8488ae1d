//! The decision as a truth table, and against a second, simpler oracle.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::bids::dicom::Gate;
use crate::completion::{Completions, Unreadable};
use crate::manifest::Selection;
use crate::procedure::RetryRules;
use crate::procedure::testing::procedure;
use crate::state::testing::{at, row};
use crate::state::{Reason, State, TaskRow};

/// A disk that is a list of answers; everything else is incomplete. It counts nothing and never
/// answers for a task that must not be looked at.
#[derive(Default)]
struct Disk {
    answers: BTreeMap<(String, String, u16), Completion>,
}

impl Disk {
    fn set(&mut self, subject: &str, session: &str, procedure: u16, completion: Completion) {
        self.answers
            .insert((subject.into(), session.into(), procedure), completion);
    }
}

struct OneSubject<'a>(&'a Disk, &'a SubjectLabel);

impl Completions for Disk {
    fn for_subject<'a>(&'a self, subject: &'a SubjectLabel) -> Box<dyn SubjectCompletions + 'a> {
        Box::new(OneSubject(self, subject))
    }
}

impl SubjectCompletions for OneSubject<'_> {
    fn completion(&self, procedure: ProcedureId, session: &SessionLabel) -> Completion {
        let key = (
            self.1.to_string(),
            session.to_string(),
            procedure.index() as u16,
        );
        self.0
            .answers
            .get(&key)
            .cloned()
            .unwrap_or(Completion::Incomplete)
    }

    fn newest_output(
        &self,
        _: ProcedureId,
        _: &SessionLabel,
    ) -> Option<chrono::DateTime<chrono::Utc>> {
        None
    }
}

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
    let world = World {
        sessions,
        rows,
        completions: disk,
        foreign_jobs: &HashMap::new(),
        gate: Gate::default(),
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
        &Policy::default(),
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
fn truth_table() {
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
        (false, Complete, Complete, None, "NoDicom"),
        (false, Complete, Incomplete, done(), "NoDicom"),
        (true, Incomplete, Incomplete, None, "waiting"),
        (true, Incomplete, Complete, None, "waiting"),
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
    assert!(word(true, Complete, u(), None, Scope::Session).starts_with("Unreadable"));
    // An input that does not apply satisfies a session's task; a subject's needs one real result.
    assert_eq!(
        word(true, NotApplicable, Incomplete, None, Scope::Session),
        "submit"
    );
    assert_eq!(
        word(true, NotApplicable, Incomplete, None, Scope::Subject),
        "waiting"
    );
}

#[test]
fn a_subject_waits_for_all_its_sessions_and_names_the_failed_one() {
    let dag = |rule| {
        ProcedureDag::new(vec![
            procedure("a", Scope::Session, &[]),
            procedure("b", Scope::Subject, &[("a", rule)]),
        ])
        .unwrap()
    };
    let sessions = [
        session("sub-01", "ses-01", true),
        session("sub-01", "ses-02", true),
        session("sub-01", "ses-03", false),
    ];
    let mut disk = Disk::default();
    disk.set("sub-01", "ses-01", 0, Completion::Complete);
    let rows = State::default();
    let all = decide(
        &dag(SessionsRule::All),
        &sessions,
        &rows,
        &disk,
        &Policy::default(),
    );
    assert!(
        matches!(&all["b/sub-01/"], Decision::Skip(Skip::WaitingFor(w))
            if w.session.as_ref().unwrap().as_str() == "ses-02" && w.sessions_missing == 1),
        "{all:?}"
    );
    let any = decide(
        &dag(SessionsRule::Any),
        &sessions,
        &rows,
        &disk,
        &Policy::default(),
    );
    assert_eq!(any["b/sub-01/"], Decision::Submit(Due::New));

    let mut rows = State::default();
    let mut failed = row("a", TaskStatus::Failed, Reason::ExitCode);
    failed.key.session = "ses-02".into();
    rows.put(failed);
    disk.set("sub-01", "ses-02", 0, Completion::Complete);
    let all = decide(
        &dag(SessionsRule::All),
        &sessions,
        &rows,
        &disk,
        &Policy::default(),
    );
    assert!(
        matches!(&all["b/sub-01/"], Decision::Skip(Skip::WaitingFor(w))
            if w.blocked == Some(Blocked::Failed(Some(Reason::ExitCode)))),
        "a failed row is not complete, whatever the disk shows: {all:?}"
    );
    disk.set("sub-01", "ses-02", 0, Completion::Complete);
    let all = decide(
        &dag(SessionsRule::All),
        &sessions,
        &State::default(),
        &disk,
        &Policy::default(),
    );
    assert_eq!(
        all["b/sub-01/"],
        Decision::Submit(Due::New),
        "ses-03 has no DICOM files"
    );
}

#[test]
fn a_selection_never_shrinks_what_a_subject_waits_for() {
    let dag = ProcedureDag::new(vec![
        procedure("a", Scope::Session, &[]),
        procedure("b", Scope::Subject, &[("a", SessionsRule::All)]),
    ])
    .unwrap();
    let sessions = [
        session("sub-01", "ses-01", true),
        session("sub-01", "ses-02", true),
    ];
    let mut disk = Disk::default();
    disk.set("sub-01", "ses-01", 0, Completion::Complete);
    let policy = Policy {
        selection: Selection::new(&[], &[], &["b".into()], &["a", "b"]).unwrap(),
        ..Policy::default()
    };
    let got = decide(&dag, &sessions, &State::default(), &disk, &policy);
    assert!(matches!(
        got["b/sub-01/"],
        Decision::Skip(Skip::WaitingFor(_))
    ));
    assert_eq!(got["a/sub-01/ses-02"], Decision::Skip(Skip::NotSelected));
}

#[test]
fn force_takes_complete_and_failed_tasks_but_nothing_in_flight_and_no_dependent() {
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
            foreign_jobs: &HashMap::new(),
            gate: Gate::default(),
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

/// Timeouts are tried again at once, failures of nodes a minute later, twice each.
fn with_retries(mut procedure: crate::procedure::Procedure) -> crate::procedure::Procedure {
    procedure.rules.retry = Some(RetryRules {
        max_attempts: 3,
        max_infrastructure: 2,
        on: [
            (Reason::Timeout, Default::default()),
            (Reason::NodeFail, Default::default()),
        ]
        .into(),
    });
    procedure
}

#[test]
fn a_failed_task_that_is_tried_again_keeps_its_dependents_waiting() {
    let dag = ProcedureDag::new(vec![
        with_retries(procedure("a", Scope::Session, &[])),
        procedure("b", Scope::Session, &[("a", SessionsRule::All)]),
        with_retries(procedure("c", Scope::Session, &[("b", SessionsRule::All)])),
    ])
    .unwrap();
    let spent = |used, allowed, infrastructure| {
        Outlook::Spent(crate::manifest::Budget {
            used,
            allowed,
            infrastructure,
        })
    };
    let retry = |complete| {
        Some(Due::Retry {
            reason: Reason::Timeout,
            complete,
        })
    };
    use Completion::{Complete, Incomplete, NotApplicable};
    // reason, retries so far (of both kinds), own outputs; due, outlook, is b blocked
    for (reason, retries, own, due, outlook, blocked) in [
        (Reason::Timeout, 0, Incomplete, retry(false), None, false),
        (Reason::Timeout, 1, Complete, retry(true), None, false),
        (
            Reason::Timeout,
            2,
            Complete,
            None,
            Some(spent(3, 3, false)),
            true,
        ),
        (
            Reason::NodeFail,
            0,
            Complete,
            None,
            Some(Outlook::At(at(1))),
            false,
        ),
        (
            Reason::NodeFail,
            2,
            Complete,
            None,
            Some(spent(2, 2, true)),
            true,
        ),
        (
            Reason::ExitCode,
            0,
            Complete,
            None,
            Some(Outlook::None),
            true,
        ),
    ] {
        let mut disk = Disk::default();
        disk.set("sub-01", "ses-01", 0, own);
        let mut failed = row("a", TaskStatus::Failed, reason);
        failed.retry.retries = retries;
        failed.retry.infrastructure = retries;
        let mut rows = State::default();
        rows.put(failed);
        let sessions = [session("sub-01", "ses-01", true)];
        let policy = Policy::default();
        let got = decide(&dag, &sessions, &rows, &disk, &policy);
        let own = match &got["a/sub-01/ses-01"] {
            Decision::Submit(due) => (Some(*due), None),
            Decision::Skip(Skip::Failed { outlook, .. }) => (None, Some(*outlook)),
            other => panic!("{other:?}"),
        };
        assert_eq!(own, (due, outlook), "{reason} {retries}");
        assert!(
            matches!(&got["b/sub-01/ses-01"], Decision::Skip(Skip::WaitingFor(waiting))
                if waiting.blocked.is_some() == blocked),
            "{reason} {retries}: {got:?}"
        );
        // The switch of the Python program goes before rules, and so does a person.
        let policy = Policy {
            resubmit_failed: true,
            ..Policy::default()
        };
        let got = decide(&dag, &sessions, &rows, &disk, &policy);
        assert!(
            !matches!(
                got["a/sub-01/ses-01"],
                Decision::Submit(Due::Retry { .. }) | Decision::Skip(Skip::Failed { .. })
            ),
            "{got:?}"
        );
        let policy = Policy {
            force: true,
            ..Policy::default()
        };
        let got = decide(&dag, &sessions, &rows, &disk, &policy);
        assert!(
            matches!(got["a/sub-01/ses-01"], Decision::Submit(Due::Forced { .. })),
            "{got:?}"
        );
    }
    // DICOM files, dependencies and readability hold as for any other task.
    let mut rows = State::default();
    rows.put(row("c", TaskStatus::Failed, Reason::Timeout));
    for (dicom, dependency, own, expected) in [
        (true, Complete, Incomplete, "Submit(Retry"),
        (false, Complete, Incomplete, "Skip(NoDicom"),
        (true, Incomplete, Complete, "Skip(WaitingFor"),
        (true, Complete, NotApplicable, "Skip(NotApplicable"),
        (true, Complete, unreadable(), "Skip(Unreadable"),
    ] {
        let mut disk = Disk::default();
        disk.set("sub-01", "ses-01", 0, Complete);
        disk.set("sub-01", "ses-01", 1, dependency);
        disk.set("sub-01", "ses-01", 2, own);
        let sessions = [session("sub-01", "ses-01", dicom)];
        let got = decide(&dag, &sessions, &rows, &disk, &Policy::default());
        let text = format!("{:?}", got["c/sub-01/ses-01"]);
        assert!(text.starts_with(expected), "{text}");
    }
}

/// A pipeline of one procedure per session and one per subject that is declared by `change`.
fn two_steps(change: impl FnOnce(&mut crate::procedure::Procedure)) -> ProcedureDag {
    let mut second = procedure("b", Scope::Subject, &[("a", SessionsRule::ByScope)]);
    change(&mut second);
    ProcedureDag::new(vec![procedure("a", Scope::Session, &[]), second]).unwrap()
}

fn cohort(exclude: &[&str]) -> Policy {
    let entries = exclude.iter().map(|text| ((*text).to_owned(), 1)).collect();
    let source = crate::bids::CohortSource {
        include: None,
        exclude: Some(crate::bids::cohort::ListSource::Entries(entries)),
    };
    Policy {
        cohort: crate::bids::Cohort::load(&source).unwrap(),
        ..Policy::default()
    }
}

#[test]
fn an_excluded_session_is_left_alone_and_holds_nobody_up() {
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
    for s in ["ses-01", "ses-02", "ses-03"] {
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
fn a_complete_task_is_stale_when_a_session_has_come_since() {
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
    // The session's own step is not complete: the subject waits for it.
    disk.set("sub-01", "ses-03", 0, Completion::Incomplete);
    assert!(matches!(
        b(&reruns, &sessions, &disk, &both()),
        Decision::Skip(Skip::WaitingFor(_))
    ));
}

#[test]
fn a_due_task_of_a_subject_says_which_sessions_it_works_on() {
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
        foreign_jobs: &HashMap::new(),
        gate: Gate::default(),
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

/// A whole random world of one subject, as plain numbers.
#[derive(Debug, Clone)]
struct Random {
    /// For each procedure: scope is subject, and whether it depends on each earlier one.
    procedures: Vec<(bool, Vec<bool>)>,
    dicom: Vec<bool>,
    /// Per procedure and session (the last one stands for the subject): disk and row.
    disk: Vec<Vec<u8>>,
    rows: Vec<Vec<u8>>,
    /// The rule of all dependencies: by scope, all, any.
    rule: u8,
    resubmit: bool,
    excluded: Vec<bool>,
    /// Per procedure; for those of subject scope.
    min_sessions: Vec<usize>,
    /// Per procedure and session: what a complete row of subject scope remembers. And whether it
    /// is to run again.
    worked_on: Vec<Vec<bool>>,
    rerun: Vec<bool>,
}

fn random_world() -> impl Strategy<Value = Random> {
    (1usize..5, 1usize..4).prop_flat_map(|(p, s)| {
        let flags = |n| prop::collection::vec(any::<bool>(), n);
        (
            (
                prop::collection::vec((any::<bool>(), flags(p)), p),
                flags(s),
                prop::collection::vec(prop::collection::vec(0u8..4, s + 1), p),
                prop::collection::vec(prop::collection::vec(0u8..10, s + 1), p),
            ),
            0u8..3,
            any::<bool>(),
            prop::collection::vec(prop::bool::weighted(0.2), s),
            prop::collection::vec(1usize..4, p),
            prop::collection::vec(flags(s), p),
            flags(p),
        )
            .prop_map(
                |(basic, rule, resubmit, excluded, min_sessions, worked_on, rerun)| Random {
                    procedures: basic.0,
                    dicom: basic.1,
                    disk: basic.2,
                    rows: basic.3,
                    rule,
                    resubmit,
                    excluded,
                    min_sessions,
                    worked_on,
                    rerun,
                },
            )
    })
}

/// The same decision in the plainest words, eagerly, without sharing.
fn oracle(world: &Random, p: usize, s: usize) -> &'static str {
    let subject_scope = world.procedures[p].0;
    let n = world.dicom.len();
    let cell = if subject_scope { n } else { s };
    if matches!(world.rows[p][cell], 1 | 2) {
        return "in flight";
    }
    if subject_scope && !world.excluded.contains(&false) || !subject_scope && world.excluded[s] {
        return "excluded";
    }
    // 9 is tried again later.
    if matches!(world.rows[p][cell], 3 | 9) && !world.resubmit {
        return "failed";
    }
    if subject_scope && counted(world).is_empty() || !subject_scope && !world.dicom[s] {
        return "no dicom";
    }
    if !dependencies_ready(world, p, s) {
        return "waiting";
    }
    match believed(world, p, cell) {
        "incomplete" | "tried again" => "submit",
        "complete" if is_stale(world, p) && world.rerun[p] => "submit",
        "complete" if is_stale(world, p) => "stale",
        other => other,
    }
}

/// The sessions that count for a subject.
fn counted(world: &Random) -> Vec<usize> {
    (0..world.dicom.len())
        .filter(|i| world.dicom[*i] && !world.excluded[*i])
        .collect()
}

/// The sessions that a procedure of subject scope works on.
fn inputs(world: &Random, p: usize) -> Vec<usize> {
    let needs: Vec<usize> = (0..p)
        .filter(|q| world.procedures[p].1[*q] && !world.procedures[*q].0)
        .collect();
    let mut sessions = counted(world);
    sessions.retain(|i| {
        let is_complete = |q: &usize| is_believed_complete(world, *q, *i);
        needs
            .iter()
            .all(|q| is_complete(q) || is_excused(world, *q, *i))
            && (needs.is_empty() || needs.iter().any(is_complete))
    });
    sessions
}

/// True for a complete task of subject scope whose row lacks one of its sessions.
fn is_stale(world: &Random, p: usize) -> bool {
    let n = world.dicom.len();
    world.procedures[p].0
        && world.rows[p][n] == 5
        && inputs(world, p).iter().any(|i| !world.worked_on[p][*i])
}

/// What is believed of a task by itself.
fn believed(world: &Random, q: usize, cell: usize) -> &'static str {
    match (world.rows[q][cell], world.disk[q][cell]) {
        (1 | 2, _) => "in flight",
        (3 | 9, _) if !world.resubmit => "failed",
        (8, 0 | 1) if !world.resubmit => "tried again",
        (_, 1) => "complete",
        (_, 2) => "not applicable",
        (_, 3) => "unreadable",
        (4, _) if !world.resubmit => "failed",
        _ => "incomplete",
    }
}

/// True if others may build on a task: its outputs are complete and are not made anew.
fn is_believed_complete(world: &Random, q: usize, cell: usize) -> bool {
    let n = world.dicom.len();
    believed(world, q, cell) == "complete"
        && !(world.procedures[q].0 && oracle(world, q, cell.min(n - 1)) == "submit")
}

fn is_excused(world: &Random, q: usize, cell: usize) -> bool {
    let n = world.dicom.len();
    believed(world, q, cell) == "not applicable" && dependencies_ready(world, q, cell.min(n - 1))
}

fn dependencies_ready(world: &Random, p: usize, s: usize) -> bool {
    let n = world.dicom.len();
    let subject_scope = world.procedures[p].0;
    let are_ready = (0..p).filter(|q| world.procedures[p].1[*q]).all(|q| {
        let ready = |cell| is_believed_complete(world, q, cell) || is_excused(world, q, cell);
        match (world.procedures[q].0, subject_scope, world.rule) {
            (true, ..) => ready(n),
            (false, false, 0) => ready(s),
            (false, _, rule) => {
                let all = counted(world);
                let one = all.iter().any(|i| is_believed_complete(world, q, *i));
                (one || !subject_scope) && all.iter().all(|i| ready(*i)) || rule == 2 && one
            }
        }
    });
    are_ready
        && (!subject_scope
            || world.min_sessions[p] < 2
            || inputs(world, p).len() >= world.min_sessions[p])
}

proptest! {
    #[test]
    fn agrees_with_a_plain_oracle(world in random_world()) {
        let rule = [SessionsRule::ByScope, SessionsRule::All, SessionsRule::Any][usize::from(world.rule)];
        let names: Vec<String> = (0..world.procedures.len()).map(|i| format!("p{i}")).collect();
        let dag = ProcedureDag::new(
            world.procedures.iter().enumerate().map(|(i, (subject, deps))| {
                let deps: Vec<(&str, SessionsRule)> =
                    (0..i).filter(|q| deps[*q]).map(|q| (names[q].as_str(), rule)).collect();
                let scope = if *subject { Scope::Subject } else { Scope::Session };
                let mut declared = procedure(&names[i], scope, &deps);
                if *subject {
                    declared.rules.min_sessions = world.min_sessions[i];
                    declared.rules.rerun_when_stale = world.rerun[i];
                }
                with_retries(declared)
            }).collect(),
        ).unwrap();
        let sessions: Vec<Session> = world.dicom.iter().enumerate()
            .map(|(i, dicom)| session("sub-01", &format!("ses-{i}"), *dicom)).collect();
        let mut disk = Disk::default();
        let mut rows = State::default();
        let n = sessions.len();
        for (p, (subject, _)) in world.procedures.iter().enumerate() {
            let cells = if *subject { n..n + 1 } else { 0..n };
            for cell in cells {
                let label = if cell == n { String::new() } else { format!("ses-{cell}") };
                disk.set("sub-01", &label, p as u16, match world.disk[p][cell] {
                    0 => Completion::Incomplete,
                    1 => Completion::Complete,
                    2 => Completion::NotApplicable,
                    _ => unreadable(),
                });
                let mut row = match world.rows[p][cell] {
                    1 => row(&names[p], TaskStatus::Running, Reason::Running),
                    2 => row(&names[p], TaskStatus::Pending, Reason::Submitting),
                    3 => row(&names[p], TaskStatus::Failed, Reason::ExitCode),
                    4 => row(&names[p], TaskStatus::Failed, Reason::ExitCode),
                    5 => row(&names[p], TaskStatus::Complete, Reason::Verified),
                    8 => row(&names[p], TaskStatus::Failed, Reason::Timeout),
                    9 => row(&names[p], TaskStatus::Failed, Reason::NodeFail),
                    _ => continue,
                };
                if world.rows[p][cell] == 4 {
                    row.reason = None;
                }
                row.key.session = label.as_str().into();
                if cell == n && world.rows[p][cell] == 5 {
                    let labels: Vec<String> = (0..n)
                        .filter(|i| world.worked_on[p][*i])
                        .map(|i| format!("ses-{i}"))
                        .collect();
                    row.input_sessions = Some(labels.join(" ").as_str().into());
                }
                rows.put(row);
            }
        }
        let excluded: Vec<String> = (0..n)
            .filter(|i| world.excluded[*i])
            .map(|i| format!("01/ses-{i}"))
            .collect();
        let policy = Policy {
            resubmit_failed: world.resubmit,
            ..cohort(&excluded.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let got = decide(&dag, &sessions, &rows, &disk, &policy);
        for (p, (subject, _)) in world.procedures.iter().enumerate() {
            let cells = if *subject { n..n + 1 } else { 0..n };
            for cell in cells {
                let label = if cell == n { String::new() } else { format!("ses-{cell}") };
                let decision = &got[&format!("p{p}/sub-01/{label}")];
                let word = match decision {
                    Decision::Submit(_) => "submit",
                    Decision::Skip(Skip::Complete) => "complete",
                    Decision::Skip(Skip::NotApplicable) => "not applicable",
                    Decision::Skip(Skip::InFlight { .. }) => "in flight",
                    Decision::Skip(Skip::Failed { .. }) => "failed",
                    Decision::Skip(Skip::NoDicom) => "no dicom",
                    Decision::Skip(Skip::WaitingFor(_) | Skip::TooFewSessions { .. }) => "waiting",
                    Decision::Skip(Skip::Stale(_)) => "stale",
                    Decision::Skip(Skip::Excluded) => "excluded",
                    Decision::Skip(Skip::Unreadable(_)) => "unreadable",
                    Decision::Skip(Skip::OverLimit(_) | Skip::Paused(_) | Skip::NotSelected | Skip::ForeignJob(_) | Skip::Settling { .. } | Skip::TooFewFiles { .. }) => "impossible",
                };
                prop_assert_eq!(word, oracle(&world, p, cell.min(n - 1)), "p{} {}", p, label);
            }
        }
    }
}
