//! Pauses, the circuit breaker, the warm-up and the limits, through the program and a Slurm of shell scripts.

use std::fs;

use crate::fake_slurm::FakeSlurm;
use crate::harness::{Said, Study};
use crate::harness_slurm::{Cluster, cluster};

const STEP: &str = "\
procedures:
  - {name: prep, output_dir: prep, script: step.sh, completion_marker: done}
  - {name: qc, output_dir: qc, script: step.sh, completion_marker: done}
";

/// A study of so many subjects with one session each.
fn study(subjects: usize, config: &str) -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(config);
    study.script("step.sh", "true");
    for subject in 1..=subjects {
        study.scan(&[&format!("sub-{subject:02}/ses-01")]);
    }
    study.env.push(("LOGNAME".into(), "ada".into()));
    (study, slurm)
}

fn finish(study: &Study, procedure: &str, subject: &str, session: &str) {
    study.write(
        &format!("derivatives/{procedure}/{subject}/{session}/done"),
        "x",
    );
}

fn control(study: &Study) -> Option<serde_json::Value> {
    let text = fs::read_to_string(study.at("state.control.json")).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

fn events(study: &Study, kind: &str) -> Vec<serde_json::Value> {
    fs::read_to_string(study.at("scheduler_audit.jsonl"))
        .unwrap_or_default()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|event| event["event"] == kind)
        .collect()
}

/// All files of the study but those of the fake cluster, which counts its calls.
fn files(study: &Study) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut files = study.snapshot();
    files.retain(|(path, _)| !path.starts_with(study.at("fake-slurm")));
    files
}

#[track_caller]
fn says(said: &Said, words: &[&str]) {
    for word in words {
        assert!(said.err.contains(word), "no '{word}' in\n{}", said.err);
    }
}

#[test]
fn ten_failures_in_a_row_pause_a_procedure_until_a_person_resumes_it() {
    let (study, slurm) = study(30, &format!("max_submit_per_run: 9\n{STEP}"));
    let run = |id: &str| {
        let said = study.ok(&["run", "--procedure", "prep"]);
        slurm.set_all(id);
        said
    };
    run("FAILED 1:0");
    // Nine failed: they are told of, and the next ones go.
    let said = run("TIMEOUT 0:15");
    assert!(!said.err.contains("paused"), "{}", said.err);
    assert_eq!(slurm.jobs().len(), 18);

    let said = study.ok(&["monitor"]);
    says(
        &said,
        &[
            "prep will be paused by the next `run`",
            "18 jobs in a row failed",
        ],
    );
    assert!(control(&study).is_none(), "monitor only warns");

    // A dry run shows it, and writes nothing.
    let before = files(&study);
    let said = study.ok(&["run", "--dry-run"]);
    says(
        &said,
        &[
            "prep would be paused now: 18 jobs in a row failed",
            "12 due task(s) held back",
        ],
    );
    assert!(!said.out.contains("prep_"), "{}", said.out);
    assert!(said.out.contains("--job-name=qc_sub-01"), "{}", said.out);
    let said = study.ok(&["session-status", "--format", "csv"]);
    assert!(
        said.out.contains("sub-19,ses-01,paused,due"),
        "{}",
        said.out
    );
    assert!(files(&study) == before, "nothing was written");

    let said = study.ok(&["run", "-q"]);
    says(
        &said,
        &[
            "warning: prep is paused from now on: 18 jobs in a row failed (9 exit_code, 9 timeout; the last one: prep sub-",
            "12 due task(s) held back",
            "logs/prep, mend the cause, then `snbb-scheduler resume --procedure prep`",
        ],
    );
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    assert_eq!(slurm.jobs().len(), 27, "the other procedure goes on");
    let paused = control(&study).unwrap();
    let prep = &paused["procedures"]["prep"]["paused"];
    assert_eq!(prep["cause"]["failures"]["count"], 18);
    let event = &events(&study, "paused")[0];
    assert_eq!(
        (&event["procedure"], &event["subject"]),
        (&"prep".into(), &"".into())
    );
    assert_eq!(event["detail"], "18 jobs in a row failed");

    // It stays so, whatever comes later, and force does not go through it.
    slurm.set("1001", "PENDING");
    study.ok(&["retry", "--subject", "01"]);
    let said = study.ok(&["retry", "--subject", "02"]);
    says(&said, &["prep is paused since"]);
    finish(&study, "prep", "sub-02", "ses-01");
    let said = study.ok(&["run", "--force", "--subject", "03", "--procedure", "prep"]);
    says(&said, &["prep is paused since", "1 due task(s) held back"]);
    assert_eq!(slurm.calls("sbatch"), 27);
    assert_eq!(control(&study).unwrap(), paused);
    assert_eq!(events(&study, "paused").len(), 1);
    says(&study.ok(&["status"]), &["prep is paused since"]);
    says(&study.ok(&["manifest"]), &["prep is paused since"]);
    assert_eq!(
        study
            .ok(&["manifest", "--procedure", "prep", "--format", "json"])
            .out,
        "[]\n"
    );

    let said = study.ok(&["resume", "--procedure", "prep"]);
    says(&said, &["prep is resumed", "`snbb-scheduler retry`"]);
    assert_eq!(events(&study, "resumed")[0]["by"], "ada");
    let said = study.ok(&["run", "--procedure", "prep"]);
    assert!(!said.err.contains("paused"), "{}", said.err);
    assert_eq!(slurm.jobs().len(), 36, "old failures do not count any more");
    // The next nine fail too, and one of the tenth: paused again.
    slurm.set_all("FAILED 1:0");
    study.ok(&["run", "--procedure", "prep", "--max-jobs", "1"]);
    slurm.set_all("FAILED 1:0");
    let said = study.ok(&["run"]);
    says(
        &said,
        &["prep is paused from now on: 10 jobs in a row failed (10 exit_code"],
    );
}

