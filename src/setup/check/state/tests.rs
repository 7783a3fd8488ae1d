//! One finding per trouble of a state, and none for a sound one.

use super::super::testing;
use super::*;
use crate::model::procedure::Scope;
use crate::model::procedure::testing::procedure;
use crate::model::state::testing::row;

fn dag(names: &[&str]) -> ProcedureDag {
    let procedures = names.iter();
    let procedures = procedures.map(|name| procedure(name, Scope::Session, &[]));
    ProcedureDag::new(procedures.collect()).unwrap()
}

fn seen<'a>(procedures: &'a ProcedureDag, rows: &'a [TaskRow]) -> Seen<'a> {
    Seen {
        path: Path::new("/s/state.parquet"),
        verified: vec![verify::Finding {
            level: Verified::Ok,
            part: "state file",
            text: "rows: 3".to_owned(),
            todo: None,
        }],
        other_owner: None,
        modes: (Some(0o640), Some(0o2770)),
        lock: Some(LockStanding::Free),
        journal_entries: 0,
        meta: Metadata::default(),
        rows,
        attempts: &[],
        procedures,
        executor: crate::model::job::ExecutorKind::Slurm,
        sessions: Some(HashSet::from([("sub-01", "ses-01")])),
    }
}

fn complete(procedure: &str) -> TaskRow {
    row(procedure, TaskStatus::Complete, Reason::Verified)
}

fn without_output(procedure: &str) -> TaskRow {
    row(procedure, TaskStatus::Failed, Reason::NoOutput)
}

fn one(seen: &Seen<'_>, level: Level, part: &str) {
    testing::one(&judge(seen), level, part);
}

#[test]
fn a_sound_state_is_one_line() {
    let dag = dag(&["bids"]);
    let rows = [complete("bids")];
    let findings = judge(&seen(&dag, &rows));
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(findings[0].text.contains("rows: 3"));
    let held = Seen {
        lock: Some(LockStanding::Held("run by alice".to_owned())),
        journal_entries: 3,
        ..seen(&dag, &rows)
    };
    assert!(judge(&held).iter().all(|f| f.level == Level::Ok));
    let private = Seen {
        modes: (Some(0o600), Some(0o700)),
        ..seen(&dag, &rows)
    };
    assert_eq!(judge(&private).len(), 1);
}

#[test]
fn each_trouble_is_a_finding() {
    let dag = dag(&["bids"]);
    let rows = [complete("bids")];
    let sound = || seen(&dag, &rows);
    for (verified, level) in [
        (Verified::Warning, Level::Warning),
        (Verified::Error, Level::Error),
    ] {
        let mut seen = sound();
        seen.verified[0].level = verified;
        one(&seen, level, "state file: rows: 3");
    }
    let other = Some((
        "belongs to user 7".to_owned(),
        "run it as that user".to_owned(),
    ));
    let other = Seen {
        other_owner: other,
        ..sound()
    };
    one(&other, Level::Error, "belongs to user 7");
    for (modes, part) in [
        ((Some(0o600), Some(0o750)), "cannot read it"),
        ((Some(0o646), Some(0o700)), "can change it"),
    ] {
        one(&Seen { modes, ..sound() }, Level::Warning, part);
    }
    let lock = Seen {
        lock: Some(LockStanding::LeftOver("run by alice".to_owned())),
        ..sound()
    };
    one(&lock, Level::Warning, "run by alice");
    let journal = Seen {
        journal_entries: 2,
        ..sound()
    };
    one(&journal, Level::Warning, "left 2 entries");
    let mut stopped = sound();
    stopped
        .meta
        .baselines
        .insert("stopped/sessions".to_owned(), 3);
    one(&stopped, Level::Error, "safety stop): sessions");
}

#[test]
fn rows_that_nobody_knows_any_more_are_told() {
    let dag = dag(&["bids"]);
    let old = [complete("old"), complete("bids")];
    one(&seen(&dag, &old), Level::Warning, "old (1)");
    let rows = [complete("bids")];
    let elsewhere = Seen {
        sessions: Some(HashSet::from([("sub-02", "ses-01")])),
        ..seen(&dag, &rows)
    };
    one(&elsewhere, Level::Warning, "1 row(s) of sessions");
    let unknown = Seen {
        sessions: None,
        ..seen(&dag, &rows)
    };
    assert_eq!(judge(&unknown).len(), 1);
    // A row of subject scope belongs to the subject.
    let mut subject = complete("bids");
    subject.key.session = "".into();
    assert_eq!(judge(&seen(&dag, &[subject])).len(), 1);
}

#[test]
fn a_procedure_that_never_completes_is_told() {
    let dag = dag(&["bids"]);
    let attempts = [without_output("bids"), without_output("bids")];
    let rows = [without_output("bids")];
    let never = Seen {
        attempts: &attempts,
        ..seen(&dag, &rows)
    };
    one(&never, Level::Warning, "3 jobs ended well");
    assert_eq!(judge(&seen(&dag, &rows)).len(), 1, "one alone says nothing");
    let good = [complete("bids")];
    let some = Seen {
        attempts: &attempts,
        ..seen(&dag, &good)
    };
    assert_eq!(judge(&some).len(), 1);
}
