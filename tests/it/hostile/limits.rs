//! Directories, descriptors and limits of the caller's.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use snbb_scheduler::store::state_file::Store;

use crate::fake_slurm::FakeSlurm;
use crate::harness::{Study, executable};
use crate::state::full_row;

const SESSIONS: [&str; 3] = ["sub-01/ses-01", "sub-02/ses-01", "sub-03/ses-01"];

pub fn study() -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    configure(&study);
    (study, slurm)
}

fn configure(study: &Study) {
    study.configure(
        "project: p\nprocedures:\n- {name: a, output_dir: a, script: a.sh, completion_marker: done}\n",
    );
    study.script("a.sh", "true");
    study.scan(&SESSIONS);
}

/// Runs the program through a shell, which prepares its surroundings; `$P` is the program.
pub fn through_shell(study: &Study, script: &str) -> Output {
    let program = study.program();
    let mut command = Command::new("/bin/bash");
    command.env_clear();
    for (name, value) in program.get_envs() {
        command.env(name, value.unwrap());
    }
    command
        .env("P", program.get_program())
        .args(["-c", script])
        .current_dir(study.dir.path())
        .output()
        .unwrap()
}

/// Each job that Slurm has stands in a row, and no task has two.
fn nothing_is_lost(study: &Study, slurm: &FakeSlurm, place: &str) {
    let mut jobs: Vec<String> = slurm.jobs().into_iter().map(|(id, _)| id).collect();
    let mut rows: Vec<String> = study
        .rows()
        .iter()
        .map(|row| row["job_id"].as_str().unwrap_or("-").to_owned())
        .collect();
    jobs.sort();
    rows.sort();
    assert_eq!(rows, jobs, "{place}");
    assert_eq!(jobs.len(), SESSIONS.len(), "{place}");
}

#[test]
fn a_run_loses_nothing_whatever_its_directory_and_descriptors_are() {
    for (place, script, code) in [
        (
            "a working directory that is gone",
            "mkdir gone; cd gone; rmdir ../gone; exec \"$P\" run",
            0,
        ),
        ("stdin closed", "exec \"$P\" run <&-", 0),
        ("stdout closed", "exec \"$P\" run >&-", 0),
        ("stderr closed", "exec \"$P\" run 2>&-", 0),
        ("all closed", "exec \"$P\" -vv run <&- >&- 2>&-", 0),
        ("stderr full", "exec \"$P\" run 2>/dev/full", 0),
        (
            "stderr full, and much to say",
            "exec \"$P\" -vv run 2>/dev/full",
            0,
        ),
        ("stdout full", "exec \"$P\" run >/dev/full", 0),
        (
            "a reader that has gone",
            "\"$P\" run 2>&1 | true; exit ${PIPESTATUS[0]}",
            0,
        ),
        ("no HOME", "unset HOME; exec \"$P\" run", 0),
        (
            "no variable but the configuration and PATH",
            "exec env -i PATH=\"$PATH\" SNBB_CONFIG=\"$SNBB_CONFIG\" \"$P\" run",
            0,
        ),
        ("umask 000", "umask 000; exec \"$P\" run", 0),
        ("umask 077", "umask 077; exec \"$P\" run", 0),
        ("few descriptors", "ulimit -n 64; exec \"$P\" run", 0),
        ("very few descriptors", "ulimit -n 20; exec \"$P\" run", 0),
        ("a small stack", "ulimit -s 512; exec \"$P\" run", 0),
        ("no core files", "ulimit -c 0; exec \"$P\" run", 0),
        (
            "a log file that is full by its limit",
            "ulimit -f 64; head -c 65536 /dev/zero >log; exec \"$P\" -vv run >>log 2>&1",
            0,
        ),
        (
            "signals ignored",
            "trap '' PIPE HUP TERM; exec \"$P\" run",
            0,
        ),
    ] {
        let (study, slurm) = study();
        let output = through_shell(&study, script);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{place}: {said}");
        assert!(!said.contains("panicked"), "{place}: {said}");
        nothing_is_lost(&study, &slurm, place);
        // And it goes on.
        let again = through_shell(&study, script);
        assert_eq!(again.status.code(), Some(code), "{place}, again");
        nothing_is_lost(&study, &slurm, place);
    }
}

#[test]
fn data_that_cannot_be_written_is_an_error_and_nothing_else() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    for command in ["status", "manifest", "session-status"] {
        let output = through_shell(&study, &format!("exec \"$P\" {command} >/dev/full"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        // Nothing is due, so there may be nothing to write.
        assert!(
            matches!(output.status.code(), Some(0 | 1)),
            "{command}: {said}"
        );
        assert!(!said.contains("panicked"), "{command}: {said}");
    }
    nothing_is_lost(&study, &slurm, "reading commands");
}

#[test]
fn a_new_state_takes_its_mode_from_the_umask() {
    for (umask, expected) in [
        ("000", 0o666),
        ("022", 0o644),
        ("027", 0o640),
        ("077", 0o600),
    ] {
        let (study, _slurm) = study();
        let output = through_shell(&study, &format!("umask {umask}; exec \"$P\" run"));
        assert!(output.status.success());
        for file in ["state.parquet", "scheduler_audit.jsonl"] {
            let mode = fs::metadata(study.at(file)).unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, expected, "{file} with umask {umask}");
        }
    }
}