#[test]
fn successes_and_other_peoples_cancels_break_the_row() {
    let (study, slurm) = study(40, &format!("pause_after_failures: 3\n{STEP}"));
    let step = |end: &str, count: &str| {
        study.ok(&["run", "--procedure", "prep", "--max-jobs", count]);
        for (id, _) in slurm.jobs().iter().rev().take(count.parse().unwrap()) {
            slurm.set(id, end);
        }
        study.ok(&["monitor"]);
    };
    step("FAILED 1:0", "2");
    finish(&study, "prep", "sub-03", "ses-01");
    // What ends in the same second is not after.
    std::thread::sleep(std::time::Duration::from_millis(1100));
    study.ok(&["run", "--procedure", "prep", "--subject", "03", "--force"]);
    slurm.set("1003", "COMPLETED");
    std::thread::sleep(std::time::Duration::from_millis(1100));
    finish(&study, "prep", "sub-03", "ses-01");
    study.ok(&["monitor"]);
    assert!(
        study
            .statuses()
            .contains(&"prep sub-03 ses-01: complete verified".to_owned())
    );
    step("FAILED 1:0", "2");
    step("CANCELLED", "4");
    study.ok(&["run", "--procedure", "prep", "--max-jobs", "1"]);
    assert!(control(&study).is_none(), "two failed since the success");
    slurm.set_all("PREEMPTED");
    study.ok(&["monitor"]);
    // Cleared failures count as well: nothing that ran is forgotten.
    study.ok(&["retry"]);
    step("FAILED 1:0", "1");
    let said = study.ok(&["run"]);
    says(
        &said,
        &["prep is paused from now on: 3 jobs in a row failed"],
    );
    study.configure(&format!("pause_after_failures: 0\n{STEP}"));
    study.ok(&["resume", "--procedure", "prep"]);
    let said = study.ok(&["run"]);
    assert!(!said.err.contains("paused"), "{}", said.err);
}

