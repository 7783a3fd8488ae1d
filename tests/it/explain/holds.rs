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
    // `held_by` names the user.
    let todo_of_a_pause = || {
        let (_, json) = explain_with(&study, &["01", "02", "bids"], 0);
        assert_eq!(json[0]["decision"], "paused");
        json[0]["todo"].as_str().unwrap().to_owned()
    };
    let of_the_procedure = todo_of_a_pause();
    study.ok(&["pause", "-q"]);
    let todo = [of_the_procedure, todo_of_a_pause()];
    insta::assert_snapshot!("explain_paused", todo.join("\n"));

    let (study, _slurm) = self::study(&format!("dicom_settle: 1h\n{PIPELINE}"));
    insta::assert_snapshot!("explain_settling", answer(&study, &["01", "01", "bids"]));

    let (study, _slurm) = self::study(&format!(
        "dicom_gate: yes\naudit: {{dicom_min_files: 2}}\n{PIPELINE}"
    ));
    insta::assert_snapshot!("explain_few_dicom", answer(&study, &["01", "01", "bids"]));
}

#[test]
fn what_a_session_lacks() {
    let (study, _slurm) = study(&format!("sessions_file: sessions.csv\n{PIPELINE}"));
    study.write("sessions.csv", "UID,ScanID,dicom_path\n1,1,\n");
    let text = answer(&study, &["0001", "000000000001", "bids"]);
    insta::assert_snapshot!("explain_no_dicom", text);

    let optional = "procedures: [{name: a, output_dir: a, script: job.sh, \
                    completion_marker: {glob: 'x/*', when: 'func/*'}}]\n";
    let (study, _slurm) = self::study(optional);
    study.write("bids/sub-01/ses-01/anat/x", "x");
    insta::assert_snapshot!(
        "explain_not_applicable",
        explain(&study, &["01", "01", "a"])
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
    let text = answer(&study, &["01", "01", "scan"]);
    insta::assert_snapshot!("explain_not_included", text);
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
    let stale = |arguments: &[&str]| messages(&study, &study.ok(arguments));
    assert_eq!(stale(&["status"]), "");

    study.scan(&["sub-01/ses-03"]);
    complete("ses-03");
    let (text, json) = explain_with(&study, &["01", "table"], 0);
    assert_eq!(json[0]["decision"], "complete");
    assert_eq!(json[0]["next"], Value::Null);
    let at = text.find("  record ").unwrap();
    insta::assert_snapshot!("explain_stale", &text[..at]);
    // The rows alone tell it, too.
    insta::assert_snapshot!("status_stale", stale(&["status"]));
    // `status` does not look whether the session is still there, and says so.
    let (there, away) = (study.at("dicom/sub-01/ses-03"), study.at("away"));
    std::fs::rename(&there, &away).unwrap();
    insta::assert_snapshot!("status_stale", stale(&["status"]));
    assert!(!study.ok(&["session-status"]).out.contains("stale"));
    std::fs::rename(&away, &there).unwrap();
    assert_eq!(stale(&["status", "--procedure", "scan"]), "");
    study.configure(&format!("exclude: [sub-01/ses-03]\n{TABLES}"));
    assert_eq!(stale(&["status"]), "");
    let rerun = TABLES.replace("scope: subject", "scope: subject, rerun_when_stale: yes");
    study.configure(&rerun);
    insta::assert_snapshot!("explain_rerun", answer(&study, &["01", "table"]));
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

/// Sees that a safety stop holds the task, and returns the answer.
fn stopped(study: &Study, words: &[&str]) -> String {
    let (text, json) = explain_with(study, words, 0);
    let held = json[0]["held_by"].as_array().unwrap();
    let is_stop = |held: &Value| held.as_str().unwrap().starts_with("safety stop: ");
    assert!(held.iter().any(is_stop), "{held:?}");
    answer_of(&text)
}

#[test]
fn a_safety_stop_holds_everything_back() {
    let study = ten();
    let is_due = || {
        let (_, json) = explain_with(&study, &["09", "table"], 0);
        assert_eq!(
            (&json[0]["decision"], &json[0]["held_by"]),
            (&"due".into(), &Value::Array(vec![]))
        );
    };
    is_due();

    let full = format!("safety: {{min_free: 900000T}}\n{TABLES}");
    study.configure(&full);
    // It names the free space.
    let text = stopped(&study, &["09", "table"]);
    assert!(text.contains("state_file"), "{text}");
    study.configure(TABLES);

    // Lost outputs of others are seen by those who look at the whole study: the last run, ...
    for n in 0..7 {
        std::fs::remove_dir_all(study.at(&format!("derivatives/scan/sub-{n:02}"))).unwrap();
    }
    is_due();
    assert_eq!(study.call(&["run", "-q"]).code, 6);
    let text = stopped(&study, &["09", "table"]);
    insta::assert_snapshot!("explain_stopped_in_the_last_run", text);
    // ... or this command, where limits make it look at all tasks.
    study.configure(&format!("max_in_flight: 50\n{TABLES}"));
    let text = stopped(&study, &["09", "table"]);
    insta::assert_snapshot!("explain_stopped_outputs", text);
    // What a complete task is needs nothing to end.
    insta::assert_snapshot!(
        "explain_stopped_and_complete",
        answer(&study, &["09", "01", "scan"])
    );

    for n in 0..7 {
        std::fs::remove_dir_all(study.at(&format!("dicom/sub-{n:02}"))).unwrap();
    }
    let text = stopped(&study, &["09", "table"]);
    insta::assert_snapshot!("explain_stopped_sessions", text);
}
