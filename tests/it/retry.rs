//! Retries by reason and the site's ceilings, through the program: what the next attempts ask for,
//! when they stop, and where it is said.

mod real;
mod resources;

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::fake_slurm::FakeSlurm;
use crate::harness::{Said, Study};
use crate::harness_slurm::cluster;

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

/// Returns the events of one kind.
fn events(study: &Study, kind: &str) -> Vec<Value> {
    study
        .read("scheduler_audit.jsonl")
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|event| event["event"] == kind)
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

fn lines_of(text: &str, part: &str) -> Vec<String> {
    text.lines()
        .filter(|line| line.contains(part))
        .map(str::to_owned)
        .collect()
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
    assert_eq!(
        lines_of(&said.err, "failed ("),
        ["       1  failed (timeout), no attempts left"]
    );
    assert_eq!(
        standing(&study, "prep"),
        (
            "failed".into(),
            "failed (timeout, attempt 3); no attempts left (3 allowed); run `retry` to start over"
                .into()
        )
    );
    assert_eq!(standing(&study, "qc").0, "blocked");
    let dry = study.ok(&["retry", "--dry-run"]);
    assert!(dry.out.contains("prep sub-01 ses-01"), "{}", dry.err);
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
    assert!(
        standing(&study, "prep")
            .1
            .contains("no retries after infrastructure failures left (2 allowed)")
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
    assert_eq!(
        lines_of(&said.err, "failed ("),
        ["       1  failed (exit_code), will be retried"]
    );
    let (word, text) = standing(&study, "prep");
    assert_eq!(word, "failed");
    assert!(
        text.starts_with("failed (exit_code, attempt 1); will be retried after 20"),
        "{text}"
    );
    assert_eq!(standing(&study, "qc").0, "waiting");
    study.configure(&RETRY.replace("DELAY", "0s"));
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 2);
    end(&slurm, "FAILED 1:0");
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 2);
    assert_eq!(
        standing(&study, "prep").1,
        "failed (exit_code, attempt 2); stays failed until you run `retry`"
    );
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
    assert_eq!(
        standing(&study, "prep").1,
        "due: retry after node_fail; its outputs will be replaced"
    );
    assert_eq!(
        standing(&study, "qc").0,
        "waiting",
        "nothing builds on them"
    );
    study.ok(&["run"]);
    let submitted = events(&study, "submitted");
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
    assert_eq!(
        lines_of(&said.err, "the next attempt was refused"),
        [
            "warning: prep sub-01 ses-01 and 1 more: the next attempt was refused: \
             Requested node configuration is not available"
        ]
    );
    assert!(said.err.contains("1 submitted, 2 refused"), "{}", said.err);
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
    let why = "exit code 127: a command was not found (a missing module or container, a wrong PATH), \
         or exit code 255 (Slurm before 25.11 prints 255 as 127)";
    assert!(
        said.err.contains(&format!(
            "prep sub-01 ses-01: pending (queued) -> failed (exit_code), job 1001: {why}"
        )),
        "{}",
        said.err
    );
    assert_eq!(study.rows()[0]["failure"], why);
    let table = study.ok(&["status", "--status", "failed"]).out;
    assert!(table.contains(why), "{table}");
}
