//! Whole passes through the program, with a Slurm of shell scripts: what is submitted, what is
//! recorded, what is said, and with which exit code.

#![expect(
    clippy::disallowed_methods,
    reason = "sets the age of files, and copies jobs"
)]

mod complete;
mod identity;
mod living;
mod renamed;
mod retry;
mod switched;
mod wrong;

use std::fs;

use snbb_scheduler::model::state::Reason;
use snbb_scheduler::store::state_file::Store;

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;
use crate::pretty::{messages, pretty};

/// Two session-scoped steps and a subject-scoped one.
const PIPELINE: &str = "\
slurm_partition: normal
procedures:
  - name: convert
    output_dir: ''
    script: convert.sh
    completion_marker: anat/*_T1w.nii.gz
  - name: prep
    output_dir: prep
    script: prep.sh
    depends_on: [convert]
    completion_marker: ['*.html']
    mem: 4G
    time: '2:00:00'
  - name: group
    output_dir: group
    script: group.sh
    scope: subject
    depends_on: [prep]
    completion_marker: done
";

fn study() -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(PIPELINE);
    for script in ["convert.sh", "prep.sh", "group.sh"] {
        study.script(script, "true");
    }
    study.scan(&["sub-01/ses-01", "sub-01/ses-02", "sub-02/ses-01"]);
    (study, slurm)
}

fn convert(study: &Study, subject: &str, session: &str) {
    study.write(
        &format!("bids/{subject}/{session}/anat/{subject}_{session}_T1w.nii.gz"),
        "x",
    );
}

#[test]
fn tasks_are_submitted_once_and_followed_to_their_end() {
    let (study, slurm) = study();
    let first = study.ok(&["run"]);
    let counts = ["complete", "due", "submitted"].map(|word| first.count(word));
    assert_eq!(counts, [0, 3, 3], "{}", first.err);
    assert_eq!(slurm.calls("sbatch"), 3);
    study.ok(&["run"]);
    assert_eq!(
        slurm.calls("sbatch"),
        3,
        "what is in flight is not submitted again"
    );
    assert_eq!(
        study.statuses(),
        [
            "convert sub-01 ses-01: pending queued",
            "convert sub-01 ses-02: pending queued",
            "convert sub-02 ses-01: pending queued",
        ]
    );

    let jobs = slurm.jobs();
    slurm.set(&jobs[0].0, "COMPLETED");
    convert(&study, "sub-01", "ses-01");
    slurm.set(&jobs[1].0, "FAILED 3:0");
    slurm.set(&jobs[2].0, "RUNNING");
    study.ok(&["monitor"]);
    assert_eq!(
        study.statuses(),
        [
            "convert sub-01 ses-01: complete verified",
            "convert sub-01 ses-02: failed exit_code",
            "convert sub-02 ses-01: running running",
        ]
    );
    assert_eq!(slurm.calls("sbatch"), 3, "monitor never submits");

    let run = study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 4, "{}", run.err);
    assert_eq!(slurm.jobs()[3].1, "prep_sub-01_ses-01");
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 4, "a failed task waits for retry");

    study.ok(&["retry", "--subject", "01"]);
    study.ok(&["run"]);
    assert_eq!(slurm.jobs()[4].1, "convert_sub-01_ses-02");
    let rows = study.rows();
    let again = rows
        .iter()
        .find(|row| row["procedure"] == "convert" && row["session"] == "ses-02")
        .unwrap();
    assert_eq!(again["attempt"], 2);
}

#[test]
fn sbatch_gets_the_flags_in_their_order_and_the_script_its_variables() {
    let (study, slurm) = study();
    convert(&study, "sub-02", "ses-01");
    study.ok(&[
        "run",
        "--subject",
        "sub-02",
        "--slurm-mem",
        "8G",
        "--slurm-cpus",
        "2",
    ]);
    let dir = study.dir.path().display().to_string();
    let argv = slurm.argv().replace(&dir, "DIR");
    let comment = argv
        .split("--comment=")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    assert!(
        comment.starts_with("snbb:") && comment.len() == "snbb:12345678:0123456789abcdef".len(),
        "{comment}"
    );
    assert_eq!(
        argv.replace(comment, "TAG"),
        "--parsable --comment=TAG --export=ALL --partition=normal --account=snbb \
         --mem=8G --cpus-per-task=2 --time=2:00:00 --job-name=prep_sub-02_ses-01 \
         --output=DIR/logs/prep/prep_sub-02_ses-01_%j.out \
         --error=DIR/logs/prep/prep_sub-02_ses-01_%j.err \
         DIR/prep.sh sub-02 ses-01 DIR/dicom/sub-02/ses-01 \n"
    );
    let env = std::fs::read_to_string(slurm.at("env.1"))
        .unwrap()
        .replace(&dir, "DIR");
    for line in [
        "SNBB_SUBJECT=sub-02",
        "SNBB_SESSION=ses-01",
        "SNBB_PROCEDURE=prep",
        "SNBB_ATTEMPT=1",
        "SNBB_LAST_REASON=",
        "SNBB_DICOM_PATH=DIR/dicom/sub-02/ses-01",
        "SNBB_BIDS_ROOT=DIR/bids",
        "SNBB_DERIVATIVES_ROOT=DIR/derivatives",
        "SNBB_OUTPUT_DIR=DIR/derivatives/prep/sub-02/ses-01",
    ] {
        assert!(env.lines().any(|found| found == line), "{line}\n{env}");
    }
}

#[test]
fn a_subject_waits_for_all_its_sessions() {
    let (study, slurm) = study();
    for (subject, session) in [
        ("sub-01", "ses-01"),
        ("sub-01", "ses-02"),
        ("sub-02", "ses-01"),
    ] {
        convert(&study, subject, session);
    }
    study.write("derivatives/prep/sub-01/ses-01/r.html", "x");
    study.write("derivatives/prep/sub-02/ses-01/r.html", "x");
    study.ok(&["run"]);
    let names: Vec<String> = slurm.jobs().into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["prep_sub-01_ses-02", "group_sub-02"]);
    assert!(
        slurm
            .argv()
            .lines()
            .nth(1)
            .unwrap()
            .trim_end()
            .ends_with("group.sh sub-02")
    );
}

#[test]
fn one_refused_submission_loses_nothing_and_stops_only_its_procedure() {
    let (study, slurm) = study();
    convert(&study, "sub-02", "ses-01");
    let why = "Invalid qos specification";
    slurm.refuse(
        1,
        &format!("sbatch: error: Batch job submission failed: {why}\n"),
    );
    let said = study.call(&["run"]);
    assert_eq!(said.code, 3, "{}", said.err);
    insta::assert_snapshot!(messages(&study, &said));
    assert_eq!(
        slurm.calls("sbatch"),
        2,
        "the second convert task is not tried, prep is"
    );
    assert_eq!(study.statuses(), ["prep sub-02 ses-01: pending queued"]);
    study.ok(&["run"]);
    assert_eq!(study.statuses().len(), 3);
    let errors = study.events("error");
    assert!(
        errors.iter().any(|event| event.to_string().contains(why)),
        "{errors:?}"
    );
}

#[test]
fn a_limit_of_the_site_is_no_error_and_the_rest_comes_later() {
    let (study, slurm) = study();
    slurm.refuse(
        2,
        "sbatch: error: AssocMaxSubmitJobLimit\nsbatch: error: Batch job submission failed: \
         Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)\n",
    );
    let said = study.ok(&["run"]);
    insta::assert_snapshot!(pretty(&study, &said.err));
    assert_eq!(study.statuses().len(), 1);
    study.ok(&["run"]);
    assert_eq!(study.statuses().len(), 3);
}

#[test]
fn a_submission_in_doubt_is_found_again_and_never_doubled() {
    // The queue no longer shows a job that has ended meanwhile.
    for state in ["PENDING", "FAILED 1:0"] {
        let (study, slurm) = study();
        slurm.silent(2);
        let said = study.ok(&["run"]);
        insta::assert_snapshot!("a_submission_in_doubt", messages(&study, &said));
        let task = "convert sub-01 ses-02";
        assert_eq!(study.status(task), "pending submitting");
        slurm.set("1002", state);
        study.ok(&["run"]);
        assert_eq!(slurm.calls("sbatch"), 3);
        assert_eq!(study.status(task), "pending queued", "{state}");
        assert_eq!(study.events("adopted").len(), 1);
    }
}

#[test]
fn a_deleted_state_does_not_double_jobs() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    for file in ["state.parquet", "state.parquet.bak"] {
        let _ = std::fs::remove_file(study.at(file));
    }
    let said = study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 3, "{}", said.err);
    assert_eq!(study.events("adopted").len(), 3);
    assert_eq!(study.statuses().len(), 3);
}

#[test]
fn d17_a_dry_run_is_a_table_for_people_and_rows_for_scripts() {
    let (study, slurm) = study();
    let said = study.ok(&["run", "--dry-run"]);
    let lines: Vec<Vec<&str>> = said
        .out
        .lines()
        .map(|l| l.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0].join(" "),
        "procedure tasks jobs resources sessions or subjects"
    );
    assert_eq!(lines[1][..3], ["convert", "3", "3"], "{}", said.out);
    assert!(
        said.out.lines().all(|line| line.len() < 120),
        "{}",
        said.out
    );
    let exact = study.ok(&["run", "--dry-run", "-v"]).out;
    let json = study.ok(&["run", "--dry-run", "--format", "json"]).out;
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).unwrap();
    assert_eq!(rows.len(), exact.lines().count());
    for (row, line) in rows.iter().zip(exact.lines()) {
        let mark = |text: &str| text.split(" --job-name").nth(1).unwrap().to_owned();
        assert_eq!(mark(row["command"].as_str().unwrap()), mark(line));
        assert!(line.contains(row["job_name"].as_str().unwrap()), "{row}");
    }
    assert_eq!(study.call(&["run", "--format", "json"]).code, 2);
    assert_eq!(slurm.calls("sbatch"), 0);
}

#[test]
fn a_dry_run_prints_what_would_be_submitted_and_changes_nothing() {
    let (study, slurm) = study();
    let before = study.snapshot();
    let said = study.ok(&["run", "--dry-run", "-v"]);
    assert_eq!(said.out.lines().count(), 3, "{}", said.out);
    for line in said.out.lines() {
        let words = shell_words::split(line).unwrap();
        assert!(
            words[0].ends_with("/sbatch") && words[1] == "--parsable",
            "{line}"
        );
        assert!(words[2].starts_with("--comment=snbb:"), "{line}");
    }
    assert_eq!(slurm.calls("sbatch"), 0);
    // The fake cluster itself keeps count of the questions.
    let ours = |files: Vec<(std::path::PathBuf, Vec<u8>)>| -> Vec<_> {
        files
            .into_iter()
            .filter(|(path, _)| !path.starts_with(study.at("fake-slurm")))
            .collect()
    };
    assert_eq!(ours(before), ours(study.snapshot()));

    study.ok(&["run"]);
    slurm.set_all("FAILED 1:0");
    let before = ours(study.snapshot());
    let said = study.ok(&["run", "--dry-run"]);
    assert!(
        said.err.contains("failed (exit_code)"),
        "reconciled in memory: {}",
        said.err
    );
    assert_eq!(before, ours(study.snapshot()));
}

#[test]
fn force_and_limits() {
    let (study, slurm) = study();
    for (subject, session) in [
        ("sub-01", "ses-01"),
        ("sub-01", "ses-02"),
        ("sub-02", "ses-01"),
    ] {
        convert(&study, subject, session);
        let old = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_700_000_000);
        let path = format!("bids/{subject}/{session}/anat/{subject}_{session}_T1w.nii.gz");
        std::fs::File::options()
            .append(true)
            .open(study.at(&path))
            .unwrap()
            .set_modified(old)
            .unwrap();
    }
    assert_eq!(study.call(&["run", "--force"]).code, 2);
    let said = study.ok(&[
        "run",
        "--force",
        "--procedure",
        "convert",
        "--subject",
        "01",
        "--max-jobs",
        "1",
    ]);
    assert!(said.err.contains("--max-jobs"), "{}", said.err);
    assert_eq!(slurm.jobs().len(), 1);
    assert_eq!(slurm.jobs()[0].1, "convert_sub-01_ses-01");
    study.configure(&format!("max_in_flight: 2\n{PIPELINE}"));
    study.ok(&["run"]);
    assert_eq!(slurm.jobs().len(), 2);
    assert_eq!(
        slurm.jobs()[1].1,
        "prep_sub-01_ses-02",
        "prep of ses-01 waits for its forced input"
    );
    slurm.set("1001", "COMPLETED");
    study.ok(&["monitor"]);
    assert_eq!(study.status("convert sub-01 ses-01"), "complete verified");

    // If nobody saw the end of a forced job, the earlier outputs prove nothing.
    study.configure(&format!("lost_grace: 0s\n{PIPELINE}"));
    study.ok(&[
        "run",
        "--force",
        "--procedure",
        "convert",
        "--subject",
        "02",
    ]);
    let (job, name) = slurm.jobs().pop().unwrap();
    assert_eq!(name, "convert_sub-02_ses-01");
    slurm.set(&job, "GONE");
    study.ok(&["monitor"]);
    study.ok(&["monitor"]);
    assert_eq!(study.status("convert sub-02 ses-01"), "failed lost");
}

#[test]
fn the_first_run_makes_the_state_even_if_nothing_is_due() {
    let mut study = Study::new();
    FakeSlurm::new(&mut study);
    study.configure(PIPELINE);
    study.ok(&["run"]);
    assert!(!study.read_bytes("state.parquet").is_empty());
    assert!(study.rows().is_empty());
}

#[test]
fn sessions_whose_data_still_arrives_or_is_too_small_are_held_back() {
    let (study, slurm) = study();
    let old = std::time::SystemTime::now() - std::time::Duration::from_secs(7200);
    for session in ["sub-01/ses-01", "sub-02/ses-01"] {
        let path = study.at(&format!("dicom/{session}/0001.dcm"));
        std::fs::File::options()
            .append(true)
            .open(path)
            .unwrap()
            .set_modified(old)
            .unwrap();
    }
    study.write("dicom/sub-02/ses-01/0002.dcm", "x");
    let path = study.at("dicom/sub-02/ses-01/0002.dcm");
    std::fs::File::options()
        .append(true)
        .open(path)
        .unwrap()
        .set_modified(old)
        .unwrap();
    study.configure(&format!("dicom_settle: 1h\n{PIPELINE}"));
    let said = study.ok(&["run", "--dry-run", "-v"]);
    assert_eq!(said.out.lines().count(), 2);
    let of_convert = || {
        let mut decisions = study.decisions();
        decisions.retain(|task| task.starts_with("convert "));
        decisions
    };
    assert_eq!(
        of_convert(),
        [
            "convert sub-01 ses-01: due",
            "convert sub-01 ses-02: settling",
            "convert sub-02 ses-01: due",
        ]
    );
    study.configure(&format!(
        "dicom_settle: 1h\ndicom_gate: yes\naudit: {{dicom_min_files: 2}}\n{PIPELINE}"
    ));
    study.ok(&["run"]);
    assert_eq!(
        of_convert(),
        [
            "convert sub-01 ses-01: few-dicom",
            "convert sub-01 ses-02: few-dicom",
            "convert sub-02 ses-01: pending",
        ]
    );
    assert_eq!(slurm.jobs().len(), 1);
    assert_eq!(slurm.jobs()[0].1, "convert_sub-02_ses-01");

    // A subject goes on without the session that is too small.
    convert(&study, "sub-02", "ses-01");
    study.write("derivatives/prep/sub-02/ses-01/r.html", "x");
    study.scan(&["sub-02/ses-09"]);
    slurm.set_all("COMPLETED");
    study.ok(&["monitor"]);
    study.ok(&["run"]);
    assert_eq!(slurm.jobs()[1].1, "group_sub-02");
}
