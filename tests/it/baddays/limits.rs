//! Limits of the site, and requests that nobody can fulfil.

use super::*;
use crate::harness_slurm::cluster;

#[test]
fn a_submit_limit_stops_the_run_and_costs_no_attempt() {
    let Some(cluster) = cluster() else { return };
    cluster.sacctmgr(&[
        "add",
        "account",
        "tight",
        "Description=tight",
        "Organization=tight",
    ]);
    cluster.sacctmgr(&["add", "user", "root", "account=tight", "MaxSubmitJobs=3"]);
    cluster.sacctmgr(&["add", "qos", "small", "MaxSubmitJobsPerUser=2"]);
    cluster.sacctmgr(&[
        "modify",
        "user",
        "root",
        "where",
        "account=tight",
        "set",
        "qos+=small",
    ]);
    for (rest, most) in [("", 3), ("qos: small", 2)] {
        let study = cluster.study(&format!(
            "procedures:
  - {{name: job, output_dir: job, script: job.sh, completion_marker: done, account: tight, {rest}}}
"
        ));
        study.script("job.sh", UNTIL_GO);
        study.scan(&[
            "sub-1/ses-1",
            "sub-2/ses-1",
            "sub-3/ses-1",
            "sub-4/ses-1",
            "sub-5/ses-1",
        ]);
        // The controller hears of new accounts a moment later.
        let said = until(&study, &["run"], |_, statuses| !statuses.is_empty());
        assert_eq!(said.code, 0, "{}", said.err);
        assert_eq!(study.statuses().len(), most, "{}", said.err);
        // Slurm's own word.
        assert!(said.err.contains("MaxSubmitJob"), "{}", said.err);
        assert!(
            said.err.contains(&format!("5 due, {most} submitted")),
            "{}",
            said.err
        );
        let said = study.ok(&["run"]);
        assert!(said.err.contains("0 submitted"), "{}", said.err);
        study.write("go", "");
        until(&study, &["run"], |_, statuses| {
            statuses
                .iter()
                .filter(|s| s.ends_with("complete verified"))
                .count()
                == 5
        });
        for row in study.rows() {
            assert_eq!(row["attempt"], 1, "{row}");
        }
    }
}

#[test]
fn what_cannot_be_had_stops_its_procedure_only() {
    let Some(cluster) = cluster() else { return };
    let bad = [
        (
            "nowhere",
            "partition: nosuch",
            "Invalid partition name specified",
        ),
        (
            "nobody",
            "account: nosuch",
            "Invalid account or account/partition combination specified",
        ),
        ("unknown", "qos: nosuch", "Invalid qos specification"),
        (
            "huge",
            "mem: 900G",
            "Memory specification can not be satisfied",
        ),
        (
            "feature",
            "sbatch_args: [--constraint=nosuch]",
            "Invalid feature specification",
        ),
    ];
    let steps: Vec<String> = bad
        .iter()
        .map(|(name, rest, _)| (*name, *rest))
        .chain([("good", "mem: 50M")])
        .map(|(name, rest)| {
            format!("  - {{name: {name}, output_dir: {name}, script: job.sh, completion_marker: done, {rest}}}\n")
        })
        .collect();
    let study = cluster.study(&format!("procedures:\n{}", steps.concat()));
    study.script("job.sh", UNTIL_GO);
    study.write("go", "");
    study.scan(&["sub-1/ses-1", "sub-2/ses-1"]);
    let said = study.call(&["run"]);
    assert_eq!(said.code, 3, "{}", said.err);
    for (name, _, text) in bad {
        let refused = format!("{name}: refused: ");
        assert_eq!(said.err.matches(&refused).count(), 1, "{}", said.err);
        let line = said
            .err
            .lines()
            .find(|line| line.contains(&refused))
            .unwrap();
        assert!(line.contains(text), "{line}");
    }
    assert!(said.err.contains("12 due, 2 submitted"), "{}", said.err);
    assert_eq!(study.statuses().len(), 2);
    assert!(study.statuses().iter().all(|s| s.starts_with("good ")));
}
