//! `retry`: what is learnt before a row is cleared, and what it never frees.

use super::*;

/// What ended since the last look is kept as what it became, not as what it was.
#[test]
fn retry_of_rows_in_flight_learns_their_ends_first() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    slurm.set_all("FAILED 3:0");
    convert(&study, "sub-01", "ses-02");
    slurm.set("1002", "COMPLETED");
    let said = study.ok(&["retry", "--status", "all"]);
    insta::assert_snapshot!(pretty(&study, &said.err));
    assert_eq!(study.events("retry_cleared").len(), 2);
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
    insta::assert_snapshot!(pretty(&study, &said.err));
    assert_eq!(study.statuses().len(), 3);
    fs::rename(study.at("unmounted"), study.at("dicom")).unwrap();
    let one = ["--subject", "01", "--session", "01"];
    study.ok(&[&["retry", "--status", "all"], &one[..]].concat());
    assert_eq!(study.status("convert sub-01 ses-01"), "complete verified");
}

/// A job whose script makes an array of it (`#SBATCH --array`) lives under the ids of its parts.
#[test]
fn retry_never_frees_a_task_while_a_part_of_its_job_lives() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    slurm.set_all("FAILED 1:0");
    slurm.set("1001", "GONE");
    let job = fs::read(slurm.at("jobs/1001")).unwrap();
    fs::write(slurm.at("jobs/1001_3"), job).unwrap();
    slurm.set("1001_3", "RUNNING");
    let said = study.call(&["retry", "--status", "all"]);
    assert_eq!(said.code, 1, "{}", said.err);
    insta::assert_snapshot!(pretty(&study, &said.err));
    let left = study.statuses();
    assert!(
        left.len() == 1 && left[0].starts_with("convert sub-01 ses-01: "),
        "{left:?}"
    );
}

#[test]
fn retry_says_what_is_complete_on_disk_and_never_frees_a_living_job() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    let said = study.call(&["retry", "--status", "all"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert_eq!(study.statuses().len(), 3);

    slurm.set_all("TIMEOUT");
    study.ok(&["monitor"]);
    convert(&study, "sub-01", "ses-01");
    let before = study.read_bytes("state.parquet");
    let said = study.ok(&["retry", "--dry-run"]);
    insta::assert_snapshot!(pretty(&study, &said.err));
    assert_eq!(before, study.read_bytes("state.parquet"));
    let said = study.ok(&[
        "retry",
        "--reason",
        "timeout",
        "--accept-outputs",
        "--subject",
        "01",
    ]);
    insta::assert_snapshot!(pretty(&study, &said.err));
    assert_eq!(
        study.statuses(),
        [
            "convert sub-01 ses-01: complete verified",
            "convert sub-01 ses-02: failed timeout",
            "convert sub-02 ses-01: failed timeout"
        ]
    );
    study.ok(&["retry", "--subject", "01"]);
    insta::assert_snapshot!(study.ok(&["retry", "--reason", "lost"]).err);
    assert_eq!(study.call(&["retry", "--procedure", "nope"]).code, 2);
}

/// squeue can answer with nothing for a moment, and accounting lag behind.
#[test]
fn retry_frees_no_job_because_the_queue_is_silent_once() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    study.ok(&["monitor"]);
    slurm.set_all("GONE");
    for status in ["all", "pending", "running"] {
        study.call(&["retry", "--status", status]);
        assert_eq!(study.statuses().len(), 3);
    }
    let said = study.call(&["retry", "--status", "all"]);
    assert_eq!(said.code, 1);
    insta::assert_snapshot!(pretty(&study, &said.err));
    slurm.set_all("RUNNING");
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 3);
}

/// Nobody but a person can end the wait for a job of which accounting will never tell anything.
#[test]
fn retry_frees_a_job_that_has_been_unknown_for_longer_than_the_grace() {
    let (study, slurm) = study();
    study.configure(&format!("lost_grace: 1s\n{PIPELINE}"));
    study.ok(&["run"]);
    slurm.set_all("GONE");
    study.ok(&["monitor"]);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    study.ok(&["retry", "--status", "all"]);
    assert_eq!(study.events("retry_cleared").len(), 3);
}

