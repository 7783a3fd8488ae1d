//! How jobs end, or never begin: each has its reason, seen by a user who is not root.

use super::*;
use crate::harness_slurm::cluster;

#[test]
fn each_end_and_each_hopeless_wait_is_told_apart() {
    let Some(cluster) = cluster() else { return };
    let user = cluster.user.clone();
    // Fails in a moment; two tasks depend on it.
    let parent = cluster
        .run(
            "sbatch",
            &[
                "--parsable",
                "--output=/dev/null",
                "--account=snbb",
                "--chdir=/",
                "--wrap=sleep 4; exit 1",
            ],
        )
        .trim()
        .to_owned();
    // Slurm 24.11 refuses at once what other releases let wait.
    let spread = ["--parsable", "--nodes=5", "--account=snbb", "--wrap=true"];
    let (code, spread_id) = cluster.try_run("sbatch", &spread);
    let may_spread = code == Some(0);
    if may_spread {
        cluster.run("scancel", &[spread_id.trim()]);
    }
    let step = |name: &str, rest: &str| {
        if name == "spread" && !may_spread {
            return String::new();
        }
        format!(
            "  - {{name: {name}, output_dir: {name}, script: job.sh, completion_marker: done, {rest}}}\n"
        )
    };
    let study = cluster.study(&format!(
        "output_grace: 1s\nprocedures:\n{}{}{}{}{}{}{}{}{}",
        step("good", "mem: 300M"),
        step("own", "mem: 50M"),
        step("admin", "mem: 50M"),
        step("slow", "time: '1'"),
        step("hold", "sbatch_args: [--hold]"),
        step("wide", "cpus_per_task: 1000"),
        step("spread", "sbatch_args: [--nodes=5]"),
        step(
            "never",
            &format!("sbatch_args: ['--dependency=afterok:{parent}']")
        ),
        step(
            "killed",
            &format!("sbatch_args: ['--dependency=afterok:{parent}', --kill-on-invalid-dep=yes]")
        ),
    ));
    study.script(
        "job.sh",
        r#"[ "$SNBB_PROCEDURE" = good ] || sleep 600
        echo 1000 > /proc/self/oom_score_adj # else slurmstepd may be killed in its place
        x=$(head -c 60000000 /dev/zero | tr '\0' x)
        for ((i = 0; i < 1500000; i++)); do :; done
        mkdir -p "$SNBB_OUTPUT_DIR"; touch "$SNBB_OUTPUT_DIR/done""#,
    );
    study.scan(&["sub-a/ses-1"]);
    let call = |arguments: &[&str]| call_as(&study, &user, arguments);
    let said = call(&["run"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let is = |statuses: &[String], name: &str, what: &str| {
        statuses.contains(&format!("{name} sub-a ses-1: {what}"))
    };
    until_by(&study, &call, &["monitor"], |_, statuses| {
        ["own", "admin", "slow"]
            .iter()
            .all(|name| is(statuses, name, "running running"))
    });
    let id = |name: &str| job_id(&study, name, "sub-a");
    let by_user = [
        "--reuid",
        &user,
        "--regid",
        &user,
        "--clear-groups",
        "scancel",
    ];
    cluster.run("setpriv", &[&by_user[..], &[&id("own")]].concat());
    cluster.run("scancel", &[&id("admin")]);
    cluster.end_time_limit(&id("slow"));

    let last = until_by(&study, &call, &["monitor"], |said, statuses| {
        statuses.iter().all(|status| {
            [": failed", ": complete", ": pending held"]
                .iter()
                .any(|end| status.contains(end))
        }) && said.err.contains("DependencyNeverSatisfied")
    });
    assert_eq!(last.code, 0, "{}", last.err);
    let expected = [
        "admin sub-a ses-1: failed cancelled",
        "good sub-a ses-1: complete verified",
        "hold sub-a ses-1: pending held",
        "killed sub-a ses-1: failed dependency",
        "never sub-a ses-1: pending held",
        "own sub-a ses-1: failed cancelled",
        "slow sub-a ses-1: failed timeout",
        "spread sub-a ses-1: pending held",
        "wide sub-a ses-1: pending held",
    ];
    let is_there = |text: &str| may_spread || !text.contains("spread");
    let expected: Vec<&str> = expected.into_iter().filter(|text| is_there(text)).collect();
    assert_eq!(study.statuses(), expected);
    let reasons = [
        "(Slurm: JobHeldUser): hold sub-a ses-1",
        "(Slurm: PartitionConfig): wide sub-a ses-1",
        "(Slurm: PartitionNodeLimit): spread sub-a ses-1",
        "(Slurm: DependencyNeverSatisfied): never sub-a ses-1",
    ];
    for reason in reasons.into_iter().filter(|text| is_there(text)) {
        assert!(last.err.contains(reason), "{reason}: {}", last.err);
    }

    let uid = cluster.run("id", &["-u", &user]).trim().to_owned();
    assert_eq!(
        row(&study, "own", "sub-a")["slurm_state"],
        format!("CANCELLED by {uid}")
    );
    assert_eq!(
        row(&study, "admin", "sub-a")["slurm_state"],
        "CANCELLED by 0"
    );
    let good = row(&study, "good", "sub-a");
    let number = |key: &str| {
        good[key]
            .as_i64()
            .unwrap_or_else(|| panic!("no {key}: {good}"))
    };
    assert!(number("max_rss_mb") >= 50, "{good}");
    assert!(number("cpu_time_s") >= 1, "{good}");
    assert_eq!((number("alloc_cpus"), number("req_cpus")), (1, 1));
    assert_eq!(number("exit_status"), 0);
    assert!(good["partition"].is_string(), "{good}");
    // What is left in the queue goes by `cancel`; a cancelled task that never ran is cancelled all the same.
    let said = call(&["cancel", "--all"]);
    assert_eq!(said.code, 0, "{}", said.err);
    until_by(&study, &call, &["monitor"], |_, statuses| {
        is(statuses, "never", "failed cancelled") && is(statuses, "wide", "failed cancelled")
    });
}

/// Every reason of Slurm's for which nobody should wait, as far as it can be made without harm to others.
#[test]
fn jobs_that_people_hold_are_shown_and_come_back() {
    let Some(cluster) = cluster() else { return };
    let study = cluster.study(
        "procedures:
  - {name: job, output_dir: job, script: job.sh, completion_marker: done, sbatch_args: [--requeue]}
",
    );
    study.script("job.sh", UNTIL_GO);
    study.scan(&["sub-requeued/ses-1", "sub-special/ses-1", "sub-kept/ses-1"]);
    study.ok(&["run"]);
    until(&study, &["monitor"], |_, statuses| {
        statuses.iter().all(|s| s.ends_with("running running"))
    });
    let id = |subject: &str| job_id(&study, "job", subject);
    cluster.scontrol(&["requeuehold", &id("sub-requeued")]);
    cluster.scontrol(&["requeuehold", "State=SpecialExit", &id("sub-special")]);
    let said = until(&study, &["monitor"], |_, statuses| {
        statuses
            .iter()
            .filter(|s| s.ends_with("pending held"))
            .count()
            == 2
    });
    let held = "(Slurm: job requeued in held state";
    assert!(said.err.contains(held), "{}", said.err);
    study.write("go", "");
    cluster.scontrol(&["release", &id("sub-requeued")]);
    cluster.scontrol(&["release", &id("sub-special")]);
    // A requeued job waits for two minutes by itself. Slurm revokes the credentials of a killed run, and takes those of the
    // same second for them ("Job credential revoked", exit code 1).
    sleep(Duration::from_secs(1));
    for subject in ["sub-requeued", "sub-special"] {
        cluster.scontrol(&["update", &format!("jobid={}", id(subject)), "StartTime=now"]);
    }
    until(&study, &["monitor"], |_, statuses| {
        statuses.iter().all(|s| s.ends_with("complete verified"))
    });
    assert_eq!(row(&study, "job", "sub-special")["attempt"], 1);
}
