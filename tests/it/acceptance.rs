//! What `docs/proofs/features.md` and `docs/reliability.md` say of the program and no other test shows as a whole:
//! small stories through the program, with a Slurm of shell scripts.
#![expect(
    clippy::disallowed_methods,
    reason = "starts a program that goes on, and looks at it in /proc"
)]

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;

const STEP: &str = "\
output_grace: 0s
procedures:
  - {name: a, output_dir: a, script: job.sh, completion_marker: done}
";

/// A study of so many subjects with one session each.
fn study(subjects: usize, config: &str) -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(config);
    study.script("job.sh", "true");
    for subject in 1..=subjects {
        study.scan(&[&format!("sub-{subject:02}/ses-01")]);
    }
    (study, slurm)
}

/// Returns the events of the audit log.
fn events(study: &Study) -> Vec<Value> {
    let log = study.read("scheduler_audit.jsonl");
    log.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn steps_ask_for_their_own_memory_in_one_run() {
    let (study, slurm) = study(
        1,
        "slurm_mem: 2G\nprocedures:
  - {name: a, output_dir: a, script: job.sh, mem: 4G}
  - {name: b, output_dir: b, script: job.sh, mem: 16G, time: '1:00:00'}
  - {name: c, output_dir: c, script: job.sh}
",
    );
    study.ok(&["run"]);
    let argv = slurm.argv();
    let lines: Vec<&str> = argv.lines().collect();
    for (line, memory) in lines.iter().zip(["4G", "16G", "2G"]) {
        assert!(line.contains(&format!(" --mem={memory} ")), "{line}");
    }
    assert_eq!(argv.matches("--time=").count(), 1, "{argv}");
}

#[test]
fn so_many_of_a_step_are_in_flight_and_the_rest_follows() {
    let (study, slurm) = study(
        20,
        "procedures: [{name: a, output_dir: a, script: job.sh, completion_marker: done, max_in_flight: 5}]\n",
    );
    let said = study.ok(&["run"]);
    assert!(said.err.contains("20 due, 5 submitted"), "{}", said.err);
    let held = study.ok(&["explain", "06", "--format", "json"]).out;
    let held: serde_json::Value = serde_json::from_str(&held).unwrap();
    assert_eq!(held[0]["decision"], "limit", "{held}");
    for (job, subject) in [("1001", "sub-01"), ("1002", "sub-02")] {
        slurm.set(job, "COMPLETED");
        study.write(&format!("derivatives/a/{subject}/ses-01/done"), "x");
    }
    let said = study.ok(&["run"]);
    assert!(said.err.contains("15 due, 2 submitted"), "{}", said.err);
    assert_eq!(slurm.calls("sbatch"), 7);
}

const AWAY: &str = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n";

#[test]
fn a_controller_that_is_away_for_a_moment_is_asked_again() {
    let (study, slurm) = study(2, STEP);
    slurm.refuse(1, AWAY);
    slurm.refuse(2, AWAY);
    let said = study.ok(&["run"]);
    assert!(said.err.contains("2 due, 2 submitted"), "{}", said.err);
    assert_eq!((slurm.calls("sbatch"), slurm.jobs().len()), (4, 2));
    assert_eq!(study.rows().len(), 2);
}

#[test]
fn a_controller_that_stays_away_ends_the_run_and_nothing_is_lost() {
    let (study, slurm) = study(5, STEP);
    for call in 3..=8 {
        slurm.refuse(call, AWAY);
    }
    let said = study.call(&["run"]);
    assert_eq!(said.code, 5, "{}", said.err);
    assert!(said.err.contains("2 submitted"), "{}", said.err);
    assert!(
        said.err.contains("Unable to contact slurm controller"),
        "{}",
        said.err
    );
    assert_eq!(slurm.calls("sbatch"), 2 + 4, "not for every task");
    assert_eq!(study.rows().len(), 2, "what was accepted is on record");
    for call in 3..=8 {
        fs::remove_file(slurm.at(format!("refuse.{call}"))).unwrap();
    }
    study.ok(&["run"]);
    assert_eq!((study.rows().len(), slurm.jobs().len()), (5, 5));
}

/// Row or none, job or none, alive or ended: what a call finds of the calls before.
#[test]
fn each_call_settles_what_it_finds() {
    let (study, slurm) = study(5, &format!("lost_grace: 1s\n{STEP}"));
    study.ok(&["run"]);
    for (job, state) in [
        ("1001", "RUNNING"),
        ("1002", "COMPLETED"),
        ("1003", "FAILED 3:0"),
        ("1004", "GONE"),
    ] {
        slurm.set(job, state);
    }
    study.write("derivatives/a/sub-02/ses-01/done", "x");
    study.ok(&["monitor"]);
    let row = |at: usize| study.statuses()[at].clone();
    assert_eq!(
        study.statuses(),
        [
            "a sub-01 ses-01: running running",
            "a sub-02 ses-01: complete verified",
            "a sub-03 ses-01: failed exit_code",
            "a sub-04 ses-01: pending unaccounted",
            "a sub-05 ses-01: pending queued",
        ]
    );
    assert_eq!(study.rows()[0]["node_list"], "node1");
    // Unknown to queue and accounting, which answer: lost once the grace is over, and only once.
    std::thread::sleep(Duration::from_millis(1100));
    study.ok(&["monitor"]);
    assert_eq!(row(3), "a sub-04 ses-01: failed lost");

    // In Slurm and in no row: a task's job is adopted, another one shown.
    study.scan(&["sub-06/ses-01"]);
    let argv = slurm.argv();
    let (_, rest) = argv.split_once("--comment=snbb:").unwrap();
    let project = rest.split(':').next().unwrap();
    for (id, name) in [("77", "a_sub-06_ses-01"), ("78", "a_sub-99_ses-01")] {
        let text = format!("{name}\nsnbb:{project}:00000000000000{id}\n1700000000\nsbatch\n\n");
        fs::write(slurm.at("jobs").join(id), text).unwrap();
        slurm.set(id, "RUNNING");
    }
    let said = study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 5, "{}", said.err);
    assert_eq!(row(5), "a sub-06 ses-01: running running");
    assert!(
        said.err.contains("a_sub-99_ses-01") && said.err.contains("scancel 78"),
        "{}",
        said.err
    );
    // Ended on record and alive in Slurm: requeued, which has a submit time of its own.
    let job = fs::read_to_string(slurm.at("jobs/1003")).unwrap();
    let mut lines: Vec<String> = job.lines().map(str::to_owned).collect();
    lines[2] = snbb_scheduler::base::sys::now().timestamp().to_string();
    fs::write(slurm.at("jobs/1003"), lines.join("\n") + "\n").unwrap();
    slurm.set("1003", "RUNNING");
    study.ok(&["monitor"]);
    assert_eq!(row(2), "a sub-03 ses-01: running running");
}

