//! Files that keys name: regular ones, and none twice.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use crate::harness::Study;
use crate::pretty::pretty;

/// Calls `check` of the configuration by a command that looks at nothing else.
fn validate(study: &Study, rest: &str) -> (i32, String) {
    study.configure(rest);
    let said = study.call(&["status"]);
    (said.code, said.err)
}

#[test]
fn e9_no_two_keys_name_one_file() {
    let study = Study::new();
    study.write("job.sh", "#!/bin/bash\n");
    study.write("exclude.txt", "sub-99\n");
    symlink("config.yaml", study.at("linked.json")).unwrap();
    symlink("new.json", study.at("dangling.json")).unwrap();
    symlink(".", study.at("same-directory")).unwrap();
    let step = "procedures: [{name: a, output_dir: a, script: job.sh, completion_marker: done}]\n";
    let mut told = Vec::new();
    for (keys, key) in [
        ("heartbeat_file: config.yaml", "heartbeat_file"),
        ("heartbeat_file: linked.json", "heartbeat_file"),
        ("heartbeat_file: state.journal.jsonl", "heartbeat_file"),
        (
            "heartbeat_file: same-directory/state.parquet",
            "heartbeat_file",
        ),
        ("heartbeat_file: job.sh", "heartbeat_file"),
        (
            "heartbeat_file: exclude.txt\nexclude: exclude.txt",
            "heartbeat_file",
        ),
        (
            "heartbeat_file: new.json\nlog_file: dangling.json",
            "heartbeat_file",
        ),
        ("log_file: state.parquet", "log_file"),
        ("log_file: state.lock", "log_file"),
        ("log_file: job.sh", "log_file"),
        ("log_file: config.yaml", "log_file"),
    ] {
        let (code, err) = validate(&study, &format!("{step}{keys}\n"));
        let before = study.snapshot();
        assert_eq!(code, 2, "{keys}: {err}");
        assert!(err.contains(&format!("{key}: ")), "{keys}: {err}");
        told.push(pretty(&study, &err));
        assert_eq!(study.call(&["run"]).code, 2);
        assert_eq!(study.snapshot(), before);
    }
    insta::assert_snapshot!(told.concat());
    let (code, err) = validate(
        &study,
        &format!("{step}heartbeat_file: h.json\nmetrics_file: m.prom\n"),
    );
    assert_eq!(code, 0, "{err}");
}

/// Whatever a key names: what has no mark of this program stays as it is.
#[test]
fn e9_files_of_others_are_never_replaced() {
    let study = Study::new();
    study.script("job.sh", "true");
    let step = "executor: local\nprocedures: [{name: a, output_dir: a, script: job.sh, completion_marker: done}]\n";
    study.write("thesis.json", "{\"chapters\": 3}\n");
    study.write("notes.prom", "mine 1\n");
    study.configure(&format!(
        "{step}heartbeat_file: thesis.json\nmetrics_file: notes.prom\n"
    ));
    let said = study.call(&["run"]);
    assert!(
        said.err.contains("heartbeat_file") && said.err.contains("metrics_file"),
        "{}",
        said.err
    );
    assert_eq!(study.read("thesis.json"), "{\"chapters\": 3}\n");
    assert_eq!(study.read("notes.prom"), "mine 1\n");
    for file in [
        "state.parquet",
        "state.parquet.bak",
        "state.journal.jsonl",
        "state.lock",
        "state.control.json",
        "log.jsonl",
    ] {
        let study = study.copy();
        study.configure(&format!("{step}log_file: log.jsonl\n"));
        study.scan(&["sub-01/ses-01"]);
        for name in ["state.parquet", "state.parquet.bak", "log.jsonl"] {
            let _ = fs::remove_file(study.at(name));
        }
        study.write(file, "a file of somebody else");
        let said = study.call(&["run"]);
        assert_eq!(
            study.read(file),
            "a file of somebody else",
            "{file}: {}",
            said.err
        );
        assert_ne!(said.code, 0, "{file}");
    }
}

