//! Pauses by a person and by the circuit breaker, and the file that they stand in.
#![expect(clippy::disallowed_methods, reason = "starts a call to kill it")]

use std::fs;

use super::{STEP, control, events, files, finish, reports, study};
use crate::harness::Study;
use crate::pretty::problems;

#[test]
fn ten_failures_in_a_row_pause_a_procedure_until_a_person_resumes_it() {
    let (study, slurm) = study(30, &format!("max_submit_per_run: 9\n{STEP}"));
    let run = |id: &str| {
        study.ok(&["run", "--procedure", "prep"]);
        slurm.set_all(id);
    };
    run("FAILED 1:0");
    // Nine failed: they are told of, and the next ones go.
    run("TIMEOUT 0:15");
    assert!(control(&study).is_none());
    assert_eq!(slurm.jobs().len(), 18);

    reports(&study, &study.ok(&["monitor"]), "will_be_paused");
    assert!(control(&study).is_none(), "monitor only warns");

    // A dry run shows it, and writes nothing.
    let before = files(&study);
    let said = study.ok(&["run", "--dry-run", "-v"]);
    reports(&study, &said, "would_be_paused");
    assert!(!said.out.contains("prep_"), "{}", said.out);
    assert!(said.out.contains("--job-name=qc_sub-01"), "{}", said.out);
    let said = study.ok(&["session-status", "--format", "csv"]);
    assert!(
        said.out.contains("sub-19,ses-01,paused,due"),
        "{}",
        said.out
    );
    assert!(files(&study) == before, "nothing was written");

    let said = study.ok(&["run", "-q"]);
    reports(&study, &said, "is_paused");
    assert_eq!(slurm.jobs().len(), 27, "the other procedure goes on");
    let paused = control(&study).unwrap();
    let prep = &paused["procedures"]["prep"]["paused"];
    assert_eq!(prep["cause"]["failures"]["count"], 18);
    let event = &events(&study, "paused")[0];
    assert_eq!(
        (&event["procedure"], &event["subject"]),
        (&"prep".into(), &"".into())
    );
    assert_eq!(event["detail"], "18 jobs in a row failed");

    // It stays so, whatever comes later, and force does not go through it.
    slurm.set("1001", "PENDING");
    let requeued = study.call(&["retry", "--subject", "01"]);
    assert_eq!(requeued.code, 1, "{}", requeued.err);
    let said = study.ok(&["retry", "--subject", "02"]);
    reports(&study, &said, "retry_while_paused");
    finish(&study, "prep", "sub-02", "ses-01");
    let said = study.ok(&["run", "--force", "--subject", "03", "--procedure", "prep"]);
    reports(&study, &said, "force_while_paused");
    assert_eq!(slurm.calls("sbatch"), 27);
    assert_eq!(control(&study).unwrap(), paused);
    assert_eq!(events(&study, "paused").len(), 1);
    reports(&study, &study.ok(&["status"]), "status_while_paused");
    reports(&study, &study.ok(&["manifest"]), "manifest_while_paused");
    assert_eq!(
        study
            .ok(&["manifest", "--procedure", "prep", "--format", "json"])
            .out,
        "[]\n"
    );

    let said = study.ok(&["resume", "--procedure", "prep"]);
    reports(&study, &said, "resumed");
    assert_eq!(events(&study, "resumed")[0]["by"], "ada");
    study.ok(&["run", "--procedure", "prep"]);
    assert_eq!(events(&study, "paused").len(), 1);
    assert_eq!(slurm.jobs().len(), 36, "old failures do not count any more");
    // The next nine fail too, and one of the tenth: paused again.
    slurm.set_all("FAILED 1:0");
    study.ok(&["run", "--procedure", "prep", "--max-jobs", "1"]);
    slurm.set_all("FAILED 1:0");
    study.ok(&["run"]);
    assert_eq!(failures(&study), (10, 2));
}

/// The failures in a row that paused `prep`, and how often something was paused so far.
fn failures(study: &Study) -> (u64, usize) {
    let cause = &control(study).unwrap()["procedures"]["prep"]["paused"]["cause"];
    let count = cause["failures"]["count"].as_u64().unwrap();
    (count, events(study, "paused").len())
}

