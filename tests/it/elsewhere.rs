//! Calls from another place than the study's: a login node of another cluster, a copy of the study's directory, and jobs
//! that another user owns.
#![expect(clippy::disallowed_methods, reason = "lists a directory")]

use std::fs;
use std::os::unix::fs::symlink;

use snbb_scheduler::store::lock::Lock;
use snbb_scheduler::store::state_file::Store;

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;
use crate::pretty::problems;

/// Nothing is waited for, so that a wrong answer has its effect at once.
const PAIR: &str = "\
settle_time: 0s
output_grace: 0s
lost_grace: 0s
absence_grace: 0s
procedures:
  - {name: a, output_dir: a, script: a.sh, completion_marker: done}
";

/// Two subjects; of the second nobody knows whether its job was accepted.
fn study() -> (Study, FakeSlurm) {
    study_of(PAIR)
}

fn study_of(config: &str) -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(config);
    study.script("a.sh", "true");
    study.scan(&["sub-1/ses-1", "sub-2/ses-1"]);
    fs::write(slurm.at("config"), "ClusterName = alpha\n").unwrap();
    slurm.silent(2);
    study.call(&["run"]);
    assert_eq!(study.statuses(), BEGUN);
    (study, slurm)
}

/// Deletes the state and all files beside it.
fn forget(study: &Study, with_log: bool) {
    for file in fs::read_dir(study.at("")).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        if name.starts_with("state.") || with_log && name.ends_with(".jsonl") {
            fs::remove_file(file.path()).unwrap();
        }
    }
}

/// The login node of a cluster whose Slurm has none of the jobs.
fn go_to(slurm: &FakeSlurm, cluster: &str) {
    if cluster == "alpha" {
        fs::remove_dir(slurm.at("jobs")).unwrap();
        fs::rename(slurm.at("away"), slurm.at("jobs")).unwrap();
    } else {
        fs::rename(slurm.at("jobs"), slurm.at("away")).unwrap();
        fs::create_dir(slurm.at("jobs")).unwrap();
    }
    fs::write(slurm.at("config"), format!("ClusterName = {cluster}\n")).unwrap();
}

const BEGUN: [&str; 2] = [
    "a sub-1 ses-1: pending queued",
    "a sub-2 ses-1: pending submitting",
];
const FOUND: [&str; 2] = [
    "a sub-1 ses-1: pending queued",
    "a sub-2 ses-1: pending queued",
];

