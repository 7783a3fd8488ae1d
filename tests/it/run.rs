//! Whole passes through the program, with a Slurm of shell scripts: what is submitted, what is
//! recorded, what is said, and with which exit code.

#![expect(
    clippy::disallowed_methods,
    reason = "sets the age of files, and copies jobs"
)]

use std::fs;

use snbb_scheduler::state::Reason;
use snbb_scheduler::state::store::Store;

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;

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
    assert!(
        first
            .err
            .contains("3 sessions, 8 tasks: 0 complete, 3 due, 3 submitted"),
        "{}",
        first.err
    );
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
         --job-name=prep_sub-02_ses-01 --mem=8G --cpus-per-task=2 \
         --output=DIR/logs/prep/prep_sub-02_ses-01_%j.out \
         --error=DIR/logs/prep/prep_sub-02_ses-01_%j.err --time=2:00:00 \
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
    slurm.refuse(
        1,
        "sbatch: error: Batch job submission failed: Invalid qos specification\n",
    );
    let said = study.call(&["run"]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(
        said.err
            .contains("convert: refused: Invalid qos specification"),
        "{}",
        said.err
    );
    assert_eq!(
        slurm.calls("sbatch"),
        2,
        "the second convert task is not tried, prep is"
    );
    assert_eq!(study.statuses(), ["prep sub-02 ses-01: pending queued"]);
    study.ok(&["run"]);
    assert_eq!(study.statuses().len(), 3);
    let log = study.read("scheduler_audit.jsonl");
    assert!(
        log.lines()
            .any(|line| line.contains("\"event\":\"error\"") && line.contains("Invalid qos")),
        "{log}"
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
    assert!(
        said.err.contains("the rest waits for the next run"),
        "{}",
        said.err
    );
    assert_eq!(study.statuses().len(), 1);
    study.ok(&["run"]);
    assert_eq!(study.statuses().len(), 3);
}

#[test]
fn a_submission_in_doubt_is_found_again_and_never_doubled() {
    let (study, slurm) = study();
    slurm.silent(2);
    let said = study.ok(&["run"]);
    assert!(said.err.contains("nobody knows yet"), "{}", said.err);
    assert!(
        study
            .statuses()
            .contains(&"convert sub-01 ses-02: pending submitting".to_owned())
    );
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 3);
    assert!(
        study
            .statuses()
            .contains(&"convert sub-01 ses-02: pending queued".to_owned())
    );
    assert!(
        study
            .read("scheduler_audit.jsonl")
            .contains("\"event\":\"adopted\"")
    );
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
    assert_eq!(
        said.err.matches("adopted its living job").count(),
        3,
        "{}",
        said.err
    );
    assert_eq!(study.statuses().len(), 3);
}