#[test]
fn a_person_pauses_the_study_or_a_procedure_and_everybody_is_told() {
    let (study, slurm) = study(2, STEP);
    let said = study.ok(&["resume"]);
    says(&said, &["the study is not paused"]);
    assert!(control(&study).is_none());

    let said = study.ok(&["pause", "--note", "the file server\u{1b}[31m moves"]);
    says(
        &said,
        &[
            "the study is paused by ada since",
            "the file server\\u{1b}[31m moves",
        ],
    );
    let first = control(&study).unwrap();
    let said = study.ok(&["pause"]);
    says(&said, &["the study was paused already", "the file server"]);
    assert_eq!(
        control(&study).unwrap(),
        first,
        "pausing twice changes nothing"
    );
    assert_eq!(events(&study, "paused").len(), 1);
    study.ok(&["pause", "--note", "longer than planned"]);
    assert_eq!(
        control(&study).unwrap()["study"]["paused"]["since"],
        first["study"]["paused"]["since"]
    );

    let before = slurm.calls("sbatch");
    let said = study.ok(&["run"]);
    says(
        &said,
        &[
            "the study is paused by ada since",
            "longer than planned; 4 due task(s) held back; `snbb-scheduler resume` goes on",
            "4 due, 0 submitted",
            "4  paused",
        ],
    );
    assert_eq!(
        said.err.matches("paused by").count(),
        1,
        "one line: {}",
        said.err
    );
    assert_eq!(slurm.calls("sbatch"), before);
    assert_eq!(study.ok(&["run", "--dry-run"]).out, "");
    let said = study.ok(&["manifest", "--format", "csv"]);
    assert_eq!(said.out.lines().count(), 1, "{}", said.out);
    let said = study.ok(&["session-status", "--format", "json"]);
    assert!(said.out.contains("longer than planned"), "{}", said.out);
    says(
        &study.ok(&["status", "--format", "json"]),
        &["the study is paused"],
    );

    study.ok(&["pause", "--procedure", "q*"]);
    let said = study.ok(&["resume"]);
    says(&said, &["the study is resumed", "qc is paused by ada"]);
    study.ok(&["run"]);
    let names: Vec<String> = slurm.jobs().into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["prep_sub-01_ses-01", "prep_sub-02_ses-01"]);
    let said = study.ok(&["resume", "--procedure", "prep"]);
    says(&said, &["prep is not paused", "qc is paused by ada"]);
    study.ok(&["resume", "--procedure", "qc"]);
    assert!(control(&study).is_none(), "nothing is left to say");
    study.ok(&["run"]);
    assert_eq!(slurm.jobs().len(), 4);
    assert_eq!(events(&study, "resumed").len(), 2);

    let said = study.call(&["pause", "--procedure", "qv"]);
    assert_eq!(said.code, 2);
    says(
        &said,
        &["--procedure 'qv' matches none of the procedures (prep, qc)"],
    );
}

#[test]
fn a_pause_of_a_procedure_that_left_the_configuration_can_be_ended() {
    let (study, _) = study(1, STEP);
    study.ok(&["pause", "--procedure", "qc"]);
    study.configure("procedures: [{name: prep, output_dir: prep, script: step.sh}]\n");
    says(&study.ok(&["run"]), &["qc is paused by ada"]);
    study.ok(&["resume", "--procedure", "qc"]);
    assert!(control(&study).is_none());
}

#[test]
fn a_damaged_control_file_stops_submission_and_is_not_touched() {
    let (study, slurm) = study(2, STEP);
    study.ok(&["pause", "--procedure", "qc"]);
    let whole = study.read("state.control.json");
    let unknown = whole.replacen("{", "{ \"holidays\": true,", 1);
    let newer = whole.replace("\"format\": 1", "\"format\": 2");
    for text in ["", "{", &whole[..whole.len() / 2], &unknown, &newer, "null"] {
        study.write("state.control.json", text);
        for command in [
            &["run"][..],
            &["run", "--dry-run"],
            &["manifest"],
            &["session-status"],
            &["pause"],
            &["resume", "--procedure", "qc"],
        ] {
            let said = study.call(command);
            assert_eq!(said.code, 1, "{command:?}: {}", said.err);
            says(&said, &["state.control.json cannot be used", "hint: "]);
        }
        // The jobs go on, and so does the look at them.
        for command in ["monitor", "status"] {
            let said = study.ok(&[command]);
            says(&said, &["warning: ", "state.control.json cannot be used"]);
        }
        assert_eq!(study.read("state.control.json"), text);
    }
    assert_eq!(slurm.calls("sbatch"), 0);
    study.write("state.control.json", &whole);
    study.ok(&["run"]);
    assert_eq!(slurm.jobs().len(), 2);
}

