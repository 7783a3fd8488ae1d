//! `logs`, `status --failed` and `history`, through the program.
#![expect(
    clippy::disallowed_methods,
    reason = "starts a program that goes on by itself"
)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Command, Stdio};

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;
use crate::pretty::{files, in_terminal, pretty, problems};

const PIPELINE: &str = "\
output_grace: 0s
procedures:
  - {name: bids, output_dir: bids, script: job.sh}
  - {name: prep, output_dir: prep, script: job.sh, depends_on: [bids]}
";

fn study() -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(PIPELINE);
    study.scan(&["sub-01/ses-01", "sub-02/ses-01"]);
    study.script("job.sh", "true");
    study.ok(&["run", "-q"]);
    (study, slurm)
}

const OUT: &str = "logs/bids/bids_sub-01_ses-01_1001.out";
const ERR: &str = "logs/bids/bids_sub-01_ses-01_1001.err";

#[test]
fn the_ends_of_both_logs_are_shown() {
    let (study, slurm) = study();
    let words = ["logs", "01", "01", "bids"];
    let said = study.ok(&words);
    assert_eq!(said.out, "");
    insta::assert_snapshot!("logs_not_started", pretty(&study, &said.err));

    let lines: String = (1..=50).map(|n| format!("line {n}\n")).collect();
    study.write(OUT, &lines);
    std::fs::write(study.at(ERR), b"warn\xff\x1b[31m red\x1b[0m \x07\nlast").unwrap();
    let before = files(&study);
    let said = study.ok(&["logs", "01", "01", "bids", "--lines", "3"]);
    insta::assert_snapshot!("logs_both", pretty(&study, &(said.out + &said.err)));
    assert_eq!(study.ok(&words).out.lines().count(), 1 + 20 + 1 + 2);
    assert!(files(&study) == before);

    let said = study.ok(&["logs", "bids", "sub-01", "--path"]);
    let paths: Vec<String> = [OUT, ERR]
        .iter()
        .map(|path| format!("{}\n", study.at(path).display()))
        .collect();
    assert_eq!(said.out, paths.concat());

    slurm.set("1001", "FAILED 1:0");
    study.ok(&["monitor", "-q"]);
    study.ok(&["retry", "-q"]);
    study.ok(&["run", "-q"]);
    let said = study.ok(&["logs", "01", "bids", "--path"]);
    assert!(said.out.contains("_1003.out"), "{}", said.out);
    let said = study.ok(&["logs", "01", "bids", "--path", "--attempt", "1"]);
    assert_eq!(said.out, paths.concat());
    let said = study.call(&["logs", "01", "bids", "--attempt", "7"]);
    assert_eq!(said.code, 1);
    insta::assert_snapshot!("logs_no_such_attempt", problems(&study, &said.err));
}

#[test]
fn what_is_missing_is_explained() {
    let (study, slurm) = study();
    let said = study.call(&["logs", "01", "01", "prep"]);
    assert_eq!(said.code, 1);
    insta::assert_snapshot!("logs_no_job", problems(&study, &said.err));

    slurm.set("1001", "FAILED 1:0");
    study.ok(&["monitor", "-q"]);
    let said = study.call(&["logs", "01", "bids"]);
    assert_eq!(said.code, 1);
    insta::assert_snapshot!("logs_gone", pretty(&study, &said.err));

    let config = study.read("config.yaml");
    study.write("config.yaml", &config.replace("slurm_log_dir: logs\n", ""));
    let said = study.call(&["logs", "01", "bids"]);
    assert_eq!(said.code, 1);
    insta::assert_snapshot!("logs_nowhere", pretty(&study, &said.err));

    study.scan(&["sub-01/ses-02"]);
    study.ok(&["run", "-q"]);
    let said = study.call(&["logs", "01", "bids"]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!("logs_of_two_tasks", problems(&study, &said.err));
}

#[test]
fn a_log_is_followed_until_its_job_has_ended() {
    let (study, slurm) = study();
    slurm.set("1001", "RUNNING");
    study.write(OUT, "one\ntwo\n");
    let program = study.program();
    let mut child = Command::new(program.get_program());
    child.args(["logs", "01", "01", "bids", "-f", "-n", "1"]);
    for (name, value) in program.get_envs() {
        child.env(name, value.unwrap_or_default());
    }
    let mut child = child
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().map(Result::unwrap);
    assert!(next().unwrap().ends_with("(last lines of 8 bytes) <=="));
    assert_eq!(next().as_deref(), Some("two"));
    let add = |path: &str, text: &str| {
        let path = study.at(path);
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path);
        file.unwrap().write_all(text.as_bytes()).unwrap();
    };
    add(OUT, "three\nfo");
    assert!(next().unwrap().ends_with("1001.out <=="));
    assert_eq!(next().as_deref(), Some("three"));
    add(ERR, "oh\n");
    assert!(next().unwrap().ends_with("1001.err <=="));
    assert_eq!(next().as_deref(), Some("oh"));
    add(OUT, "ur");
    slurm.set("1001", "COMPLETED");
    assert!(next().unwrap().ends_with("1001.out <=="));
    assert_eq!(next().as_deref(), Some("four"));
    assert_eq!(next(), None);
    assert!(child.wait().unwrap().success());
}

