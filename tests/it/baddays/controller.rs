//! A controller that freezes, dies, and gives ids a second time.

use std::fs;

use super::*;
use crate::harness_slurm::private_cluster;

#[test]
fn the_controller_freezes_dies_and_recycles_ids() {
    let Some(cluster) = private_cluster("controller") else {
        return;
    };
    let study = cluster.study(
        "procedures:
  - {name: job, output_dir: job, script: job.sh, completion_marker: done}
",
    );
    study.script(
        "job.sh",
        &format!("case $1 in sub-fails) exit 3;; esac\n{UNTIL_GO}"),
    );
    study.scan(&["sub-fails/ses-1", "sub-long/ses-1"]);
    study.ok(&["run"]);
    let long = "job sub-long ses-1: running running".to_owned();
    until(&study, &["monitor"], |_, statuses| statuses.contains(&long));

    // The controller saves what it knows within five seconds; what it has not saved is lost with it.
    let seen = std::time::SystemTime::now();
    let since = Instant::now();
    let saved = cluster.dir.join("state/job_state");
    wait_until("a saved controller", || {
        since.elapsed() > Duration::from_secs(7)
            || fs::metadata(&saved).is_ok_and(|file| file.modified().unwrap() > seen)
    });

    // Frozen and dead: nothing is known, nothing changes, nothing is submitted.
    study.scan(&["sub-next/ses-1"]);
    for signal in ["STOP", "KILL"] {
        let before = study.read_bytes("state.parquet");
        cluster.signal("slurmctld", signal);
        for command in ["run", "monitor"] {
            let said = study.call(&[command]);
            assert_eq!(said.code, 5, "{signal} {command}: {}", said.err);
            assert!(
                said.err
                    .contains("the queue is not responding: squeue ended with exit code 1"),
                "{signal} {command}: {}",
                said.err
            );
        }
        assert_eq!(study.read_bytes("state.parquet"), before, "{signal}");
        if signal == "STOP" {
            cluster.signal("slurmctld", "CONT");
        }
    }
    cluster.restart("slurmctld");
    let said = study.ok(&["run"]);
    assert!(said.err.contains("1 due, 1 submitted"), "{}", said.err);
    until(&study, &["monitor"], |_, statuses| {
        statuses.contains(&long)
            && statuses.contains(&"job sub-fails ses-1: failed exit_code".to_owned())
    });

    // Ids come round: the living jobs with the ids of ours are strangers, or jobs of other tasks.
    study.scan(&["sub-short/ses-1"]);
    study.ok(&["run"]);
    study.write("go", "");
    let ids: Vec<String> = ["sub-fails", "sub-long", "sub-next", "sub-short"]
        .iter()
        .map(|subject| job_id(&study, "job", subject))
        .collect();
    let last: u32 = ids.iter().map(|id| id.parse().unwrap()).max().unwrap();
    wait_until("the end of our jobs", || {
        cluster.run("squeue", &["-h", "-o", "%A"]).is_empty()
    });
    // Ids whose jobs the controller remembers are skipped: it forgets in a restart with a new start.
    cluster.set_conf(&format!("FirstJobId=1\nMaxJobId={}\nMinJobAge=2", last + 1));
    wait_until("a queue that has forgotten", || {
        cluster
            .run("squeue", &["-h", "--states=all", "-o", "%A"])
            .is_empty()
    });
    let strangers: Vec<String> = (0..last)
        .map(|_| {
            cluster
                .run(
                    "sbatch",
                    &[
                        "--parsable",
                        "--hold",
                        "--output=/dev/null",
                        "--account=snbb",
                        "--chdir=/",
                        "--wrap=true",
                    ],
                )
                .trim()
                .to_owned()
        })
        .collect();
    assert!(
        ids[1..].iter().any(|id| strangers.contains(id)),
        "{ids:?} {strangers:?}"
    );
    wait_until("records of the strangers", || {
        let lines = cluster.run(
            "sacct",
            &[
                "-n",
                "-X",
                "-P",
                "-j",
                &strangers.join(","),
                "--format=JobName",
            ],
        );
        lines.lines().filter(|name| *name == "wrap").count() == strangers.len()
    });
    let said = study.ok(&["monitor"]);
    assert_eq!(
        study.statuses(),
        [
            "job sub-fails ses-1: failed exit_code",
            "job sub-long ses-1: complete verified",
            "job sub-next ses-1: complete verified",
            "job sub-short ses-1: complete verified",
        ],
        "{}",
        said.err
    );
    // A job of ours with an old id is a new job.
    cluster.run("scancel", &["-u", "root"]);
    study.ok(&["retry"]);
    let said = study.ok(&["run"]);
    assert!(said.err.contains("1 submitted"), "{}", said.err);
    until(&study, &["monitor"], |_, statuses| {
        statuses.contains(&"job sub-fails ses-1: failed exit_code".to_owned())
    });
    assert_eq!(row(&study, "job", "sub-fails")["attempt"], 2);
}

/// A controller that begins anew ends all jobs in accounting: nobody has cancelled them.
#[test]
fn jobs_that_the_controller_forgets_have_failed_by_no_fault_of_their_own() {
    let Some(cluster) = private_cluster("amnesia") else {
        return;
    };
    let study = cluster.study(
        "procedures:
  - {name: job, output_dir: job, script: job.sh, completion_marker: done}
",
    );
    study.script("job.sh", UNTIL_GO);
    study.scan(&["sub-long/ses-1"]);
    study.ok(&["run"]);
    let id = job_id(&study, "job", "sub-long");
    // Until accounting knows all of it: its name comes last.
    wait_until("a whole record", || {
        cluster
            .run(
                "sacct",
                &["-n", "-X", "-P", "-j", &id, "--format=State,JobName"],
            )
            .contains("RUNNING|job_sub-long_ses-1")
    });
    cluster.signal("slurmctld", "KILL");
    wait_until("its end", || {
        cluster.try_run("squeue", &["-h"]).0 != Some(0)
    });
    let state = cluster.dir.join("state");
    fs::remove_dir_all(&state).unwrap();
    fs::create_dir(&state).unwrap();
    cluster.restart("slurmctld");
    let said = until(&study, &["monitor"], |_, statuses| {
        statuses == ["job sub-long ses-1: failed node_fail"]
    });
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(row(&study, "job", "sub-long")["slurm_state"], "CANCELLED");
}
