//! A site's life on a real Slurm: studies from nothing to their end, by repeated calls.

use std::time::Duration;

use crate::harness::Study;
use crate::harness_slurm::cluster;

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(180);

fn until(study: &Study, arguments: &[&str], done: impl Fn(&[String]) -> bool) -> Vec<String> {
    study.until(arguments, PATIENCE, done)
}

#[test]
fn twenty_sessions_and_four_steps_go_from_nothing_to_complete() {
    let Some(cluster) = cluster() else { return };
    let study = cluster.study("procedures:
  - {name: convert, output_dir: '', script: step.sh, completion_marker: 'anat/*_T1w.nii.gz', env: {MARK: anat/x_T1w.nii.gz}}
  - {name: prep, output_dir: prep, script: step.sh, depends_on: [convert], completion_marker: '*.html', env: {MARK: r.html}}
  - {name: qc, output_dir: qc, script: step.sh, depends_on: [convert], completion_marker: done, env: {MARK: done}}
  - {name: group, output_dir: group, script: step.sh, scope: subject, depends_on: [prep, qc], completion_marker: table.tsv, env: {MARK: table.tsv}}
",
    );
    study.script(
        "step.sh",
        r#"mkdir -p "$SNBB_OUTPUT_DIR/$(dirname "$MARK")"
        test "$1" = "$SNBB_SUBJECT"
        test "${2:-}" = "$SNBB_SESSION"
        echo "$SLURM_JOB_ID" > "$SNBB_OUTPUT_DIR/$MARK""#,
    );
    let sessions: Vec<String> = (0..20)
        .map(|i| format!("sub-{:02}/ses-{:02}", i / 2 + 1, i % 2 + 1))
        .collect();
    study.scan(&sessions.iter().map(String::as_str).collect::<Vec<_>>());

    let end = until(&study, &["run"], |statuses| {
        statuses.len() == 70 && statuses.iter().all(|s| s.ends_with("complete verified"))
    });
    assert_eq!(end.len(), 70);
    let said = study.ok(&["run"]);
    assert!(
        said.err.contains("70 complete, 0 due, 0 submitted"),
        "{}",
        said.err
    );
    // Every task ran exactly once: its output holds the id in its row, and each id is there once.
    let mut ids: Vec<String> = study
        .rows()
        .iter()
        .map(|row| row["job_id"].as_str().unwrap().to_owned())
        .collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 70);
    let submitted = study
        .read("scheduler_audit.jsonl")
        .lines()
        .filter(|line| line.contains("\"event\": \"submitted\""))
        .count();
    assert_eq!(submitted, 70);
}

#[test]
fn each_bad_end_has_its_reason_and_retry_takes_exactly_what_it_is_asked_for() {
    let Some(cluster) = cluster() else { return };
    let study = cluster.study(
        "output_grace: 1s
procedures:
  - {name: job, output_dir: job, script: job.sh, completion_marker: done, mem: 50M}
",
    );
    study.script(
        "job.sh",
        r#"mkdir -p "$SNBB_OUTPUT_DIR"
        case $1 in
        sub-fails) exit 3 ;;
        sub-sleeps) [ "$SNBB_ATTEMPT" = 2 ] || sleep 600 ;;
        sub-cancelled) sleep 600 ;;
        sub-eats) echo 1000 > /proc/self/oom_score_adj; head -c 300M /dev/zero | tail | sleep 60 ;;
        sub-forgets) exit 0 ;;
        esac
        echo "$SNBB_LAST_REASON" > "$SNBB_OUTPUT_DIR/done""#,
    );
    study.scan(&[
        "sub-fails/ses-1",
        "sub-sleeps/ses-1",
        "sub-cancelled/ses-1",
        "sub-forgets/ses-1",
        "sub-good/ses-1",
    ]);
    if cluster.has_memory_cgroup {
        study.scan(&["sub-eats/ses-1"]);
    }
    study.ok(&["run"]);
    until(&study, &["monitor"], |statuses| {
        ["sleeps", "cancelled"].iter().all(|who| {
            statuses
                .iter()
                .any(|row| *row == format!("job sub-{who} ses-1: running running"))
        })
    });
    let id = |subject: &str| {
        let rows = study.rows();
        let row = rows.iter().find(|row| row["subject"] == subject).unwrap();
        row["job_id"].as_str().unwrap().to_owned()
    };
    cluster.run("scancel", &[&id("sub-cancelled")]);
    cluster.end_time_limit(&id("sub-sleeps"));
    let statuses = until(&study, &["monitor"], |statuses| {
        statuses
            .iter()
            .all(|s| s.contains("failed") || s.contains("complete"))
    });
    let mut expected = vec![
        "job sub-cancelled ses-1: failed cancelled",
        "job sub-fails ses-1: failed exit_code",
        "job sub-forgets ses-1: failed no_output",
        "job sub-good ses-1: complete verified",
        "job sub-sleeps ses-1: failed timeout",
    ];
    if cluster.has_memory_cgroup {
        expected.insert(1, "job sub-eats ses-1: failed out_of_memory");
    }
    assert_eq!(statuses, expected);
    let rows = study.rows();
    let failed = rows
        .iter()
        .find(|row| row["subject"] == "sub-fails")
        .unwrap();
    assert_eq!(failed["exit_code"], "3:0");
    assert_eq!(failed["slurm_state"], "FAILED");

    let said = study.ok(&["run"]);
    assert!(
        said.err.contains("0 submitted"),
        "failed tasks wait for retry: {}",
        said.err
    );
    study.ok(&["retry", "--reason", "timeout"]);
    let said = study.ok(&["run"]);
    assert!(said.err.contains("1 due, 1 submitted"), "{}", said.err);
    until(&study, &["monitor"], |statuses| {
        statuses.last().unwrap() == "job sub-sleeps ses-1: complete verified"
    });
    assert_eq!(
        study.read("derivatives/job/sub-sleeps/ses-1/done"),
        "timeout\n"
    );
}
