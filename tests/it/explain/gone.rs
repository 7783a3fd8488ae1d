//! Rows that nothing in the data or the configuration stands behind any more, and jobs that nobody can ask about.

use std::fs;

use super::{PIPELINE, complete_bids, explain, explain_with, study};

#[test]
fn a_row_whose_session_or_subject_was_renamed() {
    let (study, slurm) = study(PIPELINE);
    study.ok(&["run", "-q"]);
    slurm.set("1001", "FAILED 3:0");
    study.ok(&["monitor", "-q"]);
    fs::rename(
        study.at("dicom/sub-01/ses-01"),
        study.at("dicom/sub-01/ses-09"),
    )
    .unwrap();
    let (text, json) = explain_with(&study, &["01", "01", "bids"], 0);
    assert_eq!(json[0]["decision"], "gone");
    assert_eq!(json[0]["row"]["attempt"], 1);
    assert_eq!(json[0]["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(json.as_array().unwrap().len(), 1);
    for part in [
        "bids sub-01 ses-01: gone",
        "ses-01 is missing from the data (renamed or moved?), but the state has a row for it",
        "restore the directory's name",
        "failed (exit_code), attempt 1, job 1001",
        "incomplete; directory: [study]/bids/sub-01/ses-01",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    // All of the subject: what there is, and what was.
    let text = explain(&study, &["01"]);
    assert!(text.contains("bids sub-01 ses-09: due"), "{text}");
    assert!(
        text.contains("bids sub-01 ses-01: ses-01 is missing"),
        "{text}"
    );
    // The living job of a session that is gone.
    fs::rename(
        study.at("dicom/sub-01/ses-02"),
        study.at("dicom/sub-01/ses-08"),
    )
    .unwrap();
    let text = explain(&study, &["01", "02", "bids"]);
    assert!(
        text.contains("`run` will track its job until it ends"),
        "{text}"
    );
    assert!(text.contains("job 1002 is "), "{text}");

    fs::rename(study.at("dicom/sub-01"), study.at("dicom/sub-02")).unwrap();
    let text = explain(&study, &["01", "01", "bids"]);
    assert!(text.contains("sub-01 is missing from the data"), "{text}");
    // No row: neither task nor anything to tell.
    let said = study.call(&["explain", "01", "01", "table"]);
    assert_eq!(said.code, 2, "{}", said.out);
    assert!(
        said.err.contains("no subject sub-01 in the study"),
        "{}",
        said.err
    );

    fs::rename(study.at("dicom/sub-02"), study.at("dicom/sub-01")).unwrap();
    fs::rename(
        study.at("dicom/sub-01/ses-09"),
        study.at("dicom/sub-01/ses-01"),
    )
    .unwrap();
    let text = explain(&study, &["01", "01", "bids"]);
    assert!(text.starts_with("bids sub-01 ses-01: failed"), "{text}");
}

#[test]
fn a_row_whose_procedure_left_the_configuration() {
    let (study, _slurm) = study(PIPELINE);
    study.ok(&["run", "-q"]);
    study.configure(
        &PIPELINE
            .replace("bids\n    output_dir: ''", "convert\n    output_dir: ''")
            .replace("[bids]", "[convert]"),
    );
    let (text, json) = explain_with(&study, &["01", "01", "bids"], 0);
    assert_eq!(json[0]["decision"], "gone");
    assert!(
        text.contains("bids is not in the configuration, but the state has a row for it"),
        "{text}"
    );
    assert!(!text.contains("outputs"), "{text}");
    for command in ["outputs", "manifest", "session-status", "run"] {
        let said = study.call(&[command, "--procedure", "bids"]);
        assert_eq!(said.code, 2, "{command}: {}", said.err);
    }
}

#[test]
fn a_procedure_that_works_per_subject_now() {
    let (study, _slurm) = study(PIPELINE);
    study.ok(&["run", "-q"]);
    study.configure(&PIPELINE.replace(
        "    output_dir: ''",
        "    scope: subject\n    output_dir: b",
    ));
    let text = explain(&study, &["01", "01", "bids"]);
    assert!(
        text.contains("bids no longer has such a task (was its scope changed?)"),
        "{text}"
    );
}

#[test]
fn nothing_is_said_of_jobs_while_slurm_is_silent() {
    let (study, slurm) = study(PIPELINE);
    study.ok(&["run", "-q"]);
    slurm.set("1001", "RUNNING");
    study.ok(&["monitor", "-q"]);
    complete_bids(&study, "ses-02");
    slurm.break_program("squeue", "cannot reach the controller");
    let (text, json) = explain_with(&study, &["01", "01", "bids"], 5);
    assert!(
        text.contains(
            "why      in flight (job 1001, running), when last seen; Slurm is not responding"
        ),
        "{text}"
    );
    let todo = json[0]["todo"].as_str().unwrap();
    assert!(
        todo.starts_with("Slurm is not responding, so the job's state is unknown"),
        "{todo}"
    );
    // What waits for it says no more.
    let (text, _) = explain_with(&study, &["01", "01", "prep"], 5);
    assert!(!text.contains("its job is running"), "{text}");
    slurm.heal("squeue");
    let text = explain(&study, &["01", "01", "bids"]);
    assert!(
        text.contains("to do    nothing; its job is running"),
        "{text}"
    );
}
