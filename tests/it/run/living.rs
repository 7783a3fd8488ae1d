//! Jobs that live: cancelled, waited for, renamed, never to start.

use super::*;

#[test]
fn cancel_ends_what_is_selected_and_rows_follow_once_it_is_confirmed() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    let said = study.call(&["cancel"]);
    assert_eq!(said.code, 2, "{}", said.err);
    insta::assert_snapshot!(messages(&study, &said));
    let said = study.ok(&["cancel", "--subject", "01", "--dry-run"]);
    assert_eq!(said.out.lines().count(), 2);
    assert_eq!(slurm.calls("scancel"), 0);
    study.ok(&["cancel", "--subject", "01"]);
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
    assert_eq!(study.status("convert sub-02 ses-01"), "pending queued");
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
    // Other tasks are in flight.
    let said = study.ok(&["wait", "--subject", "02", "--timeout", "1s"]);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    slurm.set_all("FAILED 1:0");
    assert_eq!(study.call(&["wait"]).code, 1);
    study.ok(&["wait", "--subject", "02"]);
    let never_submitted = study.call(&["wait", "--procedure", "group"]);
    assert_eq!(never_submitted.code, 2, "{}", never_submitted.err);
}

#[test]
fn jobs_that_can_never_start_are_shown_with_slurms_reason() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    slurm.set("1001", "PENDING JobHeldUser");
    slurm.set("1002", "PENDING PartitionConfig");
    slurm.set("1003", "PENDING Resources");
    let said = study.ok(&["monitor"]);
    insta::assert_snapshot!(messages(&study, &said));
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
fn cancel_ends_only_jobs_that_are_the_tasks_own() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    // Ids are recycled: 1002 is somebody's notebook by now.
    std::fs::write(slurm.at("jobs/1002"), "notebook\n\n1\n\n").unwrap();
    slurm.set("1002", "RUNNING");
    let said = study.call(&["cancel", "--all"]);
    assert_eq!(said.code, 1, "{}", said.err);
    insta::assert_snapshot!(messages(&study, &said));
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

#[test]
fn cancel_starts_no_local_job_that_waits() {
    let study = Study::new();
    study.configure(&PIPELINE.replace("slurm_partition: normal", "executor: local\nlocal_jobs: 1"));
    study.script(
        "convert.sh",
        "echo started >> \"$SNBB_BIDS_ROOT/starts\"\nsleep 1",
    );
    study.script("prep.sh", "true");
    study.script("group.sh", "true");
    study.scan(&["sub-01/ses-01", "sub-02/ses-01", "sub-03/ses-01"]);
    study.ok(&["run"]);
    // The slot is free by now, and nobody has filled it.
    std::thread::sleep(std::time::Duration::from_millis(2500));
    study.call(&["cancel", "--all"]);
    assert_eq!(study.read("bids/starts"), "started\n");
}

/// Somebody has renamed a step and a session while jobs live; their rows are no part of the plan any more.
#[test]
fn rows_that_the_plan_no_longer_holds_are_named() {
    let (study, _slurm) = study();
    study.ok(&["run"]);
    fs::rename(
        study.at("dicom/sub-02/ses-01"),
        study.at("dicom/sub-02/ses-09"),
    )
    .unwrap();
    let session = study.ok(&["run", "--max-jobs", "0"]);
    study.configure(&PIPELINE.replace("convert", "other"));
    study.script("other.sh", "true");
    let procedure = study.ok(&["run", "--max-jobs", "0"]);
    let told = [session, procedure].map(|said| messages(&study, &said));
    insta::assert_snapshot!(told.join("\n---\n"));
    let quiet = study.ok(&["-q", "run", "--max-jobs", "0"]).err;
    assert!(!quiet.contains("note: "), "{quiet}");
}

/// What is true of a state with a hard link: each name goes its own way, and one after the other they double nothing
/// that lives.
#[test]
fn attack_a_second_name_of_the_state_is_refused_once_it_is_a_copy() {
    let (study, slurm) = study();
    study.ok(&["run", "--subject", "01"]);
    fs::create_dir(study.at("other")).unwrap();
    fs::hard_link(study.at("state.parquet"), study.at("other/state.parquet")).unwrap();
    let config = study.read("config.yaml");
    study.write(
        "second.yaml",
        &config.replace("state_file: state", "state_file: other/state"),
    );
    let second = study.at("second.yaml");
    let by_other_name = ["--config", second.to_str().unwrap(), "run"];

    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 3);
    // It has an older state now.
    let said = study.call(&by_other_name);
    assert_eq!(said.code, 1, "{}", said.err);
    insta::assert_snapshot!(messages(&study, &said));
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 3);
}