#[test]
fn a_dry_run_prints_what_would_be_submitted_and_changes_nothing() {
    let (study, slurm) = study();
    let before = study.snapshot();
    let said = study.ok(&["run", "--dry-run"]);
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
fn without_an_answer_nothing_is_submitted_and_nothing_changes() {
    let (study, slurm) = study();
    study.ok(&["run", "--max-jobs", "1"]);
    let before = study.read_bytes("state.parquet");
    slurm.break_program(
        "squeue",
        "slurm_load_jobs error: Unable to contact slurm controller\n",
    );
    let said = study.call(&["run"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert!(
        said.err.contains("Unable to contact slurm controller"),
        "{}",
        said.err
    );
    assert_eq!(slurm.calls("sbatch"), 1);
    assert_eq!(study.call(&["monitor"]).code, 5);
    slurm.heal("squeue");
    slurm.break_program("sacct", "sacct: error: slurmdbd: Connection refused\n");
    slurm.set_all("COMPLETED");
    assert_eq!(study.call(&["monitor"]).code, 5);
    assert_eq!(
        before,
        study.read_bytes("state.parquet"),
        "no conclusion without accounting"
    );
    slurm.heal("sacct");
    study.ok(&["monitor"]);
    assert_eq!(
        study.statuses(),
        ["convert sub-01 ses-01: running awaiting_output"]
    );
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
    assert!(
        study
            .statuses()
            .contains(&"convert sub-01 ses-01: running awaiting_output".to_owned()),
        "the outputs of before prove nothing: {:?}",
        study.statuses()
    );
}

#[test]
fn the_first_run_makes_the_state_even_if_nothing_is_due() {
    let mut study = Study::new();
    FakeSlurm::new(&mut study);
    study.configure(PIPELINE);
    let said = study.ok(&["run"]);
    assert!(said.err.contains("0 sessions"), "{}", said.err);
    assert!(!study.read_bytes("state.parquet").is_empty());
    assert!(study.rows().is_empty());
}

#[test]
fn a_root_that_is_gone_stops_everything() {
    let (study, slurm) = study();
    convert(&study, "sub-01", "ses-01");
    study.ok(&["run"]);
    slurm.set_all("COMPLETED");
    for session in ["ses-01", "ses-02"] {
        convert(&study, "sub-01", session);
    }
    study.call(&["monitor"]);
    std::fs::rename(study.at("bids"), study.at("unmounted")).unwrap();
    std::fs::create_dir(study.at("bids")).unwrap();
    let calls = slurm.calls("sbatch");
    let said = study.call(&["run"]);
    assert_eq!(said.code, 6, "{}", said.err);
    assert!(said.err.contains("safety stop: bids_root"), "{}", said.err);
    assert_eq!(slurm.calls("sbatch"), calls);
}

/// What ended since the last look is kept as what it became, not as what it was.
#[test]
fn retry_of_rows_in_flight_learns_their_ends_first() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    slurm.set_all("FAILED 3:0");
    convert(&study, "sub-01", "ses-02");
    slurm.set("1002", "COMPLETED");
    let said = study.ok(&["retry", "--status", "all"]);
    assert!(said.err.contains("cleared 2 row(s)"), "{}", said.err);
    assert!(
        said.err
            .contains("1 of the selected tasks have become complete"),
        "{}",
        said.err
    );
    assert_eq!(
        study.statuses(),
        ["convert sub-01 ses-02: complete verified"]
    );
    let store = Store::at(&study.at("state.parquet")).unwrap();
    let attempts = store.read_attempts().unwrap();
    assert_eq!(attempts.len(), 2);
    for attempt in attempts {
        assert_eq!(attempt.reason, Some(Reason::ExitCode));
        assert_eq!(attempt.facts.exit_code.as_deref(), Some("3:0"));
    }
}

/// A root that is not mounted hides outputs; it does not make a job one that left none.
#[test]
fn retry_clears_no_ended_job_whose_outputs_cannot_be_read() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    slurm.set_all("COMPLETED");
    convert(&study, "sub-01", "ses-01");
    fs::rename(study.at("dicom"), study.at("unmounted")).unwrap();
    let said = study.call(&["retry", "--status", "all"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.err.contains(
            "convert sub-01 ses-01: its job has ended, its outputs cannot be read now, and it was not cleared"
        ),
        "{}",
        said.err
    );
    assert!(said.err.contains("cleared 0 row(s)"), "{}", said.err);
    fs::rename(study.at("unmounted"), study.at("dicom")).unwrap();
    let said = study.ok(&[
        "retry",
        "--status",
        "all",
        "--subject",
        "01",
        "--session",
        "01",
    ]);
    assert!(said.err.contains("cleared 0 row(s)"), "{}", said.err);
    assert!(
        study
            .statuses()
            .contains(&"convert sub-01 ses-01: complete verified".to_owned())
    );
}

/// A job whose script makes an array of it (`#SBATCH --array`) lives under the ids of its parts.
#[test]
fn retry_never_frees_a_task_while_a_part_of_its_job_lives() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    slurm.set_all("GONE");
    let job = fs::read(slurm.at("jobs/1001")).unwrap();
    fs::write(slurm.at("jobs/1001_3"), job).unwrap();
    slurm.set("1001_3", "RUNNING");
    let said = study.call(&["retry", "--status", "all"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.err
            .contains("convert sub-01 ses-01: job 1001 may be alive"),
        "{}",
        said.err
    );
    assert!(said.err.contains("cleared 2 row(s)"), "{}", said.err);
}

#[test]
fn retry_says_what_is_complete_on_disk_and_never_frees_a_living_job() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    let said = study.call(&["retry", "--status", "all"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("may be alive"), "{}", said.err);
    assert_eq!(study.statuses().len(), 3);

    slurm.set_all("TIMEOUT");
    study.ok(&["monitor"]);
    convert(&study, "sub-01", "ses-01");
    let before = study.read_bytes("state.parquet");
    let said = study.ok(&["retry", "--dry-run"]);
    assert!(
        said.err.contains("would clear 3") && said.err.contains("1 of the cleared"),
        "{}",
        said.err
    );
    assert_eq!(before, study.read_bytes("state.parquet"));
    let said = study.ok(&[
        "retry",
        "--reason",
        "timeout",
        "--accept-outputs",
        "--subject",
        "01",
    ]);
    assert!(said.err.contains("cleared 1"), "{}", said.err);
    assert_eq!(
        study.statuses(),
        [
            "convert sub-01 ses-01: complete verified",
            "convert sub-02 ses-01: failed timeout"
        ]
    );
    assert_eq!(
        study.ok(&["retry", "--reason", "lost"]).err.trim(),
        "no matching rows: nothing to clear"
    );
    assert_eq!(study.call(&["retry", "--procedure", "nope"]).code, 2);
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
    let said = study.ok(&["run", "--dry-run"]);
    assert!(
        said.err.contains("1  DICOM files still arrive"),
        "{}",
        said.err
    );
    assert_eq!(said.out.lines().count(), 2);
    study.configure(&format!(
        "dicom_settle: 1h\ndicom_gate: yes\naudit: {{dicom_min_files: 2}}\n{PIPELINE}"
    ));
    let said = study.ok(&["run"]);
    assert!(said.err.contains("2  too few DICOM files"), "{}", said.err);
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

#[test]
fn cancel_ends_what_is_selected_and_rows_follow_once_it_is_confirmed() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    let said = study.call(&["cancel"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(
        said.err.contains("cancel needs a selection"),
        "{}",
        said.err
    );
    let said = study.ok(&["cancel", "--subject", "01", "--dry-run"]);
    assert_eq!(said.out.lines().count(), 2);
    assert_eq!(slurm.calls("scancel"), 0);
    let said = study.ok(&["cancel", "--subject", "01"]);
    assert!(said.err.contains("2 of 2 job(s) ended"), "{}", said.err);
    assert_eq!(slurm.calls("scancel"), 1, "one call for all");
    assert_eq!(
        study.statuses(),
        [
            "convert sub-01 ses-01: failed cancelled",
            "convert sub-01 ses-02: failed cancelled",
            "convert sub-02 ses-01: pending queued",
        ]
    );
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 3, "a person's cancel is final");
    slurm.break_program(
        "scancel",
        "scancel: error: Unable to contact slurm controller\n",
    );
    assert_eq!(study.call(&["cancel", "--all"]).code, 5);
    assert!(study.statuses()[2].contains("pending queued"));
}

#[test]
fn wait_tells_by_its_exit_code_how_it_went() {
    let (study, slurm) = study();
    study.ok(&["run", "--subject", "02"]);
    let said = study.call(&["wait", "--timeout", "1s", "--interval", "1s"]);
    assert_eq!(said.code, 124, "{}", said.err);
    convert(&study, "sub-02", "ses-01");
    slurm.set_all("COMPLETED");
    study.ok(&["wait", "--procedure", "convert"]);
    study.ok(&["run", "--subject", "01"]);
    slurm.set_all("FAILED 1:0");
    assert_eq!(study.call(&["wait"]).code, 1);
}

#[test]
fn jobs_that_can_never_start_are_shown_with_slurms_reason() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    slurm.set("1001", "PENDING JobHeldUser");
    slurm.set("1002", "PENDING PartitionConfig");
    slurm.set("1003", "PENDING Resources");
    let said = study.ok(&["monitor"]);
    for line in [
        "Slurm says JobHeldUser: convert sub-01 ses-01 (job 1001)",
        "Slurm says PartitionConfig: convert sub-01 ses-02 (job 1002)",
    ] {
        assert!(said.err.contains(line), "{}", said.err);
    }
    assert_eq!(
        study.statuses(),
        [
            "convert sub-01 ses-01: pending held",
            "convert sub-01 ses-02: pending held",
            "convert sub-02 ses-01: pending queued",
        ]
    );
}

#[test]
fn what_a_newcomer_gets_wrong_is_said() {
    let (study, slurm) = study();
    // A typing error in a later step does not wait for its day.
    std::fs::remove_file(study.at("group.sh")).unwrap();
    let said = study.ok(&["run", "--max-jobs", "1"]);
    assert!(
        said.err.contains("group: script 'group.sh' was not found"),
        "{}",
        said.err
    );
    for (arguments, words) in [
        (
            &["run", "--subject", "99"][..],
            "no task of the study matches the selection",
        ),
        (
            &["manifest", "--subject", "99"],
            "no task of the study matches the selection",
        ),
        (
            &["session-status", "--subject", "99"],
            "no session of the study matches the selection",
        ),
        (&["status", "--status", "failed"], "no row matches"),
    ] {
        let said = study.ok(arguments);
        assert!(said.err.contains(words), "{arguments:?}: {}", said.err);
    }
    let said = study.ok(&["run", "--subject", "02", "--dry-run"]);
    assert!(
        said.err.contains("3 sessions, 3 tasks: 0 complete, 1 due"),
        "{}",
        said.err
    );
    slurm.set_all("FAILED 2:0");
    let said = study.ok(&["monitor"]);
    assert!(
        said.err
            .contains("`snbb-scheduler retry` makes them due again"),
        "{}",
        said.err
    );

    let empty = Study::new();
    empty.configure("executor: local\nprocedures: [{name: a, output_dir: a, script: /bin/true}]\n");
    empty.write("dicom/sub-01/T1/0001.dcm", "x");
    let said = empty.ok(&["manifest"]);
    assert!(
        said.err
            .contains("`sessionless: yes` takes each as one session"),
        "{}",
        said.err
    );
    std::fs::rename(empty.at("dicom/sub-01"), empty.at("dicom/01")).unwrap();
    let said = empty.ok(&["manifest"]);
    assert!(said.err.contains("is named sub-<label>"), "{}", said.err);
}

#[test]
fn a_state_file_that_was_moved_does_not_double_the_living_jobs_at_once() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    let moved = study
        .read("config.yaml")
        .replace("state.parquet", "moved.parquet");
    study.write("config.yaml", &moved);
    let said = study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 3, "{}", said.err);
    assert!(
        said.err.contains("put it there before the next run"),
        "{}",
        said.err
    );
    std::fs::rename(study.at("state.parquet"), study.at("moved.parquet")).unwrap();
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 3);
    assert_eq!(study.statuses().len(), 3);

    // The mark of a study whose state file is gone stands in the copies beside it.
    std::fs::remove_file(study.at("moved.parquet")).unwrap();
    std::fs::copy(study.at("state.parquet.bak"), study.at("moved.parquet.bak")).unwrap();
    study.write("config.yaml", &format!("project: other\n{moved}"));
    let said = study.ok(&["run"]);
    assert_eq!(
        said.err.matches("adopted its living job").count(),
        3,
        "{}",
        said.err
    );
    assert_eq!(slurm.calls("sbatch"), 3);
}