#[test]
fn logs_of_local_jobs_are_found_without_a_log_directory() {
    let study = Study::new();
    study.write(
        "config.yaml",
        &format!(
            "dicom_root: dicom\nbids_root: bids\nderivatives_root: derivatives\nstate_file: state.parquet\n\
             executor: local\n{PIPELINE}"
        ),
    );
    study.scan(&["sub-01/ses-01"]);
    study.script("job.sh", "echo hello; exit 3");
    study.ok(&["run", "-q"]);
    study.call(&["wait", "-q", "--interval", "1s", "--timeout", "60s"]);
    let said = study.ok(&["logs", "01", "bids"]);
    assert!(said.out.contains("\nhello\n"), "{}\n{}", said.out, said.err);
}

/// Two failures, one with logs.
fn failures() -> (Study, FakeSlurm) {
    let (study, slurm) = study();
    study.write(OUT, "reading\nwriting\n");
    study.write(
        ERR,
        "Traceback (most recent call last):\nMemoryError: \x1b[1mno room\x1b[0m\n\n",
    );
    slurm.set("1001", "OUT_OF_MEMORY 0:125 32G 60 n1");
    slurm.set("1002", "FAILED 127:0 10G 1440 n2");
    study.ok(&["monitor", "-q"]);
    (study, slurm)
}

#[test]
fn each_failure_is_told_with_what_its_log_says() {
    let (study, _slurm) = failures();
    let before = files(&study);
    let said = study.ok(&["status", "--failed"]);
    insta::assert_snapshot!("failed_blocks", pretty(&study, &(said.out + &said.err)));
    let text = in_terminal(&study, 60, &["status", "--failed", "--subject", "02"]);
    insta::assert_snapshot!(
        "failed_blocks_terminal",
        pretty(&study, &text).replace('\u{1b}', "^")
    );
    let said = study.ok(&["status", "--failed", "--format", "json"]);
    let rows: Vec<serde_json::Value> = serde_json::from_str(&said.out).unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0]["log_line"], "MemoryError: no room");
    assert!(rows[0]["log_line_path"].as_str().unwrap().ends_with(ERR));
    assert_eq!(rows[0]["outlook"], "stays failed until you run `retry`");
    assert_eq!(rows[1]["log_line"], serde_json::Value::Null);
    let csv = study.ok(&["status", "--failed", "--format", "csv"]).out;
    let plain = study
        .ok(&["status", "--status", "failed", "--format", "csv"])
        .out;
    let header = plain.lines().next().unwrap();
    assert!(
        csv.starts_with(&format!(
            "{header},outlook,log_line,log_line_path,log_pattern\n"
        )),
        "{csv}"
    );
    assert!(files(&study) == before);
    let none = study.ok(&["status", "--failed", "--procedure", "prep"]);
    assert_eq!(none.out, "");
    insta::assert_snapshot!("failed_none", pretty(&study, &none.err));
}

