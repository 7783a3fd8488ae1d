//! What a scan costs: the calls that must be made, and hardly one more.
#![expect(clippy::disallowed_methods, reason = "starts the generator")]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use super::strace;
use crate::fake_slurm::FakeSlurm;
use crate::harness::{Study, quiet_period};

#[path = "../../../examples/scan-floor/walk.rs"]
mod walk;

/// Is made by debug builds of the standard library at each close.
const DEBUG_ONLY: &str = "fcntl";

#[test]
fn a_manifest_makes_the_calls_that_it_must() {
    let name = "a_manifest_makes_the_calls_that_it_must";
    if !strace::works(name) {
        return;
    }
    let study = Study::new();
    let made = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/gen-tree"))
        .arg(study.at("tree"))
        .args(["--sessions", "61", "--dicom-files", "1", "--partial", "0.3"])
        .output()
        .expect("the tests need python3");
    assert!(made.status.success());
    let root = study.at("tree");
    let config = root.join("config.yaml");
    let trace = study.at("trace");
    let said = strace::call(
        &study,
        &["-y", "-o", trace.to_str().unwrap()],
        &[
            "--config",
            config.to_str().unwrap(),
            "manifest",
            "--format",
            "csv",
        ],
    );
    assert_eq!(said.code, 0, "{}", said.err);

    let floor = walk::walk(&root, 2);
    assert_eq!(said.out.lines().count() as u64 - 1, floor.due);
    let roots = ["dicom", "bids", "derivatives"].map(|name| format!("{}/{name}", root.display()));
    let calls: Vec<(String, String)> = strace::calls(&trace)
        .into_iter()
        .filter(|(name, line)| {
            // Datasets above the roots are asked for their subdatasets.
            let is_counted = |part: &str| line.contains(part);
            name != DEBUG_ONLY
                && (roots.iter().any(|root| is_counted(root)) || is_counted(".gitmodules"))
        })
        .collect();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, _) in &calls {
        *counts.entry(name).or_default() += 1;
    }
    // The first call asks whether the root is there, the next ones are the floor's.
    let ratio = calls.len() as f64 / floor.calls() as f64;
    assert!((1.0..1.02).contains(&ratio), "{ratio} {counts:?} {floor:?}");
}

#[test]
fn in_a_converted_dataset_discovery_and_rules_share_what_is_read() {
    let name = "in_a_converted_dataset_discovery_and_rules_share_what_is_read";
    if !strace::works(name) {
        return;
    }
    let study = Study::new();
    study.configure(
        "discover: bids\nprocedures:\n\
         - {name: freesurfer, output_dir: freesurfer, script: s.sh, scope: subject}\n\
         - {name: mean, output_dir: '', script: s.sh, scope: subject, completion_marker: [mean.txt, '**/*_T1w.nii.gz']}\n",
    );
    for session in ["sub-01/ses-1", "sub-01/ses-2", "sub-02", "sub-03/ses-1"] {
        study.write(&format!("bids/{session}/anat/x_T1w.nii.gz"), "x");
    }
    study.write("bids/sub-02/mean.txt", "x");
    let trace = study.at("trace");
    let said = strace::call(
        &study,
        &["-e", "trace=openat", "-o", trace.to_str().unwrap()],
        &["manifest", "--format", "csv"],
    );
    assert_eq!(said.out.lines().count(), 1 + 3 + 2, "{}", said.out);
    let mut opened: Vec<String> = strace::calls(&trace)
        .iter()
        .filter_map(|(_, line)| line.split('"').nth(1)?.split_once("/bids/"))
        .map(|(_, path)| path.to_owned())
        .collect();
    opened.sort();
    assert_eq!(
        opened,
        [
            "sub-01",
            "sub-01/ses-1/anat",
            "sub-01/ses-2/anat",
            "sub-02",
            "sub-02/anat",
            "sub-03",
            "sub-03/ses-1/anat",
        ]
    );
}

#[test]
fn complete_tasks_that_are_trusted_cost_nothing() {
    let name = "complete_tasks_that_are_trusted_cost_nothing";
    if !strace::works(name) {
        return;
    }
    let (study, _slurm) = complete();
    let calls = |arguments: &[&str]| {
        let mut calls = looks(&study, arguments);
        calls.retain(|path| !path.contains("/dicom/"));
        calls
    };
    let config = study.read("config.yaml");
    let config = config.replace("script: s.sh", "script: s.sh, rerun_when_stale: yes");
    study.write("config.yaml", &config);
    let all = calls(&["run"]);
    assert!(all.len() > 12 * 7, "{all:?}");
    study.write(
        "config.yaml",
        &format!("recheck: {}\n{config}", quiet_period()),
    );
    assert_eq!(calls(&["run"]).len(), all.len(), "nothing is known yet");
    for arguments in [
        &["run"][..],
        &["run", "--dry-run"],
        &["manifest"],
        &["session-status"],
    ] {
        let trusted = calls(arguments);
        let results = study.at("derivatives/prep").display().to_string();
        assert_eq!(
            trusted,
            [results],
            "{arguments:?}: only whether it is there"
        );
    }
    let again = calls(&["run", "--recheck"]);
    assert_eq!(again.len(), all.len());
    assert!(
        calls(&["outputs"]).len() >= all.len(),
        "what is handed over is looked at"
    );
}