#[test]
fn e10_what_is_no_regular_file_is_an_error_at_once() {
    let study = Study::new();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let pipe = study.at("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    fs::create_dir(study.at("dir.prom")).unwrap();
    symlink("/dev/full", study.at("full.prom")).unwrap();
    let began = Instant::now();
    let mut told = Vec::new();
    for keys in [
        "log_file: pipe",
        "log_file: /dev/full",
        "log_file: logs",
        "sessions_file: pipe",
        "exclude: pipe",
        "include: pipe",
        "qsirecon_spec: pipe",
        "heartbeat_file: pipe",
        "metrics_file: dir.prom",
        "metrics_file: full.prom",
    ] {
        let (code, err) = validate(&study, &format!("{keys}\n"));
        assert_eq!(code, 2, "{keys}: {err}");
        told.push(pretty(&study, &err));
    }
    insta::assert_snapshot!(told.concat());
    let said = study.call(&["--config", pipe.to_str().unwrap(), "status"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn attack_no_output_of_a_command_replaces_what_is_not_its_own() {
    let study = Study::new();
    study.script("job.sh", "true");
    study.configure(
        "executor: local\nexclude: exclude.txt\nheartbeat_file: beat.json\nmetrics_file: study.prom\n\
         procedures: [{name: a, output_dir: a, script: job.sh, completion_marker: done}]\n",
    );
    study.write("exclude.txt", "sub-99\n");
    study.scan(&["sub-01/ses-01"]);
    study.ok(&["run"]);
    // The job writes its records until it has ended.
    study.until(&["monitor"], Duration::from_secs(60), |rows| {
        rows[0].ends_with("awaiting_output")
    });
    study.write("empty.prom", "");
    study.write("pages/snbb-scheduler.1", "mine");
    study.write("derivatives/a/sub-01/ses-01/done", "");
    symlink("config.yaml", study.at("linked")).unwrap();
    fs::hard_link(study.at("job.sh"), study.at("second-name")).unwrap();
    let before = study.snapshot();
    let call = |command: &str, place: &str| {
        let path = study.at(place).display().to_string();
        study.call(&[command, "--output", &path])
    };
    for place in [
        "config.yaml",
        "linked",
        "job.sh",
        "second-name",
        "exclude.txt",
        "state.parquet",
        "state.journal.jsonl",
        "state.lock",
        "scheduler_audit.jsonl",
        "beat.json",
        "bids/new.prom",
        "dicom/sub-01/ses-01/m",
        "derivatives/a/sub-01/ses-01/done",
    ] {
        for command in ["audit", "metrics"] {
            let said = call(command, place);
            assert_eq!(said.code, 2, "{command} {place}: {}", said.err);
        }
    }
    for (command, place, code) in [
        ("metrics", "empty.prom", 1),
        ("man", "pages", 1),
        ("man", "bids", 2),
        ("man", "derivatives/man", 2),
    ] {
        let said = call(command, place);
        assert_eq!(said.code, code, "{command} {place}: {}", said.err);
    }
    assert_eq!(study.snapshot(), before);
    for (command, place) in [("metrics", "study.prom"), ("man", "new"), ("man", "new")] {
        let said = call(command, place);
        assert_eq!(said.code, 0, "{command} {place}: {}", said.err);
    }
}

#[test]
fn attack_state_and_log_do_not_lie_among_the_data() {
    let study = Study::new();
    study.script("job.sh", "true");
    study.scan(&["sub-01/ses-01"]);
    symlink("derivatives/a", study.at("elsewhere")).unwrap();
    fs::create_dir_all(study.at("derivatives/a")).unwrap();
    let step = "procedures: [{name: a, output_dir: a, script: job.sh, completion_marker: done}]\n";
    for (keys, code) in [
        ("log_file: derivatives/a/sub-01/ses-01/log.jsonl", 2),
        ("log_file: elsewhere/log.jsonl", 2),
        ("log_file: bids/sub-01/log.jsonl", 2),
        ("log_file: dicom/sub-01/ses-01/log.jsonl", 2),
        ("heartbeat_file: elsewhere/beat.json", 2),
        ("log_file: derivatives/log.jsonl", 0),
        ("log_file: bids/code/log.jsonl", 0),
    ] {
        let (found, err) = validate(&study, &format!("{step}{keys}\n"));
        assert_eq!(found, code, "{keys}: {err}");
    }
    study.write(
        "derived.yaml",
        "dicom_root: dicom\nbids_root: bids\nderivatives_root: derivatives\n\
         state_file: bids/sub-01/state.parquet\n",
    );
    let config = study.at("derived.yaml").display().to_string();
    let said = study.call(&["--config", &config, "status"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("state_file: "), "{}", said.err);
}

/// As git-annex leaves a file that was added to a dataset.
#[test]
fn b6_a_state_in_git_annex_is_never_written_to() {
    let study = Study::new();
    let key = "MD5E-s3--0a.parquet";
    let object = format!(".git/annex/objects/Xk/9m/{key}/{key}");
    study.write(&object, "old");
    symlink(&object, study.at("state.parquet")).unwrap();
    for command in [&["run"][..], &["status"]] {
        let said = study.call(command);
        assert_eq!(said.code, 2, "{}", said.err);
        insta::assert_snapshot!("state_in_git_annex", pretty(&study, &said.err));
    }
    assert_eq!(study.read(&object), "old");
    fs::remove_file(study.at("state.parquet")).unwrap();
    symlink(&object, study.at("state.attempts.parquet")).unwrap();
    assert_eq!(study.call(&["run"]).code, 2);
}

/// `scheduler.site1` and `scheduler.site2` share no lock and no journal.
#[test]
fn e8_names_beside_the_state_are_made_of_its_whole_name() {
    use snbb_scheduler::store::state_file::StatePaths;
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str| StatePaths::of(&dir.path().join(name));
    let (one, two) = (
        of("scheduler.site1").unwrap(),
        of("scheduler.site2").unwrap(),
    );
    for (a, b) in one.beside().into_iter().zip(two.beside()) {
        assert_ne!(a, b);
    }
    assert!(one.lock.ends_with("scheduler.site1.lock"));
    assert!(
        of("scheduler.parquet")
            .unwrap()
            .lock
            .ends_with("scheduler.lock")
    );
    // The two that would still share them.
    fs::create_dir(dir.path().join("other")).unwrap();
    assert!(of("other.parquet").is_ok());
    fs::write(dir.path().join("scheduler.parquet"), "PAR1").unwrap();
    assert!(of("scheduler").is_err());
    assert!(of("scheduler.site1").is_ok());
    fs::remove_file(dir.path().join("scheduler.parquet")).unwrap();
}