#[test]
fn all_that_happened_is_told_in_order() {
    let (mut study, slurm) = study();
    study.env.push(("LOGNAME".to_owned(), "anna".to_owned()));
    slurm.set("1001", "FAILED 3:0 10G 60 n1");
    study.ok(&["monitor", "-q"]);
    study.ok(&["retry", "-q"]);
    study.ok(&["run", "-q"]);
    slurm.set("1003", "RUNNING");
    study.ok(&["monitor", "-q"]);
    study.ok(&["cancel", "-q", "--subject", "01"]);
    study.ok(&["monitor", "-q"]);
    let before = files(&study);
    let said = study.ok(&["history", "01", "01", "bids"]);
    insta::assert_snapshot!("history", pretty(&study, &(said.out + &said.err)));
    let text = in_terminal(&study, 120, &["history", "02"]);
    insta::assert_snapshot!(
        "history_terminal",
        pretty(&study, &text).replace('\u{1b}', "^")
    );
    let rows = |study: &Study| -> Vec<serde_json::Value> {
        let said = study.ok(&["history", "01", "--format", "json"]);
        serde_json::from_str(&said.out).unwrap()
    };
    let all = rows(&study);
    assert!(all.iter().all(|row| row["source"] == "log"), "{all:?}");
    let by: Vec<&str> = all.iter().filter_map(|row| row["by"].as_str()).collect();
    assert_eq!(by, ["anna", "anna"]);
    assert!(files(&study) == before);

    // Without the log the rows tell of beginnings and ends.
    std::fs::remove_file(study.at("state_log.jsonl"))
        .or_else(|_| {
            let log = before.iter().map(|(path, _)| path).find(|path| {
                path.extension()
                    .is_some_and(|ending| ending == "jsonl" || ending == "log")
            });
            std::fs::remove_file(log.unwrap())
        })
        .unwrap();
    let events: Vec<String> = rows(&study)
        .iter()
        .map(|row| format!("{} {} {}", row["attempt"], row["event"], row["reason"]))
        .collect();
    assert_eq!(
        events,
        [
            "1 \"submitted\" null",
            "1 \"status_change\" \"exit_code\"",
            "2 \"submitted\" null",
            "2 \"status_change\" \"cancelled\"",
        ]
    );
    let csv = study.ok(&["history", "02", "--format", "csv"]).out;
    assert!(csv.starts_with(
        "time,subject,session,procedure,event,attempt,job_id,old_status,new_status,reason,by,detail,source\n"
    ), "{csv}");
    let none = study.ok(&["history", "02", "prep"]);
    assert_eq!(none.out, "");
    insta::assert_snapshot!("history_none", pretty(&study, &none.err));
}

#[test]
fn what_a_job_without_its_outputs_lacks_is_told_where_failures_are_told() {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(
        "output_grace: 0s\nprocedures:\n  - {name: a, output_dir: a, script: job.sh, completion_marker: x.txt}\n",
    );
    study.scan(&["sub-01/ses-01"]);
    study.script("job.sh", "true");
    study.ok(&["run", "-q"]);
    study.write("derivatives/a/sub-01/ses-01/y.txt", "y");
    study.write("derivatives/a/sub-01/ses-01/sub/z", "z");
    slurm.set("1001", "COMPLETED");
    study.ok(&["monitor", "-q"]);
    let failed = || pretty(&study, &study.ok(&["status", "--failed"]).out);
    insta::assert_snapshot!("failed_without_outputs", failed());
    let said = study.ok(&["explain", "01", "01", "a"]).out;
    let log = said.lines().skip_while(|line| !line.starts_with("  log "));
    let log: Vec<&str> = log.take(2).collect();
    insta::assert_snapshot!("explain_without_log", pretty(&study, &log.join("\n")));
    // What stands in the logs decides which one is named, at both places.
    study.write("logs/a/a_sub-01_ses-01_1001.out", "MemoryError: no room\n");
    study.write("logs/a/a_sub-01_ses-01_1001.err", "bye\n");
    for words in [&["status", "--failed"][..], &["explain", "01", "01", "a"]] {
        let said = study.ok(words).out;
        assert!(
            said.contains("_1001.out") && !said.contains("_1001.err"),
            "{said}"
        );
    }
    study.write("derivatives/a/sub-01/ses-01/x.txt", "x");
    insta::assert_snapshot!("failed_outputs_exist_now", failed());
}

#[test]
fn d21_people_read_their_own_time_and_scripts_utc() {
    let (mut study, slurm) = study();
    slurm.set("1001", "FAILED 1:0");
    study.ok(&["monitor", "-q"]);
    study.ok(&["pause", "-q"]);
    study.env.push(("TZ".to_owned(), "Asia/Kolkata".to_owned()));
    for command in [
        &["status"][..],
        &["status", "--failed"],
        &["history", "01", "01", "bids"],
        &["explain", "01", "01", "bids"],
        &["monitor"],
        &["audit"],
    ] {
        let said = study.call(command);
        let text = said.out + &said.err;
        assert!(text.contains("+05:30"), "{command:?}: {text}");
        assert!(!text.contains(" UTC"), "{command:?}: {text}");
    }
    for format in ["csv", "json"] {
        for command in [
            &["status"][..],
            &["status", "--failed"],
            &["history", "01", "01", "bids"],
        ] {
            let out = study.ok(&[command, &["--format", format]].concat()).out;
            assert!(
                out.contains("Z") && !out.contains("+05:30"),
                "{command:?}: {out}"
            );
        }
    }
}

