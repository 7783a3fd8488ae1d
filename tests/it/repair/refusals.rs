//! What a repair does not touch, and sources of other programs.

use std::fs;

use snbb_scheduler::store::state_file::Store;

use super::{PIPELINE, damage, eventful, ours, remove};
use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;

#[test]
fn what_nobody_can_read_stops_a_repair_and_is_told_by_verify() {
    let (study, _slurm) = eventful();
    let sound = study.read_bytes("state.parquet");
    remove(&study, "state.parquet");
    fs::create_dir(study.at("state.parquet")).unwrap();
    let before = ours(&study);
    for command in [&["state", "verify"][..], &["state", "repair", "--yes"]] {
        let said = study.call(command);
        assert_eq!(said.code, 2);
        assert!(said.err.contains("is not a regular file"), "{}", said.err);
    }
    assert_eq!(before.len(), ours(&study).len());
    fs::remove_dir(study.at("state.parquet")).unwrap();
    fs::write(study.at("state.parquet"), sound).unwrap();

    study.write("state.journal.jsonl/x", "");
    let said = study.call(&["state", "repair", "--yes"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("journal"), "{}", said.err);
    assert_eq!(study.call(&["state", "verify"]).code, 2);
}

#[test]
fn a_repair_waits_for_the_lock_and_keeps_to_the_owner() {
    let (study, _slurm) = eventful();
    damage(&study, "state.parquet", |bytes| bytes.truncate(200));
    let store = Store::at(&study.at("state.parquet")).unwrap();
    let lock = store
        .lock("test", std::time::Duration::from_secs(5))
        .unwrap();
    let said = study.call(&["state", "repair", "--yes", "--lock-timeout", "1s"]);
    assert_eq!(said.code, 4, "{}", said.err);
    study.ok(&["state", "repair"]);
    drop(lock);
    study.ok(&["state", "repair", "--yes"]);
}

#[test]
fn the_log_of_the_python_program_is_a_source_too() {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(PIPELINE);
    study.script("convert.sh", "true");
    study.script("prep.sh", "true");
    study.scan(&["sub-01/ses-01", "sub-02/ses-01"]);
    study.write(
        "scheduler_audit.jsonl",
        "{\"timestamp\": \"2026-01-05T08:00:00.000001+00:00\", \"event\": \"submitted\", \"subject\": \"sub-01\", \"session\": \"ses-01\", \"procedure\": \"convert\", \"job_id\": \"77\"}\n\
         {\"timestamp\": \"2026-01-05T09:00:00.000001+00:00\", \"event\": \"status_change\", \"subject\": \"sub-01\", \"session\": \"ses-01\", \"procedure\": \"convert\", \"job_id\": \"77\", \"old_status\": \"pending\", \"new_status\": \"failed\"}\n\
         {\"timestamp\": \"2026-01-05T09:00:00.000001+00:00\", \"event\": \"submitted\", \"subject\": \"sub-02\", \"session\": \"ses-01\", \"procedure\": \"convert\", \"job_id\": \"78\"}\n\
         {\"timestamp\": \"2026-01-05T09:0",
    );
    let said = study.ok(&["state", "repair", "--yes"]);
    assert!(said.err.contains("line 4 of the audit log"), "{}", said.err);
    assert_eq!(
        study.statuses(),
        [
            "convert sub-01 ses-01: failed -",
            "convert sub-02 ses-01: pending unaccounted",
        ]
    );
    assert_eq!(slurm.calls("sbatch"), 0);
}
