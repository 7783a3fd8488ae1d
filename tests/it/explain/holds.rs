//! What keeps a task back: limits, pauses, gates, sessions that lack something, safety stops.

use super::*;

#[test]
fn what_holds_a_due_task_back() {
    let (study, _slurm) = study(&format!("max_in_flight: 1\n{PIPELINE}"));
    study.ok(&["run", "-q"]);
    insta::assert_snapshot!("explain_limit", explain(&study, &["01", "02", "bids"]));
    study.ok(&[
        "pause",
        "-q",
        "--procedure",
        "bids",
        "--note",
        "disk is full",
    ]);
    let text = explain(&study, &["01", "02", "bids"]);
    let line = text.lines().find(|line| line.contains("held by")).unwrap();
    assert!(line.contains("the procedure is paused by"), "{text}");
    assert!(
        text.contains("to end the pause: snbb-scheduler resume --procedure bids"),
        "{text}"
    );
    study.ok(&["pause", "-q"]);
    let text = explain(&study, &["01", "02", "bids"]);
    assert!(
        text.contains("to end the pause: snbb-scheduler resume\n"),
        "{text}"
    );

    let (study, _slurm) = self::study(&format!("dicom_settle: 1h\n{PIPELINE}"));
    let text = explain(&study, &["01", "01", "bids"]);
    assert!(
        text.contains("to do    nothing; if no more files arrive, the first `run` after"),
        "{text}"
    );

    let (study, _slurm) = self::study(&format!(
        "dicom_gate: yes\naudit: {{dicom_min_files: 2}}\n{PIPELINE}"
    ));
    let text = explain(&study, &["01", "01", "bids"]);
    assert!(
        text.contains("copy the missing DICOM files to [study]/dicom/sub-01/ses-01"),
        "{text}"
    );
}

#[test]
fn what_a_session_lacks() {
    let (study, _slurm) = study(&format!("sessions_file: sessions.csv\n{PIPELINE}"));
    study.write("sessions.csv", "UID,ScanID,dicom_path\n1,1,\n");
    let text = explain(&study, &["0001", "000000000001", "bids"]);
    assert!(
        text.starts_with("bids sub-0001 ses-000000000001: no-dicom"),
        "{text}"
    );
    assert!(
        text.contains("fill in the session's dicom_path in [study]/sessions.csv"),
        "{text}"
    );

    let optional = "procedures: [{name: a, output_dir: a, script: job.sh, \
                    completion_marker: {glob: 'x/*', when: 'func/*'}}]\n";
    let (study, _slurm) = self::study(optional);
    study.write("bids/sub-01/ses-01/anat/x", "x");
    let text = explain(&study, &["01", "01", "a"]);
    assert!(
        text.starts_with("a sub-01 ses-01: not-applicable"),
        "{text}"
    );
    assert!(
        text.contains("not needed: x/*: nothing matches 'func/*' in"),
        "{text}"
    );
}

/// A table per subject of what the sessions have.
const TABLES: &str = "\
output_grace: 0s
procedures:
  - {name: scan, output_dir: scan, script: job.sh, completion_marker: done}
  - {name: table, output_dir: table, script: job.sh, scope: subject, depends_on: [scan], completion_marker: done}
";

#[test]
fn a_subject_that_is_left_alone() {
    let (study, _slurm) = study(&format!("exclude: [sub-01]\n{TABLES}"));
    insta::assert_snapshot!("explain_excluded", explain(&study, &["01", "01", "scan"]));
    let text = explain(&study, &["01", "table"]);
    assert!(text.starts_with("table sub-01: excluded"), "{text}");
    study.configure(&format!("include: [sub-01/ses-02]\n{TABLES}"));
    let text = explain(&study, &["01", "01", "scan"]);
    assert!(text.starts_with("scan sub-01 ses-01: excluded"), "{text}");
    assert!(
        text.contains("to do    nothing; to include it, change `include` or `exclude`"),
        "{text}"
    );
    let text = explain(&study, &["01", "02", "scan"]);
    assert!(text.starts_with("scan sub-01 ses-02: due"), "{text}");
}

#[test]
fn a_subject_that_has_too_few_sessions() {
    let rules = TABLES.replace("scope: subject", "scope: subject, min_sessions: 3");
    let (study, _slurm) = study(&rules);
    for session in ["ses-01", "ses-02"] {
        study.write(&format!("derivatives/scan/sub-01/{session}/done"), "");
    }
    insta::assert_snapshot!("explain_too_few", explain(&study, &["01", "table"]));
    study.scan(&["sub-01/ses-03"]);
    study.write("derivatives/scan/sub-01/ses-03/done", "");
    let text = explain(&study, &["01", "table"]);
    assert!(text.starts_with("table sub-01: due"), "{text}");
}