#[test]
fn attack_the_home_cluster_is_known_from_the_copy_when_the_state_is_gone() {
    let (study, slurm) = study();
    study.ok(&["monitor"]);
    fs::copy(study.at("state.parquet"), study.at("state.parquet.bak")).unwrap();
    fs::remove_file(study.at("state.parquet")).unwrap();
    fs::remove_dir_all(slurm.at("jobs")).unwrap();
    fs::create_dir(slurm.at("jobs")).unwrap();
    fs::write(slurm.at("config"), "ClusterName = beta\n").unwrap();
    let sent = slurm.calls("sbatch");
    let said = study.call(&["run"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert!(said.err.contains("'alpha'"), "{}", said.err);
    assert_eq!(slurm.calls("sbatch"), sent);
}

#[test]
fn attack_a_login_node_of_another_cluster_changes_and_submits_nothing() {
    let (study, slurm) = study();
    go_to(&slurm, "beta");
    for command in [
        &["run"][..],
        &["run", "--skip-monitor"],
        &["monitor"],
        &["monitor"],
        &["retry", "--status", "pending"],
        &["cancel", "--all"],
    ] {
        let said = study.call(command);
        assert_ne!(said.code, 0, "{command:?}: {}", said.err);
        assert!(
            said.err.contains("'alpha'") && said.err.contains("'beta'"),
            "{command:?}: {}",
            said.err
        );
    }
    assert_eq!(study.call(&["run"]).code, 5);
    assert_eq!(study.statuses(), BEGUN);
    assert_eq!((slurm.calls("sbatch"), slurm.calls("scancel")), (2, 0));
    go_to(&slurm, "alpha");
    study.ok(&["run"]);
    assert_eq!(study.statuses(), FOUND);
    assert_eq!(slurm.calls("sbatch"), 2);
    // While a job of the study is in the queue, nobody is asked for the name.
    let asked = slurm.calls("scontrol");
    study.ok(&["run"]);
    assert_eq!(slurm.calls("scontrol"), asked);
}

#[test]
fn attack_a_cluster_that_was_renamed_is_accepted_at_a_persons_word() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    for job in ["1001", "1002"] {
        slurm.set(job, "COMPLETED 0:0");
    }
    fs::write(slurm.at("config"), "ClusterName = omega\n").unwrap();
    assert_eq!(study.call(&["monitor"]).code, 5);
    assert_eq!(study.statuses(), FOUND);
    study.ok(&["run", "--accept-cluster"]);
    assert_eq!(
        study.statuses(),
        [
            "a sub-1 ses-1: failed no_output",
            "a sub-2 ses-1: failed no_output"
        ]
    );
    study.ok(&["run"]);
}

#[test]
fn attack_jobs_that_a_wrapper_submits_as_a_service_user_are_not_lost() {
    let (study, slurm) = study();
    slurm.give_away();
    study.ok(&["run"]);
    study.ok(&["run"]);
    assert_eq!(study.statuses(), FOUND);
    assert_eq!(slurm.calls("sbatch"), 2);
    study.write("derivatives/a/sub-1/ses-1/done", "x");
    slurm.set("1001", "COMPLETED 0:0");
    slurm.set("1002", "FAILED 3:0");
    study.ok(&["monitor"]);
    assert_eq!(
        study.statuses(),
        [
            "a sub-1 ses-1: complete verified",
            "a sub-2 ses-1: failed exit_code"
        ]
    );
    // Accounting is proven by a job that is not the owner's either.
    study.scan(&["sub-3/ses-1"]);
    study.ok(&["run"]);
    slurm.give_away();
    study.ok(&["monitor"]);
    assert_eq!(study.statuses()[2..], ["a sub-3 ses-1: pending queued"]);
}

#[test]
fn attack_jobs_of_a_service_user_are_taken_back_after_the_state_is_gone() {
    for with_log in [false, true] {
        let (study, slurm) = study();
        slurm.give_away();
        forget(&study, with_log);
        for _ in 0..2 {
            study.ok(&["run"]);
            assert_eq!(study.statuses(), FOUND, "{with_log}");
            assert_eq!(slurm.calls("sbatch"), 2, "{with_log}");
        }
    }
}

#[test]
fn attack_jobs_of_a_service_user_are_taken_back_after_the_state_was_rolled_back() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    let before = study.read_bytes("state.parquet");
    study.scan(&["sub-3/ses-1"]);
    study.ok(&["run"]);
    slurm.give_away();
    slurm.set_all("RUNNING");
    study.ok(&["monitor"]);
    for command in ["monitor", "run"] {
        forget(&study, false);
        fs::write(study.at("state.parquet"), &before).unwrap();
        study.ok(&[command]);
        study.ok(&["run", "--skip-monitor"]);
        assert_eq!(slurm.calls("sbatch"), 3, "{command}");
        assert_eq!(study.statuses()[2], "a sub-3 ses-1: running running");
    }
}

/// `scontrol requeue` brings a job back under its id.
#[test]
fn attack_a_requeued_job_of_a_service_user_is_seen() {
    let (study, slurm) = study();
    study.ok(&["monitor"]);
    slurm.give_away();
    for command in ["monitor", "run", "retry"] {
        slurm.set_all("FAILED 3:0");
        study.ok(&["monitor"]);
        let failed = "a sub-1 ses-1: failed exit_code";
        assert_eq!(study.statuses()[0], failed);
        slurm.set_all("RUNNING");
        study.call(&[command]);
        let running = "a sub-1 ses-1: running running";
        assert_eq!(study.statuses()[0], running, "{command}");
    }
    assert_eq!(slurm.calls("sbatch"), 2);
}

/// The jobs of all users are asked for only if one may be the study's.
#[test]
fn what_the_owners_queue_and_accounting_show_is_asked_for_once() {
    let (study, slurm) = study();
    study.ok(&["monitor"]);
    study.write("derivatives/a/sub-1/ses-1/done", "x");
    slurm.set("1001", "COMPLETED");
    slurm.set("1002", "FAILED 3:0");
    study.ok(&["monitor"]);
    for command in ["monitor", "run"] {
        let calls = slurm.calls("squeue");
        study.ok(&[command]);
        assert_eq!(slurm.calls("squeue"), calls + 1, "{command}");
    }
}

#[test]
fn attack_a_study_without_state_is_not_repaired_or_begun_on_another_cluster() {
    let (study, slurm) = study();
    study.ok(&["monitor"]);
    forget(&study, false);
    go_to(&slurm, "beta");
    for command in [&["run"][..], &["monitor"], &["state", "repair", "--yes"]] {
        let said = study.call(command);
        assert_eq!(said.code, 5, "{command:?}: {}", said.err);
        assert!(said.err.contains("'alpha'"), "{command:?}: {}", said.err);
    }
    go_to(&slurm, "alpha");
    study.ok(&["run"]);
    assert_eq!(study.statuses(), FOUND);
    assert_eq!(slurm.calls("sbatch"), 2);
}

