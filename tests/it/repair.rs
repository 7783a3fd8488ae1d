//! `state verify` and `state repair`: whatever happens to the files of the state, the rows come
//! back as they would be without the damage, and no job is submitted twice.
#![expect(
    clippy::disallowed_methods,
    reason = "looks which damaged files were kept"
)]

use std::fs;
use std::path::PathBuf;

use snbb_scheduler::model::job::JobId;
use snbb_scheduler::model::state::{JobFacts, TaskRow, TaskStatus};
use snbb_scheduler::store::state_file::Store;

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;
use crate::pretty::messages;

mod damage;
mod doubt;
mod invariants;
mod journal;
mod lost;
mod refusals;

pub const PIPELINE: &str = "\
slurm_partition: normal
procedures:
  - name: convert
    output_dir: ''
    script: convert.sh
    completion_marker: anat/*_T1w.nii.gz
    mem: 2G
  - name: prep
    output_dir: prep
    script: prep.sh
    depends_on: [convert]
    completion_marker: ['*.html']
    time: '2:00:00'
";

const FILES: [&str; 4] = [
    "state.parquet",
    "state.parquet.bak",
    "state.attempts.parquet",
    "state.journal.jsonl",
];

/// Makes a study in the midst of its work: a task complete, one failed, one in its second attempt,
/// one running, one just submitted.
pub fn eventful() -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(PIPELINE);
    study.script("convert.sh", "true");
    study.script("prep.sh", "true");
    study.scan(&[
        "sub-01/ses-01",
        "sub-01/ses-02",
        "sub-02/ses-01",
        "sub-03/ses-01",
    ]);
    study.ok(&["run"]);
    slurm.set("1001", "COMPLETED");
    convert(&study, "sub-01", "ses-01");
    slurm.set("1002", "FAILED 3:0");
    slurm.set("1003", "RUNNING");
    slurm.set("1004", "TIMEOUT");
    study.ok(&["monitor"]);
    study.ok(&["retry", "--subject", "01"]);
    study.ok(&["run"]);
    // Now the rows hold what Slurm says of the new jobs.
    study.ok(&["monitor"]);
    assert_eq!(
        study.statuses(),
        [
            "convert sub-01 ses-01: complete verified",
            "convert sub-01 ses-02: pending queued",
            "convert sub-02 ses-01: running running",
            "convert sub-03 ses-01: failed timeout",
            "prep sub-01 ses-01: pending queued",
        ]
    );
    (study, slurm)
}

fn convert(study: &Study, subject: &str, session: &str) {
    study.write(
        &format!("bids/{subject}/{session}/anat/{subject}_{session}_T1w.nii.gz"),
        "x",
    );
}

/// The rows and the earlier attempts, without what a repair may know less exactly: when a row last
/// changed, and since when something is missed.
pub fn rows(study: &Study) -> (Vec<TaskRow>, Vec<TaskRow>) {
    let store = Store::at(&study.at("state.parquet")).unwrap();
    let plain = |rows: &[TaskRow]| {
        let mut rows: Vec<TaskRow> = rows
            .iter()
            .map(|row| TaskRow {
                updated_at: None,
                missing_since: None,
                ..row.clone()
            })
            .collect();
        rows.sort_by(|a, b| (&a.key, a.attempt).cmp(&(&b.key, b.attempt)));
        rows
    };
    let state = store.read().unwrap();
    (plain(state.rows()), plain(&store.read_attempts().unwrap()))
}

/// All files but those of the fake cluster, which counts the questions.
pub fn ours(study: &Study) -> Vec<(PathBuf, Vec<u8>)> {
    study
        .snapshot()
        .into_iter()
        .filter(|(path, _)| !path.starts_with(study.at("fake-slurm")))
        .collect()
}

type Files = Vec<(&'static str, Option<Vec<u8>>)>;

fn keep_files(study: &Study) -> Files {
    FILES
        .into_iter()
        .map(|name| (name, fs::read(study.at(name)).ok()))
        .collect()
}

fn restore_files(study: &Study, files: &Files) {
    for (name, bytes) in files {
        match bytes {
            Some(bytes) => fs::write(study.at(name), bytes).unwrap(),
            None => drop(fs::remove_file(study.at(name))),
        }
    }
    for path in kept(study) {
        fs::remove_file(path).unwrap();
    }
}

fn kept(study: &Study) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(study.dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_string_lossy().contains(".damaged-"))
        .collect();
    paths.sort();
    paths
}

const VERIFY: [&str; 2] = ["state", "verify"];

fn needs_repair(study: &Study, more: &[&str]) -> bool {
    let said = study.ok(&[&["state", "repair"], more].concat());
    !said.err.contains("nothing to repair")
}

fn generation(study: &Study) -> u64 {
    let store = Store::at(&study.at("state.parquet")).unwrap();
    store.read().unwrap().meta.generation
}

/// Checks that a repair brings the wanted rows back, keeps what was damaged, and doubles no job.
#[track_caller]
fn repaired(study: &Study, slurm: &FakeSlurm, wanted: &(Vec<TaskRow>, Vec<TaskRow>), what: &str) {
    let calls = slurm.calls("sbatch");
    let before = ours(study);
    assert!(needs_repair(study, &[]), "{what}");
    assert_eq!(before, ours(study), "{what}: nothing changes without --yes");
    let findings = study.findings(&VERIFY);
    assert_ne!(findings, [""; 0], "{what}");
    assert_eq!(before, ours(study), "{what}: verify changes nothing");

    let status = study.call(&["status"]);
    let is_damaged = status.code != 0 && findings.contains(&"error state file".to_owned());
    let damaged = is_damaged.then(|| study.read_bytes("state.parquet"));
    let said = study.ok(&["state", "repair", "--yes"]);
    let found = rows(study);
    assert_eq!(found.0, wanted.0, "{what}\n{}", said.err);
    assert_eq!(found.1, wanted.1, "{what}\n{}", said.err);
    let kept: Vec<Vec<u8>> = kept(study)
        .iter()
        .map(|path| fs::read(path).unwrap())
        .collect();
    if let Some(damaged) = damaged {
        assert!(kept.contains(&damaged), "{what}: the damaged file was kept");
    }
    for bytes in kept {
        assert!(before.iter().any(|(_, old)| *old == bytes), "{what}");
    }
    study.ok(&VERIFY);
    assert!(!needs_repair(study, &[]), "{what}");
    let adopted = study.events("adopted").len();
    let run = study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), calls, "{what}: {}", run.err);
    assert_eq!(study.events("adopted").len(), adopted, "{what}");
}

fn damage(study: &Study, name: &str, change: impl Fn(&mut Vec<u8>)) {
    let mut bytes = study.read_bytes(name);
    change(&mut bytes);
    fs::write(study.at(name), bytes).unwrap();
}

fn remove(study: &Study, name: &str) {
    fs::remove_file(study.at(name)).unwrap();
}

#[test]
fn a_sound_state_needs_no_repair() {
    let (study, _slurm) = eventful();
    let before = ours(&study);
    assert_eq!(study.findings(&VERIFY), [""; 0]);
    assert!(!needs_repair(&study, &["--yes"]));
    let json = study.ok(&["state", "repair", "--format", "json"]);
    assert_eq!(json.out, "[]\n");
    let now: Vec<_> = ours(&study)
        .into_iter()
        .filter(|(path, _)| !path.ends_with("state.lock"))
        .collect();
    let before: Vec<_> = before
        .into_iter()
        .filter(|(path, _)| !path.ends_with("state.lock"))
        .collect();
    assert_eq!(before, now);
}

#[test]
fn a_study_without_a_state_yet_needs_no_repair() {
    let mut study = Study::new();
    FakeSlurm::new(&mut study);
    study.configure(PIPELINE);
    study.ok(&VERIFY);
    assert!(!needs_repair(&study, &["--yes"]));
}

#[test]
fn a_refused_a_released_and_a_cancelled_submission_leave_a_sound_state() {
    let (study, slurm) = eventful();
    study.configure(&format!("settle_time: 1s\n{PIPELINE}"));
    convert(&study, "sub-02", "ses-01");
    slurm.set("1003", "COMPLETED");
    let call = slurm.calls("sbatch") + 1;
    slurm.refuse(
        call,
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n",
    );
    study.ok(&["run"]);
    assert_eq!(study.status("prep sub-02 ses-01"), "pending submitting");
    study.ok(&VERIFY);
    study.ok(&["monitor"]);
    std::thread::sleep(std::time::Duration::from_millis(1100));
    slurm.refuse(
        call + 1,
        "sbatch: error: Batch job submission failed: Invalid qos specification\n",
    );
    assert_eq!(study.call(&["run"]).code, 3);
    assert_ne!(study.events("released"), [""; 0]);
    study.ok(&["run"]);
    slurm.set("1006", "CANCELLED by 1000");
    study.ok(&["monitor"]);
    assert_eq!(study.findings(&VERIFY), [""; 0]);
    let wanted = rows(&study);
    assert_eq!(wanted.0.len(), 6);
    for name in [
        "state.parquet",
        "state.parquet.bak",
        "state.attempts.parquet",
    ] {
        remove(&study, name);
    }
    repaired(&study, &slurm, &wanted, "everything but the log");
}

#[test]
fn a_log_that_two_studies_share_is_told_apart() {
    let mut study = Study::new();
    let _slurm = FakeSlurm::new(&mut study);
    study.configure(PIPELINE);
    study.script("convert.sh", "true");
    study.script("prep.sh", "true");
    study.scan(&["sub-01/ses-01"]);
    study.ok(&["run", "-q"]);
    // The other one lies beside it and has its own state and roots.
    let own = study.read("config.yaml");
    study.write(
        "other.yaml",
        &own.replace("state.parquet", "other.parquet")
            .replace("dicom_root: dicom", "dicom_root: dicom2"),
    );
    study.write("dicom2/sub-02/ses-01/0001.dcm", "x");
    let other = study.at("other.yaml").display().to_string();
    let log = |study: &Study| study.read("scheduler_audit.jsonl").lines().count();
    let before = log(&study);
    study.ok(&["run", "-q", "--config", &other]);
    assert!(log(&study) > before, "both write to one log");

    for config in [&study.at("config.yaml").display().to_string(), &other] {
        let of = ["--config", config];
        assert!(!needs_repair(&study, &[&["--no-slurm"], &of[..]].concat()));
        let findings = study.findings(&[&VERIFY, &of[..]].concat());
        assert_eq!(findings, ["warning audit log"]);
    }
    let said = study.call(&["history", "02", "--format", "json"]);
    assert!(!said.out.contains("sub-02"), "{}", said.out);
    // A state that is lost is rebuilt from what is its own.
    std::fs::remove_file(study.at("other.parquet")).unwrap();
    study.ok(&["state", "repair", "--yes", "--no-slurm", "--config", &other]);
    let said = study
        .ok(&["status", "--format", "csv", "--config", &other])
        .out;
    assert!(
        said.contains("sub-02") && !said.contains("sub-01"),
        "{said}"
    );
}