/// Twelve sessions with two steps, of which the first runs in all.
fn running() -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(
        "slurm_partition: normal\nprocedures:\n\
         - {name: convert, output_dir: '', script: s.sh, completion_marker: ['anat/*_T1w.nii.gz', 'anat/*.json']}\n\
         - {name: check, output_dir: '', script: s.sh, completion_marker: 'anat/*.json'}\n\
         - {name: prep, output_dir: prep, script: s.sh, depends_on: [convert], completion_marker: '**/*.html'}\n",
    );
    study.script("s.sh", "true");
    let sessions: Vec<String> = (0..12)
        .map(|n| format!("sub-{:02}/ses-{}", n / 2, n % 2))
        .collect();
    study.scan(&sessions.iter().map(String::as_str).collect::<Vec<_>>());
    study.ok(&["run"]);
    for session in &sessions {
        study.write(&format!("bids/{session}/anat/x_T1w.nii.gz"), "x");
        study.write(&format!("bids/{session}/anat/x_T1w.json"), "x");
    }
    slurm.set_all("COMPLETED");
    (study, slurm)
}

/// The same with all three steps complete.
fn complete() -> (Study, FakeSlurm) {
    let (study, slurm) = running();
    study.ok(&["run"]);
    for n in 0..12 {
        let (subject, session) = (n / 2, n % 2);
        let report = format!("derivatives/prep/sub-{subject:02}/ses-{session}/x.html");
        study.write(&report, "x");
    }
    slurm.set_all("COMPLETED");
    let said = study.ok(&["run"]);
    assert!(said.err.contains("36 complete"), "{}", said.err);
    (study, slurm)
}

/// The paths in the trees that are opened or asked about.
fn looks(study: &Study, arguments: &[&str]) -> Vec<String> {
    let trace = study.at("trace");
    let traced = ["-e", "trace=openat,newfstatat,statx", "-o"];
    let traced = [&traced[..], &[trace.to_str().unwrap()]].concat();
    let said = strace::call(study, &traced, arguments);
    assert_eq!(said.code, 0, "{}", said.err);
    let is_due = arguments.contains(&"run") && !said.err.contains("36 complete, 0 due");
    assert!(!is_due, "{}", said.err);
    let below = ["dicom/", "bids/", "derivatives/"]
        .map(|root| format!("{}/{root}", study.dir.path().display()));
    let mut lines: Vec<String> = strace::calls(&trace)
        .into_iter()
        .filter_map(|(_, line)| Some(line.split('"').nth(1)?.to_owned()))
        .collect();
    lines.retain(|path| below.iter().any(|root| path.starts_with(root)));
    lines
}

#[test]
fn a_run_that_judges_ended_jobs_reads_each_directory_once() {
    let name = "a_run_that_judges_ended_jobs_reads_each_directory_once";
    if !strace::works(name) {
        return;
    }
    let (study, slurm) = running();
    let trace = study.at("trace");
    let said = strace::call(
        &study,
        &[
            "-y",
            "-e",
            "trace=openat,newfstatat,statx",
            "-o",
            trace.to_str().unwrap(),
        ],
        &["run"],
    );
    assert_eq!(said.code, 0, "{}", said.err);
    // 12 of each of the first two, then 12 that waited for them.
    assert_eq!(slurm.calls("sbatch"), 36);
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let below = ["dicom/", "bids/", "derivatives/"]
        .map(|root| format!("{}/{root}", study.dir.path().display()));
    for (name, line) in strace::calls(&trace) {
        let Some(path) = line.split('"').nth(1) else {
            continue;
        };
        if below.iter().any(|root| path.starts_with(root)) {
            *seen.entry(format!("{name} {path}")).or_default() += 1;
        }
    }
    assert!(seen.len() > 12 * 3, "{seen:?}");
    let again: Vec<_> = seen
        .iter()
        // Two rules that look at one file ask for its size each.
        .filter(|(call, count)| **count > if call.starts_with("openat") { 1 } else { 2 })
        .collect();
    assert!(again.is_empty(), "{again:?}");
}

#[test]
fn late_files_cost_an_idle_run_nothing_unless_it_would_act() {
    let name = "late_files_cost_an_idle_run_nothing_unless_it_would_act";
    if !strace::works(name) {
        return;
    }
    let (study, _slurm) = complete();
    let without = looks(&study, &["run"]);
    // Of the DICOM tree, the sessions' names only.
    let is_session = |path: &&String| path.contains("/dicom/sub-") && path.contains("/ses-");
    assert_eq!(without.iter().filter(is_session).count(), 0, "{without:?}");
    let config = study.read("config.yaml");
    study.write(
        "config.yaml",
        &config.replace("script: s.sh", "script: s.sh, rerun_when_stale: yes"),
    );
    let with = looks(&study, &["run"]);
    // Time and names of each directory: one of DICOM files for two steps, two below bids_root for the third.
    assert_eq!(with.len() - without.len(), 12 * 2 * (1 + 1 + 2));
    let is_file = |path: &&String| Path::new(path).extension().is_some();
    let files = |paths: &[String]| paths.iter().filter(is_file).count();
    assert_eq!(
        files(&with),
        files(&without),
        "no file is asked for its time"
    );
}
