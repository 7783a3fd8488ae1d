//! DICOM files that still arrive, are too few or cannot be read hold back what would be submitted, and nothing else.

use std::path::Path;
use std::sync::Mutex;

use super::*;
use crate::gather::sessions::dicom::Hold;

/// One session per name, whose directory has that name.
fn sessions(names: &[&str]) -> Vec<Session> {
    let one = |name: &&str| Session {
        dicom: Dicom::At(Path::new(name).into()),
        ..session("sub-01", name, true)
    };
    names.iter().map(one).collect()
}

/// What the gate says of a session.
fn gate(session: &Session) -> Option<Hold> {
    match session.session.as_str() {
        "ses-few" => Some(Hold::TooFewFiles {
            files: 3,
            needed: 10,
        }),
        "ses-new" => Some(Hold::Settling { until: at(9) }),
        "ses-locked" => Some(Hold::Unreadable(Unreadable {
            path: session.session.as_str().into(),
            error: "Permission denied".into(),
        })),
        _ => None,
    }
}

/// Decides about `a` (of each session), `b` (of the subject) and `c` (of the subject, after `a`) with a gate, and tells
/// what the gate was asked.
fn decide_with_gate(names: &[&str], disk: &Disk) -> (BTreeMap<String, Decision>, Vec<String>) {
    let dag = ProcedureDag::new(vec![
        procedure("a", Scope::Session, &[]),
        procedure("b", Scope::Subject, &[]),
        procedure("c", Scope::Subject, &[("a", SessionsRule::ByScope)]),
    ])
    .unwrap();
    let sessions = sessions(names);
    let asked = Mutex::new(Vec::new());
    let world = World {
        sessions: &sessions,
        rows: &State::default(),
        completions: disk,
        jobs_without_row: &HashMap::new(),
        removed: &RemovedProcedures::default(),
        newest: &Arc::default,
        gate: &|session| {
            asked.lock().unwrap().push(session.session.to_string());
            gate(session)
        },
        late: &|_, _, _| false,
        trusts: &|_| false,
        now: at(0),
    };
    let tasks = plan(&dag, &world, &Policy::default(), 1, &|| ()).tasks;
    for task in &tasks {
        // The directory belongs to the session; a subject has none.
        let path = task.dicom_path.as_ref().map(|path| path.to_str().unwrap());
        let session = task.session.to_string();
        assert_eq!(path.unwrap_or_default(), session);
    }
    let named = |task: Planned| {
        let name = &dag.get(task.procedure).name;
        (format!("{name}/{}", task.session), task.decision)
    };
    (
        tasks.into_iter().map(named).collect(),
        asked.into_inner().unwrap(),
    )
}

#[test]
fn the_gate_holds_back_a_session_and_its_subject() {
    let disk = Disk::default();
    let few = Decision::Skip(Skip::TooFewFiles {
        files: 3,
        needed: 10,
    });
    let new = Decision::Skip(Skip::Settling { until: at(9) });
    let due = Decision::Submit(Due::New);

    let (got, _) = decide_with_gate(&["ses-1", "ses-few"], &disk);
    assert_eq!(got["a/ses-1"], due);
    assert_eq!(got["a/ses-few"], few);
    assert_eq!(
        got["b/"], due,
        "a subject continues without its small sessions"
    );

    let (got, _) = decide_with_gate(&["ses-few"], &disk);
    assert_eq!(got["b/"], few, "nothing would be left to work on");

    let (got, _) = decide_with_gate(&["ses-1", "ses-new", "ses-few"], &disk);
    assert_eq!(got["a/ses-1"], due);
    assert_eq!(got["a/ses-new"], new);
    assert_eq!(got["b/"], new, "a subject waits for what still arrives");

    let (got, _) = decide_with_gate(&["ses-1", "ses-locked"], &disk);
    for task in ["a/ses-locked", "b/"] {
        let Decision::Skip(Skip::Unreadable(what)) = &got[task] else {
            panic!("{task}: {:?}", got[task]);
        };
        assert_eq!(what.path, Path::new("ses-locked"));
    }
}