#[test]
fn what_has_ended_is_not_cancelled_and_stays_what_it_is() {
    let (study, slurm) = study(2, STEP);
    study.ok(&["run"]);
    slurm.set("1001", "FAILED 1:0");
    study.ok(&["monitor"]);
    let said = study.ok(&["cancel", "--subject", "01"]);
    assert_eq!(
        said.err,
        "no selected task has a job in flight: nothing to cancel\n"
    );
    assert_eq!(slurm.calls("scancel"), 0);
    study.ok(&["cancel", "--subject", "02"]);
    // Accounting says later that it ended well after all.
    slurm.set("1002", "COMPLETED");
    study.write("derivatives/a/sub-02/ses-01/done", "x");
    study.ok(&["monitor"]);
    study.ok(&["run"]);
    assert_eq!(
        study.statuses(),
        [
            "a sub-01 ses-01: failed exit_code",
            "a sub-02 ses-01: failed cancelled",
        ]
    );
    let said = study.call(&["wait"]);
    assert_eq!(
        (said.code, said.err.as_str()),
        (1, "0 complete, 2 failed\n")
    );
}

#[test]
fn options_of_the_site_stand_before_or_after_the_command() {
    let (study, _slurm) = study(1, STEP);
    let options = [
        "--slurm-mem",
        "8G",
        "--slurm-cpus",
        "3",
        "--slurm-log-dir",
        "/x",
    ];
    let command = ["run", "--dry-run", "-v"];
    let before = study.ok(&[&options[..], &command].concat()).out;
    let after = study.ok(&[&command[..], &options].concat()).out;
    let without_mark = |text: &str| text.replace(mark(text), "");
    assert_eq!(without_mark(&before), without_mark(&after));
    assert!(
        before.contains(" --mem=8G --cpus-per-task=3 ") && before.contains(" --output=/x/a/"),
        "{before}"
    );
}

