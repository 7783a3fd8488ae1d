//! What Slurm says, by one of shell scripts; and what cron does not have.

use std::fs;

use super::{STEPS, among, check, only, site, trouble};
use crate::harness::executable;

#[test]
fn a_slurm_that_is_away_or_not_well() {
    let (study, slurm) = site();
    slurm.break_program(
        "squeue",
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
    );
    let found = only(
        &study,
        "error",
        "queue",
        "Unable to contact slurm controller",
    );
    assert!(found.advice.unwrap().contains("scontrol ping"));
    assert_eq!(
        slurm.calls("sbatch --test-only"),
        0,
        "nobody waits for it again"
    );
    slurm.heal("squeue");
    slurm.break_program(
        "sacct",
        "sacct: error: Problem talking to the database: Connection refused",
    );
    only(&study, "error", "accounting", "Connection refused");
    slurm.break_program("sacct", "Slurm accounting storage is disabled");
    among(
        &study,
        &[],
        "warning",
        "accounting",
        "Slurm has no accounting at this site",
    );
    study.configure(&format!("accounting: off\n{STEPS}"));
    assert_eq!(trouble(&study, &[]).len(), 0);
    fs::write(slurm.at("config"), "MinJobAge = 300 sec\n").unwrap();
    only(&study, "warning", "accounting", "only 300 s (MinJobAge)");
    slurm.heal("sacct");
    study.configure(STEPS);
    assert_eq!(trouble(&study, &[]).len(), 0);
    study.configure(&format!("accounting: off\n{STEPS}"));
    among(
        &study,
        &[],
        "warning",
        "accounting",
        "although sacct responds",
    );
}

#[test]
fn refusals_and_an_sbatch_that_does_not_know_the_option() {
    let (study, slurm) = site();
    slurm.break_program("sbatch", "sbatch: error: invalid partition specified: x\nallocation failure: Invalid partition name specified");
    let found = trouble(&study, &[]);
    assert_eq!(found.len(), 2, "one per procedure: {found:#?}");
    assert!(
        found
            .iter()
            .all(|f| f.level == "error" && f.topic == "submission"),
        "{found:#?}"
    );
    assert!(
        found[0]
            .advice
            .as_ref()
            .unwrap()
            .contains("slurm_partition")
    );
    slurm.heal("sbatch");
    fs::write(
        slurm.at("partitions"),
        "PartitionName=debug Default=YES MaxTime=01:00:00 State=UP\n",
    )
    .unwrap();
    study.configure(&STEPS.replace("script: job.sh,", "script: job.sh, time: '2:00:00',"));
    let found = trouble(&study, &[]);
    assert_eq!(found.len(), 2, "{found:#?}");
    assert!(
        found
            .iter()
            .all(|f| f.topic == "partition" && f.text.contains("allows 60 min")),
        "{found:#?}"
    );
    // The script's own limit counts where the configuration has none.
    study.configure(STEPS);
    study.write("job.sh", "#!/bin/bash\n#SBATCH --time=1-0\n");
    among(
        &study,
        &[],
        "error",
        "partition",
        "requests 1440 min, but partition debug allows 60 min",
    );
    fs::write(
        slurm.at("partitions"),
        "PartitionName=debug Default=YES MaxTime=UNLIMITED State=DOWN\n",
    )
    .unwrap();
    only(&study, "warning", "partition", "is DOWN");
    fs::remove_file(slurm.at("partitions")).unwrap();
    fs::write(slurm.at("no-test-only"), "").unwrap();
    let found = among(&study, &[], "error", "submission", "submitted job 1001");
    assert!(found.advice.unwrap().starts_with("run scancel 1001"));
}

#[test]
fn jobs_that_end_well_and_prove_nothing() {
    let (study, slurm) = site();
    study.configure(&format!(
        "output_grace: 0s\npause_after_failures: 20\n{STEPS}"
    ));
    study.scan(&["sub-03/ses-01"]);
    study.ok(&["run"]);
    slurm.set_all("COMPLETED");
    study.ok(&["monitor"]);
    let found = among(
        &study,
        &[],
        "warning",
        "procedure",
        "3 jobs ended without an error",
    );
    assert_eq!(found.about, "bids");
    // And accounting must know the last of them.
    slurm.set_all("GONE");
    among(
        &study,
        &[],
        "warning",
        "accounting",
        "does not list job 100",
    );
}

#[test]
fn cron_has_another_path_and_no_variables() {
    let (mut study, slurm) = site();
    let bin = slurm.at("bin").display().to_string();
    study.configure(&format!("slurm_bin_dir: {bin}\n{STEPS}"));
    let config = study.at("config.yaml").display().to_string();
    let (code, found) = check(&study, &["--cron", "--config", &config]);
    assert_eq!(code, 0, "{found:#?}");
    let cron = found.iter().find(|f| f.topic == "cron").unwrap();
    assert!(
        cron.text.contains("queue") && cron.text.contains("submission"),
        "{cron:?}"
    );
    assert!(found.iter().all(|f| f.level == "ok"), "{found:#?}");
    // Named by a variable, which cron does not have.
    let found = among(
        &study,
        &["--cron"],
        "warning",
        "cron",
        "comes from a variable",
    );
    assert!(
        found
            .advice
            .unwrap()
            .contains(&format!("--config {config}"))
    );
    // Slurm's commands are on this shell's PATH only.
    study.configure(STEPS);
    let found = trouble(&study, &["--cron", "--config", &config]);
    assert!(
        found
            .iter()
            .any(|f| f.topic == "cron" && f.level == "error"),
        "{found:#?}"
    );
    assert_eq!(trouble(&study, &[]).len(), 0);
    // So is a script.
    study.configure(&format!(
        "slurm_bin_dir: {bin}\n{}",
        STEPS.replace("job.sh", "elsewhere.sh")
    ));
    study.script("bin/elsewhere.sh", "true");
    study.path.push(study.at("bin"));
    among(
        &study,
        &["--cron"],
        "error",
        "cron",
        "'elsewhere.sh' was not found",
    );
    // And what the configuration takes from the environment.
    study.configure(&format!(
        "slurm_bin_dir: {bin}\nscript_dir: ${{JOBS}}\n{STEPS}"
    ));
    study
        .env
        .push(("JOBS".into(), study.dir.path().display().to_string()));
    let found = among(&study, &["--cron"], "error", "cron", "JOBS");
    insta::assert_snapshot!("check_variable_in_cron", found.advice.unwrap());
}

#[test]
fn variables_that_steer_slurm_have_no_effect_here() {
    let (mut study, _slurm) = site();
    study.env.push(("SBATCH_ACCOUNT".into(), "x".into()));
    only(&study, "warning", "environment", "SBATCH_ACCOUNT=x is set");
}

#[test]
fn a_query_that_is_killed_says_so() {
    let (mut study, _slurm) = site();
    study.write("bin/squeue", "#!/bin/bash\nkill -9 $$\n");
    executable(&study.at("bin/squeue"));
    study.path.insert(0, study.at("bin"));
    only(&study, "error", "queue", "killed by signal 9");
}
