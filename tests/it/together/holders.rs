//! Who holds the lock, and whose state it is.

use super::*;

#[test]
fn a_state_of_another_user_is_read_and_not_written() {
    if !is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        return tell("SKIPPED a_state_of_another_user: needs root and setpriv");
    }
    let mut growing = Growing::new();
    growing.grow();
    let study = &growing.study;
    study.ok(&["run"]);
    mode(study.dir.path(), 0o755);
    let program = study.at("program");
    fs::copy(assert_cmd::cargo::cargo_bin("snbb-scheduler"), &program).unwrap();
    executable(&program);
    let before = study.snapshot();
    let as_nobody = |arguments: &[&str]| {
        let mut path = study.path.clone();
        path.extend(["/usr/bin".into(), "/bin".into()]);
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(&program)
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("SNBB_CONFIG", study.at("config.yaml"))
            .current_dir("/")
            .output()
            .unwrap();
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    };
    // A directory that only the owner may write to, and one that a whole group may.
    for directory in [0o755, 0o777] {
        mode(study.dir.path(), directory);
        let said = as_nobody(&["status"]);
        assert_eq!(said.code, 0, "{}", said.err);
        assert_eq!(said.out.matches("pending").count(), NEW + 1, "{}", said.out);
        for command in [
            &["run"][..],
            &["monitor"],
            &["retry"],
            &["pause"],
            &["resume"],
            &["cancel", "--all"],
        ] {
            let said = as_nobody(command);
            assert_eq!(said.code, 1, "{command:?}: {}", said.err);
            insta::assert_snapshot!("a_state_of_another_user", messages(study, &said));
        }
        assert!(study.snapshot() == before, "nothing was written");
    }
    for part in [
        "fake-slurm",
        "fake-slurm/jobs",
        "fake-slurm/state",
        "fake-slurm/ids",
    ] {
        mode(&study.at(part), 0o777);
    }
    for entry in walkdir::WalkDir::new(study.dir.path()) {
        let entry = entry.unwrap();
        if entry.file_type().is_file() {
            mode(entry.path(), 0o777);
        }
    }
    let said = as_nobody(&["run", "--as-owner"]);
    assert_eq!(said.code, 0, "{}", said.err);
}

fn mode(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_dead_holder_on_this_host_never_blocks() {
    let mut growing = Growing::new();
    growing.grow();
    let gate = Gate::new(&growing, "gate");
    let mut call = gate.start(&growing, "sbatch", &["run"]);
    let refused = growing.study.call(&["run", "--lock-timeout", "0s"]);
    assert_eq!(refused.code, 4, "{}", refused.err);
    // Its sbatch lives on: that does not keep the lock.
    call.kill(false);
    call.child.wait().unwrap();
    let said = growing.study.ok(&["run", "--lock-timeout", "0s"]);
    assert_eq!(said.count("submitted"), 2, "{}", said.err);
    gate.open();
    call.end();
    growing.study.ok(&["run"]);
    growing.is_exact();
}

#[test]
fn a_lock_of_another_host_is_respected_while_its_heart_beats() {
    let mut growing = Growing::new();
    growing.grow();
    let study = &growing.study;
    study.write(
        "state.lock",
        "{\"token\":\"t1\",\"host\":\"login9\",\"pid\":4242,\"start_time\":1,\"boot_id\":\"b\",\
         \"namespaces\":\"pid:[1] time:[1]\",\"uid\":1000,\"user\":\"alice\",\"command\":\"run\",\
         \"since\":\"2026-01-02T03:04:05Z\"}\n",
    );
    for command in ["run", "monitor", "retry"] {
        let said = study.call(&[command, "--lock-timeout", "0s"]);
        assert_eq!(said.code, 4, "{command}: {}", said.err);
        let line = errors(&said)[0];
        for part in ["alice", "login9", "4242", "2026-01-02 03:04 UTC"] {
            assert!(line.contains(part), "{line}");
        }
    }
    study.ok(&["status"]);
    study.ok(&["run", "--dry-run"]);
    assert_eq!(growing.slurm.calls("sbatch"), 0);
    if !is_long() {
        return;
    }
    // Its heart has stopped; whoever wants the lock watches it for 45 s all the same.
    let file = fs::File::options()
        .write(true)
        .open(study.at("state.lock"))
        .unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(700))
        .unwrap();
    let calls: Vec<Call> = (0..8)
        .map(|_| Call::start(study, &[], &["run", "--lock-timeout", "5m"], &[]))
        .collect();
    let winners: BTreeSet<bool> = calls
        .into_iter()
        .map(|call| {
            let said = call.end();
            assert_eq!(said.code, 0, "{}", said.err);
            said.count("submitted") == 3
        })
        .collect();
    assert_eq!(winners.len(), 2);
    growing.is_exact();
}
