//! Plugins, scripts and people that rename jobs: each end is still that of the task's own job.

use super::*;
use crate::harness::executable;
use crate::harness_slurm::{Cluster, cluster, private_cluster};

/// Leaves its marker at once (`sub-marker`), waits for `go`, and fails.
const FAILS_LATE: &str = r#"[ "$1" = sub-none ] || { mkdir -p "$SNBB_OUTPUT_DIR"; touch "$SNBB_OUTPUT_DIR/done"; }
while [ ! -e "$SNBB_DERIVATIVES_ROOT/../go" ]; do sleep 0.1; done
exit 3"#;

const AGE_S: u64 = 2;

/// Calls `run` until the queue must have forgotten every job that has ended: nothing has changed.
fn stays(study: &Study, expected: &[&str]) {
    for _ in 0..3 {
        study.ok(&["run"]);
        assert_eq!(study.statuses(), expected);
        sleep(Duration::from_secs(AGE_S));
    }
}

fn is_forgotten(cluster: &Cluster) -> bool {
    cluster
        .run("squeue", &["-h", "--states=all"])
        .trim()
        .is_empty()
}

/// A site whose plugin changes the name of each job and replaces its comment.
fn renaming_site(name: &str) -> Option<Cluster> {
    let cluster = private_cluster(name)?;
    let plugin = cluster.conf().with_file_name("job_submit.lua");
    let text = r#"function slurm_job_submit(job, partitions, uid)
  job.name = "u_" .. job.name
  job.comment = "site"
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end
return slurm.SUCCESS
"#;
    std::fs::write(plugin, text).unwrap();
    cluster.set_conf(&format!("JobSubmitPlugins=lua\nMinJobAge={AGE_S}"));
    cluster.restart("slurmctld");
    Some(cluster)
}

/// What is left of a job's identity is its command line in accounting.
#[test]
fn attack_jobs_without_name_and_comment_are_taken_back_by_their_command_lines() {
    let Some(cluster) = renaming_site("unnamed") else {
        return;
    };
    let study = cluster.study(
        "procedures:
  - {name: many, output_dir: many, script: p.sh, completion_marker: done, array: always}
  - {name: one, output_dir: one, script: p.sh, completion_marker: done}
",
    );
    study.script("p.sh", FAILS_LATE);
    study.scan(&["sub-none/ses-1"]);
    study.ok(&["run"]);
    until(&study, &["monitor"], |_, statuses| {
        statuses.iter().all(|s| s.ends_with("running running"))
    });
    let jobs = study.job_ids();
    wait_until("the command lines in accounting", || {
        let lines = cluster.run("sacct", &["-X", "-n", "-P", "--format=SubmitLine"]);
        lines.matches("--comment=snbb:").count() == jobs.len()
    });
    for file in ["state.parquet", "scheduler_audit.jsonl"] {
        std::fs::remove_file(study.at(file)).unwrap();
    }
    study.ok(&["run"]);
    assert_eq!(study.job_ids(), jobs, "submitted twice");
    study.write("go", "");
    until(&study, &["run"], |_, statuses| {
        statuses.iter().all(|s| s.ends_with("failed exit_code"))
    });
}

/// Its parts run on two nodes, and each has the comment.
#[test]
fn attack_a_heterogeneous_job_is_one_job() {
    let settings = [("SNBB_DEV_NODES", "2"), ("SNBB_DEV_CPUS", "4")];
    let Some(cluster) = cluster().map(|_| Cluster::start("parts", &settings).unwrap()) else {
        return;
    };
    let study = cluster
        .study("procedures: [{name: p, output_dir: p, script: p.sh, completion_marker: done}]\n");
    study.write("p.sh", "#!/bin/bash\n#SBATCH hetjob\nsleep 600\n");
    executable(&study.at("p.sh"));
    study.scan(&["sub-1/ses-1"]);
    study.ok(&["run"]);
    let running = |study: &Study| {
        until(study, &["monitor"], |_, statuses| {
            statuses == ["p sub-1 ses-1: running running"]
        });
    };
    running(&study);
    let jobs = study.job_ids();
    std::fs::remove_file(study.at("state.parquet")).unwrap();
    let said = study.ok(&["run"]);
    let is_warned = |line: &str| line.starts_with("warning: p sub-1 ses-1: ");
    assert!(!said.err.lines().any(is_warned), "{}", said.err);
    running(&study);
    assert_eq!(study.job_ids(), jobs);
    let parts = || cluster.run("squeue", &["-h", "--format=%i"]);
    assert_eq!(parts().lines().count(), 2, "{}", parts());
    study.ok(&["cancel", "--all"]);
    until(&study, &["monitor"], |_, statuses| {
        statuses == ["p sub-1 ses-1: failed cancelled"]
    });
    wait_until("both parts to end", || parts().is_empty());
}