#[test]
fn a_run_that_is_killed_after_it_paused_has_submitted_nothing() {
    let (study, slurm) = study(20, &format!("pause_after_failures: 2\n{STEP}"));
    study.ok(&["run", "--procedure", "prep", "--max-jobs", "2"]);
    slurm.set_all("FAILED 1:0");
    // Killed at the first sbatch: that of the other procedure.
    let gate = study.at("gate");
    fs::write(&gate, "").unwrap();
    let mut run = std::process::Command::new(assert_cmd::cargo::cargo_bin("snbb-scheduler"))
        .arg("run")
        .env_clear()
        .env(
            "PATH",
            std::env::join_paths(
                study
                    .path
                    .iter()
                    .cloned()
                    .chain(["/usr/bin".into(), "/bin".into()]),
            )
            .unwrap(),
        )
        .env("SNBB_CONFIG", study.at("config.yaml"))
        .env("FAKE_WAIT", "sbatch")
        .env("FAKE_WAIT_FILE", &gate)
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    while fs::metadata(study.at("gate.reached")).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let at_death = control(&study).expect("written before the first sbatch");
    run.kill().unwrap();
    run.wait().unwrap();
    fs::remove_file(&gate).unwrap();
    assert_eq!(
        at_death["procedures"]["prep"]["paused"]["cause"]["failures"]["count"],
        2
    );
    study.ok(&["run"]);
    assert_eq!(control(&study).unwrap(), at_death);
    assert!(
        slurm
            .jobs()
            .iter()
            .filter(|(_, name)| name.starts_with("prep"))
            .count()
            == 2
    );
}

#[test]
fn a_warm_up_lets_the_rest_go_when_the_first_jobs_have_succeeded() {
    let config = "procedures: [{name: prep, output_dir: prep, script: step.sh, completion_marker: done, warmup: 3}]\n";
    let (study, slurm) = study(9, config);
    let said = study.ok(&["run"]);
    says(
        &said,
        &[
            "9 due, 3 submitted",
            "6  warm-up: 0 of the first 3 jobs succeeded",
        ],
    );
    says(&study.ok(&["run"]), &["6 due, 0 submitted"]);
    for (job, subject, end) in [
        ("1001", "sub-01", "COMPLETED"),
        ("1002", "sub-02", "FAILED 1:0"),
    ] {
        slurm.set(job, end);
        if end == "COMPLETED" {
            finish(&study, "prep", subject, "ses-01");
        }
    }
    let said = study.ok(&["run"]);
    says(
        &said,
        &[
            "6 due, 0 submitted",
            "1 of the first 3 jobs succeeded, 1 failed ('retry' or --force",
        ],
    );
    let manifest = study.ok(&["manifest", "--format", "csv"]).out;
    assert_eq!(manifest.lines().count(), 7, "limits aside: {manifest}");
    study.ok(&["retry"]);
    study.ok(&["run"]);
    assert_eq!(slurm.jobs().len(), 4);
    for (job, subject) in [("1003", "sub-03"), ("1004", "sub-02")] {
        slurm.set(job, "COMPLETED");
        finish(&study, "prep", subject, "ses-01");
    }
    says(&study.ok(&["run"]), &["6 due, 6 submitted"]);
}

