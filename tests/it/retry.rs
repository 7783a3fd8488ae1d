//! Retries by reason and the site's ceilings, through the program: what the next attempts ask for,
//! when they stop, and where it is said.

mod real;

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
fn a_job_gets_more_memory_until_it_has_enough() {
    let (study, slurm) = study(&["sub-01/ses-01"]);
    study.ok(&["run"]);
    end(&slurm, "OUT_OF_MEMORY 0:125 32G 120");
    study.ok(&["monitor"]);
    assert_eq!(
        standing(&study, "prep"),
        ("due".into(), "due: tried again after out_of_memory".into())
    );
    assert_eq!(standing(&study, "qc").0, "waiting");
    assert_eq!(
        study.ok(&["manifest", "--format", "csv"]).out,
        "subject,session,procedure,priority\nsub-01,ses-01,prep,0\n"
    );
    let before = study.snapshot();
    let dry = study.ok(&["run", "--dry-run"]);
    let lines: Vec<&str> = dry.out.lines().collect();
    assert_eq!(
        lines[0],
        "# prep sub-01 ses-01: attempt 2 after out_of_memory: --mem 32G -> 48G"
    );
    assert!(
        lines[1].contains("--mem=48G") && lines.len() == 2,
        "{}",
        dry.out
    );
    let same = |path: &std::path::Path| !path.ends_with("fake-slurm/calls");
    let kept = |files: Vec<(std::path::PathBuf, Vec<u8>)>| -> Vec<_> {
        files.into_iter().filter(|(path, _)| same(path)).collect()
    };
    assert!(
        kept(before) == kept(study.snapshot()),
        "a dry run writes nothing"
    );

    let said = study.ok(&["-v", "run"]);
    assert!(
        said.err
            .contains("prep sub-01 ses-01: attempt 2 after out_of_memory: --mem 32G -> 48G"),
        "{}",
        said.err
    );
    let env = std::fs::read_to_string(slurm.at("env.2")).unwrap();
    assert!(env.contains("SNBB_ATTEMPT=2\n") && env.contains("SNBB_LAST_REASON=out_of_memory\n"));
    end(&slurm, "OUT_OF_MEMORY 0:125 48G 120");
    study.ok(&["run"]);
    // Another kind of failure keeps what was raised, and has a budget of its own.
    end(&slurm, "NODE_FAIL 0:0 64G 120 n7");
    let dry = study.ok(&["run", "--dry-run"]);
    assert!(
        dry.out
            .starts_with("# prep sub-01 ses-01: attempt 4 after node_fail: --exclude n7\n"),
        "{}",
        dry.out
    );
    study.ok(&["run"]);
    assert_eq!(asked(&slurm, "mem"), ["32G", "48G", "64G", "64G"]);
    assert_eq!(asked(&slurm, "exclude"), ["bad", "bad", "bad", "bad,n7"]);
    end(&slurm, "COMPLETED 0:0 64G");
    study.write("derivatives/prep/sub-01/ses-01/done", "x");
    study.ok(&["run"]);
    assert_eq!(standing(&study, "prep").0, "complete");
    assert_eq!(slurm.jobs()[4].1, "qc_sub-01_ses-01");

    let submitted = events(&study, "submitted");
    let told: Vec<String> = submitted
        .iter()
        .map(|event| format!("{} {}", event["retry_of"], event["changes"]))
        .collect();
    assert_eq!(
        told,
        [
            "null null",
            r#""out_of_memory" ["--mem 32G -> 48G"]"#,
            r#""out_of_memory" ["--mem 48G -> 64G"]"#,
            r#""node_fail" ["--exclude n7"]"#,
            "null null",
        ]
    );
    assert!(
        submitted[1]["argv"]
            .as_array()
            .unwrap()
            .contains(&"--mem=48G".into())
    );
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
            "failed (timeout, attempt 3); all 3 attempts are used up; 'retry' starts anew".into()
        )
    );
    assert_eq!(standing(&study, "qc").0, "blocked");
    let dry = study.ok(&["retry", "--dry-run"]);
    assert!(
        dry.err
            .contains("would clear 1 row(s)\n  prep sub-01 ses-01"),
        "{}",
        dry.err
    );
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
            .contains("2 retries after failures that are not its fault, and 2 are allowed")
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
        ["       1  failed (exit_code), tried again later"]
    );
    let (word, text) = standing(&study, "prep");
    assert_eq!(word, "failed");
    assert!(
        text.starts_with("failed (exit_code, attempt 1); is tried again from 20"),
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
        "failed (exit_code, attempt 2); 'retry' clears it"
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
        "due: tried again after node_fail, its outputs will be replaced"
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
            "warning: prep sub-01 ses-01 (and 1 more): the next attempt was refused: \
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
fn the_scripts_own_lines_are_minded() {
    let (study, slurm) = study(&["sub-01/ses-01"]);
    let config = RETRY.replace("DELAY", "1h");
    study.configure(
        &config
            .replace("    mem: 32G\n", "")
            .replace("    sbatch_args: [--exclude=bad]\n", ""),
    );
    study.write(
        "prep.sh",
        "#!/bin/bash\n#SBATCH --mem-per-cpu=4G -x old\ntrue\n#SBATCH -x later\n",
    );
    study.ok(&["run"]);
    end(&slurm, "OUT_OF_MEMORY 0:125 8G 120");
    let said = study.ok(&["-v", "run"]);
    assert!(
        said.err.contains(
            "attempt 2 after out_of_memory: mem_factor cannot act: the script asks for memory per CPU or GPU"
        ),
        "{}",
        said.err
    );
    end(&slurm, "NODE_FAIL 0:0 8G 120 n[7-8]");
    let said = study.ok(&["monitor"]);
    assert!(
        said.err
            .contains("the 1 failed task(s), of which 1 will be tried again by the retry rules"),
        "{}",
        said.err
    );
    study.ok(&["run"]);
    assert_eq!(asked(&slurm, "mem"), ["-", "-", "-"]);
    assert_eq!(asked(&slurm, "exclude"), ["-", "-", "old,n[7-8]"]);
}

#[test]
fn what_is_above_the_ceiling_is_reduced_with_a_note() {
    let (study, slurm) = study(&["sub-01/ses-01", "sub-02/ses-01"]);
    let ceilings = "max_mem: 40G\nmax_time: '1:30:00'\nmax_cpus: 4\nslurm_cpus_per_task: 8\n";
    study.configure(&format!("{ceilings}{}", RETRY.replace("DELAY", "1h")));
    let notes = |said: &Said| lines_of(&said.err, "reduced to");
    let expected = [
        "note: prep: --cpus-per-task 8 reduced to 4 (max_cpus) for 2 tasks",
        "note: prep: --time 2:00:00 reduced to 1:30:00 (max_time) for 2 tasks",
    ];
    let dry = study.ok(&["run", "--dry-run"]);
    assert_eq!(notes(&dry), expected);
    assert!(
        dry.out.lines().all(|line| !line.starts_with('#')),
        "{}",
        dry.out
    );
    assert_eq!(notes(&study.ok(&["run"])), expected);
    assert_eq!(asked(&slurm, "time"), ["1:30:00", "1:30:00"]);
    assert_eq!(asked(&slurm, "cpus-per-task"), ["4", "4"]);
    assert_eq!(asked(&slurm, "mem"), ["32G", "32G"]);
    end(&slurm, "OUT_OF_MEMORY 0:125 32G 90");
    let dry = study.ok(&["run", "--dry-run"]);
    assert!(
        dry.out
            .starts_with("# prep sub-02 ses-01: attempt 2 after out_of_memory: --mem 32G -> 40G\n"),
        "{}",
        dry.out
    );
    let said = study.ok(&["run", "--slurm-mem", "1G"]);
    assert!(
        notes(&said)
            .contains(&"note: prep: --mem 48G reduced to 40G (max_mem) for 1 task".to_owned()),
        "{}",
        said.err
    );
    assert_eq!(asked(&slurm, "mem")[2], "40G");
    let last = events(&study, "submitted").pop().unwrap();
    assert_eq!(last["reduced"][0], "--mem 48G reduced to 40G (max_mem)");
    assert_eq!(last["changes"][0], "--mem 32G -> 40G");
}

#[test]
fn failures_are_explained_where_they_are_shown() {
    let (study, slurm) = study(&["sub-01/ses-01"]);
    study.ok(&["run"]);
    end(&slurm, "FAILED 127:0");
    let said = study.ok(&["-v", "monitor"]);
    let why =
        "exit code 127: a command was not found (a missing module or container, a wrong PATH)";
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
