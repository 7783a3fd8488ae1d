//! Rows that nothing in the data or the configuration stands behind any more, and jobs that nobody can ask about.

use std::fs;

use super::{PIPELINE, answer, answer_of, complete_bids, explain, explain_with, study};
use crate::pretty::messages;

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
    insta::assert_snapshot!("explain_gone_session", text);
    // All of the subject: what there is, and what was.
    insta::assert_snapshot!("explain_gone_among_others", explain(&study, &["01"]));
    // The living job of a session that is gone.
    fs::rename(
        study.at("dicom/sub-01/ses-02"),
        study.at("dicom/sub-01/ses-08"),
    )
    .unwrap();
    let (text, json) = explain_with(&study, &["01", "02", "bids"], 0);
    assert_eq!(json[0]["job"]["job_id"], "1002");
    insta::assert_snapshot!("explain_gone_and_alive", answer_of(&text));

    fs::rename(study.at("dicom/sub-01"), study.at("dicom/sub-02")).unwrap();
    let text = answer(&study, &["01", "01", "bids"]);
    insta::assert_snapshot!("explain_gone_subject", text);
    // No row: neither task nor anything to tell.
    let said = study.call(&["explain", "01", "01", "table"]);
    assert_eq!(said.code, 2, "{}", said.out);
    insta::assert_snapshot!("explain_gone_without_a_row", messages(&study, &said));

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
    insta::assert_snapshot!("explain_gone_procedure", text);
    for command in ["outputs", "manifest", "session-status", "run"] {
        let said = study.call(&[command, "--procedure", "bids"]);
        assert_eq!(said.code, 2, "{command}: {}", said.err);
    }
    let said = study.call(&["outputs", "--procedure", "never"]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!("outputs_of_no_procedure", messages(&study, &said));
}

#[test]
fn a_procedure_that_works_per_subject_now() {
    let (study, _slurm) = study(PIPELINE);
    study.ok(&["run", "-q"]);
    study.configure(&PIPELINE.replace(
        "    output_dir: ''",
        "    scope: subject\n    output_dir: b",
    ));
    let text = answer(&study, &["01", "01", "bids"]);
    insta::assert_snapshot!("explain_gone_scope", text);
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
    assert_eq!(json[0]["job"], serde_json::Value::Null);
    insta::assert_snapshot!("explain_silent_queue", answer_of(&text));
    // What waits for it says no more.
    let (text, _) = explain_with(&study, &["01", "01", "prep"], 5);
    insta::assert_snapshot!("explain_silent_queue_and_waiting", answer_of(&text));
    slurm.heal("squeue");
    let (_, json) = explain_with(&study, &["01", "01", "bids"], 0);
    assert_eq!(json[0]["job"]["state"], "RUNNING");
}
