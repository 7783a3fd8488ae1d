//! `executor` is changed while jobs of the other executor are in flight.

use std::fs;
use std::time::Duration;

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;
use crate::pretty::messages;

/// Everything is judged after a second, and without accounting by the markers alone.
fn configure(study: &Study, executor: &str) {
    study.configure(&format!(
        "executor: {executor}\naccounting: off\nlost_grace: 1s\nabsence_grace: 1s\nsettle_time: 1s\n\
         procedures: [{{name: convert, output_dir: out, script: convert.sh, completion_marker: done}}]\n"
    ));
}

/// A job writes its marker early, and ends when a file appears.
fn study() -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.script(
        "convert.sh",
        "mkdir -p \"$SNBB_OUTPUT_DIR\"\ntouch \"$SNBB_OUTPUT_DIR/done\"\n\
         for _ in {1..600}; do [ -e \"$SNBB_BIDS_ROOT/go\" ] && exit 0; sleep 0.1; done\nexit 3",
    );
    study.scan(&["sub-01/ses-01"]);
    (study, slurm)
}

const RUNNING: &str = "convert sub-01 ses-01: running running";

/// Under the other executor the job is left alone, and every command says why.
fn is_left_alone(study: &Study, slurm: &FakeSlurm, job: &str, owner: &str) {
    let asked = (slurm.calls("sbatch"), slurm.calls("scancel"));
    for pass in ["run", "monitor", "run"] {
        let said = messages(study, &study.ok(&[pass]));
        insta::assert_snapshot!(format!("a_job_of_{owner}"), said);
        std::thread::sleep(Duration::from_millis(1100));
    }
    for command in [
        ["retry", "--status", "all"],
        ["retry", "--status", "running"],
        ["cancel", "--subject", "01"],
    ] {
        let said = study.call(&command);
        assert_eq!(said.code, 1, "{command:?}: {}", said.err);
        let name = format!("{}_of_a_job_of_{owner}", command[0]);
        insta::assert_snapshot!(name, messages(study, &said));
    }
    let findings = study.json(&["check"]);
    let is_named = |finding: &serde_json::Value| {
        finding["topic"] == "state" && finding["finding"].as_str().unwrap().contains(job)
    };
    assert!(
        findings.as_array().unwrap().iter().any(is_named),
        "{findings}"
    );
    let explained = &study.json(&["explain", "01", "01", "convert"])[0];
    insta::assert_snapshot!(
        format!("explain_a_job_of_{owner}"),
        explained["text"].as_str().unwrap()
    );
    study.ok(&["run"]);
    assert_eq!(study.statuses(), [RUNNING]);
    assert_eq!(asked, (slurm.calls("sbatch"), slurm.calls("scancel")));
    assert_eq!(study.rows()[0]["job_id"], job);
}

fn is_followed_to_its_end(study: &Study) {
    let is_over = |rows: &[String]| rows == ["convert sub-01 ses-01: complete verified"];
    study.until(&["monitor"], Duration::from_secs(20), is_over);
}

#[test]
fn attack_executor_switch_a_local_job_is_left_alone_under_slurm() {
    let (study, slurm) = study();
    configure(&study, "local");
    study.ok(&["run"]);
    let is_running = |rows: &[String]| rows == [RUNNING];
    study.until(&["monitor"], Duration::from_secs(20), is_running);
    configure(&study, "slurm");
    is_left_alone(&study, &slurm, "local-1", "local");
    configure(&study, "local");
    study.write("bids/go", "");
    is_followed_to_its_end(&study);
}

#[test]
fn attack_executor_switch_a_job_of_slurm_is_left_alone_under_local() {
    let (study, slurm) = study();
    configure(&study, "slurm");
    study.ok(&["run"]);
    let job = slurm.jobs()[0].0.clone();
    slurm.set(&job, "RUNNING");
    study.ok(&["monitor"]);
    study.write("derivatives/out/sub-01/ses-01/done", "");
    configure(&study, "local");
    is_left_alone(&study, &slurm, &job, "slurm");
    configure(&study, "slurm");
    slurm.set(&job, "COMPLETED");
    is_followed_to_its_end(&study);
}