/// A job that was requeued in Slurm after its failure may be writing the outputs that look complete.
#[test]
fn attack_a_requeued_job_keeps_its_task_from_being_accepted_or_cleared() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    slurm.set_all("TIMEOUT");
    study.ok(&["monitor"]);
    convert(&study, "sub-01", "ses-01");
    slurm.set("1001", "RUNNING");
    let one = ["--subject", "01", "--session", "01"];
    for how in [&["retry", "--accept-outputs"][..], &["retry"]] {
        let before = study.read_bytes("state.parquet");
        assert_eq!(study.call(&[how, &["--dry-run"], &one].concat()).code, 1);
        assert_eq!(before, study.read_bytes("state.parquet"));
    }
    for how in [&["retry", "--accept-outputs"][..], &["retry"]] {
        let said = study.call(&[how, &one].concat());
        assert_eq!(
            said.code,
            if how.len() == 2 { 1 } else { 0 },
            "{}",
            said.err
        );
        assert_eq!(
            study.statuses()[0],
            "convert sub-01 ses-01: running running"
        );
    }
}

/// Without the queue nobody knows whether the job was requeued.
#[test]
fn attack_outputs_are_accepted_only_while_the_queue_answers() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    slurm.set_all("TIMEOUT");
    study.ok(&["monitor"]);
    convert(&study, "sub-01", "ses-01");
    slurm.break_program("squeue", "Unable to contact slurm controller");
    let accept = ["retry", "--accept-outputs", "--session", "01"];
    assert_eq!(study.call(&accept).code, 1);
    assert_eq!(study.statuses()[0], "convert sub-01 ses-01: failed timeout");
}

/// What a failed attempt left proves nothing, also once `retry` has cleared its row.
#[test]
fn attack_a_cleared_task_runs_again_whatever_its_failed_attempt_left() {
    let (study, slurm) = study();
    // A task that depends on a believed one would be submitted in its place.
    let are_converted = || {
        let jobs = slurm.jobs();
        jobs.iter().all(|(_, name)| name.starts_with("convert_"))
    };
    study.ok(&["run"]);
    slurm.set_all("TIMEOUT");
    study.ok(&["monitor"]);
    convert(&study, "sub-01", "ses-01");
    study.ok(&["retry"]);
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 6);
    assert!(are_converted(), "{:?}", slurm.jobs());
    // Nor is it believed once the state is lost.
    slurm.set_all("FAILED 1:0");
    study.ok(&["monitor"]);
    study.ok(&["monitor"]);
    for name in ["state.parquet", "state.attempts.parquet"] {
        let _ = fs::remove_file(study.at(name));
    }
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 9);
    assert!(are_converted(), "{:?}", slurm.jobs());
}

/// The row of a failed attempt was cleared, and then only the log is left.
#[test]
fn attack_a_cleared_failure_that_only_the_log_knows_leaves_nothing_believed() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    slurm.set_all("TIMEOUT");
    study.ok(&["monitor"]);
    convert(&study, "sub-01", "ses-01");
    study.ok(&["retry"]);
    for name in [
        "state.parquet",
        "state.parquet.bak",
        "state.attempts.parquet",
    ] {
        let _ = fs::remove_file(study.at(name));
    }
    let verify = ["state", "verify"];
    assert_ne!(study.findings(&verify), [""; 0]);
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 6);
    let jobs = slurm.jobs();
    let is_convert = |(_, name): &(String, String)| name.starts_with("convert_");
    assert!(jobs.iter().all(is_convert), "{jobs:?}");
    let anew = ["warning state file", "warning submissions"];
    assert_eq!(study.findings(&verify), anew);
    study.ok(&["state", "repair", "--yes"]);
    assert_eq!(study.findings(&verify), [""; 0]);
}
