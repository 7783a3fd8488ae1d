//! Job arrays on a real Slurm.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::harness::{Study, executable, system_program};
use crate::harness_slurm::{Cluster, cluster};

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(600);

/// Returns a cluster whose arrays have so many tasks at most; none if this machine cannot have one.
fn small(size: &'static str) -> Option<Cluster> {
    cluster()?;
    let settings = [("SNBB_DEV_MAX_ARRAY_SIZE", size), ("SNBB_DEV_CPUS", "256")];
    Some(Cluster::start(&format!("arrays-{size}"), &settings).unwrap())
}

/// One cluster for the tests that change nothing of it.
fn of_101() -> Option<&'static Cluster> {
    static SHARED: OnceLock<Option<Cluster>> = OnceLock::new();
    SHARED.get_or_init(|| small("101")).as_ref()
}

fn study(cluster: &Cluster, procedure: &str, rest: &str, sessions: usize) -> Study {
    let study = cluster.study(&format!(
        "output_grace: 1s\nsettle_time: 1s\nabsence_grace: 3s\nprocedures:\n\
         - {{name: {procedure}, output_dir: out, script: step.sh, completion_marker: done, mem: 20M, {rest}}}\n"
    ));
    let sessions: Vec<String> = (0..sessions).map(|i| format!("sub-{i:03}/ses-1")).collect();
    study.scan(&sessions.iter().map(String::as_str).collect::<Vec<_>>());
    study
}

fn until(study: &Study, arguments: &[&str], done: impl Fn(&[String]) -> bool) -> Vec<String> {
    study.until(arguments, PATIENCE, done)
}

/// Returns the job id of each subject's row.
fn jobs(study: &Study) -> BTreeMap<String, String> {
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().unwrap_or("").to_owned();
    study
        .rows()
        .iter()
        .map(|row| (text(row, "subject"), text(row, "job_id")))
        .collect()
}

fn arrays(study: &Study) -> BTreeSet<String> {
    jobs(study)
        .values()
        .map(|id| id.split_once('_').unwrap().0.to_owned())
        .collect()
}

fn log(study: &Study, subject: &str, end: &str) -> String {
    let rows = study.rows();
    let row = rows.iter().find(|row| row["subject"] == subject).unwrap();
    let out = row["log_path"].as_str().unwrap();
    fs::read_to_string(out.replace(".out", end)).unwrap_or_else(|error| panic!("{out}: {error}"))
}

#[test]
fn hundreds_of_tasks_are_a_few_arrays_and_each_runs_as_if_it_were_alone() {
    let Some(cluster) = of_101() else { return };
    let (tasks, calls) = match std::env::var_os("SNBB_TEST_LONG") {
        Some(_) => (500, 5),
        None => (120, 2),
    };
    let study = study(
        cluster,
        "many",
        "array: auto, env: {SITE: it's ours}",
        tasks,
    );
    study.script(
        "step.sh",
        r#"#SBATCH --array=3-9 --job-name=other --output=/nowhere/x --mem=1M
mkdir -p "$SNBB_OUTPUT_DIR"
printf '%s|' "$@" "$SNBB_SUBJECT" "$SNBB_SESSION" "$SNBB_DICOM_PATH" "$SITE" "$SLURM_JOB_NAME" "$SNBB_ATTEMPT"
echo "$1" > "$SNBB_OUTPUT_DIR/done""#,
    );
    let said = study.ok(&["run"]);
    let expected = format!("{tasks} due, {tasks} submitted");
    assert!(said.err.contains(&expected), "{}", said.err);
    assert_eq!(arrays(&study).len(), calls);
    until(&study, &["monitor"], |statuses| {
        statuses
            .iter()
            .all(|status| status.ends_with("complete verified"))
    });
    for (subject, id) in jobs(&study) {
        let dicom = study.at(&format!("dicom/{subject}/ses-1"));
        let dicom = dicom.display();
        let name = format!("many_{subject}_ses-1");
        let text = fs::read_to_string(study.at(&format!("logs/many/{name}_{id}.out"))).unwrap();
        let expected =
            format!("{subject}|ses-1|{dicom}|{subject}|ses-1|{dicom}|it's ours|{name}|1|");
        assert_eq!(text, expected);
        assert_eq!(log(&study, &subject, ".err"), "");
        let done = study.read(&format!("derivatives/out/{subject}/ses-1/done"));
        assert_eq!(done, format!("{subject}\n"));
    }
    let logs = fs::read_dir(study.at("logs/many")).unwrap().count();
    assert_eq!(logs, 2 * tasks);
    let said = study.ok(&["run"]);
    let expected = format!("{tasks} complete, 0 due");
    assert!(said.err.contains(&expected), "{}", said.err);
}

