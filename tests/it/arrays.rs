//! Job arrays: whole passes with a Slurm of shell scripts here, on a real one in `cluster`.
#![expect(
    clippy::disallowed_methods,
    reason = "looks at the directories of arrays and sets their age"
)]

mod cluster;

use std::fs;
use std::time::{Duration, SystemTime};

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;
use crate::pretty::messages;

fn study(rest: &str, sessions: usize) -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(&format!(
        "settle_time: 0s\noutput_grace: 0s\n{rest}\nprocedures:\n\
         - {{name: prep, output_dir: prep, script: prep.sh, completion_marker: done}}\n"
    ));
    study.script("prep.sh", "true");
    let sessions: Vec<String> = (0..sessions).map(|i| format!("sub-{i:03}/ses-1")).collect();
    study.scan(&sessions.iter().map(String::as_str).collect::<Vec<_>>());
    (study, slurm)
}

/// Returns the names of the directories of arrays.
fn directories(study: &Study) -> Vec<String> {
    let Ok(entries) = fs::read_dir(study.at("state.arrays")) else {
        return Vec::new();
    };
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Sees that each task has exactly one job, which its row and the array's task list know.
fn each_has_its_job(study: &Study, slurm: &FakeSlurm, tasks: usize) {
    let jobs = slurm.jobs();
    let rows = study.rows();
    assert_eq!((rows.len(), jobs.len()), (tasks, tasks), "{jobs:?}");
    for row in rows {
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        let (id, name) = jobs.iter().find(|(id, _)| *id == text("job_id")).unwrap();
        assert_eq!(*name, text("job_name"));
        let Some((_, index)) = id.split_once('_') else {
            continue;
        };
        let submission = text("submission_id");
        let (array, task) = submission.split_once('.').unwrap();
        assert_eq!(task, index);
        let list: serde_json::Value =
            serde_json::from_str(&study.read(&format!("state.arrays/{array}/tasks.json"))).unwrap();
        let listed = &list["tasks"][index.parse::<usize>().unwrap()];
        assert_eq!(listed["subject"], row["subject"]);
        let log = study.at(&format!(
            "logs/prep/prep_{}_ses-1_{id}.out",
            text("subject")
        ));
        assert_eq!(text("log_path"), log.to_str().unwrap());
    }
}

#[test]
fn twelve_due_tasks_become_one_array() {
    let (study, slurm) = study("array: auto\narray_throttle: 5", 12);
    fs::write(slurm.at("config"), "ClusterName = dev\n").unwrap();
    let before = study.snapshot();
    let dry = study.ok(&["run", "--dry-run", "-v"]);
    let lines: Vec<&str> = dry.out.lines().collect();
    assert_eq!(lines.len(), 13, "{}", dry.out);
    assert!(lines[0].contains(" --array=0-11%5 "), "{}", lines[0]);
    assert!(lines[0].ends_with("/wrapper.sh"), "{}", lines[0]);
    assert_eq!(
        lines[12],
        "#   11: prep.sh sub-011 ses-1 ".to_owned()
            + study.at("dicom/sub-011/ses-1").to_str().unwrap()
    );
    let changed = |files: Vec<(std::path::PathBuf, Vec<u8>)>| -> Vec<_> {
        files
            .into_iter()
            .filter(|(path, _)| !path.starts_with(slurm.at("")))
            .collect()
    };
    assert_eq!(
        changed(study.snapshot()),
        changed(before),
        "a dry run writes nothing"
    );

    let said = study.ok(&["run"]);
    assert_eq!(said.count("submitted"), 12, "{}", said.err);
    assert_eq!(slurm.calls("sbatch"), 1);
    assert_eq!(slurm.calls("scontrol"), 2, "once per run");
    each_has_its_job(&study, &slurm, 12);
    let again = study.ok(&["run"]);
    assert_eq!(again.count("submitted"), 0, "{}", again.err);
    assert_eq!(
        slurm.calls("scontrol"),
        2,
        "only when there is an array to be made"
    );
    // Accounting is asked for the array, not for its tasks.
    let events: Vec<serde_json::Value> = study
        .read("scheduler_audit.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.len(), 12);
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["array_index"], index);
        assert_eq!(event["job_id"], format!("1001_{index}"));
        assert!(
            event["argv"]
                .as_array()
                .unwrap()
                .iter()
                .any(|arg| arg == "--array=0-11%5")
        );
    }
    let env = fs::read_to_string(slurm.at("env.1")).unwrap();
    assert!(
        env.contains("SNBB_PROCEDURE=prep") && !env.contains("SNBB_SUBJECT"),
        "{env}"
    );

    // Each task has its own end.
    slurm.set_all("COMPLETED");
    slurm.set("1001_3", "FAILED 2:0");
    slurm.set("1001_4", "TIMEOUT 0:15");
    for i in (0..12).filter(|i| ![3, 4].contains(i)) {
        study.write(&format!("derivatives/prep/sub-{i:03}/ses-1/done"), "x");
    }
    study.ok(&["monitor"]);
    let statuses = study.statuses();
    assert_eq!(statuses[3], "prep sub-003 ses-1: failed exit_code");
    assert_eq!(statuses[4], "prep sub-004 ses-1: failed timeout");
    assert_eq!(
        statuses
            .iter()
            .filter(|s| s.ends_with("complete verified"))
            .count(),
        10
    );
    study.ok(&["retry", "--subject", "003"]);
    let said = study.ok(&["run"]);
    assert_eq!(said.count("submitted"), 1, "{}", said.err);
    assert_eq!(
        slurm.jobs().last().unwrap().1,
        "prep_sub-003_ses-1",
        "one is no array"
    );
    study.ok(&["state", "verify"]);
}

