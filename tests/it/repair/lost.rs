//! The state file is gone: everybody who looks says so, until it is repaired.

use super::*;
use crate::harness::Said;

/// The warnings of a call, and what they advise.
fn warnings(study: &Study, said: &Said) -> String {
    let text = messages(study, said);
    let lines = text.lines().filter(|line| !line.starts_with("note: "));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_lost_state_file_is_told_by_all_until_it_is_repaired() {
    let (study, _slurm) = eventful();
    let before = study.statuses();
    fs::remove_file(study.at("state.parquet")).unwrap();
    for command in [
        &["status"][..],
        &["explain", "01", "01", "prep"],
        &["history", "01", "01", "prep"],
        &["manifest"],
        &["run", "--dry-run"],
    ] {
        let said = study.call(command);
        insta::assert_snapshot!("a_lost_state", warnings(&study, &said));
    }
    let said = study.call(&["-q", "run"]);
    insta::assert_snapshot!("a_lost_state", warnings(&study, &said));
    for command in [
        &["status"][..],
        &["run"],
        &["run"],
        &["monitor"],
        &["-q", "run"],
    ] {
        let said = study.call(command);
        insta::assert_snapshot!("a_state_begun_anew", warnings(&study, &said));
    }
    assert_eq!(study.ok(&["-q", "run"]).err, "", "once a day");
    let said = study.call(&["wait", "--timeout", "0s"]);
    insta::assert_snapshot!("waiting_with_a_state_begun_anew", warnings(&study, &said));
    study.ok(&["state", "repair", "--yes"]);
    for command in [&["status"][..], &["run"]] {
        assert_eq!(warnings(&study, &study.call(command)), "", "{command:?}");
    }
    assert_eq!(study.statuses().len(), before.len());
}

/// With nothing but the log, too; and a log of another study's jobs is no trace of this one.
#[test]
fn an_audit_log_with_jobs_of_the_study_is_a_trace() {
    let (study, _slurm) = eventful();
    for name in FILES {
        let _ = fs::remove_file(study.at(name));
    }
    let said = study.ok(&["status"]);
    insta::assert_snapshot!(warnings(&study, &said));
    let log = study.read("scheduler_audit.jsonl");
    let mark = log.split("--comment=snbb:").nth(1).unwrap();
    let project = mark.split(':').next().unwrap();
    let other = log
        .replace(&format!("snbb:{project}:"), "snbb:0badf00d:")
        .replace(
            &format!(r#""project": "{project}""#),
            r#""project": "0badf00d""#,
        );
    assert_ne!(other, log);
    study.write("scheduler_audit.jsonl", &other);
    assert_eq!(warnings(&study, &study.ok(&["status"])), "");
}

#[test]
fn a_study_that_begins_has_lost_nothing() {
    let mut study = Study::new();
    let _slurm = FakeSlurm::new(&mut study);
    study.configure(PIPELINE);
    study.script("convert.sh", "true");
    study.script("prep.sh", "true");
    study.scan(&["sub-01/ses-01"]);
    for command in ["status", "run", "run", "status"] {
        assert_eq!(warnings(&study, &study.ok(&[command])), "", "{command}");
    }
}