#[test]
fn all_jobs_of_the_user_count_and_what_has_ended_does_not() {
    let (study, slurm) = study(9, &format!("max_queued_user_jobs: 6\n{STEP}"));
    // Two array tasks and a job of another program, and two that the queue only remembers.
    for (id, state) in [
        ("77_1", "PENDING"),
        ("77_2", "RUNNING"),
        ("78", "SUSPENDED"),
        ("79", "COMPLETED"),
    ] {
        fs::write(slurm.at(format!("jobs/{id}")), "theirs\n\n1\nsbatch\n").unwrap();
        slurm.set(id, state);
    }
    let said = study.ok(&["run"]);
    says(
        &said,
        &[
            "18 due, 3 submitted",
            "15  over a limit (max_queued_user_jobs 6)",
        ],
    );
    says(&study.ok(&["run"]), &["0 submitted"]);
    slurm.set("77_1", "COMPLETED");
    slurm.set("1001", "FAILED 1:0");
    says(&study.ok(&["run"]), &["2 submitted"]);
    // Who does not answer has told no number.
    slurm.set_all("FAILED 1:0");
    slurm.break_program(
        "squeue",
        "slurm_load_jobs error: Unable to contact slurm controller\n",
    );
    let said = study.call(&["run"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert_eq!(slurm.calls("sbatch"), 5);
}

#[test]
fn a_subject_with_many_sessions_does_not_keep_the_others_waiting() {
    let config = |fair: &str| {
        format!(
            "fair: {fair}\npause_after_failures: 0\nprocedures: [{{name: prep, output_dir: prep, script: step.sh, completion_marker: done, max_in_flight: 4}}]\n"
        )
    };
    let (study, slurm) = study(3, &config("subjects"));
    for session in 2..30 {
        study.scan(&[&format!("sub-01/ses-{session:02}")]);
    }
    let said = study.ok(&["run"]);
    says(
        &said,
        &["27  over a limit (the procedure's max_in_flight 4)"],
    );
    let names: Vec<String> = slurm.jobs().into_iter().map(|(_, name)| name).collect();
    assert_eq!(
        names,
        [
            "prep_sub-01_ses-01",
            "prep_sub-01_ses-02",
            "prep_sub-02_ses-01",
            "prep_sub-03_ses-01"
        ]
    );
    study.configure(&config("order"));
    slurm.set_all("FAILED 1:0");
    study.ok(&["run"]);
    assert!(
        slurm.jobs()[4..]
            .iter()
            .all(|(_, name)| name.starts_with("prep_sub-01"))
    );
}

#[test]
fn a_script_that_would_make_sbatch_wait_is_refused_before_anything_is_submitted() {
    let (study, slurm) = study(
        2,
        "procedures:\n  - {name: prep, output_dir: prep, script: wait.sh}\n  - {name: qc, output_dir: qc, script: step.sh}\n",
    );
    study.write(
        "wait.sh",
        "#!/bin/bash\n#SBATCH --mem=1G\n#SBATCH -W\ntrue\n",
    );
    for command in [&["run", "--dry-run"][..], &["run"]] {
        let said = study.call(command);
        says(
            &said,
            &[
                "prep: script ",
                "wait.sh has '#SBATCH -W' in line 3: sbatch would wait for the job's end",
                "hint: take it out of line 3",
                "2  prep: script with '#SBATCH -W'",
            ],
        );
        assert_eq!(said.code, 3, "{}", said.err);
    }
    let names: Vec<String> = slurm.jobs().into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["qc_sub-01_ses-01", "qc_sub-02_ses-01"]);
}

#[test]
fn cancel_is_told_in_the_audit_log_and_wait_outlasts_another_call() {
    let (study, slurm) = study(2, STEP);
    study.ok(&["run"]);
    study.ok(&["cancel", "--procedure", "qc"]);
    let asked = events(&study, "cancelled");
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0]["detail"], "asked for by ada");
    assert_eq!(asked[0]["job_id"], "1003");
    study.ok(&["state", "verify"]);

    let said = study.ok(&["wait", "--subject", "99"]);
    says(&said, &["no task on record matches the selection"]);
    // Another call holds the lock: waiting goes on by the rows on record.
    let store = snbb_scheduler::state::store::Store::at(&study.at("state.parquet")).unwrap();
    let lock = store
        .lock("run", std::time::Duration::from_secs(5))
        .unwrap();
    let said = study.call(&["wait", "--timeout", "1s", "--lock-timeout", "0s"]);
    assert_eq!(said.code, 124, "{}", said.err);
    let said = study.ok(&[
        "cancel",
        "--procedure",
        "prep",
        "--subject",
        "01",
        "--lock-timeout",
        "0s",
    ]);
    says(&said, &["0 of 1 job(s) ended", "still ending"]);
    drop(lock);
    for (_, subject) in [("1001", "sub-01"), ("1002", "sub-02")] {
        finish(&study, "prep", subject, "ses-01");
    }
    slurm.set("1002", "COMPLETED");
    assert_eq!(study.call(&["wait", "--procedure", "prep"]).code, 1);
    study.ok(&["wait", "--procedure", "prep", "--subject", "02"]);
}

