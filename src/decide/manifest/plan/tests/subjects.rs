//! What tasks of a subject wait for.

use super::*;

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
    let by = |rule, rows: &State, disk: &Disk| {
        decide(&dag(rule), &sessions, rows, disk, &Policy::default())
    };
    let all = by(SessionsRule::All, &rows, &disk);
    assert!(
        matches!(&all["b/sub-01/"], Decision::Skip(Skip::WaitingFor(w))
            if w.session.as_ref().unwrap().as_str() == "ses-02" && w.sessions_missing == 1),
        "{all:?}"
    );
    let any = by(SessionsRule::Any, &rows, &disk);
    assert_eq!(any["b/sub-01/"], Decision::Submit(Due::New));

    let mut rows = State::default();
    let mut failed = row("a", TaskStatus::Failed, Reason::ExitCode);
    failed.key.session = "ses-02".into();
    rows.put(failed);
    disk.set("sub-01", "ses-02", 0, Completion::Complete);
    let all = by(SessionsRule::All, &rows, &disk);
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
fn a_selection_does_not_change_what_a_subject_waits_for() {
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