#[test]
fn one_task_of_an_array_is_cancelled_and_retried() {
    let (study, slurm) = study("array: always", 3);
    study.ok(&["run"]);
    study.ok(&["cancel", "--subject", "001"]);
    assert_eq!(
        study.statuses(),
        [
            "prep sub-000 ses-1: pending queued",
            "prep sub-001 ses-1: failed cancelled",
            "prep sub-002 ses-1: pending queued",
        ]
    );
    study.ok(&["retry"]);
    study.ok(&["run"]);
    assert_eq!(slurm.jobs().last().unwrap().0, "1002_0");
    assert_eq!(study.statuses()[1], "prep sub-001 ses-1: pending queued");
}

#[test]
fn a_lost_answer_of_an_array_is_found_task_by_task() {
    let (study, slurm) = study("array: always", 4);
    slurm.silent(1);
    let said = study.ok(&["run"]);
    insta::assert_snapshot!(messages(&study, &said));
    assert!(
        study
            .statuses()
            .iter()
            .all(|s| s.ends_with("pending submitting"))
    );
    // Some have ended meanwhile, and accounting has lost one of them.
    slurm.set("1001_0", "COMPLETED");
    slurm.set("1001_1", "FAILED 1:0");
    slurm.set("1001_2", "GONE");
    study.write("derivatives/prep/sub-000/ses-1/done", "x");
    study.ok(&["run"]);
    each_has_its_job(&study, &slurm, 4);
    study.ok(&["monitor"]);
    assert_eq!(
        study.statuses(),
        [
            "prep sub-000 ses-1: complete verified",
            "prep sub-001 ses-1: failed exit_code",
            "prep sub-002 ses-1: pending unaccounted",
            "prep sub-003 ses-1: pending queued",
        ]
    );
    assert_eq!(slurm.calls("sbatch"), 1);
}

#[test]
fn an_array_that_never_was_is_released() {
    let (study, slurm) = study("array: always", 3);
    slurm.refuse(1, "sbatch: error: Socket timed out on send/recv operation");
    study.ok(&["run"]);
    study.ok(&["monitor"]);
    study.ok(&["run"]);
    each_has_its_job(&study, &slurm, 3);
    assert_eq!(slurm.calls("sbatch"), 2);
}

#[test]
fn an_array_over_a_limit_is_halved_until_it_fits() {
    let (study, slurm) = study("array: auto", 12);
    slurm.limit_arrays(3);
    let said = study.ok(&["run"]);
    assert_eq!(said.count("submitted"), 12, "{}", said.err);
    // 12, 6, 3, 3, 6, 3, 3
    assert_eq!(slurm.calls("sbatch"), 7);
    each_has_its_job(&study, &slurm, 12);
    assert_eq!(
        directories(&study).len(),
        4,
        "what was refused leaves nothing"
    );
    study.ok(&["state", "verify"]);
}

#[test]
fn without_room_for_one_the_rest_waits() {
    let (study, slurm) = study("array: auto", 12);
    slurm.limit_arrays(0);
    study.ok(&["run"]);
    // 12, 6, 3, 2, 1
    assert_eq!(slurm.calls("sbatch"), 5);
    assert_eq!((study.rows().len(), directories(&study).len()), (0, 0));
    slurm.limit_arrays(100);
    study.ok(&["run"]);
    each_has_its_job(&study, &slurm, 12);
}

#[test]
fn where_arrays_are_refused_the_tasks_become_single_jobs() {
    let (study, slurm) = study("array: always", 2);
    for call in [1, 2, 4] {
        let text = "sbatch: error: Batch job submission failed: Invalid job array specification";
        slurm.refuse(call, text);
    }
    let said = study.ok(&["run"]);
    assert_eq!(said.count("submitted"), 2, "{}", said.err);
    assert_eq!(slurm.calls("sbatch"), 5);
    each_has_its_job(&study, &slurm, 2);
    let names: Vec<String> = slurm.jobs().into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["prep_sub-000_ses-1", "prep_sub-001_ses-1"]);

    let (study, slurm) = self::study("array: always", 2);
    slurm.set_max_array_size(0);
    study.ok(&["run"]);
    each_has_its_job(&study, &slurm, 2);
    assert!(!slurm.argv().contains("--array"));
}