/// A Slurm that starts no process of its own.
const FRUGAL: &str = r#"#!/bin/bash
D=${0%/*}; S=$'\x1f'
all="$*"; wanted=${all#*--format=%i}; wanted=${wanted%%%*}
case ${0##*/} in
sbatch)
  read -r n < "$D/n"; n=$((n + 1)); echo "$n" > "$D/n"
  for a in "$@"; do case $a in --job-name=*) name=${a#*=};; --comment=*) comment=${a#*=};; esac; done
  printf -v now '%(%s)T' -1
  echo "$n${S}PENDING${S}None$S$now${S}N/A${S}N/A$S${S}1:00$S$comment$S$name$S" >> "$D/queue"
  echo "$n";;
squeue)
  while IFS= read -r line; do printf '%s\n' "${line//$S/$wanted}"; done < "$D/queue";;
esac
exit 0
"#;

/// A user whom no limit is lifted for, with no other processes.
const USER: u32 = 54_321;

/// Limits on processes are per user, and root has none.
fn as_user(study: &Study, processes: u32, arguments: &[&str]) -> Output {
    let program = study.program();
    let mut command = Command::new("/usr/bin/setpriv");
    command.env_clear();
    for (name, value) in program.get_envs() {
        command.env(name, value.unwrap());
    }
    let user = USER.to_string();
    command
        .args(["--reuid", &user, "--regid", &user, "--clear-groups", "--"])
        .args([
            "/usr/bin/prlimit",
            &format!("--nproc={processes}"),
            "--nofile=64",
            "--",
        ])
        .arg(study.at("program"))
        .args(arguments)
        .current_dir("/")
        .output()
        .unwrap()
}

#[test]
fn a_limit_on_processes_loses_nothing() {
    if !PathBuf::from("/usr/bin/setpriv").exists() {
        eprintln!("SKIPPED: there is no setpriv");
        return;
    }
    let mut study = Study::new();
    configure(&study);
    for program in ["sbatch", "squeue", "sacct", "scancel"] {
        study.write(&format!("bin/{program}"), FRUGAL);
        executable(&study.at(&format!("bin/{program}")));
    }
    study.write("bin/n", "0\n");
    study.write("bin/queue", "");
    study.path.insert(0, study.at("bin"));
    // The program may lie in a directory that this user cannot enter.
    let program = study.program().get_program().to_owned();
    if fs::hard_link(&program, study.at("program")).is_err() {
        fs::copy(&program, study.at("program")).unwrap();
    }
    // So many rows that they are read and written with a second thread.
    let many = |study: &Study| {
        let store = Store::at(&study.at("state.parquet")).unwrap();
        let locked = store.lock("test", std::time::Duration::ZERO).unwrap();
        let mut state = locked.read().unwrap();
        state.meta.project = Some("p".to_owned());
        state.meta.owner_uid = Some(USER);
        for number in 0..20_001 {
            let mut row = full_row(&format!("sub-x{number}"), "gone", number);
            row.status = snbb_scheduler::model::state::TaskStatus::Complete;
            row.reason = Some(snbb_scheduler::model::state::Reason::Verified);
            state.put(row);
        }
        locked.save(&mut state).unwrap();
    };
    let own = |study: &Study| {
        let owner = format!("{USER}:{USER}");
        let place = study.dir.path().to_str().unwrap().to_owned();
        let places = [place, study.at("program").to_str().unwrap().to_owned()];
        // Not the program: the link shares its owner with the original.
        assert!(
            Command::new("find")
                .args([
                    &places[0], "!", "-path", &places[1], "-exec", "chown", &owner, "{}", "+"
                ])
                .status()
                .unwrap()
                .success()
        );
    };
    own(&study);
    let submitted = |study: &Study| study.read("bin/queue").lines().count();
    for processes in 1..6 {
        let output = as_user(&study, processes, &["run"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("panicked"), "{processes} processes: {said}");
        assert!(
            !said.contains("damaged") && !said.contains("decoded"),
            "{processes} processes: {said}"
        );
        assert!(
            output.status.code().is_some_and(|code| code != 101),
            "{processes} processes: {:?} {said}",
            output.status
        );
    }
    let output = as_user(&study, 1000, &["run"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(submitted(&study), SESSIONS.len());
    let output = as_user(&study, 1000, &["status", "--format", "json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(rows.len(), SESSIONS.len());
    assert!(rows.iter().all(|row| row["job_id"].is_string()), "{rows:?}");
    // Reading commands too say what is wrong instead of falling over or waiting for ever.
    for processes in [1, 2, 3, 5] {
        for command in [&["status"][..], &["manifest"], &["session-status"]] {
            let output = as_user(&study, processes, command);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                !said.contains("panicked") && matches!(output.status.code(), Some(0 | 1)),
                "{command:?} with {processes} processes: {said}"
            );
        }
    }
    // A list of sessions is read without further processes.
    study.write("sessions.csv", "UID,ScanID,dicom_path\n1,1,/dicom\n");
    let config = study.read("config.yaml");
    study.write(
        "config.yaml",
        &format!("{config}sessions_file: sessions.csv\n"),
    );
    let output = as_user(&study, 3, &["run"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{:?} {said}", output.status);
    study.write("config.yaml", &config);
    // A large state is no damaged one.
    many(&study);
    own(&study);
    let output = as_user(&study, 3, &["run"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(submitted(&study), SESSIONS.len());
}

/// Without exit codes nobody knows what an answer is worth.
#[test]
fn a_caller_that_ignores_the_end_of_children_is_told_so() {
    let (study, slurm) = study();
    let output = through_shell(&study, "trap '' CHLD; exec \"$P\" run");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("SIGCHLD"), "{said}");
    assert_eq!(slurm.calls("sbatch"), 0);
}