#[test]
fn files_are_counted_once_and_only_before_a_submission() {
    let mut disk = Disk::default();
    let (_, asked) = decide_with_gate(&["ses-1", "ses-2"], &disk);
    assert_eq!(asked, ["ses-1", "ses-2"], "by a and b together");

    for session in ["ses-1", "ses-2"] {
        disk.set("sub-01", session, 0, Completion::Complete);
    }
    for procedure in [1, 2] {
        disk.set("sub-01", "", procedure, Completion::Complete);
    }
    let (got, asked) = decide_with_gate(&["ses-1", "ses-2"], &disk);
    assert!(
        got.values()
            .all(|decision| *decision == Decision::Skip(Skip::Complete))
    );
    assert_eq!(asked, [""; 0]);
}

#[test]
fn a_subject_does_not_wait_for_the_tasks_of_a_session_that_is_too_small() {
    let mut disk = Disk::default();
    disk.set("sub-01", "ses-1", 0, Completion::Complete);
    let (got, _) = decide_with_gate(&["ses-1", "ses-few"], &disk);
    assert_eq!(got["c/"], Decision::Submit(Due::New));
    for other in ["ses-2", "ses-new", "ses-locked"] {
        let (got, _) = decide_with_gate(&["ses-1", "ses-few", other], &disk);
        let Decision::Skip(Skip::WaitingFor(waiting)) = &got["c/"] else {
            panic!("{other}: {:?}", got["c/"]);
        };
        assert_eq!(waiting.session.as_ref().unwrap().as_str(), other);
        assert_eq!(waiting.sessions_missing, 1);
    }
}

#[test]
fn attack_a_task_is_not_applicable_only_once_its_session_has_settled() {
    let mut disk = Disk::default();
    for session in ["ses-1", "ses-new"] {
        disk.set("sub-01", session, 0, Completion::NotApplicable);
    }
    let (got, _) = decide_with_gate(&["ses-1", "ses-new"], &disk);
    assert_eq!(got["a/ses-1"], Decision::Skip(Skip::NotApplicable));
    let settling = Decision::Skip(Skip::Settling { until: at(9) });
    assert_eq!(got["a/ses-new"], settling);
    let Decision::Skip(Skip::WaitingFor(waiting)) = &got["c/"] else {
        panic!("{:?}", got["c/"]);
    };
    assert_eq!((waiting.sessions_missing, &waiting.blocked), (1, &None));
}

#[test]
fn a_stray_job_keeps_its_task_and_dependents_waiting() {
    let dag = ProcedureDag::new(vec![
        procedure("a", Scope::Session, &[]),
        procedure("b", Scope::Session, &[("a", SessionsRule::ByScope)]),
    ])
    .unwrap();
    let mut disk = Disk::default();
    for session in ["ses-1", "ses-2"] {
        disk.set("sub-01", session, 0, Completion::Complete);
    }
    let job = JobId::new("77");
    let jobs = HashMap::from([(TaskKey::new("sub-01", "ses-1", "a"), job.clone())]);
    let world = World {
        sessions: &sessions(&["ses-1", "ses-2"]),
        rows: &State::default(),
        completions: &disk,
        jobs_without_row: &jobs,
        removed: &RemovedProcedures::default(),
        newest: &Arc::default,
        gate: &|_| None,
        late: &|_, _, _| false,
        trusts: &|_| false,
        now: at(0),
    };
    let tasks = plan(&dag, &world, &Policy::default(), 1, &|| ()).tasks;
    let words: Vec<String> = tasks
        .iter()
        .map(|task| match &task.decision {
            Decision::Skip(Skip::WaitingFor(waiting)) => format!("waits for {}", waiting.procedure),
            other => format!("{other:?}"),
        })
        .collect();
    let without_row = format!("{:?}", Decision::Skip(Skip::JobWithoutRow(job)));
    assert_eq!(
        words,
        [&without_row, "Skip(Complete)", "waits for a", "Submit(New)"]
    );
}