/// A submission in doubt has no id that tells its executor: silence of the other one proves nothing about it.
#[test]
fn attack_executor_switch_a_submission_in_doubt_is_left_alone_under_local() {
    const IN_DOUBT: &str = "convert sub-01 ses-01: pending submitting";
    let (study, slurm) = study();
    configure(&study, "slurm");
    slurm.silent(1);
    study.call(&["run"]);
    assert_eq!(study.statuses(), [IN_DOUBT]);
    configure(&study, "local");
    for pass in ["monitor", "run", "monitor", "run"] {
        study.ok(&[pass]);
        assert_eq!(study.statuses(), [IN_DOUBT], "{pass}");
        std::thread::sleep(Duration::from_millis(1100));
    }
    for command in [["retry", "--status", "all"], ["cancel", "--subject", "01"]] {
        assert_eq!(study.call(&command).code, 1, "{command:?}");
        assert_eq!(study.statuses(), [IN_DOUBT], "{command:?}");
    }
    configure(&study, "slurm");
    let job = slurm.jobs()[0].0.clone();
    slurm.set(&job, "RUNNING");
    study.ok(&["monitor"]);
    assert_eq!(study.rows()[0]["job_id"], job);
    assert_eq!(slurm.calls("sbatch"), 1);
}

/// The files beside the state, and the audit log, know what the other executor runs.
#[test]
fn attack_executor_switch_after_the_state_is_gone_submits_nothing_beside_living_jobs() {
    for (first, second, job) in [("slurm", "local", "1001"), ("local", "slurm", "local-1")] {
        for is_rolled_back in [false, true] {
            let (study, slurm) = study();
            configure(&study, first);
            study.scan(&["sub-02/ses-01"]);
            let no_more = ["run", "--max-jobs", "0"];
            study.call(&no_more);
            let before = study.read_bytes("state.parquet");
            study.ok(&["run", "--subject", "01"]);
            for name in ["state.parquet", "state.parquet.bak"] {
                let _ = fs::remove_file(study.at(name));
            }
            if is_rolled_back {
                fs::write(study.at("state.parquet"), before).unwrap();
            }
            configure(&study, second);
            for pass in ["monitor", "run", "run"] {
                study.call(&[pass, "--subject", "01"][..if pass == "run" { 3 } else { 1 }]);
            }
            let case = format!("{first} {is_rolled_back}");
            assert_eq!(study.rows()[0]["job_id"], job, "{case}");
            let sent = if first == "slurm" { 1 } else { 0 };
            assert_eq!(slurm.calls("sbatch"), sent, "{case}");
            let of_local = study.at("state.local/1.job").exists();
            assert_eq!(of_local, first == "local", "{case}");
            study.write("bids/go", "");
        }
    }
}

/// Slurm may have requeued the job of a failed row, which nobody asks.
#[test]
fn attack_executor_switch_outputs_of_a_job_that_may_live_again_are_not_accepted() {
    let (study, slurm) = study();
    configure(&study, "slurm");
    study.ok(&["run"]);
    let job = slurm.jobs()[0].0.clone();
    slurm.set(&job, "FAILED 3:0");
    study.until(&["monitor"], Duration::from_secs(20), |rows| {
        rows[0].contains("failed")
    });
    study.write("derivatives/out/sub-01/ses-01/done", "");
    slurm.set(&job, "RUNNING");
    configure(&study, "local");
    let failed = study.statuses();
    for command in [&["retry", "--accept-outputs"][..], &["retry"]] {
        let said = study.call(command);
        assert_eq!(said.code, 1, "{}", said.err);
        assert!(said.err.contains("`executor: slurm`"), "{}", said.err);
        assert_eq!(study.statuses(), failed);
    }
    configure(&study, "slurm");
    assert_eq!(study.call(&["retry", "--accept-outputs"]).code, 1);
    assert_eq!(study.statuses(), [RUNNING]);
}
