//! Roots, directories, lock, state and file systems.
#![expect(
    clippy::disallowed_methods,
    reason = "starts the program in other surroundings"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use snbb_scheduler::setup::place::{self, Place};

use super::{STEPS, among, check, only, site, trouble};
use crate::harness_tree::as_nobody;
use crate::scan::strace;

#[test]
fn roots_that_are_missing_empty_or_no_directories() {
    let (study, _slurm) = site();
    for (key, level) in [("bids", "warning"), ("derivatives", "warning")] {
        fs::remove_dir(study.at(key)).unwrap();
        only(&study, level, &format!("{key}_root"), "does not exist");
        fs::write(study.at(key), "x").unwrap();
        only(
            &study,
            "error",
            &format!("{key}_root"),
            "is not a directory",
        );
        fs::remove_file(study.at(key)).unwrap();
        fs::create_dir(study.at(key)).unwrap();
    }
    fs::rename(study.at("dicom"), study.at("away")).unwrap();
    among(&study, &[], "error", "dicom_root", "does not exist");
    among(&study, &[], "error", "sessions", "does not exist");
    fs::create_dir(study.at("dicom")).unwrap();
    among(&study, &[], "warning", "dicom_root", "is empty");
    among(&study, &[], "warning", "sessions", "no sessions found");
    // With results on record it is a safety stop.
    fs::remove_dir(study.at("dicom")).unwrap();
    fs::rename(study.at("away"), study.at("dicom")).unwrap();
    study.ok(&["run"]);
    fs::rename(study.at("dicom"), study.at("away")).unwrap();
    fs::create_dir(study.at("dicom")).unwrap();
    among(
        &study,
        &[],
        "error",
        "dicom_root",
        "is empty, but the state records 2 tasks that need it",
    );
    assert_eq!(study.call(&["run"]).code, 6);
    among(
        &study,
        &[],
        "error",
        "state",
        "the last run made a safety stop because of dicom_root",
    );
}

#[test]
fn what_this_user_may_not_do_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let at = |name: &str| dir.path().join(name);
    for (name, mode) in [("closed", 0o700), ("read-only", 0o755)] {
        fs::create_dir(at(name)).unwrap();
        fs::set_permissions(at(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    as_nobody(|| {
        let denied = || "Permission denied".to_owned();
        assert_eq!(place::inspect(&at("closed")), Place::Directory);
        assert!(place::is_empty(&at("closed")).is_err() && !place::is_writable(&at("closed")));
        assert!(place::is_empty(&at("read-only")).unwrap());
        assert!(!place::is_writable(&at("read-only")));
        assert_eq!(place::inspect(&at("closed/x")), Place::Unreadable(denied()));
    });
}

#[test]
fn another_user_is_told_what_is_missing() {
    let (study, _slurm) = site();
    fs::set_permissions(study.dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    study.ok(&["run"]);
    let program = study.program();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(program.get_program())
        .args(["check", "--format", "json"])
        .env_clear();
    let envs = program
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    let output = command.envs(envs).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    if text.is_empty() {
        // The built program lies where only root can reach it.
        eprintln!("SKIPPED: {}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    assert_eq!(output.status.code(), Some(1), "{text}");
    for part in [
        "its directory is not writable for this user",
        "belongs to root (uid 0), but this command runs as nobody (uid 65534)",
        "this user cannot create files in it",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn places_of_the_programs_own_files() {
    let (study, _slurm) = site();
    for (rest, topic, part) in [
        (
            "state_file: bids/state.parquet\n",
            "state_file",
            "is inside bids_root",
        ),
        (
            "log_file: derivatives/log/audit.jsonl\n",
            "log_file",
            "is inside derivatives_root",
        ),
        (
            "slurm_log_dir: bids/logs\n",
            "log_dir",
            "is inside bids_root",
        ),
    ] {
        let key = rest.split(':').next().unwrap();
        study.configure("");
        let config = study.read("config.yaml");
        let others: String = config
            .lines()
            .filter(|line| !line.starts_with(&format!("{key}:")))
            .map(|line| format!("{line}\n"))
            .collect();
        study.write("config.yaml", &format!("{others}{rest}{STEPS}"));
        only(&study, "warning", topic, part);
    }
    study.configure(STEPS);
    let config = study
        .read("config.yaml")
        .replace("slurm_log_dir: logs\n", "");
    study.write("config.yaml", &config);
    only(&study, "warning", "log_dir", "slurm_log_dir is not set");
    study.write("plain", "x");
    study.write(
        "config.yaml",
        &format!("slurm_log_dir: plain/logs\n{config}"),
    );
    let found = trouble(&study, &[]);
    assert!(
        found
            .iter()
            .any(|f| f.topic == "log_dir" && f.level == "error"),
        "{found:#?}"
    );
    study.configure(&format!("safety: {{min_free: 900T}}\n{STEPS}"));
    among(&study, &[], "error", "state_file", "safety stop");
    among(&study, &[], "error", "log_dir", "MB free");
    study.configure(STEPS);
    fs::set_permissions(study.dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    only(
        &study,
        "warning",
        "state_file",
        "every user of the machine can replace files",
    );
}

#[test]
fn a_lock_that_does_not_work_is_an_error() {
    if !strace::works("a_lock_that_does_not_work_is_an_error") {
        return;
    }
    let (study, _slurm) = site();
    let before = study.snapshot().len();
    for (inject, part) in [
        ("linkat:error=EOPNOTSUPP", "cannot create a hard link: "),
        ("fsync:error=EIO", "cannot sync a file: Input/output error"),
        ("rename:error=EPERM", "cannot replace a file by renaming: "),
    ] {
        let name = inject.split(':').next().unwrap();
        let said = strace::call(
            &study,
            &[
                "-o",
                "/dev/null",
                "-e",
                &format!("trace={name}"),
                "-e",
                &format!("inject={inject}"),
            ],
            &["check", "--format", "csv"],
        );
        assert_eq!(said.code, 1, "{}", said.out);
        assert!(said.out.contains("error,lock,"), "{}", said.out);
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    let left: Vec<_> = study
        .snapshot()
        .into_iter()
        .filter(|(path, _)| path.to_string_lossy().contains("snbb-check"))
        .collect();
    assert!(left.is_empty(), "{before} {left:?}");
}

#[test]
fn what_calls_and_programs_left_behind_is_told() {
    let (study, _slurm) = site();
    study.ok(&["run"]);
    let sound = study.copy();
    // A damaged state.
    fs::write(study.at("state.parquet"), "PAR1 is not all").unwrap();
    let (code, _) = check(&study, &[]);
    assert_eq!(code, 1);
    let found = among(&study, &[], "error", "state", "state file");
    assert!(found.advice.unwrap().contains("state repair"));
    // Rows that nobody knows any more.
    let study = sound;
    study.configure(&STEPS.replace("bids", "convert"));
    among(&study, &[], "warning", "state", "bids (2, 2 in flight)");
    study.configure(STEPS);
    fs::remove_dir_all(study.at("dicom/sub-02")).unwrap();
    among(
        &study,
        &[],
        "warning",
        "state",
        "1 row of sessions that do not exist: bids sub-02 ses-01",
    );
}
