//! `clean`: what goes, what stays, and that a dry run tells the same and changes nothing.

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::symlink;
use std::time::UNIX_EPOCH;

use crate::fake_slurm::FakeSlurm;
use crate::harness::{Said, Study};
use crate::pretty::problems;
use snbb_scheduler::store::state_file::Store;

const STEP: &str = "\
safety: {min_free: 0, max_drop: 100}
output_grace: 0s
procedures:
  - {name: a, output_dir: a, script: job.sh, completion_marker: done}
";

/// Three tasks: one complete, one failed, one running; a fourth is complete and its session gone.
fn study() -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(STEP);
    study.script("job.sh", "true");
    study.scan(&[
        "sub-01/ses-01",
        "sub-02/ses-01",
        "sub-03/ses-01",
        "sub-04/ses-01",
    ]);
    study.ok(&["run"]);
    for (id, state) in [
        ("1001", "COMPLETED"),
        ("1002", "FAILED 1:0"),
        ("1003", "RUNNING"),
        ("1004", "COMPLETED"),
    ] {
        slurm.set(id, state);
    }
    for subject in ["sub-01", "sub-04"] {
        study.write(&format!("derivatives/a/{subject}/ses-01/done"), "x");
    }
    study.ok(&["monitor"]);
    for subject in 1..=4 {
        for end in ["out", "err"] {
            old_file(
                &study,
                &format!("logs/a/a_sub-0{subject}_ses-01_100{subject}.{end}"),
            );
        }
    }
    fs::remove_dir_all(study.at("dicom/sub-04")).unwrap();
    (study, slurm)
}

fn old_file(study: &Study, path: &str) {
    study.write(path, &"x".repeat(600));
    let file = fs::File::open(study.at(path)).unwrap();
    file.set_modified(UNIX_EPOCH).unwrap();
}

fn logs(study: &Study) -> Vec<String> {
    let mut names: Vec<String> = walkdir::WalkDir::new(study.at("logs/a"))
        .min_depth(1)
        .into_iter()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn clean(study: &Study, rest: &[&str]) -> Said {
    study.ok(&[&["clean", "--older-than", "0s"], rest].concat())
}

#[test]
fn d14_a_dry_run_lists_the_same_on_stdout_and_changes_nothing() {
    let (study, _slurm) = study();
    let before = study.snapshot();
    let would = clean(&study, &["--dry-run", "-v"]);
    assert_eq!(study.snapshot(), before);
    let did = clean(&study, &["-v"]);
    let mut as_if = would.err.clone();
    for (would, did) in [
        ("would move", "moved"),
        ("would remove", "removed"),
        ("would archive", "archived"),
    ] {
        as_if = as_if.replace(would, did);
    }
    // How long the looks took is another matter.
    let without_times = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.contains(" calls, "));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(without_times(&as_if), without_times(&did.err));
    assert_eq!(would.out, did.out);
    let dir = study.dir.path().display().to_string();
    let told = did.err.replace(&dir, "DIR");
    let listed = did.out.replace(&dir, "DIR");
    let wanted = [
        "moved 1 row of sessions or procedures that no longer exist to DIR/state.attempts.parquet",
        "removed 4 logs of complete tasks, 2.4 kB",
    ];
    for line in [
        "a sub-04 ses-01: complete (verified)",
        "DIR/logs/a/a_sub-01_ses-01_1001.err, 600 bytes",
    ] {
        assert!(
            listed.lines().any(|found| found == line),
            "{line}\n{listed}"
        );
    }
    for line in wanted {
        assert!(told.lines().any(|found| found == line), "{line}\n{told}");
    }
    assert!(told.contains("archived 8 events, "), "{told}");
    assert_eq!(
        study.statuses(),
        [
            "a sub-01 ses-01: complete verified",
            "a sub-02 ses-01: failed exit_code",
            "a sub-03 ses-01: running running",
        ]
    );
    assert_eq!(
        logs(&study),
        [
            "a_sub-02_ses-01_1002.err",
            "a_sub-02_ses-01_1002.out",
            "a_sub-03_ses-01_1003.err",
            "a_sub-03_ses-01_1003.out",
        ]
    );
}