#[test]
fn each_task_has_its_own_end_and_its_own_second_try() {
    let Some(cluster) = small("3") else { return };
    let study = study(
        &cluster,
        "ends",
        "array: always, array_throttle: 2, sbatch_args: [--requeue]",
        6,
    );
    study.script(
        "step.sh",
        r#"#SBATCH --time=10
echo "start of $1"
mkdir -p "$SNBB_OUTPUT_DIR"
case $1,$SNBB_ATTEMPT in
sub-000,1) exit 3 ;;
sub-001,1) sleep 900 ;;
sub-003,1) [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ] || sleep 900 ;;
sub-004,1) sleep 900 ;;
esac
echo "$SNBB_LAST_REASON" > "$SNBB_OUTPUT_DIR/done""#,
    );
    study.ok(&["run"]);
    assert_eq!(arrays(&study).len(), 2, "three tasks each");
    let at = |statuses: &[String], number: usize, end: &str| {
        let row = format!("ends sub-{number:03} ses-1: {end}");
        statuses.contains(&row)
    };
    until(&study, &["monitor"], |statuses| {
        [1, 3, 4]
            .iter()
            .all(|number| at(statuses, *number, "running running"))
    });
    // One that waits for its turn leaves no trace in Slurm when it is cancelled.
    let before = jobs(&study);
    study.ok(&["cancel", "--subject", "005"]);
    let statuses = study.statuses();
    assert!(at(&statuses, 5, "failed cancelled"), "{statuses:#?}");
    cluster.end_time_limit(&before["sub-001"]);
    cluster.run("scancel", &[&before["sub-004"]]);
    cluster.run("scontrol", &["requeue", &before["sub-003"]]);
    std::thread::sleep(Duration::from_secs(1));
    let requeued = format!("jobid={}", before["sub-003"]);
    cluster.scontrol(&["update", &requeued, "StartTime=now"]);
    let statuses = until(&study, &["monitor"], |statuses| {
        statuses
            .iter()
            .all(|s| s.contains("failed") || s.contains("complete"))
    });
    assert_eq!(
        statuses,
        [
            "ends sub-000 ses-1: failed exit_code",
            "ends sub-001 ses-1: failed timeout",
            "ends sub-002 ses-1: complete verified",
            "ends sub-003 ses-1: complete verified",
            "ends sub-004 ses-1: failed cancelled",
            "ends sub-005 ses-1: failed cancelled",
        ]
    );
    for subject in ["sub-000", "sub-001", "sub-003"] {
        assert_eq!(
            log(&study, subject, ".out"),
            format!("start of {subject}\n")
        );
    }
    let late = log(&study, "sub-001", ".err");
    assert!(
        late.contains("DUE TO TIME LIMIT"),
        "what Slurm writes at the end: {late}"
    );
    let names: Vec<String> = fs::read_dir(study.at("logs/ends"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("_array_"))
        .collect();
    assert_eq!(names, [""; 0]);

    study.ok(&["retry", "--subject", "000", "--subject", "005"]);
    study.ok(&["run"]);
    until(&study, &["monitor"], |statuses| {
        at(statuses, 0, "complete verified") && at(statuses, 5, "complete verified")
    });
    assert_eq!(
        study.read("derivatives/out/sub-000/ses-1/done"),
        "exit_code\n"
    );
    assert_eq!(arrays(&study).len(), 3, "the two were an array again");
    study.ok(&["state", "verify"]);
    cluster.stop();
}