/// Returns the comment of the first sbatch line.
fn mark(text: &str) -> &str {
    let (_, rest) = text.split_once("--comment=").unwrap();
    rest.split(' ').next().unwrap()
}

#[test]
fn the_log_tells_which_call_did_what_and_how_to_do_it_again() {
    let (study, slurm) = study(2, STEP);
    study.ok(&["run"]);
    slurm.set_all("FAILED 1:0");
    study.ok(&["monitor"]);
    study.ok(&["retry"]);
    study.ok(&["run"]);
    let events = events(&study);
    let told: Vec<&str> = events
        .iter()
        .map(|e| e["event"].as_str().unwrap())
        .collect();
    assert_eq!(
        told,
        [
            "submitted",
            "submitted",
            "status_change",
            "status_change",
            "retry_cleared",
            "retry_cleared",
            "submitted",
            "submitted"
        ]
    );
    // Two events each are of one call, and no call has another one's mark.
    let calls: Vec<&Value> = events.iter().map(|event| &event["run_id"]).collect();
    assert!(
        calls
            .chunks(2)
            .all(|pair| pair[0] == pair[1] && pair[0].is_string())
    );
    let mut marks: Vec<&str> = calls.iter().filter_map(|id| id.as_str()).collect();
    marks.dedup();
    assert_eq!(marks.len(), 4);
    // What sbatch got stands in the log, word by word.
    let logged: Vec<Vec<&str>> = events
        .iter()
        .filter(|event| event["event"] == "submitted")
        .map(|event| event["argv"].as_array().unwrap().iter().skip(1))
        .map(|words| words.map(|word| word.as_str().unwrap()).collect())
        .collect();
    let argv = slurm.argv();
    let given: Vec<Vec<String>> = argv
        .lines()
        .map(|line| shell_words::split(line).unwrap())
        .collect();
    assert_eq!(logged, given);
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(events[0]["version"], version);
}

#[test]
fn a_task_without_a_job_id_is_null_and_never_nan() {
    let (study, slurm) = study(1, STEP);
    slurm.silent(1);
    study.ok(&["run"]);
    assert_eq!(study.rows()[0]["job_id"], Value::Null);
    let log = study.read("scheduler_audit.jsonl");
    assert!(!log.contains("NaN") && !log.is_empty(), "{log}");
    assert_eq!(events(&study)[0].get("job_id"), None, "{log}");
    let csv = study.ok(&["status", "--format", "csv"]).out;
    assert!(csv.contains(",pending,") && !csv.contains("NaN"), "{csv}");
}

/// Slurm's reasons for which a job never starts unless a person does something.
#[test]
fn every_wait_without_end_is_shown_at_once() {
    let reasons = [
        "JobHeldUser",
        "JobHeldAdmin",
        "DependencyNeverSatisfied",
        "BadConstraints",
        "InvalidAccount",
        "InvalidQOS",
        "PartitionConfig",
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "AccountingPolicy",
        "QOSMaxWallDurationPerJobLimit",
        "AssocMaxCpuPerJobLimit",
    ];
    let (study, slurm) = study(reasons.len() + 1, STEP);
    study.ok(&["run"]);
    for ((job, _), reason) in slurm.jobs().iter().zip(reasons) {
        slurm.set(job, &format!("PENDING {reason}"));
    }
    let said = study.ok(&["monitor"]);
    for ((job, _), reason) in slurm.jobs().iter().zip(reasons) {
        let line = said
            .err
            .lines()
            .find(|line| line.contains(&format!("(Slurm: {reason}): ")))
            .unwrap_or_else(|| panic!("{reason}: {}", said.err));
        assert!(line.contains(&format!("(job {job})")), "{line}");
    }
    let held = |status: &String| status.ends_with("pending held");
    assert_eq!(
        study.statuses().iter().filter(|s| held(s)).count(),
        reasons.len()
    );
    let said = study.ok(&["run"]);
    assert!(said.err.contains("(Slurm: BadConstraints)"), "{}", said.err);
    assert_eq!(
        slurm.calls("sbatch"),
        reasons.len() + 1,
        "it is not submitted again"
    );
}