#[test]
fn successes_and_other_peoples_cancels_break_the_row() {
    let (study, slurm) = study(40, &format!("pause_after_failures: 3\n{STEP}"));
    let step = |end: &str, count: &str| {
        study.ok(&["run", "--procedure", "prep", "--max-jobs", count]);
        for (id, _) in slurm.jobs().iter().rev().take(count.parse().unwrap()) {
            slurm.set(id, end);
        }
        study.ok(&["monitor"]);
    };
    step("FAILED 1:0", "2");
    finish(&study, "prep", "sub-03", "ses-01");
    // What ends in the same second is not after.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    study.ok(&["run", "--procedure", "prep", "--subject", "03", "--force"]);
    slurm.set("1003", "COMPLETED");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    finish(&study, "prep", "sub-03", "ses-01");
    study.ok(&["monitor"]);
    let row = |row: &String| row.starts_with("prep sub-03 ");
    let row = study.statuses().into_iter().find(row);
    assert_eq!(
        row.as_deref(),
        Some("prep sub-03 ses-01: complete verified")
    );
    step("FAILED 1:0", "2");
    step("CANCELLED", "4");
    study.ok(&["run", "--procedure", "prep", "--max-jobs", "1"]);
    assert!(control(&study).is_none(), "two failed since the success");
    slurm.set_all("PREEMPTED");
    study.ok(&["monitor"]);
    // Cleared failures count as well: nothing that ran is forgotten.
    study.ok(&["retry"]);
    step("FAILED 1:0", "1");
    study.ok(&["run"]);
    assert_eq!(failures(&study), (3, 1));
    study.configure(&format!("pause_after_failures: 0\n{STEP}"));
    study.ok(&["resume", "--procedure", "prep"]);
    study.ok(&["run"]);
    assert_eq!(events(&study, "paused").len(), 1);
}

#[test]
fn a_person_pauses_the_study_or_a_procedure_and_everybody_is_told() {
    let (study, slurm) = study(2, STEP);
    let said = study.ok(&["resume"]);
    reports(&study, &said, "nothing_to_resume");
    assert!(control(&study).is_none());

    let said = study.ok(&["pause", "--note", "the file server\u{1b}[31m moves"]);
    reports(&study, &said, "study_paused");
    let first = control(&study).unwrap();
    let said = study.ok(&["pause"]);
    reports(&study, &said, "study_paused_again");
    assert_eq!(
        control(&study).unwrap(),
        first,
        "pausing twice changes nothing"
    );
    assert_eq!(events(&study, "paused").len(), 1);
    study.ok(&["pause", "--note", "longer than planned"]);
    assert_eq!(
        control(&study).unwrap()["study"]["paused"]["since"],
        first["study"]["paused"]["since"]
    );

    let before = slurm.calls("sbatch");
    let said = study.ok(&["run"]);
    reports(&study, &said, "run_while_the_study_is_paused");
    assert_eq!(slurm.calls("sbatch"), before);
    assert_eq!(study.ok(&["run", "--dry-run"]).out, "");
    let said = study.ok(&["manifest", "--format", "csv"]);
    assert_eq!(said.out.lines().count(), 1, "{}", said.out);
    let said = study.ok(&["session-status", "--format", "json"]);
    assert!(said.out.contains("longer than planned"), "{}", said.out);
    let said = study.ok(&["status", "--format", "json"]);
    reports(&study, &said, "status_while_the_study_is_paused");

    study.ok(&["pause", "--procedure", "q*"]);
    let said = study.ok(&["resume"]);
    reports(&study, &said, "study_resumed");
    study.ok(&["run"]);
    let names: Vec<String> = slurm.jobs().into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["prep_sub-01_ses-01", "prep_sub-02_ses-01"]);
    let said = study.ok(&["resume", "--procedure", "prep"]);
    reports(&study, &said, "other_procedure_is_paused");
    study.ok(&["resume", "--procedure", "qc"]);
    assert!(control(&study).is_none(), "nothing is left to say");
    study.ok(&["run"]);
    assert_eq!(slurm.jobs().len(), 4);
    assert_eq!(events(&study, "resumed").len(), 2);

    let said = study.call(&["pause", "--procedure", "qv"]);
    assert_eq!(said.code, 2);
    reports(&study, &said, "pause_misspelt");
}

