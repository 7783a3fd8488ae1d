//! Limits over several runs: the warm-up, the jobs of the user, subjects in turn.

use std::fs;

use super::{STEP, control, finish, reports, says, study};
use crate::harness_slurm::{Cluster, cluster};

#[test]
fn a_warm_up_lets_the_rest_go_when_the_first_jobs_have_succeeded() {
    let config = "procedures: [{name: prep, output_dir: prep, script: step.sh, completion_marker: done, warmup: 3}]\n";
    let (study, slurm) = study(9, config);
    reports(&study, &study.ok(&["run"]), "warm_up");
    says(&study.ok(&["run"]), &["6 due, 0 submitted"]);
    for (job, subject, end) in [
        ("1001", "sub-01", "COMPLETED"),
        ("1002", "sub-02", "FAILED 1:0"),
    ] {
        slurm.set(job, end);
        if end == "COMPLETED" {
            finish(&study, "prep", subject, "ses-01");
        }
    }
    let said = study.ok(&["run"]);
    reports(&study, &said, "warm_up_with_a_failure");
    let manifest = study.ok(&["manifest", "--format", "csv"]).out;
    assert_eq!(manifest.lines().count(), 7, "limits aside: {manifest}");
    study.ok(&["retry"]);
    study.ok(&["run"]);
    assert_eq!(slurm.jobs().len(), 4);
    for (job, subject) in [("1003", "sub-03"), ("1004", "sub-02")] {
        slurm.set(job, "COMPLETED");
        finish(&study, "prep", subject, "ses-01");
    }
    says(&study.ok(&["run"]), &["6 due, 6 submitted"]);
}

#[test]
fn all_jobs_of_the_user_count_and_what_has_ended_does_not() {
    let (study, slurm) = study(9, &format!("max_queued_user_jobs: 6\n{STEP}"));
    // Two array tasks and a job of another program, and two that the queue only remembers.
    for (id, state) in [
        ("77_1", "PENDING"),
        ("77_2", "RUNNING"),
        ("78", "SUSPENDED"),
        ("79", "COMPLETED"),
    ] {
        fs::write(slurm.at(format!("jobs/{id}")), "theirs\n\n1\nsbatch\n").unwrap();
        slurm.set(id, state);
    }
    let said = study.ok(&["run"]);
    says(
        &said,
        &[
            "18 due, 3 submitted",
            "15  limit reached (max_queued_user_jobs 6)",
        ],
    );
    says(&study.ok(&["run"]), &["0 submitted"]);
    slurm.set("77_1", "COMPLETED");
    slurm.set("1001", "FAILED 1:0");
    says(&study.ok(&["run"]), &["2 submitted"]);
    // Who does not answer has told no number.
    slurm.set_all("FAILED 1:0");
    slurm.break_program(
        "squeue",
        "slurm_load_jobs error: Unable to contact slurm controller\n",
    );
    let said = study.call(&["run"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert_eq!(slurm.calls("sbatch"), 5);
}

#[test]
fn a_subject_with_many_sessions_does_not_keep_the_others_waiting() {
    let config = |fair: &str| {
        format!(
            "fair: {fair}\npause_after_failures: 0\nprocedures: [{{name: prep, output_dir: prep, script: step.sh, completion_marker: done, max_in_flight: 4}}]\n"
        )
    };
    let (study, slurm) = study(3, &config("subjects"));
    for session in 2..30 {
        study.scan(&[&format!("sub-01/ses-{session:02}")]);
    }
    let said = study.ok(&["run"]);
    says(
        &said,
        &["27  limit reached (the procedure's max_in_flight 4)"],
    );
    let names: Vec<String> = slurm.jobs().into_iter().map(|(_, name)| name).collect();
    assert_eq!(
        names,
        [
            "prep_sub-01_ses-01",
            "prep_sub-01_ses-02",
            "prep_sub-02_ses-01",
            "prep_sub-03_ses-01"
        ]
    );
    // Jobs in flight count as turns: the other subjects catch up.
    study.scan(&["sub-02/ses-02", "sub-03/ses-02"]);
    study.configure(&config("subjects").replace("max_in_flight: 4", "max_in_flight: 6"));
    study.ok(&["run"]);
    let names: Vec<String> = slurm.jobs().into_iter().map(|(_, name)| name).collect();
    assert_eq!(names[4..], ["prep_sub-02_ses-02", "prep_sub-03_ses-02"]);
    study.configure(&config("order"));
    slurm.set_all("FAILED 1:0");
    study.ok(&["run"]);
    assert!(
        slurm.jobs()[6..]
            .iter()
            .all(|(_, name)| name.starts_with("prep_sub-01"))
    );
}

#[test]
fn a_real_cluster_counts_array_tasks_one_by_one_and_its_failures_pause() {
    // Says why if this machine cannot have one. Other tests' jobs would count on the shared one.
    if cluster().is_none() {
        return;
    }
    let cluster = Cluster::start("policy", &[]).unwrap();
    let study = cluster.study(
        "max_queued_user_jobs: 7\npause_after_failures: 4\n\
         procedures: [{name: prep, output_dir: prep, script: step.sh, completion_marker: done, mem: 50M}]\n",
    );
    study.script("step.sh", "exit 3");
    for subject in 1..=9 {
        study.scan(&[&format!("sub-{subject:02}/ses-01")]);
    }
    let foreign = cluster.run(
        "sbatch",
        &[
            "--parsable",
            "--hold",
            "--array=1-5",
            "--mem=50M",
            "--wrap=true",
            "--output=/dev/null",
        ],
    );
    let since = std::time::Instant::now();
    let until_all_failed = |count: usize| loop {
        study.ok(&["monitor"]);
        let failed = study
            .statuses()
            .iter()
            .filter(|row| row.ends_with("failed exit_code"))
            .count();
        if failed == count {
            break;
        }
        assert!(since.elapsed().as_secs() < 120, "{:?}", study.statuses());
        std::thread::sleep(std::time::Duration::from_millis(300));
    };
    says(
        &study.ok(&["run"]),
        &[
            "9 due, 2 submitted",
            "7  limit reached (max_queued_user_jobs 7)",
        ],
    );
    until_all_failed(2);
    says(&study.ok(&["run"]), &["2 submitted"]);
    until_all_failed(4);
    says(&study.ok(&["run"]), &["0 submitted"]);
    let cause = &control(&study).unwrap()["procedures"]["prep"]["paused"]["cause"];
    assert_eq!(cause["failures"]["count"], 4);

    // A script that makes sbatch wait never gets there; cancel takes back what is under way.
    cluster.run("scancel", &[foreign.trim()]);
    study.ok(&["resume", "--procedure", "prep"]);
    study.write("step.sh", "#!/bin/bash\n#SBATCH --wait\nsleep 600\n");
    let said = study.call(&["run"]);
    assert_eq!(said.code, 3);
    says(&said, &["'#SBATCH --wait'"]);
    study.write("step.sh", "#!/bin/bash\n#SBATCH --time=10\nsleep 600\n");
    says(&study.ok(&["run"]), &["5 submitted"]);
    assert_eq!(
        study
            .call(&["wait", "--timeout", "1s", "--interval", "1s"])
            .code,
        124
    );
    says(
        &study.ok(&["cancel", "--procedure", "prep"]),
        &["5 of 5 jobs cancelled"],
    );
    let cancelled = study.statuses();
    assert_eq!(
        cancelled
            .iter()
            .filter(|row| row.ends_with("failed cancelled"))
            .count(),
        5
    );
    assert_eq!(study.call(&["wait"]).code, 1, "some failed");
    cluster.stop();
}
