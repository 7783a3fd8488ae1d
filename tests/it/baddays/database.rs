//! Accounting that is dead, frozen or broken: work goes on, and nothing is concluded from its silence.

use super::*;
use crate::harness_slurm::private_cluster;

#[test]
fn accounting_dies_freezes_and_breaks() {
    let Some(cluster) = private_cluster("database") else {
        return;
    };
    // The queue forgets ended jobs as soon as it can.
    cluster.set_conf("MinJobAge=2");
    let config = |deadline: &str| {
        format!(
            "deadline: {deadline}\nlost_grace: 1s\noutput_grace: 1s\nslurm_partition: debug\nslurm_account: snbb\nprocedures:
  - {{name: job, output_dir: job, script: job.sh, completion_marker: done}}
"
        )
    };
    let study = cluster.study("");
    study.configure(&config("2m"));
    study.script(
        "job.sh",
        &format!("case $1 in sub-fails) exit 3;; sub-first|sub-second) touch \"$SNBB_DERIVATIVES_ROOT/../go.$1\"; mkdir -p \"$SNBB_OUTPUT_DIR\"; touch \"$SNBB_OUTPUT_DIR/done\"; exit;; esac\n{UNTIL_GO}"),
    );
    study.scan(&["sub-first/ses-1", "sub-long/ses-1"]);
    study.ok(&["run"]);
    let first = |what: &str| format!("job sub-first ses-1: {what}");
    let long = "job sub-long ses-1: running running".to_owned();
    until(&study, &["monitor"], |_, statuses| {
        statuses.contains(&first("complete verified")) && statuses.contains(&long)
    });

    // Dead: reported at once; submission goes on, and what the queue has forgotten has not ended.
    cluster.signal("slurmdbd", "KILL");
    study.scan(&["sub-second/ses-1"]);
    let said = study.call(&["run"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert!(names_only_sacct(&said), "{}", said.err);
    assert!(said.err.contains("1 submitted"), "{}", said.err);
    wait_until("the second job's end", || {
        study.at("go.sub-second").exists()
    });
    let second = job_id(&study, "job", "sub-second");
    let second_task = "job sub-second ses-1";
    wait_until("a queue without it", || {
        let queue = cluster.run("squeue", &["-h", "--states=all", "-o", "%A"]);
        !queue.lines().any(|id| id == second)
    });
    for _ in 0..3 {
        let said = study.call(&["monitor"]);
        assert_eq!(said.code, 5, "{}", said.err);
        let statuses = study.statuses();
        assert!(statuses.contains(&long), "{statuses:?}");
        let is_complete = |s: &String| s.starts_with(&format!("{second_task}: complete"));
        assert!(!statuses.iter().any(is_complete), "{statuses:?}");
        sleep(Duration::from_millis(1100));
    }
    cluster.restart("slurmdbd");
    until(&study, &["monitor"], |said, statuses| {
        let is_complete = |s: &String| *s == format!("{second_task}: complete verified");
        said.code == 0 && statuses.iter().any(is_complete)
    });

    // Frozen: sacct would wait for 45 s, and 30 s for a frozen database.
    study.configure(&config("6s"));
    for daemon in ["slurmdbd", "mariadbd"] {
        cluster.signal(daemon, "STOP");
        let said = study.call(&["monitor"]);
        cluster.signal(daemon, "CONT");
        assert_eq!(said.code, 5, "{daemon}: {}", said.err);
        assert!(names_only_sacct(&said), "{daemon}: {}", said.err);
        assert!(study.statuses().contains(&long), "{daemon}");
    }
    study.configure(&config("2m"));
    until(&study, &["monitor"], |said, _| said.code == 0);

    // Broken: sacct exits with 0 and knows nothing, also of what the queue has forgotten.
    study.scan(&["sub-fails/ses-1"]);
    study.ok(&["run"]);
    let fails = job_id(&study, "job", "sub-fails");
    wait_until("an empty queue", || {
        let queue = cluster.run("squeue", &["-h", "--states=all", "-o", "%A"]);
        !queue.lines().any(|id| id == fails)
    });
    // An end that the database has not got when it breaks would never be in it.
    wait_until("the end in accounting", || {
        let states = cluster.run("sacct", &["-n", "-X", "-j", &fails, "-o", "state"]);
        states.contains("FAILED")
    });
    cluster.sql("rename table dev_job_table to hidden_job_table");
    let (code, text) = cluster.try_run("sacct", &["-n", "-X", "-j", &fails]);
    assert_eq!(
        (code, text.as_str()),
        (Some(0), ""),
        "the way to break it has changed"
    );
    for _ in 0..3 {
        let said = study.call(&["monitor"]);
        assert_eq!(said.code, 5, "{}", said.err);
        assert!(names_only_sacct(&said), "{}", said.err);
        let statuses = study.statuses();
        assert!(statuses.contains(&long), "{statuses:?}");
        assert!(
            !statuses.iter().any(|s| s.contains("failed")),
            "{statuses:?}"
        );
        sleep(Duration::from_millis(1100));
    }
    cluster.sql("rename table hidden_job_table to dev_job_table");
    study.write("go", "");
    let said = until(&study, &["monitor"], |_, statuses| {
        statuses
            .iter()
            .all(|s| s.contains(": failed") || s.contains(": complete"))
    });
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(
        study.statuses(),
        [
            "job sub-fails ses-1: failed exit_code",
            "job sub-first ses-1: complete verified",
            "job sub-long ses-1: complete verified",
            "job sub-second ses-1: complete verified",
        ]
    );
    assert_eq!(row(&study, "job", "sub-fails")["exit_code"], "3:0");
}

/// Whether the reported problems are about accounting and not about the queue.
fn names_only_sacct(said: &Said) -> bool {
    said.err.contains("sacct") && !said.err.contains("squeue")
}