#[test]
fn a_real_cluster_counts_array_tasks_one_by_one_and_its_failures_pause() {
    // Says why if this machine cannot have one. Other tests' jobs would count on the shared one.
    if cluster().is_none() {
        return;
    }
    let cluster = Cluster::start("policy", &[]).unwrap();
    let mut study = Study::new();
    let conf = cluster.env.iter().find(|(name, _)| name == "SLURM_CONF");
    let conf = conf.unwrap().1.to_string_lossy().into_owned();
    study.env.push(("SLURM_CONF".into(), conf));
    study.configure(
        "slurm_partition: debug\nslurm_account: snbb\nmax_queued_user_jobs: 7\npause_after_failures: 4\n\
         procedures: [{name: prep, output_dir: prep, script: step.sh, completion_marker: done, mem: 50M}]\n",
    );
    study.script("step.sh", "exit 3");
    for subject in 1..=9 {
        study.scan(&[&format!("sub-{subject:02}/ses-01")]);
    }
    let foreign = cluster.run(
        "sbatch",
        &[
            "--parsable",
            "--hold",
            "--array=1-5",
            "--mem=50M",
            "--wrap=true",
            "--output=/dev/null",
        ],
    );
    let since = std::time::Instant::now();
    let until_all_failed = |count: usize| loop {
        study.ok(&["monitor"]);
        let failed = study
            .statuses()
            .iter()
            .filter(|row| row.ends_with("failed exit_code"))
            .count();
        if failed == count {
            break;
        }
        assert!(since.elapsed().as_secs() < 120, "{:?}", study.statuses());
        std::thread::sleep(std::time::Duration::from_millis(300));
    };
    says(
        &study.ok(&["run"]),
        &[
            "9 due, 2 submitted",
            "7  over a limit (max_queued_user_jobs 7)",
        ],
    );
    until_all_failed(2);
    says(&study.ok(&["run"]), &["2 submitted"]);
    until_all_failed(4);
    let said = study.ok(&["run"]);
    says(
        &said,
        &[
            "prep is paused from now on: 4 jobs in a row failed (4 exit_code",
            "0 submitted",
        ],
    );

    // A script that makes sbatch wait never gets there; cancel takes back what is under way.
    cluster.run("scancel", &[foreign.trim()]);
    study.ok(&["resume", "--procedure", "prep"]);
    study.write("step.sh", "#!/bin/bash\n#SBATCH --wait\nsleep 600\n");
    let said = study.call(&["run"]);
    assert_eq!(said.code, 3);
    says(&said, &["has '#SBATCH --wait' in line 2"]);
    study.write("step.sh", "#!/bin/bash\n#SBATCH --time=10\nsleep 600\n");
    says(&study.ok(&["run"]), &["5 submitted"]);
    assert_eq!(
        study
            .call(&["wait", "--timeout", "1s", "--interval", "1s"])
            .code,
        124
    );
    says(
        &study.ok(&["cancel", "--procedure", "prep"]),
        &["5 of 5 job(s) ended"],
    );
    let cancelled = study.statuses();
    assert_eq!(
        cancelled
            .iter()
            .filter(|row| row.ends_with("failed cancelled"))
            .count(),
        5
    );
    assert_eq!(study.call(&["wait"]).code, 1, "some failed");
    cluster.stop();
}
