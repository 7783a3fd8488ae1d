//! Retries by reason and the site's ceilings, through the program: what the next attempts ask for,
//! when they stop, and where it is said.

mod real;
mod resources;

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fake_slurm::FakeSlurm;
use crate::harness::{Said, Study};
use crate::harness_slurm::cluster;
use crate::pretty::{messages, pretty};

const RETRY: &str = "\
slurm_partition: normal
procedures:
  - name: prep
    output_dir: prep
    script: prep.sh
    completion_marker: done
    mem: 32G
    time: '2:00:00'
    sbatch_args: [--exclude=bad]
    retry:
      max_attempts: 3
      max_infrastructure: 2
      on:
        out_of_memory: {mem_factor: 1.5, mem_max: 64G}
        timeout: {time_factor: 2, time_max: '3:00:00'}
        node_fail: {exclude_node: yes, delay: 0s}
        cancelled: {}
        exit_code: {codes: [75], delay: DELAY}
  - name: qc
    output_dir: qc
    script: prep.sh
    depends_on: [prep]
    completion_marker: done
";

fn study(sessions: &[&str]) -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(&RETRY.replace("DELAY", "1h"));
    study.script("prep.sh", "true");
    study.scan(sessions);
    (study, slurm)
}

/// Ends the newest job in some way.
fn end(slurm: &FakeSlurm, state: &str) {
    let jobs = slurm.jobs();
    slurm.set(&jobs.last().unwrap().0, state);
}

/// Returns the values of an option over all sbatch calls.
fn asked(slurm: &FakeSlurm, option: &str) -> Vec<String> {
    slurm
        .argv()
        .lines()
        .map(|line| {
            shell_words::split(line)
                .unwrap()
                .iter()
                .find_map(|word| word.strip_prefix(&format!("--{option}=")))
                .unwrap_or("-")
                .to_owned()
        })
        .collect()
}

/// Returns decision and sentence of a task.
fn standing(study: &Study, procedure: &str) -> (String, String) {
    let said = study.ok(&["session-status", "--format", "json"]);
    let sessions: Value = serde_json::from_str(&said.out).unwrap();
    let task = &sessions[0]["procedures"][procedure];
    let text = |key: &str| task[key].as_str().unwrap().to_owned();
    (text("decision"), text("text"))
}

/// What remains of the attempts of a task, by `explain`.
fn budget(study: &Study, procedure: &str) -> Value {
    study.json(&["explain", "01", "01", procedure])[0]["retry"].clone()
}

#[test]
fn a_spent_budget_waits_for_a_person_and_says_so() {
    let (study, slurm) = study(&["sub-01/ses-01"]);
    for _ in 0..3 {
        study.ok(&["run"]);
        end(&slurm, "TIMEOUT 0:15 32G 120");
    }
    let said = study.ok(&["run"]);
    assert_eq!(asked(&slurm, "time"), ["2:00:00", "3:00:00", "3:00:00"]);
    let (word, text) = standing(&study, "prep");
    assert_eq!(word, "failed");
    insta::assert_snapshot!(format!("{}{text}", pretty(&study, &said.err)));
    let retry = budget(&study, "prep");
    assert_eq!(
        (&retry["automatic"], &retry["attempts_used"]),
        (&false.into(), &3.into())
    );
    assert_eq!(standing(&study, "qc").0, "blocked");
    let dry = study.ok(&["retry", "--dry-run"]);
    assert_eq!(dry.out.lines().count(), 1, "{}", dry.out);
    study.ok(&["retry"]);
    study.ok(&["run"]);
    assert_eq!(
        asked(&slurm, "time")[3],
        "2:00:00",
        "everything starts anew"
    );
    end(&slurm, "TIMEOUT 0:15 32G 120");
    study.ok(&["run"]);
    assert_eq!(asked(&slurm, "time")[4], "3:00:00");
    assert_eq!(study.rows()[0]["attempt"], 5);

    // So does force.
    end(&slurm, "NODE_FAIL");
    for _ in 0..2 {
        study.ok(&["run"]);
        end(&slurm, "NODE_FAIL");
    }
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 7);
    let retry = budget(&study, "prep");
    assert_eq!(
        (&retry["automatic"], &retry["infrastructure_used"]),
        (&false.into(), &2.into())
    );
    study.ok(&["run", "--force", "--procedure", "prep"]);
    assert_eq!(asked(&slurm, "time")[7], "2:00:00");
    assert_eq!(asked(&slurm, "exclude")[7], "bad");
}

