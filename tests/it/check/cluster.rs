//! The same on a real Slurm: what `sbatch --test-only` says of accounts, partitions and qualities of service.

use super::{STEPS, among, check, trouble};
use crate::harness_slurm::{cluster, private_cluster};

#[test]
fn a_real_site_without_trouble_and_what_it_would_refuse() {
    let Some(cluster) = cluster() else {
        return;
    };
    let study = cluster.study(STEPS);
    study.script("job.sh", "true");
    study.scan(&["sub-check/ses-01"]);
    let (code, found) = check(&study, &[]);
    assert_eq!(code, 0, "{found:#?}");
    assert!(found.iter().all(|f| f.level == "ok"), "{found:#?}");
    for topic in ["slurm", "queue", "accounting", "partition", "submission"] {
        assert!(
            found.iter().any(|f| f.topic == topic),
            "{topic}: {found:#?}"
        );
    }
    assert!(
        found
            .iter()
            .any(|f| f.topic == "clock" && f.about == "slurmctld"),
        "{found:#?}"
    );
    let configure = |options: &str| {
        study.configure(&format!(
            "slurm_partition: debug\nslurm_account: snbb\n{}",
            STEPS.replacen("script: job.sh,", &format!("script: job.sh, {options},"), 1)
        ));
    };
    for (options, part, advice) in [
        (
            "partition: nope",
            "Invalid partition name specified",
            "slurm_partition",
        ),
        ("account: nope", "Invalid account", "slurm_account"),
        ("qos: nope", "Invalid qos specification", "qos"),
        (
            "sbatch_args: [--constraint=nope]",
            "Invalid feature specification",
            "--constraint",
        ),
        (
            "mem: 900T",
            "Requested node configuration is not available",
            "less memory",
        ),
    ] {
        configure(options);
        let found = trouble(&study, &[]);
        assert_eq!(found.len(), 1, "{options}: {found:#?}");
        assert_eq!(
            (found[0].topic.as_str(), found[0].about.as_str()),
            ("submission", "bids")
        );
        assert!(found[0].text.contains(part), "{options}: {found:?}");
        assert!(
            found[0].advice.as_ref().unwrap().contains(advice),
            "{options}: {found:?}"
        );
    }
    // Under cron nothing says where the cluster is.
    configure("qos: normal");
    let found = trouble(&study, &["--cron"]);
    let line = format!("SLURM_CONF={}", cluster.conf().display());
    let queue = found
        .iter()
        .find(|f| f.topic == "cron" && f.about == "queue");
    assert!(
        queue.is_some_and(|f| f.advice.as_ref().unwrap().contains(&line)),
        "{found:#?}"
    );
    // Nothing was ever submitted.
    let names = cluster.run("squeue", &["-h", "--states=all", "--format=%j"]);
    assert!(!names.contains("sub-check"), "{names}");
}

#[test]
fn limits_and_a_database_that_is_away() {
    let Some(cluster) = private_cluster("check") else {
        return;
    };
    let study = cluster.study(&STEPS.replace("script: job.sh,", "script: job.sh, time: 120,"));
    study.script("job.sh", "true");
    study.scan(&["sub-check/ses-01"]);
    assert_eq!(trouble(&study, &[]).len(), 0);
    cluster.scontrol(&["update", "PartitionName=debug", "MaxTime=60"]);
    among(
        &study,
        &[],
        "error",
        "partition",
        "requests 120 min, but partition debug allows 60 min",
    );
    cluster.scontrol(&[
        "update",
        "PartitionName=debug",
        "MaxTime=UNLIMITED",
        "State=DOWN",
    ]);
    among(&study, &[], "warning", "partition", "is DOWN");
    cluster.scontrol(&["update", "PartitionName=debug", "State=UP"]);
    let user = snbb_scheduler::base::sys::user_name();
    let user = if user.starts_with("user ") {
        "root".to_owned()
    } else {
        user
    };
    let mut study = study;
    study.env.push(("LOGNAME".into(), user.clone()));
    cluster.sacctmgr(&["modify", "user", &user, "set", "MaxWall=30"]);
    among(
        &study,
        &[],
        "error",
        "partition",
        "account snbb allows 30 min (MaxWall)",
    );
    cluster.sacctmgr(&[
        "modify",
        "user",
        &user,
        "set",
        "MaxWall=-1",
        "MaxSubmitJobs=0",
    ]);
    among(
        &study,
        &[],
        "warning",
        "submission",
        "AssocMaxSubmitJobLimit",
    );
    cluster.sacctmgr(&["modify", "user", &user, "set", "MaxSubmitJobs=-1"]);
    cluster.signal("slurmdbd", "KILL");
    let found = trouble(&study, &[]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(
        (found[0].level.as_str(), found[0].topic.as_str()),
        ("error", "accounting")
    );
    cluster.signal("slurmctld", "KILL");
    among(&study, &[], "error", "queue", "squeue does not respond");
}