#[test]
fn the_end_of_a_huge_log_costs_little_memory() {
    let (study, slurm) = study(2, STEP);
    study.ok(&["run"]);
    slurm.set_all("RUNNING");
    let lines: String = (0..1000).map(|n| format!("line {n}\n")).collect();
    for (subject, job, size) in [("01", "1001", 0), ("02", "1002", 2 << 30)] {
        let path = format!("logs/a/a_sub-{subject}_ses-01_{job}.out");
        study.write(&path, "");
        let file = fs::OpenOptions::new().append(true).open(study.at(&path));
        let mut file = file.unwrap();
        file.set_len(size).unwrap();
        file.write_all(lines.as_bytes()).unwrap();
    }
    let (small, large) = (peak_kb(&study, "01"), peak_kb(&study, "02"));
    assert!(
        large < small + 10 * 1024,
        "{large} kB for 2 GB, {small} kB for 10 kB"
    );
}

/// Shows the end of a log and follows it; returns the most memory that this took, in kB.
fn peak_kb(study: &Study, subject: &str) -> u64 {
    let program = study.program();
    let mut child = Command::new(program.get_program());
    child.args(["logs", subject, "a", "-n", "100", "--follow"]);
    for (name, value) in program.get_envs() {
        child.env(name, value.unwrap_or_default());
    }
    let mut child = child
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let last = lines.map(Result::unwrap).find(|line| line == "line 999");
    assert!(last.is_some());
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.unwrap().trim().trim_end_matches(" kB");
    peak.parse().unwrap()
}

/// A step per subject has no session in its row: the audit shows its failure in all sessions of the subject.
#[test]
fn the_audit_sees_failures_of_steps_per_subject() {
    let (study, slurm) = study(
        1,
        "output_grace: 0s\nprocedures:
  - {name: surf, output_dir: surf, script: job.sh, scope: subject, completion_marker: done}
",
    );
    study.scan(&["sub-01/ses-02"]);
    study.ok(&["run"]);
    study.write("logs/surf/surf_sub-01_1001.err", "MemoryError\n");
    slurm.set_all("OUT_OF_MEMORY 0:125");
    study.ok(&["monitor"]);
    let report: Value =
        serde_json::from_str(&study.ok(&["audit", "--format", "json"]).out).unwrap();
    let sessions = report["matrix"]["sessions"].as_array().unwrap();
    assert_eq!(sessions.len(), 2);
    for session in sessions {
        assert_eq!(session["cells"][0]["decision"], "failed", "{session}");
    }
    assert_eq!(report["totals"]["rows"]["failed"], 1);
    assert_eq!(report["logs"]["findings"][0]["pattern"], "out_of_memory");
    let tasks = report["tasks"].as_array().unwrap();
    assert_eq!((tasks.len(), &tasks[0]["procedure"]), (1, &"surf".into()));
}

/// The outputs of the other subject cannot even be looked at.
#[test]
fn an_audit_of_a_subject_looks_at_no_other() {
    let (study, _slurm) = study(2, STEP);
    fs::create_dir_all(study.at("derivatives/a/sub-01")).unwrap();
    let at = study.at("derivatives/a/sub-01/ses-01");
    std::os::unix::fs::symlink("x".repeat(300), at).unwrap();
    let whole = study.call(&["audit", "--format", "json"]);
    assert_eq!(whole.code, 7, "{}", whole.err);
    let part = study.ok(&["audit", "--format", "json", "--subject", "02"]);
    let report: Value = serde_json::from_str(&part.out).unwrap();
    assert_eq!(report["totals"]["tasks"], 1);
    assert_eq!(report["unreadable"], Value::Array(Vec::new()));
}
