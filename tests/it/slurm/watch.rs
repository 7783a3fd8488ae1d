//! A study under `run --watch` on a real Slurm, from nothing to its end.

use std::process::Stdio;

use chrono::{DateTime, Utc};

use super::*;
use crate::harness::Study;
use crate::watch::{assert_each_task_ran_once, assert_plain_lines, end_by, watching};

const STEPS: [&str; 4] = ["convert", "denoise", "fit", "report"];
/// Each job takes so long.
const JOB_S: u64 = 3;
const INTERVAL_S: u64 = 2;

/// Six sessions and four steps, each of which needs the one before it.
fn study(cluster: &Cluster) -> Study {
    let step = |name: &str, dir: &str, depends: &str| {
        format!(
            "  - {{name: {name}, output_dir: '{dir}', script: step.sh, depends_on: [{depends}], \
             completion_marker: {name}.done, env: {{MARK: {name}.done}}, mem: 20M}}\n"
        )
    };
    let study = cluster.study(&format!(
        "output_grace: 1s\nprocedures:\n{}{}{}{}",
        step("convert", "", ""),
        step("denoise", "denoise", "convert"),
        step("fit", "fit", "denoise"),
        step("report", "report", "fit")
    ));
    study.script(
        "step.sh",
        &format!(
            "mkdir -p \"$SNBB_OUTPUT_DIR\"\nsleep {JOB_S}\necho \"$SLURM_JOB_ID\" > \"$SNBB_OUTPUT_DIR/$MARK\""
        ),
    );
    let sessions = ["01", "02", "03"]
        .map(|subject| ["01", "02"].map(|session| format!("sub-{subject}/ses-{session}")));
    let sessions: Vec<&str> = sessions.iter().flatten().map(String::as_str).collect();
    study.scan(&sessions);
    study
}

/// From the first submission of a step to the end of its last job, as Slurm has them.
fn seconds_of(step: &str, study: &Study) -> i64 {
    let rows = study.rows();
    let rows = rows.iter().filter(|row| row["procedure"] == step);
    let times = |column: &str| -> Vec<DateTime<Utc>> {
        let rows = rows.clone().map(|row| row[column].as_str().unwrap());
        rows.map(|time| time.parse().unwrap()).collect()
    };
    let first = times("submitted_at").into_iter().min().unwrap();
    let last = times("ended_at").into_iter().max().unwrap();
    (last - first).num_seconds()
}

#[test]
fn six_sessions_and_four_steps_go_from_nothing_to_complete_under_watch() {
    let Some(cluster) = cluster() else { return };
    let study = study(cluster);
    let started = Instant::now();
    let said = study.ok(&["run", "--watch", &format!("{INTERVAL_S}s")]);
    let took = started.elapsed().as_secs_f64();
    let jobs: i64 = STEPS.iter().map(|step| seconds_of(step, &study)).sum();
    eprintln!(
        "run --watch took {took:.1} s; the four steps, each from submission to end, took {jobs} s, and four intervals are {} s",
        4 * INTERVAL_S
    );
    assert_each_task_ran_once(&study, 24);
    assert_plain_lines(&said.err);
    for step in STEPS {
        assert!(
            said.err.contains(&format!(" {step}: 6/6 complete\n")),
            "{}",
            said.err
        );
    }
    assert!(said.err.contains("24 complete, 0 due"), "{}", said.err);
}

#[test]
fn an_interrupted_watch_leaves_all_sound_and_the_next_one_completes() {
    let Some(cluster) = cluster() else { return };
    let study = study(cluster);
    for (signal, step) in [(2, "convert"), (15, "denoise")] {
        let mut child = watching(&study, &["run", "--watch", "1s"], Stdio::piped());
        let is_there = |row: &String| row.starts_with(step);
        study.until(&["status"], PATIENCE, |rows| rows.iter().any(is_there));
        end_by(&mut child, signal);
        let said = study.ok(&["state", "verify"]);
        assert!(!said.err.contains("warning"), "{}", said.err);
    }
    study.ok(&["run", "--watch", "1s"]);
    assert_each_task_ran_once(&study, 24);
}
