//! The state file is gone: everybody who looks says so, until it is repaired.

use super::*;

const MISSING: &str = "is missing although its backup exists";
const ANEW: &str = "the state was started anew on ";

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
        assert!(said.err.contains(MISSING), "{command:?}: {}", said.err);
        assert!(
            said.err.contains("`snbb-scheduler state repair`"),
            "{}",
            said.err
        );
    }
    assert!(study.call(&["-q", "run"]).err.contains(MISSING));
    for command in [
        &["status"][..],
        &["run"],
        &["run"],
        &["monitor"],
        &["-q", "run"],
    ] {
        let said = study.call(command);
        assert!(said.err.contains(ANEW), "{command:?}: {}", said.err);
        assert!(!said.err.contains(MISSING), "{command:?}: {}", said.err);
    }
    assert_eq!(study.ok(&["-q", "run"]).err, "", "once a day");
    let said = study.call(&["wait", "--timeout", "0s"]);
    assert_eq!(said.err.matches(ANEW).count(), 1, "{}", said.err);
    study.ok(&["state", "repair", "--yes"]);
    for command in [&["status"][..], &["run"]] {
        let said = study.call(command);
        assert!(!said.err.contains(ANEW), "{command:?}: {}", said.err);
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
    assert!(
        said.err
            .contains("is missing although an audit log with its jobs exists"),
        "{}",
        said.err
    );
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
    let said = study.ok(&["status"]);
    assert!(!said.err.contains("is missing"), "{}", said.err);
}

#[test]
fn a_study_that_begins_has_lost_nothing() {
    let mut study = Study::new();
    let _slurm = FakeSlurm::new(&mut study);
    study.configure(PIPELINE);
    study.script("convert.sh", "true");
    study.script("prep.sh", "true");
    study.scan(&["sub-01/ses-01"]);
    assert!(!study.ok(&["status"]).err.contains("is missing"));
    assert!(study.ok(&["run"]).err.contains("starting a new one"));
    for command in ["run", "status"] {
        let said = study.ok(&[command]);
        assert!(
            !said.err.contains(ANEW) && !said.err.contains("is missing"),
            "{}",
            said.err
        );
    }
}
