//! Pauses, the circuit breaker, the warm-up and the limits, through the program and a Slurm of shell scripts.

mod limits;
mod pauses;

use std::fs;

use crate::fake_slurm::FakeSlurm;
use crate::harness::{Said, Study};
use crate::pretty::{pretty, problems};

const STEP: &str = "\
procedures:
  - {name: prep, output_dir: prep, script: step.sh, completion_marker: done}
  - {name: qc, output_dir: qc, script: step.sh, completion_marker: done}
";

/// A study of so many subjects with one session each.
fn study(subjects: usize, config: &str) -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(config);
    study.script("step.sh", "true");
    for subject in 1..=subjects {
        study.scan(&[&format!("sub-{subject:02}/ses-01")]);
    }
    study.env.push(("LOGNAME".into(), "ada".into()));
    (study, slurm)
}

fn finish(study: &Study, procedure: &str, subject: &str, session: &str) {
    study.write(
        &format!("derivatives/{procedure}/{subject}/{session}/done"),
        "x",
    );
}

fn control(study: &Study) -> Option<serde_json::Value> {
    let text = fs::read_to_string(study.at("state.control.json")).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

fn events(study: &Study, kind: &str) -> Vec<serde_json::Value> {
    fs::read_to_string(study.at("scheduler_audit.jsonl"))
        .unwrap_or_default()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|event| event["event"] == kind)
        .collect()
}

/// All files of the study but those of the fake cluster, which counts its calls.
fn files(study: &Study) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files = study.snapshot();
    files.retain(|(path, _)| !path.starts_with(study.at("fake-slurm")));
    files
}

#[track_caller]
fn says(said: &Said, words: &[&str]) {
    for word in words {
        assert!(said.err.contains(word), "no '{word}' in\n{}", said.err);
    }
}

/// Compares what a call reported with the snapshot of this name.
fn reports(study: &Study, said: &Said, name: &str) {
    // Which of many equal failures is named does not matter.
    let recent = regex::Regex::new(r"most recent: prep sub-\d+").unwrap();
    let text = pretty(study, &said.err);
    let text = recent.replace_all(&text, "most recent: prep sub-[n]");
    insta::assert_snapshot!(name, text);
}

#[test]
fn a_script_that_would_make_sbatch_wait_is_refused_before_anything_is_submitted() {
    let (study, slurm) = study(
        2,
        "procedures:\n  - {name: prep, output_dir: prep, script: wait.sh}\n  - {name: qc, output_dir: qc, script: step.sh}\n",
    );
    study.write(
        "wait.sh",
        "#!/bin/bash\n#SBATCH --mem=1G\n#SBATCH -W\ntrue\n",
    );
    for command in [&["run", "--dry-run"][..], &["run"]] {
        let said = study.call(command);
        assert_eq!(said.code, 3, "{}", said.err);
        insta::assert_snapshot!("script_that_waits", problems(&study, &said.err));
    }
    let names: Vec<String> = slurm.jobs().into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["qc_sub-01_ses-01", "qc_sub-02_ses-01"]);
}

#[test]
fn cancel_is_told_in_the_audit_log_and_wait_outlasts_another_call() {
    let (study, slurm) = study(2, STEP);
    study.ok(&["run"]);
    study.ok(&["cancel", "--procedure", "qc"]);
    let asked = events(&study, "cancelled");
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0]["detail"], "asked for by ada");
    assert_eq!(asked[0]["job_id"], "1003");
    study.ok(&["state", "verify"]);

    // Another call holds the lock: waiting goes on by the rows on record.
    let store = snbb_scheduler::store::state_file::Store::at(&study.at("state.parquet")).unwrap();
    let lock = store
        .lock("run", std::time::Duration::from_secs(5))
        .unwrap();
    let said = study.call(&["wait", "--timeout", "1s", "--lock-timeout", "0s"]);
    assert_eq!(said.code, 124, "{}", said.err);
    let said = study.ok(&[
        "cancel",
        "--procedure",
        "prep",
        "--subject",
        "01",
        "--lock-timeout",
        "0s",
    ]);
    // Before these, a note about the lock each second.
    let lines: Vec<&str> = said.err.lines().rev().take(2).collect();
    insta::assert_snapshot!("cancel_beside_another_call", lines.join("\n"));
    drop(lock);
    for (_, subject) in [("1001", "sub-01"), ("1002", "sub-02")] {
        finish(&study, "prep", subject, "ses-01");
    }
    slurm.set("1002", "COMPLETED");
    assert_eq!(study.call(&["wait", "--procedure", "prep"]).code, 1);
    study.ok(&["wait", "--procedure", "prep", "--subject", "02"]);
}