#[test]
fn e1_a_plugin_that_renames_jobs_ends_none() {
    let Some(cluster) = renaming_site("plugin") else {
        return;
    };
    let study = cluster.study(
        "procedures:
  - {name: p, output_dir: p, script: p.sh, completion_marker: done}
  - {name: q, output_dir: q, script: p.sh, completion_marker: done, depends_on: [p]}
",
    );
    study.script("p.sh", FAILS_LATE);
    study.scan(&["sub-marker/ses-1", "sub-none/ses-1"]);
    study.ok(&["run"]);
    let shown = cluster.run("squeue", &["-h", "-o", "%j %k"]);
    assert!(
        shown
            .lines()
            .all(|line| line.starts_with("u_p_") && line.ends_with(" site")),
        "the plugin does nothing: {shown}"
    );
    until(&study, &["monitor"], |_, statuses| {
        statuses.iter().all(|s| s.ends_with("running running"))
    });
    stays(
        &study,
        &[
            "p sub-marker ses-1: running running",
            "p sub-none ses-1: running running",
        ],
    );
    study.write("go", "");
    wait_until("an empty queue", || is_forgotten(&cluster));
    until(&study, &["run"], |_, statuses| {
        !statuses.iter().any(|s| s.contains("unaccounted"))
    });
    stays(
        &study,
        &[
            "p sub-marker ses-1: failed exit_code",
            "p sub-none ses-1: failed exit_code",
        ],
    );
}

#[test]
fn e2_renamed_jobs_are_followed_to_their_end() {
    let Some(cluster) = private_cluster("renamed") else {
        return;
    };
    cluster.set_conf(&format!("MinJobAge={AGE_S}"));
    let study = cluster.study(
        "procedures:
  - {name: many, output_dir: many, script: p.sh, completion_marker: done, array: always}
  - {name: one, output_dir: one, script: p.sh, completion_marker: done}
",
    );
    study.script("p.sh", FAILS_LATE);
    study.scan(&["sub-marker/ses-1"]);
    study.ok(&["run"]);
    until(&study, &["monitor"], |_, statuses| {
        statuses.iter().all(|s| s.ends_with("running running"))
    });
    for row in study.rows() {
        let job = row["job_id"].as_str().unwrap();
        cluster.scontrol(&["update", &format!("JobId={job}"), "JobName=urgent"]);
    }
    let running = ["many", "one"].map(|p| format!("{p} sub-marker ses-1: running running"));
    stays(&study, &running.each_ref().map(String::as_str));
    study.write("go", "");
    wait_until("an empty queue", || is_forgotten(&cluster));
    until(&study, &["run"], |_, statuses| {
        !statuses.iter().any(|s| s.contains("unaccounted"))
    });
    let failed = ["many", "one"].map(|p| format!("{p} sub-marker ses-1: failed exit_code"));
    stays(&study, &failed.each_ref().map(String::as_str));
}

/// Somebody requeues a job that has ended well, and it fails before anybody looks; the queue has forgotten it by then.
#[test]
fn attack_a_job_that_ended_again_is_judged_by_its_last_run() {
    let Some(cluster) = private_cluster("again") else {
        return;
    };
    cluster.set_conf("MinJobAge=15\nJobRequeue=1");
    let study = cluster
        .study("procedures: [{name: p, output_dir: p, script: p.sh, completion_marker: done}]\n");
    study.script(
        "p.sh",
        r#"mkdir -p "$SNBB_OUTPUT_DIR"
[ ! -e "$SNBB_OUTPUT_DIR/done" ] || exit 3
touch "$SNBB_OUTPUT_DIR/done""#,
    );
    study.scan(&["sub-1/ses-1"]);
    study.ok(&["run"]);
    until(&study, &["monitor"], |_, statuses| {
        statuses == ["p sub-1 ses-1: complete verified"]
    });
    let job = study.job_ids().into_values().next().unwrap();
    // A job starts in the second after its last end at the earliest.
    sleep(Duration::from_secs(1));
    cluster.scontrol(&["requeue", &job]);
    cluster.scontrol(&["update", &format!("JobId={job}"), "StartTime=now"]);
    wait_until("an empty queue", || is_forgotten(&cluster));
    until(&study, &["monitor"], |_, statuses| {
        statuses == ["p sub-1 ses-1: failed exit_code"]
    });
}