#[test]
fn large_sets_are_split_by_what_the_site_takes() {
    for (size, calls) in [(3, 4), (5, 2), (1001, 1)] {
        let (study, slurm) = study("array: auto", 10);
        slurm.set_max_array_size(size);
        study.ok(&["run"]);
        each_has_its_job(&study, &slurm, 10);
        assert_eq!(slurm.calls("sbatch"), calls, "{size}");
    }
}

#[test]
fn a_state_that_is_gone_takes_its_arrays_back() {
    let (study, slurm) = study("array: always", 3);
    study.ok(&["run"]);
    let forget = || {
        for name in ["state.parquet", "state.parquet.bak"] {
            let _ = fs::remove_file(study.at(name));
        }
    };
    forget();
    study.ok(&["run"]);
    assert_eq!(study.events("adopted").len(), 3);
    each_has_its_job(&study, &slurm, 3);

    // The audit log names the tasks, too.
    forget();
    fs::rename(study.at("state.arrays"), study.at("moved")).unwrap();
    study.ok(&["run"]);
    assert_eq!(study.job_ids().len(), 3);
    assert_eq!(slurm.calls("sbatch"), 1);

    // Without it and the list, nobody knows which tasks live: all of the procedure wait.
    forget();
    fs::remove_file(study.at("scheduler_audit.jsonl")).unwrap();
    study.scan(&["sub-new/ses-1"]);
    let said = study.ok(&["run"]);
    insta::assert_snapshot!(messages(&study, &said));
    assert_eq!(slurm.calls("sbatch"), 1);
    // It comes back.
    fs::rename(study.at("moved"), study.at("state.arrays")).unwrap();
    study.ok(&["run"]);
    each_has_its_job(&study, &slurm, 4);
}

#[test]
fn a_damaged_list_is_as_good_as_none() {
    let (study, slurm) = study("array: always", 3);
    study.ok(&["run"]);
    fs::remove_file(study.at("state.parquet")).unwrap();
    let list = study
        .at("state.arrays")
        .join(&directories(&study)[0])
        .join("tasks.json");
    let text = fs::read(&list).unwrap();
    fs::remove_file(&list).unwrap();
    fs::write(&list, &text[..text.len() / 2]).unwrap();
    let said = study.ok(&["run"]);
    assert!(said.err.contains("tasks.json"), "{}", said.err);
    assert!(!said.err.contains('\u{1b}'), "not a terminal: {}", said.err);
    assert_eq!(study.events("adopted").len(), 3);
    assert_eq!(slurm.calls("sbatch"), 1);
}

#[test]
fn a_lost_state_is_rebuilt_with_its_arrays() {
    let (study, slurm) = study("array: always", 3);
    study.ok(&["run"]);
    study.write("state.parquet", "no parquet");
    let _ = fs::remove_file(study.at("state.parquet.bak"));
    slurm.set("1001_0", "FAILED 1:0");
    study.ok(&["state", "repair", "--yes"]);
    each_has_its_job(&study, &slurm, 3);
    study.ok(&["monitor"]);
    assert_eq!(study.statuses()[0], "prep sub-000 ses-1: failed exit_code");
    study.ok(&["state", "verify"]);
}

#[test]
fn only_old_arrays_that_nobody_needs_are_removed() {
    let (study, slurm) = study("array: always", 2);
    study.ok(&["run"]);
    let first = directories(&study).remove(0);
    let age = |days: u64| {
        let time = SystemTime::now() - Duration::from_secs(days * 24 * 3600);
        let dir = fs::File::open(study.at("state.arrays").join(&first)).unwrap();
        dir.set_modified(time).unwrap();
    };
    age(15);
    study.ok(&["run"]);
    assert_eq!(directories(&study).len(), 1, "its jobs live");
    slurm.set_all("FAILED 1:0");
    study.ok(&["monitor"]);
    age(13);
    study.ok(&["run"]);
    assert_eq!(directories(&study).len(), 1, "it is young");
    age(15);
    study.ok(&["run", "--dry-run"]);
    assert_eq!(directories(&study).len(), 1, "a dry run removes nothing");
    study.ok(&["run"]);
    assert_eq!(directories(&study).len(), 0);
}

#[test]
fn a_directory_that_cannot_be_written_refuses_the_array_before_sbatch() {
    let (study, slurm) = study("array: always", 2);
    study.write("state.arrays", "a file in its place");
    let said = study.call(&["run"]);
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(said.err.contains("state.arrays"), "{}", said.err);
    assert_eq!(slurm.calls("sbatch"), 0);
    assert!(study.rows().is_empty());
}
