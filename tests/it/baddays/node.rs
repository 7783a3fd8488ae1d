//! A node that dies, and a prolog that fails.

use std::fs;

use super::*;
use crate::harness::executable;
use crate::harness_slurm::{Cluster, private_cluster};

#[test]
fn a_dead_node_and_a_failing_prolog() {
    let Some(cluster) = private_cluster("node") else {
        return;
    };
    let study = cluster.study(
        "procedures:
  - {name: stays, output_dir: stays, script: job.sh, completion_marker: done, sbatch_args: [--no-requeue]}
  - {name: again, output_dir: again, script: job.sh, completion_marker: done, sbatch_args: [--requeue]}
",
    );
    study.script("job.sh", UNTIL_GO);

    // The prolog fails first: that the script never began is believed a minute later.
    let prolog = cluster.conf().with_file_name("prolog.sh");
    fs::write(&prolog, "#!/bin/sh\nexit 1\n").unwrap();
    executable(&prolog);
    cluster.set_conf(&format!("Prolog={}", prolog.display()));
    study.scan(&["sub-prolog/ses-1"]);
    for procedure in ["stays", "again"] {
        study.ok(&["run", "--procedure", procedure]);
        wait_until("a drained node", || is_drained(&cluster));
        cluster.scontrol(&["update", &node(&cluster), "state=resume"]);
        wait_until("a node back", || !is_drained(&cluster));
    }
    // Not by slurm.conf: a controller that reads it anew forgets who has ended the job.
    fs::write(&prolog, "#!/bin/sh\n").unwrap();
    let said = until(&study, &["monitor"], |_, statuses| {
        statuses[0] == "again sub-prolog ses-1: pending held"
    });
    let held = "(Slurm: launch failed requeued held): again sub-prolog ses-1";
    assert!(said.err.contains(held), "{}", said.err);

    study.scan(&["sub-down/ses-1"]);
    study.ok(&["run"]);
    until(&study, &["monitor"], |_, statuses| {
        statuses
            .iter()
            .filter(|s| s.ends_with("sub-down ses-1: running running"))
            .count()
            == 2
    });
    cluster.scontrol(&["update", &node(&cluster), "state=down", "reason=test"]);
    until(&study, &["monitor"], |_, statuses| {
        let [again, stays] = ["again", "stays"].map(|name| {
            let task = format!("{name} sub-down ses-1: ");
            statuses.iter().find_map(|row| row.strip_prefix(&task))
        });
        assert_ne!(
            again,
            Some("failed node_fail"),
            "a requeued job was taken for an ended one"
        );
        (again, stays) == (Some("pending queued"), Some("failed node_fail"))
    });
    let lost = row(&study, "stays", "sub-down");
    assert_eq!(lost["slurm_state"], "NODE_FAIL");
    assert!(
        lost["node_list"].is_string(),
        "retry can leave the node out"
    );

    cluster.restart("slurmd");
    let (_, _) = cluster.try_run("scontrol", &["update", &node(&cluster), "state=resume"]);
    study.write("go", "");
    let id = |subject: &str| job_id(&study, "again", subject);
    cluster.scontrol(&["release", &id("sub-prolog")]);
    for subject in ["sub-prolog", "sub-down"] {
        cluster.scontrol(&["update", &format!("jobid={}", id(subject)), "StartTime=now"]);
    }
    until(&study, &["monitor"], |_, statuses| {
        statuses
            .iter()
            .all(|s| s.contains(": failed") || s.contains(": complete"))
    });
    assert_eq!(
        study.statuses(),
        [
            "again sub-down ses-1: complete verified",
            "again sub-prolog ses-1: complete verified",
            "stays sub-down ses-1: failed node_fail",
            "stays sub-prolog ses-1: failed launch_failed",
        ]
    );
    let never_ran = row(&study, "stays", "sub-prolog");
    assert_eq!(never_ran["slurm_state"], "CANCELLED by 0");
    assert_eq!(never_ran["attempt"], 1);
}

fn node(cluster: &Cluster) -> String {
    format!("nodename={}", cluster.node())
}

fn is_drained(cluster: &Cluster) -> bool {
    cluster.run("sinfo", &["-h", "-o", "%T"]).contains("drain")
}
