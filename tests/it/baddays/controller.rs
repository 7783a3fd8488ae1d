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
                said.err.contains("squeue"),
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
    let failed = "job sub-fails ses-1: failed exit_code".to_owned();
    until(&study, &["monitor"], |_, statuses| {
        statuses.contains(&long) && statuses.contains(&failed)
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
        statuses.contains(&failed)
    });
    assert_eq!(row(&study, "job", "sub-fails")["attempt"], 2);
}

/// In a restart, accounting forgets who cancelled a job. A controller that begins anew forgets its jobs: Slurm before
/// 25.11 then ends them in accounting; later releases do so only in a cold start (`slurmctld -c`), and otherwise leave
/// them running there.
#[test]
fn jobs_that_a_restart_hides_have_the_reason_that_is_true() {
    let Some(cluster) = private_cluster("amnesia") else {
        return;
    };
    let study = cluster.study(
        "lost_grace: 1s
procedures:
  - {name: job, output_dir: job, script: job.sh, completion_marker: done}
",
    );
    study.script("job.sh", UNTIL_GO);
    let record_of = |id: &str| {
        let fields = "--format=State,JobName";
        cluster.run("sacct", &["-n", "-X", "-P", "-j", id, fields])
    };
    let start = |subject: &str| {
        study.scan(&[&format!("{subject}/ses-1")]);
        study.ok(&["run"]);
        let id = job_id(&study, "job", subject);
        // Until accounting knows all of it: its name comes last.
        let whole = format!("RUNNING|job_{subject}_ses-1");
        wait_until("a whole record", || record_of(&id).contains(&whole));
        id
    };
    let ends_as = |subject: &str, reason: &str, slurm_state: serde_json::Value| {
        let ended = format!("job {subject} ses-1: failed {reason}");
        let said = until(&study, &["monitor"], |_, statuses| {
            statuses.contains(&ended)
        });
        assert_eq!(said.code, 0, "{}", said.err);
        assert_eq!(row(&study, "job", subject)["slurm_state"], slurm_state);
    };

    let id = start("sub-cancelled");
    cluster.run("scancel", &[&id]);
    wait_until("the end of the job", || {
        record_of(&id).starts_with("CANCELLED by 0")
            && cluster.run("squeue", &["-h", "-j", &id, "-o", "%T"]) != "COMPLETING\n"
    });
    cluster.restart("slurmctld");
    wait_until("a record of no one", || {
        record_of(&id).starts_with("CANCELLED|")
    });
    ends_as("sub-cancelled", "cancelled", "CANCELLED".into());

    for (subject, options) in [("sub-warm", &[][..]), ("sub-cold", &["-c"])] {
        let id = start(subject);
        cluster.signal("slurmctld", "KILL");
        wait_until("its end", || {
            cluster.try_run("squeue", &["-h"]).0 != Some(0)
        });
        let state = cluster.dir.join("state");
        fs::remove_dir_all(&state).unwrap();
        fs::create_dir(&state).unwrap();
        cluster.restart_with("slurmctld", options);
        if record_of(&id).starts_with("RUNNING") {
            assert!(options.is_empty(), "{}", record_of(&id));
            ends_as(subject, "lost", serde_json::Value::Null);
        } else {
            ends_as(subject, "node_fail", "CANCELLED".into());
        }
    }
}