#[test]
fn a_slurm_that_does_not_answer_is_not_asked_for_every_job() {
    let (study, slurm) = study();
    study.scan(&["sub-03/ses-01", "sub-03/ses-02"]);
    for call in 1..=5 {
        slurm.silent(call);
    }
    let said = study.call(&["run"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert_eq!(slurm.calls("sbatch"), 3);
    assert!(said.err.contains("2  Slurm did not answer"), "{}", said.err);
    study.call(&["run"]);
    assert_eq!(
        slurm.calls("sbatch"),
        5,
        "the three are found, the rest is submitted"
    );
    study.ok(&["run"]);
    assert_eq!(slurm.jobs().len(), 5);
}

#[test]
fn cancel_ends_only_jobs_that_are_the_tasks_own() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    // Ids are recycled: 1002 is somebody's notebook by now.
    std::fs::write(slurm.at("jobs/1002"), "notebook\n\n1\n\n").unwrap();
    slurm.set("1002", "RUNNING");
    let said = study.call(&["cancel", "--all"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.err.contains("job 1002 is another job by now"),
        "{}",
        said.err
    );
    assert_eq!(
        std::fs::read_to_string(slurm.at("state/1002")).unwrap(),
        "RUNNING\n"
    );
    assert_eq!(
        std::fs::read_to_string(slurm.at("state/1001")).unwrap(),
        "CANCELLED\n"
    );
}

#[test]
fn a_job_that_was_renamed_is_known_by_its_mark() {
    let (study, slurm) = study();
    study.ok(&["run", "--subject", "02"]);
    std::fs::write(
        slurm.at("jobs/1001"),
        std::fs::read_to_string(slurm.at("jobs/1001"))
            .unwrap()
            .replace("convert_sub-02_ses-01", "urgent"),
    )
    .unwrap();
    slurm.set("1001", "RUNNING");
    study.ok(&["run", "--subject", "02"]);
    assert_eq!(
        slurm.calls("sbatch"),
        1,
        "renamed by `scontrol update`: the mark tells"
    );
    assert_eq!(study.statuses(), ["convert sub-02 ses-01: running running"]);
}
