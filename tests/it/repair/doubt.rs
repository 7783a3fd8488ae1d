//! What a repair does about jobs that live or may live.

use super::*;

#[test]
fn jobs_go_on_while_the_state_is_damaged() {
    let (study, slurm) = eventful();
    let sound = keep_files(&study);
    let log = study.read_bytes("scheduler_audit.jsonl");
    slurm.set("1003", "COMPLETED");
    slurm.set("1005", "RUNNING");
    slurm.set("1006", "OUT_OF_MEMORY");
    convert(&study, "sub-02", "ses-01");
    study.ok(&["monitor"]);
    let wanted = rows(&study);
    for gone in [true, false] {
        restore_files(&study, &sound);
        fs::write(study.at("scheduler_audit.jsonl"), &log).unwrap();
        if gone {
            for name in [
                "state.parquet",
                "state.parquet.bak",
                "state.attempts.parquet",
            ] {
                remove(&study, name);
            }
        } else {
            damage(&study, "state.parquet", |bytes| bytes.truncate(200));
        }
        study.ok(&["state", "repair", "--yes"]);
        assert_eq!(rows(&study), wanted, "gone: {gone}");
        let log = study.read("scheduler_audit.jsonl");
        assert!(log.contains("\"event\": \"repaired\""), "{log}");
        assert!(
            log.contains("out_of_memory"),
            "what Slurm said is logged too"
        );
    }
}

#[test]
fn without_log_and_files_living_jobs_are_adopted_from_the_queue() {
    let (study, slurm) = eventful();
    damage(&study, "state.parquet", |bytes| bytes.truncate(200));
    for name in [
        "state.parquet.bak",
        "state.attempts.parquet",
        "scheduler_audit.jsonl",
    ] {
        remove(&study, name);
    }
    let said = study.ok(&["state", "repair", "--yes"]);
    assert_eq!(study.events("adopted").len(), 3, "{}", said.err);
    assert_eq!(study.statuses().len(), 3);
    let calls = slurm.calls("sbatch");
    study.ok(&["run", "--subject", "01", "--session", "02"]);
    study.ok(&["run", "--subject", "02"]);
    assert_eq!(slurm.calls("sbatch"), calls);
}

#[test]
fn a_silent_slurm_and_no_slurm_leave_the_rows_as_the_files_know_them() {
    let (study, slurm) = eventful();
    // What Slurm tells of a living job stands in no log; the next `monitor` asks again.
    let rows = |study: &Study| {
        let (mut rows, attempts) = rows(study);
        for row in rows.iter_mut().filter(|row| row.is_in_flight()) {
            row.facts = JobFacts::default();
        }
        (rows, attempts)
    };
    let wanted = rows(&study);
    let sound = keep_files(&study);
    slurm.set_all("COMPLETED");
    damage(&study, "state.parquet", |bytes| bytes.truncate(200));
    study.ok(&["state", "repair", "--yes", "--no-slurm"]);
    assert_eq!(rows(&study), wanted);

    restore_files(&study, &sound);
    damage(&study, "state.parquet", |bytes| bytes.truncate(200));
    slurm.break_program(
        "squeue",
        "slurm_load_jobs error: Unable to contact slurm controller\n",
    );
    slurm.break_program("sacct", "sacct: error: slurmdbd: Connection refused\n");
    let said = study.call(&["state", "repair", "--yes"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert_eq!(rows(&study), wanted);
}

#[test]
fn a_submission_in_doubt_stays_in_doubt() {
    let (study, slurm) = eventful();
    convert(&study, "sub-02", "ses-01");
    slurm.set("1003", "COMPLETED");
    slurm.silent(slurm.calls("sbatch") + 1);
    study.ok(&["run"]);
    let task = "prep sub-02 ses-01";
    assert_eq!(study.status(task), "pending submitting");
    for name in [
        "state.parquet",
        "state.parquet.bak",
        "state.attempts.parquet",
    ] {
        remove(&study, name);
    }
    let calls = slurm.calls("sbatch");
    study.ok(&["state", "repair", "--yes", "--no-slurm"]);
    assert_eq!(study.status(task), "pending submitting");
    study.ok(&["run"]);
    assert_eq!(study.status(task), "pending queued");
    assert_eq!(slurm.calls("sbatch"), calls);
}