#[test]
fn an_array_larger_than_the_users_limit_is_submitted_in_parts() {
    let Some(cluster) = of_101() else { return };
    for arguments in [
        ["add", "qos", "five", "MaxSubmitJobsPerUser=5"].as_slice(),
        &["modify", "user", "root", "set", "qos+=five"],
    ] {
        cluster.run("sacctmgr", &[&["-i"], arguments].concat());
    }
    let study = study(cluster, "parts", "array: auto, qos: five", 12);
    study.script("step.sh", "sleep 900");
    // The controller hears of the new quality of service a moment later.
    let since = Instant::now();
    while study.call(&["run"]).code == 3 {
        assert!(
            since.elapsed() < PATIENCE,
            "the quality of service stays unknown"
        );
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(jobs(&study).len(), 5, "{:?}", study.statuses());
    study.ok(&["run"]);
    assert_eq!(jobs(&study).len(), 5);
    study.ok(&["cancel", "--all"]);
}

#[test]
fn a_lost_answer_makes_one_array() {
    let Some(cluster) = of_101() else { return };
    let mut study = study(cluster, "lost", "array: always", 3);
    study.script(
        "step.sh",
        "sleep 2; mkdir -p \"$SNBB_OUTPUT_DIR\"; echo x > \"$SNBB_OUTPUT_DIR/done\"",
    );
    study.write(
        "bin/sbatch",
        &format!(
            "#!/bin/sh\n{} \"$@\" >/dev/null\n",
            system_program("sbatch").display()
        ),
    );
    executable(&study.at("bin/sbatch"));
    study.path.insert(0, study.at("bin"));
    study.ok(&["run"]);
    assert!(
        study
            .statuses()
            .iter()
            .all(|status| status.ends_with("pending submitting"))
    );
    until(&study, &["run"], |statuses| {
        statuses
            .iter()
            .all(|status| status.ends_with("complete verified"))
    });
    assert_eq!(arrays(&study).len(), 1);
    let name = study.rows()[0]["job_name"].as_str().unwrap().to_owned();
    let known = cluster.run(
        "sacct",
        &[
            "-X",
            "-n",
            "-P",
            "--format=JobID",
            &format!("--name={name}"),
        ],
    );
    let known: BTreeSet<&str> = known.lines().collect();
    assert_eq!(known.len(), 3, "{known:?}");

    // The state is lost while they run.
    let text = study
        .read("config.yaml")
        .replace("output_dir: out", "output_dir: again");
    study.write("config.yaml", &text);
    study.script("step.sh", "sleep 600");
    study.path.remove(0);
    study.ok(&["run", "--accept-drop"]);
    let before = jobs(&study);
    for name in [
        "state.parquet",
        "state.parquet.bak",
        "scheduler_audit.jsonl",
    ] {
        let _ = fs::remove_file(study.at(name));
    }
    study.ok(&["run"]);
    assert_eq!(jobs(&study), before);
    study.ok(&["cancel", "--all"]);
}

#[test]
fn an_array_of_a_thousand_and_one_is_one_call() {
    let Some(cluster) = cluster() else { return };
    let study = study(
        cluster,
        "thousand",
        "array: auto, sbatch_args: [--hold]",
        1001,
    );
    study.script("step.sh", "true");
    study.ok(&["run"]);
    let arrays = arrays(&study);
    assert_eq!(arrays.len(), 1);
    let id = arrays.first().unwrap();
    let queue = cluster.run("squeue", &["-h", "-r", "-j", id, "--format=%i"]);
    assert_eq!(queue.lines().count(), 1001);
    study.ok(&["monitor"]);
    assert!(
        study
            .statuses()
            .iter()
            .all(|status| status.ends_with("pending held"))
    );
    study.ok(&["cancel", "--all"]);
    // Slurm tells of an array that never started under the array's own id, in queue and accounting.
    until(&study, &["monitor"], |statuses| {
        statuses
            .iter()
            .all(|status| status.ends_with("failed cancelled"))
    });
    study.ok(&["run"]);
    assert_eq!(self::arrays(&study), arrays);
}