#[test]
fn a_complete_task_that_a_session_came_after() {
    let (study, slurm) = study(TABLES);
    let complete = |session: &str| {
        study.ok(&["run", "-q"]);
        study.write(&format!("derivatives/scan/sub-01/{session}/done"), "");
        slurm.set_all("COMPLETED");
        study.ok(&["monitor", "-q"]);
    };
    study.write("derivatives/scan/sub-01/ses-02/done", "");
    complete("ses-01");
    study.ok(&["run", "-q"]);
    study.write("derivatives/table/sub-01/done", "");
    slurm.set_all("COMPLETED");
    study.ok(&["monitor", "-q"]);
    let text = explain(&study, &["01", "table"]);
    assert!(text.starts_with("table sub-01: complete\n"), "{text}");
    assert!(!study.ok(&["status"]).err.contains("stale"));

    study.scan(&["sub-01/ses-03"]);
    complete("ses-03");
    let (text, json) = explain_with(&study, &["01", "table"], 0);
    assert_eq!(json[0]["decision"], "complete");
    assert_eq!(json[0]["next"], Value::Null);
    let at = text.find("  record ").unwrap();
    insta::assert_snapshot!("explain_stale", &text[..at]);
    // The rows alone tell it, too.
    let said = study.ok(&["status"]);
    assert!(
        said.err.contains(
            "note: complete but possibly stale: table sub-01: new sessions arrived after it ran"
        ),
        "{}",
        said.err
    );
    // `status` does not look whether the session is still there, and says so.
    let (there, away) = (study.at("dicom/sub-01/ses-03"), study.at("away"));
    std::fs::rename(&there, &away).unwrap();
    let said = study.ok(&["status"]);
    assert!(said.err.contains("checks the data"), "{}", said.err);
    assert!(!study.ok(&["session-status"]).out.contains("stale"));
    std::fs::rename(&away, &there).unwrap();
    let said = study.ok(&["status", "--procedure", "scan"]);
    assert!(!said.err.contains("stale"), "{}", said.err);
    study.configure(&format!("exclude: [sub-01/ses-03]\n{TABLES}"));
    assert!(!study.ok(&["status"]).err.contains("stale"));
    let rerun = TABLES.replace("scope: subject", "scope: subject, rerun_when_stale: yes");
    study.configure(&rerun);
    let text = explain(&study, &["01", "table"]);
    assert!(
        text.contains("due: complete, but new sessions arrived after it ran"),
        "{text}"
    );
}

/// Ten sessions whose scans are complete, by jobs of ours.
fn ten() -> Study {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(TABLES);
    study.script("job.sh", "true");
    let sessions = (0..10).map(|n| format!("sub-{n:02}/ses-01"));
    sessions.clone().for_each(|session| study.scan(&[&session]));
    study.ok(&["run", "-q"]);
    sessions.for_each(|session| study.write(&format!("derivatives/scan/{session}/done"), ""));
    slurm.set_all("COMPLETED");
    study.ok(&["run", "-q", "--procedure", "scan"]);
    study
}

fn is_stopped(study: &Study, words: &[&str], why: &str) {
    let (text, json) = explain_with(study, words, 0);
    assert!(
        text.contains("`run` would submit nothing (safety stop)"),
        "{text}"
    );
    assert!(text.contains("hint: "), "{text}");
    let held: Vec<&str> = json[0]["held_by"]
        .as_array()
        .unwrap()
        .iter()
        .map(|held| held.as_str().unwrap())
        .collect();
    assert!(
        held.iter()
            .any(|held| held.starts_with("safety stop: ") && held.contains(why)),
        "{held:?}"
    );
    assert!(
        text.contains("to do    resolve the safety stop: "),
        "{text}"
    );
}

#[test]
fn a_safety_stop_holds_everything_back() {
    let study = ten();
    let text = explain(&study, &["09", "table"]);
    assert!(
        text.contains("the next `snbb-scheduler run` will submit it"),
        "{text}"
    );
    assert!(!text.contains("safety"), "{text}");

    let full = format!("safety: {{min_free: 900000T}}\n{TABLES}");
    study.configure(&full);
    is_stopped(&study, &["09", "table"], "no space for state_file");
    study.configure(TABLES);

    // Lost outputs of others are seen by those who look at the whole study: the last run, ...
    for n in 0..7 {
        std::fs::remove_dir_all(study.at(&format!("derivatives/scan/sub-{n:02}"))).unwrap();
    }
    assert!(!explain(&study, &["09", "table"]).contains("safety"));
    assert_eq!(study.call(&["run", "-q"]).code, 6);
    is_stopped(
        &study,
        &["09", "table"],
        "in the last run, too many complete tasks of scan had lost their outputs",
    );
    // ... or this command, where limits make it look at all tasks.
    study.configure(&format!("max_in_flight: 50\n{TABLES}"));
    is_stopped(
        &study,
        &["09", "table"],
        "7 of 10 complete tasks of scan have lost their outputs",
    );
    // What a complete task is needs nothing to end.
    let text = explain(&study, &["09", "01", "scan"]);
    assert!(text.contains("nothing; its outputs are complete"), "{text}");

    for n in 0..7 {
        std::fs::remove_dir_all(study.at(&format!("dicom/sub-{n:02}"))).unwrap();
    }
    is_stopped(
        &study,
        &["09", "table"],
        "there are 3 sessions, but there were 10",
    );
}