#[test]
fn a_pause_of_a_procedure_that_left_the_configuration_can_be_ended() {
    let (study, _) = study(1, STEP);
    study.ok(&["pause", "--procedure", "qc"]);
    study.configure("procedures: [{name: prep, output_dir: prep, script: step.sh}]\n");
    let note = study.ok(&["run"]);
    reports(&study, &note, "run_beside_a_removed_procedure");
    study.ok(&["resume", "--procedure", "qc"]);
    assert!(control(&study).is_none());
}

#[test]
fn a_damaged_control_file_stops_submission_and_is_not_touched() {
    let (study, slurm) = study(2, STEP);
    study.ok(&["pause", "--procedure", "qc"]);
    let whole = study.read("state.control.json");
    let unknown = whole.replacen("{", "{ \"holidays\": true,", 1);
    let newer = whole.replace("\"format\": 1", "\"format\": 2");
    for text in ["", "{", &whole[..whole.len() / 2], &unknown, &newer, "null"] {
        study.write("state.control.json", text);
        for command in [
            &["run"][..],
            &["run", "--dry-run"],
            &["manifest"],
            &["session-status"],
            &["pause"],
            &["resume", "--procedure", "qc"],
        ] {
            let said = study.call(command);
            assert_eq!(said.code, 1, "{command:?}: {}", said.err);
            let told = problems(&study, &said.err);
            assert!(
                told.contains("state.control.json") && told.contains("\nhint: "),
                "{told}"
            );
        }
        // The jobs go on, and so does the look at them.
        for command in ["monitor", "status"] {
            let said = study.ok(&[command]);
            let told = problems(&study, &said.err);
            assert!(
                told.starts_with("warning: ") && told.contains("state.control.json"),
                "{told}"
            );
        }
        assert_eq!(study.read("state.control.json"), text);
    }
    assert_eq!(slurm.calls("sbatch"), 0);
    study.write("state.control.json", &whole);
    study.ok(&["run"]);
    assert_eq!(slurm.jobs().len(), 2);
}

#[test]
fn a_run_that_is_killed_after_it_paused_has_submitted_nothing() {
    let (study, slurm) = study(20, &format!("pause_after_failures: 2\n{STEP}"));
    study.ok(&["run", "--procedure", "prep", "--max-jobs", "2"]);
    slurm.set_all("FAILED 1:0");
    // Killed at the first sbatch: that of the other procedure.
    let gate = study.at("gate");
    fs::write(&gate, "").unwrap();
    let mut run = std::process::Command::new(assert_cmd::cargo::cargo_bin("snbb-scheduler"))
        .arg("run")
        .env_clear()
        .env(
            "PATH",
            std::env::join_paths(
                study
                    .path
                    .iter()
                    .cloned()
                    .chain(["/usr/bin".into(), "/bin".into()]),
            )
            .unwrap(),
        )
        .env("SNBB_CONFIG", study.at("config.yaml"))
        .env("FAKE_WAIT", "sbatch")
        .env("FAKE_WAIT_FILE", &gate)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while fs::metadata(study.at("gate.reached")).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let at_death = control(&study).expect("written before the first sbatch");
    run.kill().unwrap();
    run.wait().unwrap();
    fs::remove_file(&gate).unwrap();
    assert_eq!(
        at_death["procedures"]["prep"]["paused"]["cause"]["failures"]["count"],
        2
    );
    study.ok(&["run"]);
    assert_eq!(control(&study).unwrap(), at_death);
    assert!(
        slurm
            .jobs()
            .iter()
            .filter(|(_, name)| name.starts_with("prep"))
            .count()
            == 2
    );
}