/// Three failures that are alike, and another one.
fn alike() -> (Study, FakeSlurm) {
    let (study, slurm) = study();
    study.scan(&["sub-03/ses-01", "sub-04/ses-01"]);
    study.ok(&["run", "-q"]);
    for (job, subject) in [(1001, "01"), (1002, "02"), (1003, "03")] {
        slurm.set(&job.to_string(), "FAILED 3:0");
        let log = format!("logs/bids/bids_sub-{subject}_ses-01_{job}.err");
        study.write(
            &log,
            &format!("cannot open /data/sub-{subject}: attempt {job}\n"),
        );
    }
    slurm.set("1004", "TIMEOUT 0:0");
    study.ok(&["monitor", "-q"]);
    (study, slurm)
}

#[test]
fn d16_failures_that_are_alike_are_one_group() {
    let (study, _slurm) = alike();
    let titles = |out: &str| -> Vec<String> {
        let lines = out.lines().filter(|line| line.contains(": failed ("));
        lines.map(str::to_owned).collect()
    };
    let said = study.ok(&["status", "--failed"]);
    assert_eq!(
        titles(&said.out),
        [
            "bids: failed (exit_code), 3 tasks",
            "bids sub-04 ses-01: failed (timeout), attempt 1, job 1004",
        ]
    );
    assert!(
        said.out
            .contains("sub-01 ses-01, sub-02 ses-01, sub-03 ses-01"),
        "{}",
        said.out
    );
    assert!(
        said.out.contains("cannot open /data/sub-01"),
        "{}",
        said.out
    );
    assert_eq!(
        titles(&study.ok(&["status", "--failed", "-v"]).out).len(),
        4
    );
}

#[test]
fn the_logs_of_failed_tasks_are_shown_once_per_group() {
    let (study, _slurm) = alike();
    let logs = |args: &[&str]| -> Vec<String> {
        let said = study.call(&[&["logs", "--failed"], args].concat());
        let lines = said
            .out
            .lines()
            .filter(|line| line.starts_with("cannot open"));
        lines.map(str::to_owned).collect()
    };
    assert_eq!(logs(&[]), ["cannot open /data/sub-01: attempt 1001"]);
    assert_eq!(logs(&["-v"]).len(), 3);
    assert_eq!(logs(&["03"]), ["cannot open /data/sub-03: attempt 1003"]);
    let said = study.call(&["logs", "--failed"]);
    // The job that timed out left no logs: that is said, and the exit code tells.
    assert_eq!(said.code, 1);
    assert!(
        said.err
            .contains("sub-01 ses-01, sub-02 ses-01, sub-03 ses-01"),
        "{}",
        said.err
    );
    assert_eq!(study.call(&["logs", "--failed", "sub-09"]).code, 2);
    assert_eq!(study.call(&["logs"]).code, 2);
}

#[test]
fn a_group_of_failures_is_retried_by_one_of_its_tasks() {
    let (study, _slurm) = alike();
    let failed = || -> usize {
        let csv = study
            .ok(&["status", "--status", "failed", "--format", "csv"])
            .out;
        csv.lines().count() - 1
    };
    let dry = study.ok(&["retry", "--like", "sub-02", "ses-01", "bids", "--dry-run"]);
    assert_eq!(dry.out.lines().count(), 3, "{}", dry.out);
    assert_eq!(failed(), 4);
    // Other selections narrow the group; the named task need not be among them.
    study.ok(&["retry", "--like", "bids", "02", "--subject", "03", "-q"]);
    assert_eq!(failed(), 3);
    study.ok(&["retry", "--like", "01", "01", "bids", "-q"]);
    assert_eq!(failed(), 1);
    let said = study.call(&["retry", "--like", "01", "bids"]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!("retry_like_nothing", problems(&study, &said.err));
    let all = study.call(&["retry", "--like", "04", "--status", "all"]);
    assert_eq!(all.code, 2);
}

#[test]
fn d31_a_log_that_is_not_there_is_not_named() {
    let (study, slurm) = study();
    slurm.set("1001", "CANCELLED 0:0");
    study.ok(&["monitor", "-q"]);
    let said = study.ok(&["status", "--failed"]);
    assert!(!said.out.contains(".err"), "{}", said.out);
    let rows: serde_json::Value =
        serde_json::from_str(&study.ok(&["status", "--failed", "--format", "json"]).out).unwrap();
    assert!(rows[0]["log_line_path"].is_null());
    let report: serde_json::Value =
        serde_json::from_str(&study.ok(&["audit", "--format", "json"]).out).unwrap();
    let tasks = report["tasks"].as_array().unwrap();
    let failed = tasks
        .iter()
        .find(|task| task["decision"] == "failed")
        .unwrap();
    assert!(
        failed["job"]["error"].is_null() && failed["job"]["output"].is_null(),
        "{failed}"
    );
}
