//! Errors that a user can cause: what is said, with which exit code, and that nothing is lost.

use std::fs;

use predicates::prelude::*;

use crate::fake_slurm::FakeSlurm;
use crate::harness::{Said, Study};
use crate::pretty::pretty;

const PIPELINE: &str = "\
procedures:
  - {name: a, output_dir: a, script: a.sh, completion_marker: done}
";

fn study() -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(PIPELINE);
    study.script("a.sh", "true");
    study.scan(&["sub-01/ses-01"]);
    (study, slurm)
}

/// Shows the exit code and what was said, without this machine's paths.
fn shown(study: &Study, said: &Said) -> String {
    let path = study.path.first().map(|bin| bin.display().to_string());
    let mut text = format!("exit code {}\n{}{}", said.code, said.out, said.err)
        .replace(&study.dir.path().display().to_string(), "STUDY");
    if let Some(bin) = path {
        text = text.replace(&bin, "BIN");
    }
    text
}

#[test]
fn a_configuration_that_is_not_there() {
    let (mut study, _) = study();
    study.env.push((
        "SNBB_CONFIG".into(),
        study.at("nope.yaml").display().to_string(),
    ));
    let said = study.call(&["run"]);
    insta::assert_snapshot!(shown(&study, &said), @r"
    exit code 2
    error: STUDY/nope.yaml: cannot read the configuration: the file does not exist
    hint: pass a readable YAML file with --config PATH or SNBB_CONFIG
    ");
}

#[test]
fn a_configuration_that_is_there_and_not_named() {
    let (study, _) = study();
    let output = study
        .program()
        .env_remove("SNBB_CONFIG")
        .current_dir(study.dir.path())
        .args(["status"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| line.contains("config.yaml"));
    insta::assert_snapshot!(pretty(&study, line.unwrap()));
}

#[test]
fn a_configuration_that_is_no_yaml() {
    let (study, _) = study();
    study.write("config.yaml", "procedures: [\n");
    let said = study.call(&["run"]);
    insta::assert_snapshot!(shown(&study, &said), @r"
    exit code 2
    error: STUDY/config.yaml:2:1: not valid YAML: while parsing a node, did not find expected node content
    ");
}

#[test]
fn all_problems_of_a_configuration_at_once() {
    let (study, slurm) = study();
    study.configure("slurm_memory: 4G\nprocedures:\n  - {name: a, output_dir: a, script: a.sh, depends_on: b}\n  - {name: b, output_dir: b, script: b.sh, depends_on: a, mem: 4X}\n");
    let said = study.call(&["run"]);
    insta::assert_snapshot!(shown(&study, &said));
    assert_eq!(slurm.calls("sbatch"), 0);
}

#[test]
fn a_state_file_that_was_cut() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    let whole = study.read_bytes("state.parquet");
    fs::write(study.at("state.parquet"), &whole[..whole.len() / 2]).unwrap();
    for command in ["run", "monitor", "retry", "status", "manifest"] {
        let said = study.call(&[command]);
        assert_eq!(said.code, 1, "{command}: {}", said.err);
        assert_eq!(
            said.err
                .lines()
                .filter(|l| l.starts_with("error: "))
                .count(),
            1
        );
        let hinted = predicate::str::contains("hint: ");
        assert!(hinted.eval(&said.err), "{command}: {}", said.err);
        assert!(
            said.err.contains("state.parquet"),
            "{command}: {}",
            said.err
        );
        assert_eq!(
            study.read_bytes("state.parquet"),
            whole[..whole.len() / 2],
            "{command} changed the damaged file"
        );
    }
    assert_eq!(slurm.calls("sbatch"), 1);
}

#[test]
fn a_script_that_is_missing_stops_only_its_procedure() {
    let (study, slurm) = study();
    study.configure(
        "procedures:
  - {name: a, output_dir: a, script: nowhere.sh, completion_marker: done}
  - {name: b, output_dir: b, script: a.sh, completion_marker: done}
",
    );
    let said = study.call(&["run"]);
    insta::assert_snapshot!(shown(&study, &said));
    assert_eq!(slurm.jobs()[0].1, "b_sub-01_ses-01");
}

#[test]
fn slurm_is_not_on_the_path_as_under_cron() {
    let (mut study, _) = study();
    study.path = vec![study.at("empty")];
    study
        .env
        .push(("PATH".into(), study.at("empty").display().to_string()));
    let before = study.snapshot();
    let said = study.call(&["run"]);
    insta::assert_snapshot!(shown(&study, &said).replace("BIN", "STUDY/empty"), @r"
    exit code 5
    note: there is no state file STUDY/state.parquet yet: starting a new one
    error: sbatch was not found (looked in STUDY/empty)
    hint: set slurm_bin_dir to the directory of sbatch; cron's PATH is shorter than a login shell's
    ");
    assert_eq!(before, study.snapshot());
}

#[test]
fn a_log_directory_that_cannot_be_made() {
    let (study, slurm) = study();
    fs::remove_dir(study.at("logs")).unwrap();
    study.write("logs", "a file");
    let said = study.call(&["run"]);
    insta::assert_snapshot!(shown(&study, &said));
    assert_eq!(
        slurm.calls("sbatch"),
        0,
        "its job would fail without a trace"
    );
}

#[test]
fn a_log_directory_that_cannot_be_written() {
    let (study, slurm) = study();
    fs::create_dir_all(study.at("logs/a")).unwrap();
    let said = unreadable(&study, "logs/a", |study| study.call(&["run"]));
    let Some(said) = said else { return };
    assert_eq!(said.code, 1, "{}", said.err);
    assert_eq!(slurm.calls("sbatch"), 0);
}

#[test]
fn a_dicom_root_that_is_not_there() {
    let (study, _) = study();
    fs::remove_dir_all(study.at("dicom")).unwrap();
    let said = study.call(&["run"]);
    insta::assert_snapshot!(shown(&study, &said));
}

#[test]
fn mistakes_on_the_command_line() {
    let (study, _) = study();
    let force = study.call(&["run", "--force"]);
    let procedure = study.call(&["manifest", "--procedure", "b"]);
    let reason = study.call(&["retry", "--reason", "tmeout"]);
    let text = [force, procedure, reason]
        .map(|said| shown(&study, &said))
        .join("\n");
    insta::assert_snapshot!(text);
}

#[test]
fn an_unreadable_directory_is_listed_and_the_rest_goes_on() {
    let (study, slurm) = study();
    study.scan(&["sub-02/ses-01"]);
    fs::create_dir_all(study.at("derivatives/a/sub-01/ses-01")).unwrap();
    let said = unreadable(&study, "derivatives/a/sub-01/ses-01", |study| {
        study.call(&["run"])
    });
    let Some(said) = said else { return };
    insta::assert_snapshot!(shown(&study, &said));
    assert_eq!(slurm.jobs().len(), 1);
    assert_eq!(slurm.jobs()[0].1, "a_sub-02_ses-01");
}

#[test]
fn a_job_is_not_judged_by_outputs_that_cannot_be_read() {
    let (study, slurm) = study();
    study.configure(&format!("output_grace: 0s\n{PIPELINE}"));
    study.ok(&["run"]);
    study.write("derivatives/a/sub-01/ses-01/log.txt", "x");
    let marker = study.at("derivatives/a/sub-01/ses-01/done");
    std::os::unix::fs::symlink(study.at("not-mounted/done"), &marker).unwrap();
    slurm.set("1001", "COMPLETED");
    study.ok(&["monitor"]);
    assert_eq!(
        study.statuses(),
        ["a sub-01 ses-01: running awaiting_output"]
    );
    study.write("not-mounted/done", "x");
    study.ok(&["monitor"]);
    assert_eq!(study.statuses(), ["a sub-01 ses-01: complete verified"]);
}

/// Runs something as a user for whom a directory is closed: root may read everything.
fn unreadable(
    study: &Study,
    directory: &str,
    call: impl FnOnce(&Study) -> Said + Send,
) -> Option<Said> {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    if !rustix::process::geteuid().is_root() {
        let closed = fs::Permissions::from_mode(0o000);
        fs::set_permissions(study.at(directory), closed).unwrap();
        let said = call(study);
        fs::set_permissions(study.at(directory), fs::Permissions::from_mode(0o755)).unwrap();
        return Some(said);
    }
    const NOBODY: u32 = 65534;
    for entry in walkdir::WalkDir::new(study.dir.path()) {
        chown(entry.unwrap().path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    chown(study.at(directory), Some(0), Some(0)).unwrap();
    fs::set_permissions(study.at(directory), fs::Permissions::from_mode(0o700)).unwrap();
    // The uid of this thread alone; the program that it starts inherits it.
    Some(std::thread::scope(|scope| {
        scope
            .spawn(|| {
                let nobody = rustix::process::Uid::from_raw(NOBODY);
                rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
                call(study)
            })
            .join()
            .unwrap()
    }))
}