#[test]
fn a_delay_is_kept_and_other_codes_wait_for_a_person() {
    let (study, slurm) = study(&["sub-01/ses-01"]);
    study.ok(&["run"]);
    end(&slurm, "FAILED 75:0");
    let said = study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 1);
    let (word, text) = standing(&study, "prep");
    assert_eq!(word, "failed");
    let told = format!("{}{text}", said.err);
    insta::assert_snapshot!(pretty(&study, &told));
    let retry = budget(&study, "prep");
    assert!(
        retry["automatic"] == true && retry["at"].is_string(),
        "{retry}"
    );
    assert_eq!(standing(&study, "qc").0, "waiting");
    study.configure(&RETRY.replace("DELAY", "0s"));
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 2);
    end(&slurm, "FAILED 1:0");
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 2);
    let (word, text) = standing(&study, "prep");
    assert_eq!(word, "failed");
    insta::assert_snapshot!(text);
    assert_eq!(standing(&study, "qc").0, "blocked");
}

#[test]
fn a_persons_cancel_is_final_and_an_administrators_is_not() {
    let (study, slurm) = study(&["sub-01/ses-01"]);
    study.ok(&["run"]);
    end(&slurm, "CANCELLED_by_54321");
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 2);
    end(&slurm, "CANCELLED");
    study.ok(&["run"]);
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 2);
    let row = &study.rows()[0];
    assert!(
        row["failure"]
            .as_str()
            .unwrap()
            .starts_with("cancelled by "),
        "{row}"
    );
}

#[test]
fn without_rules_and_without_a_reason_nothing_is_tried_again() {
    let (study, slurm) = study(&["sub-01/ses-01"]);
    study.configure(
        "procedures:\n  - {name: prep, output_dir: prep, script: prep.sh, completion_marker: done}\n",
    );
    study.ok(&["run"]);
    for state in [
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "TIMEOUT",
        "FAILED 75:0",
    ] {
        end(&slurm, state);
        study.ok(&["run"]);
        study.ok(&["run"]);
        assert_eq!(study.statuses().len(), 1, "{state}");
        let calls = slurm.calls("sbatch");
        study.ok(&["retry"]);
        study.ok(&["run"]);
        assert_eq!(slurm.calls("sbatch"), calls + 1, "{state}");
    }
    assert_eq!(slurm.calls("sbatch"), 6);
}

#[test]
fn outputs_of_a_failed_attempt_are_not_believed_and_will_be_replaced() {
    let (study, slurm) = study(&["sub-01/ses-01"]);
    study.ok(&["run"]);
    study.write("derivatives/prep/sub-01/ses-01/done", "half");
    end(&slurm, "NODE_FAIL 0:0 32G 120 n7");
    study.ok(&["monitor"]);
    let (word, text) = standing(&study, "prep");
    assert_eq!(word, "due");
    insta::assert_snapshot!(text);
    assert_eq!(
        standing(&study, "qc").0,
        "waiting",
        "nothing builds on them"
    );
    study.ok(&["run"]);
    let submitted = study.events("submitted");
    assert_eq!(submitted[1]["replaces_outputs"], true);
    assert_eq!(slurm.calls("sbatch"), 2);
}

#[test]
fn a_refused_retry_keeps_nobody_else_back() {
    let (study, slurm) = study(&["sub-01/ses-01", "sub-02/ses-01"]);
    study.ok(&["run"]);
    for (job, _) in slurm.jobs() {
        slurm.set(&job, "NODE_FAIL 0:0 32G 120 n7");
    }
    study.scan(&["sub-03/ses-01"]);
    slurm.refuse(
        3,
        "sbatch: error: Batch job submission failed: Requested node configuration is not available",
    );
    let said = study.call(&["run"]);
    assert_eq!(said.code, 3, "{}", said.err);
    // Of equal requests one is enough; the new subject's is another.
    assert_eq!(slurm.calls("sbatch"), 4);
    assert_eq!(slurm.jobs().last().unwrap().1, "prep_sub-03_ses-01");
    insta::assert_snapshot!(pretty(&study, &said.err));
    assert_eq!(
        study.statuses()[0],
        "prep sub-01 ses-01: failed node_fail",
        "the row before stays"
    );
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 6, "the next run tries again");
}

#[test]
fn failures_are_explained_where_they_are_shown() {
    let (study, slurm) = study(&["sub-01/ses-01"]);
    study.ok(&["run"]);
    end(&slurm, "FAILED 127:0");
    let said = study.ok(&["-v", "monitor"]);
    let rows = study.rows();
    let why = rows[0]["failure"].as_str().unwrap();
    insta::assert_snapshot!(why);
    let end = format!(": {why}, job 1001\n");
    assert!(said.err.contains(&end), "{}", said.err);
    let table = study.ok(&["status", "--status", "failed"]).out;
    assert!(table.contains(why), "{table}");
}