#[test]
fn attack_retry_on_another_cluster_clears_nothing() {
    let (study, slurm) = study();
    study.ok(&["monitor"]);
    slurm.set_all("FAILED 3:0");
    study.ok(&["monitor"]);
    let failed = study.statuses();
    go_to(&slurm, "beta");
    let said = study.call(&["retry"]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert_eq!(study.statuses(), failed);
    insta::assert_snapshot!("retry_elsewhere", problems(&study, &said.err));
    go_to(&slurm, "alpha");
    study.ok(&["retry"]);
    assert_eq!(study.statuses(), [""; 0]);
}

/// The error that a call in a copy reported, and its hint.
fn in_copy(copy: &Study, original: &Study, err: &str) -> String {
    let original = original.dir.path().display().to_string();
    let text = problems(copy, &err.replace(&original, "[original]"));
    let lines = text.lines().skip_while(|line| !line.starts_with("error: "));
    lines.collect::<Vec<_>>().join("\n")
}

/// A run that was killed has left a journal.
#[test]
fn attack_a_copy_of_a_journal_leaves_the_originals_jobs_alone() {
    let (mut study, slurm) = study();
    study.script(
        "killer/sbatch",
        "\"${0%/killer/*}/fake-slurm/bin/sbatch\" \"$@\"\nkill -9 $PPID",
    );
    study.scan(&["sub-3/ses-1"]);
    study.path.insert(0, study.at("killer"));
    study.call(&["run"]);
    study.path.remove(0);
    assert!(study.at("state.journal.jsonl").exists());
    assert_eq!(slurm.calls("sbatch"), 3);

    let copy = study.copy();
    for end in ["", ".bak"] {
        let _ = fs::remove_file(copy.at(&format!("state.parquet{end}")));
    }
    for command in [&["run"][..], &["monitor"], &["state", "repair", "--yes"]] {
        let said = copy.call(command);
        assert_eq!(said.code, 1, "{command:?}: {}", said.err);
        let told = in_copy(&copy, &study, &said.err);
        insta::assert_snapshot!("copy_of_a_journal", told);
    }
    // The original goes on, and so does a study that was moved.
    let moved = study.copy();
    study.ok(&["run"]);
    assert_eq!(study.statuses().len(), 3);
    assert_eq!(slurm.calls("sbatch"), 3);
    for end in ["", ".bak"] {
        let _ = fs::remove_file(study.at(&format!("state.parquet{end}")));
        let _ = fs::remove_file(moved.at(&format!("state.parquet{end}")));
    }
    moved.ok(&["run"]);
    assert_eq!(FakeSlurm::of(&moved).calls("sbatch"), 3);
    // A study of its own has a mark of its own.
    fs::remove_file(copy.at("state.journal.jsonl")).unwrap();
    copy.ok(&["run"]);
}

#[test]
fn attack_a_copy_of_a_study_that_was_moved_is_one() {
    let (study, slurm) = study();
    study.ok(&["run"]);
    let moved = study.copy();
    fs::remove_file(study.at("state.parquet")).unwrap();
    moved.ok(&["monitor"]);
    let copy = moved.copy();
    let said = copy.call(&["run"]);
    assert_eq!(said.code, 1, "{}", said.err);
    insta::assert_snapshot!("copy_of_a_moved_study", in_copy(&copy, &moved, &said.err));
    moved.ok(&["run"]);
    assert_eq!(moved.statuses(), FOUND);
    assert_eq!(slurm.calls("sbatch"), 2);
}

/// The queue of jobs lies in files beside the state.
#[test]
fn attack_a_copy_starts_no_local_job_of_the_original() {
    let study = Study::new();
    study.configure(&format!("executor: local\nlocal_jobs: 1\n{PAIR}"));
    study.script(
        "a.sh",
        "echo x >> \"$SNBB_BIDS_ROOT/started\"\n\
         for _ in {1..600}; do [ -e \"$SNBB_BIDS_ROOT/go\" ] && exit 0; sleep 0.1; done",
    );
    study.scan(&["sub-1/ses-1", "sub-2/ses-1"]);
    study.ok(&["run"]);
    let copy = study.copy();
    fs::remove_file(copy.at("state.parquet")).unwrap();
    // The first job ends: there is room for the second.
    study.write("bids/go", "");
    std::thread::sleep(std::time::Duration::from_millis(500));
    for command in ["run", "monitor", "run"] {
        copy.call(&[command]);
        std::thread::sleep(std::time::Duration::from_millis(300));
    }
    let started = || study.read("bids/started").lines().count();
    assert_eq!(started(), 1);
    let is_over = |rows: &[String]| rows.iter().all(|row| row.contains("failed"));
    study.until(&["monitor"], std::time::Duration::from_secs(20), is_over);
    assert_eq!(started(), 2);
}

#[test]
fn attack_wait_does_not_end_well_while_jobs_without_a_row_live() {
    let (study, slurm) = study();
    study.ok(&["monitor"]);
    for with_log in [false, true] {
        forget(&study, with_log);
        let said = study.call(&["wait", "--timeout", "1s"]);
        assert_eq!(said.code, 1, "{with_log}: {}", said.err);
        assert!(said.err.contains("2 jobs"), "{with_log}: {}", said.err);
    }
    slurm.set_all("COMPLETED");
    study.ok(&["wait", "--timeout", "1s"]);
}

#[test]
fn attack_a_copy_of_a_study_leaves_the_originals_jobs_alone() {
    let (study, slurm) = study();
    let copy = study.copy();
    let before = copy.snapshot();
    for command in [
        &["run"][..],
        &["monitor"],
        &["retry"],
        &["cancel", "--all"],
        &["pause"],
        &["state", "repair", "--yes"],
    ] {
        let said = copy.call(command);
        assert_eq!(said.code, 1, "{command:?}: {}", said.err);
        insta::assert_snapshot!("copy_of_a_study", in_copy(&copy, &study, &said.err));
    }
    assert_eq!(slurm.calls("scancel"), 0);
    assert_eq!(copy.snapshot(), before);
    copy.ok(&["status"]);

    // Another program rewrote the original without its metadata, which proves no other study.
    let store = Store::at(&study.at("state.parquet")).unwrap();
    let mut state = store.read().unwrap();
    let original = fs::read(study.at("state.parquet")).unwrap();
    state.meta.project = None;
    store.locked_by(Lock::unlocked()).save(&mut state).unwrap();
    assert_eq!(copy.call(&["monitor"]).code, 1);
    fs::write(study.at("state.parquet"), original).unwrap();

    // A study of its own has a mark of its own, although the copy before the state is left.
    fs::remove_file(copy.at("state.parquet")).unwrap();
    fs::copy(study.at("state.parquet"), copy.at("state.parquet.bak")).unwrap();
    for file in fs::read_dir(copy.at("fake-slurm/jobs")).unwrap() {
        fs::remove_file(file.unwrap().path()).unwrap();
    }
    copy.ok(&["run"]);
    let tag = |slurm: &FakeSlurm, call: usize| {
        let argv = slurm.argv();
        let line = argv.lines().nth(call).unwrap().to_owned();
        let (_, tag) = line.split_once("snbb:").unwrap();
        tag.split(':').next().unwrap().to_owned()
    };
    let own = FakeSlurm::of(&copy);
    assert_ne!(tag(&own, 2), tag(&own, 0));
    assert_eq!(slurm.calls("sbatch"), 2);
}

/// A copy without state and log is a new study of the same name.
#[test]
fn attack_a_copy_without_a_state_leaves_the_originals_jobs_alone() {
    let (study, slurm) = study_of(&format!("project: pair\n{PAIR}"));
    let copy = study.copy();
    forget(&copy, true);
    copy.ok(&["run"]);
    assert_eq!(copy.statuses(), [""; 0], "nothing was adopted");
    let own = FakeSlurm::of(&copy);
    assert_eq!(own.calls("sbatch"), slurm.calls("sbatch"));
}

#[test]
fn attack_a_study_that_was_moved_keeps_its_jobs() {
    let (study, _) = study();
    let moved = study.copy();
    fs::remove_file(study.at("state.parquet")).unwrap();
    moved.ok(&["run"]);
    assert_eq!(moved.statuses(), FOUND);
    assert_eq!(FakeSlurm::of(&moved).calls("sbatch"), 2);
}

#[test]
fn attack_one_directory_under_several_names_is_one_study() {
    let (study, slurm) = study();
    symlink(study.dir.path(), study.at("link")).unwrap();
    let config = study.at("link/config.yaml");
    let by_link = ["--config", config.to_str().unwrap(), "run"];
    study.ok(&by_link);
    study.ok(&["run"]);
    study.ok(&by_link);
    assert_eq!(study.statuses(), FOUND);
    assert_eq!(slurm.calls("sbatch"), 2);
}