#[test]
fn age_and_parts_decide() {
    let (study, _slurm) = study();
    let said = study.call(&["clean"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("--older-than"), "{}", said.err);

    let before = study.snapshot();
    let said = study.ok(&["clean", "--older-than", "90d"]);
    assert_eq!(said.err, "nothing to clean: nothing is older than 90d\n");
    assert_eq!(study.snapshot(), before, "nothing changed, nothing written");
    assert_eq!(study.ok(&["clean", "--older-than", "90d", "-q"]).err, "");

    clean(&study, &["--rows"]);
    assert_eq!(study.rows().len(), 3);
    assert_eq!(logs(&study).len(), 8);
    // Logs of tasks whose rows went stay, as nobody can say any more that they are complete.
    clean(&study, &["--logs"]);
    assert_eq!(logs(&study).len(), 6);
    assert!(
        study
            .read("scheduler_audit.jsonl")
            .contains("\"submitted\"")
    );
    clean(&study, &["--events"]);
    assert!(
        !study
            .read("scheduler_audit.jsonl")
            .contains("\"submitted\"")
    );
}

#[test]
fn what_went_is_known_to_those_who_read_the_log() {
    let (study, slurm) = study();
    clean(&study, &[]);
    let state = study.read_bytes("state.parquet");
    // Nothing is wrong, and a lost state comes back without the row that went.
    let said = study.ok(&["state", "verify"]);
    assert!(
        !said.out.contains("error") && !said.out.contains("warning"),
        "{}",
        said.out
    );
    fs::remove_file(study.at("state.parquet")).unwrap();
    let _ = fs::remove_file(study.at("state.parquet.bak"));
    study.ok(&["state", "repair", "--yes", "--no-slurm"]);
    let mut subjects: Vec<String> = study.statuses();
    subjects.retain(|row| !row.contains("sub-0"));
    assert_eq!(subjects, [] as [String; 0]);
    let rows = study.rows();
    let mut jobs: Vec<&str> = rows
        .iter()
        .filter_map(|row| row["job_id"].as_str())
        .collect();
    jobs.sort_unstable();
    assert_eq!(jobs, ["1001", "1002", "1003"]);
    // A living job whose row was lost is still ours by the archive.
    fs::write(study.at("state.parquet"), state).unwrap();
    slurm.set("1003", "RUNNING");
    let before = slurm.jobs().len();
    study.ok(&["run"]);
    assert_eq!(slurm.jobs().len(), before);
}

#[test]
fn rows_stay_while_sessions_cannot_be_seen() {
    let (study, _slurm) = study();
    study.configure(&STEP.replace("max_drop: 100", "max_drop: 10"));
    fs::rename(study.at("dicom"), study.at("away")).unwrap();
    fs::create_dir(study.at("dicom")).unwrap();
    let said = study.call(&["clean", "--older-than", "0s", "--rows"]);
    assert_eq!(said.code, 6, "{}", said.err);
    insta::assert_snapshot!(problems(&study, &said.err));
    assert_eq!(study.rows().len(), 4);
}

#[test]
fn logs_in_the_data_and_behind_links_are_left_alone() {
    let (study, _slurm) = study();
    fs::create_dir_all(study.at("derivatives/logs")).unwrap();
    fs::rename(study.at("logs/a"), study.at("derivatives/logs/a")).unwrap();
    symlink(study.at("derivatives/logs/a"), study.at("logs/a")).unwrap();
    let before = study.snapshot();
    clean(&study, &["--logs"]);
    assert_eq!(study.snapshot(), before);
    fs::remove_file(study.at("logs/a")).unwrap();
    fs::remove_dir(study.at("logs")).unwrap();
    symlink(study.at("derivatives/logs"), study.at("logs")).unwrap();
    let before = study.snapshot();
    let said = study.call(&["clean", "--older-than", "0s"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("derivatives_root"), "{}", said.err);
    assert_eq!(study.snapshot(), before, "and nothing else was begun");
    clean(&study, &["--rows", "--events"]);
}

#[test]
fn a_call_at_work_is_waited_for() {
    let (study, _slurm) = study();
    let store = snbb_scheduler::store::state_file::Store::at(&study.at("state.parquet")).unwrap();
    let _held = store.lock("test", std::time::Duration::ZERO).unwrap();
    let said = study.call(&["clean", "--older-than", "0s", "--lock-timeout", "0s"]);
    assert_eq!(said.code, 4, "{}", said.err);
    study.ok(&["clean", "--older-than", "0s", "--dry-run"]);
}

/// All bytes of files that are ours, those of Parquet and gzip as what is in them.
fn everything(study: &Study) -> String {
    let mut text = String::new();
    let home = study.dir.path();
    for entry in walkdir::WalkDir::new(home) {
        let entry = entry.unwrap();
        let path = entry.path();
        let name = path.strip_prefix(home).unwrap().display().to_string();
        let is_ours = !["dicom", "bids", "derivatives", "logs", "fake-slurm"]
            .iter()
            .any(|root| name.starts_with(root));
        if !entry.file_type().is_file() || !is_ours {
            continue;
        }
        text.push_str(&format!("\n{name}: "));
        text.push_str(&match name.rsplit('.').next() {
            Some("gz") => {
                let mut unpacked = String::new();
                let packed = fs::File::open(path).unwrap();
                flate2::read::MultiGzDecoder::new(packed)
                    .read_to_string(&mut unpacked)
                    .unwrap();
                unpacked
            }
            Some("parquet" | "bak") => {
                let other = tempfile::tempdir().unwrap();
                let copy = other.path().join("rows.parquet");
                fs::copy(path, &copy).unwrap();
                let rows = Store::at(&copy).unwrap().read().unwrap();
                format!("{:?}", rows.rows())
            }
            _ => String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned(),
        });
    }
    text
}

fn names(study: &Study, label: &str) -> usize {
    everything(study).matches(label).count()
}

#[test]
fn purge_takes_a_subject_out_of_every_file_and_leaves_the_others() {
    let (study, slurm) = study();
    study.ok(&["retry"]);
    study.ok(&["run"]);
    clean(&study, &["--events"]);
    study.ok(&["pause", "--procedure", "a", "--note", "ask sub-02 first"]);
    study.write("state.parquet.damaged-20260101T000000Z", "sub-02");
    study.write(
        "state.arrays/array-00000000000000aa/tasks.json",
        "sub-02 sub-020",
    );
    assert!(names(&study, "sub-02") > 5);
    let one = ["clean", "--purge", "--subject", "02"];

    // Its data are there, and a job of it lives: nothing is touched.
    let before = study.snapshot();
    for (gone, code) in [("", 2), ("dicom/sub-02", 2)] {
        if !gone.is_empty() {
            fs::remove_dir_all(study.at(gone)).unwrap();
            continue;
        }
        let said = study.call(&one);
        assert_eq!(said.code, code, "{}", said.err);
        assert_eq!(study.snapshot(), before);
    }
    let said = study.call(&one);
    assert_eq!(said.code, 2, "{}", said.err);
    for id in 1001..1010 {
        slurm.set(&id.to_string(), "FAILED 1:0");
    }
    study.ok(&["monitor"]);

    // A mistyped subject must not look removed.
    let before = study.snapshot();
    let said = study.call(&["clean", "--purge", "--subject", "2"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("did you mean sub-02"), "{}", said.err);
    assert_eq!(study.snapshot(), before);

    let others = names(&study, "sub-01");
    let before = study.snapshot();
    let would = study.ok(&[&one[..], &["--dry-run"]].concat());
    assert_eq!(study.snapshot(), before);
    let did = study.ok(&one);
    let said = would.err.replace("would remove", "removed");
    assert_eq!(said.replace("would delete", "deleted"), did.err);

    assert_eq!(names(&study, "sub-02"), 1, "that of sub-020");
    assert_eq!(names(&study, "sub-01"), others);
    let log = study.read("scheduler_audit.jsonl");
    let last: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
    assert_eq!(last["event"], "pruned");
    assert_eq!(last["attempts"], 1);
    study.ok(&["state", "verify"]);
    study.ok(&["run"]);
    assert_eq!(names(&study, "sub-02"), 1);
    let again = study.call(&one);
    assert_eq!(again.code, 2, "{}", again.err);
    insta::assert_snapshot!("nothing_to_purge", again.err);
}

/// A forgotten `--purge` must not clean the whole study.
#[test]
fn attack_a_subject_without_purge_is_refused() {
    let study = Study::new();
    let before = study.snapshot();
    let said = study.call(&["clean", "--subject", "02", "--older-than", "1s"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("--subject"), "{}", said.err);
    assert_eq!(study.snapshot(), before);
}

/// A local job reads its script when it starts: it must be the one that was submitted.
#[test]
fn attack_purge_leaves_the_scripts_of_local_jobs_in_flight() {
    let study = Study::new();
    study.configure(&format!("executor: local\nlocal_jobs: 1\n{STEP}"));
    study.script(
        "job.sh",
        "until [ -e GO ]; do sleep 0.1; done; # sub-01"
            .replace("GO", study.at("go").to_str().unwrap())
            .as_str(),
    );
    study.scan(&["sub-02/ses-01", "sub-03/ses-01"]);
    study.ok(&["run"]);
    let said = study.call(&["clean", "--purge", "--subject", "01"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("a job's script"), "{}", said.err);
    study.write("go", "");
    study.call(&["wait"]);
    study.ok(&["clean", "--purge", "--subject", "01"]);
    assert!(!study.read("state.local/1.script").contains("sub-01"));
}

/// Tasks that wait in an array find their list as it was submitted.
#[test]
fn attack_purge_leaves_the_list_of_an_array_whose_tasks_wait() {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(&format!("array: always\n{STEP}"));
    study.script("job.sh", "true");
    study.scan(&["sub-01/ses-01", "sub-02/ses-01"]);
    study.ok(&["run"]);
    slurm.set("1001_0", "FAILED 1:0");
    study.ok(&["monitor"]);
    fs::remove_dir_all(study.at("dicom/sub-01")).unwrap();
    let before = study.snapshot();
    let said = study.call(&["clean", "--purge", "--subject", "01"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("array"), "{}", said.err);
    assert_eq!(study.snapshot(), before);
    slurm.set("1001_1", "FAILED 1:0");
    study.ok(&["monitor"]);
    study.ok(&["clean", "--purge", "--subject", "01"]);
    assert_eq!(names(&study, "sub-01"), 0);
}
