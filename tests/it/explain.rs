//! `explain`: each kind of decision in words, through the program, with a Slurm that says what it is told.

mod gone;
mod holds;

use serde_json::Value;

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;
use crate::pretty::{self, pretty};

/// Session, session, subject: each waits for the one before.
const PIPELINE: &str = "\
output_grace: 0s
procedures:
  - name: bids
    output_dir: ''
    script: job.sh
    completion_marker: ['anat/*_T1w.nii.gz', 'dwi/*_dwi.bvec']
  - name: prep
    output_dir: prep
    script: job.sh
    depends_on: [bids]
    completion_marker: ['report*.html', {glob: 'func/*.html', when: 'func/*'}]
    forbid: ['crash-*']
  - name: table
    output_dir: table
    script: job.sh
    scope: subject
    depends_on: [prep]
";

fn study(rest: &str) -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(rest);
    study.scan(&["sub-01/ses-01", "sub-01/ses-02"]);
    study.script("job.sh", "true");
    (study, slurm)
}

fn complete_bids(study: &Study, session: &str) {
    study.write(&format!("bids/sub-01/{session}/anat/x_T1w.nii.gz"), "image");
    study.write(&format!("bids/sub-01/{session}/dwi/x_dwi.bvec"), "0 1");
}

/// Explains, checks that nothing was written and that the JSON is as its schema says, and returns the text.
fn explain(study: &Study, words: &[&str]) -> String {
    explain_with(study, words, 0).0
}

fn explain_with(study: &Study, words: &[&str], code: i32) -> (String, Value) {
    let arguments: Vec<&str> = ["explain"].iter().chain(words).copied().collect();
    let before = pretty::files(study);
    let said = study.call(&arguments);
    assert_eq!(said.code, code, "{}\n{}", said.out, said.err);
    let json = study.call(&[&arguments[..], &["--format", "json"]].concat());
    assert_eq!(json.code, code, "{}", json.err);
    assert!(pretty::files(study) == before, "explain writes nothing");
    let json: Value = serde_json::from_str(&json.out).unwrap();
    let schema = include_str!("../../docs/schema/explain.schema.json");
    let schema = serde_json::from_str(schema).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let problems: Vec<String> = validator
        .iter_errors(&json)
        .map(|error| format!("{error} at {}", error.instance_path()))
        .collect();
    assert_eq!(problems, Vec::<String>::new());
    let words = |key: &str| json[0][key].as_str().unwrap().to_owned();
    assert!(!words("todo").is_empty() && !words("text").is_empty());
    (pretty(study, &format!("{}{}", said.out, said.err)), json)
}

#[test]
fn a_task_that_is_due_and_one_that_waits() {
    let (study, _slurm) = study(PIPELINE);
    study.write("bids/sub-01/ses-01/dwi/a_dwi.bval", "x");
    insta::assert_snapshot!("explain_due", explain(&study, &["01", "01", "bids"]));
    insta::assert_snapshot!("explain_waiting", explain(&study, &["table", "sub-01"]));
    insta::assert_snapshot!("explain_subject", explain(&study, &["01"]));
}

#[test]
fn a_task_that_is_complete() {
    let (study, _slurm) = study(PIPELINE);
    complete_bids(&study, "ses-01");
    study.write("bids/sub-01/ses-01/anat/y_T1w.nii.gz", "image");
    insta::assert_snapshot!("explain_complete", explain(&study, &["01", "01", "bids"]));
    study.write("derivatives/prep/sub-01/ses-01/report.html", "");
    study.write("derivatives/prep/sub-01/ses-01/crash-1.txt", "");
    insta::assert_snapshot!("explain_forbidden", explain(&study, &["01", "01", "prep"]));
}

#[test]
fn tasks_in_flight() {
    let (study, slurm) = study(PIPELINE);
    study.ok(&["run", "-q"]);
    slurm.set("1001", "PENDING Resources");
    insta::assert_snapshot!("explain_pending", explain(&study, &["01", "01", "bids"]));
    slurm.set("1001", "PENDING JobHeldUser");
    insta::assert_snapshot!("explain_held", explain(&study, &["01", "01", "bids"]));
    slurm.set("1001", "RUNNING");
    let (text, json) = explain_with(&study, &["01", "01", "bids"], 0);
    assert!(
        text.contains("to do    nothing; its job is running"),
        "{text}"
    );
    assert_eq!(json[0]["job"]["state"], "RUNNING");
    assert_eq!(json[0]["next"], Value::Null);
    insta::assert_snapshot!("explain_chain", explain(&study, &["01", "table"]));
}

#[test]
fn a_queue_that_does_not_answer_is_said() {
    let (study, slurm) = study(PIPELINE);
    study.ok(&["run", "-q"]);
    slurm.break_program(
        "squeue",
        "slurm_load_jobs error: Unable to contact slurm controller",
    );
    let (text, _) = explain_with(&study, &["01", "01", "bids"], 5);
    insta::assert_snapshot!("explain_no_queue", text);
}

#[test]
fn a_failure_and_what_it_blocks() {
    let (study, slurm) = study(PIPELINE);
    study.ok(&["run", "-q"]);
    slurm.set("1001", "FAILED 127:0");
    study.ok(&["monitor", "-q"]);
    insta::assert_snapshot!("explain_failed", explain(&study, &["01", "01", "bids"]));
    insta::assert_snapshot!("explain_blocked", explain(&study, &["01", "table"]));
    complete_bids(&study, "ses-01");
    let text = explain(&study, &["01", "01", "bids"]);
    assert!(
        text.contains("add --accept-outputs to accept them"),
        "{text}"
    );
    study.ok(&["retry", "-q", "--procedure", "bids", "--accept-outputs"]);
    let text = explain(&study, &["01", "01", "bids"]);
    assert!(text.starts_with("bids sub-01 ses-01: complete"), "{text}");
}

#[test]
fn tasks_of_an_array() {
    let array = PIPELINE.replace(
        "    output_dir: ''",
        "    array: always\n    output_dir: ''",
    );
    let (study, slurm) = study(&array);
    let (text, json) = explain_with(&study, &["01", "01", "bids"], 0);
    assert_eq!(json[0]["next"]["array_tasks"], 2);
    assert!(text.contains("in one job array of 2\n"), "{text}");
    assert!(text.contains(" --array=0-1"), "{text}");
    study.ok(&["run", "-q"]);
    slurm.set("1001_1", "FAILED 1:0");
    study.ok(&["monitor", "-q"]);
    let text = explain(&study, &["01", "02", "bids"]);
    let log = "logs/bids/bids_sub-01_ses-02_1001_1.out";
    // Where it should be, then where it is.
    let error = log.replace(".out", ".err");
    assert!(text.contains(&format!("[study]/{error}")), "{text}");
    study.write(log, "oh no\n");
    let text = explain(&study, &["01", "02", "bids"]);
    assert!(text.contains(&format!("[study]/{log}")), "{text}");
    assert!(
        study
            .ok(&["logs", "01", "02", "bids"])
            .out
            .contains("oh no")
    );
    let text = explain(&study, &["01", "01", "bids"]);
    assert!(text.contains("queue    job 1001_0 is PENDING"), "{text}");
}

#[test]
fn earlier_attempts_are_listed() {
    let (study, slurm) = study(PIPELINE);
    study.ok(&[
        "run",
        "-q",
        "--subject",
        "01",
        "--session",
        "01",
        "--procedure",
        "bids",
    ]);
    slurm.set("1001", "TIMEOUT 0:15 10G 60 n1");
    study.ok(&["monitor", "-q"]);
    study.ok(&["retry", "-q"]);
    let (text, json) = explain_with(&study, &["01", "01", "bids"], 0);
    assert!(
        text.contains("\n  record   none: the earlier one was cleared\n  attempts #1: job"),
        "{text}"
    );
    assert_eq!(json[0]["row"], Value::Null);
    assert_eq!(json[0]["next"]["attempt"], 2);
    study.ok(&["run", "-q", "--session", "01"]);
    let (text, json) = explain_with(&study, &["01", "01", "bids"], 0);
    assert_eq!(json[0]["attempts"].as_array().unwrap().len(), 2);
    let at = text.find("  attempts").unwrap();
    insta::assert_snapshot!("explain_attempts", &text[at..]);
}

#[test]
fn retries_by_the_rules() {
    let rules = "retry: {max_attempts: 2, on: {out_of_memory: {mem_factor: 2, delay: 2h}}}";
    let (study, slurm) = study(&with_rules(rules));
    study.ok(&["run", "-q"]);
    slurm.set("1001", "OUT_OF_MEMORY 0:125 10G 60 n1");
    study.ok(&["monitor", "-q"]);
    let (text, json) = explain_with(&study, &["01", "01", "bids"], 0);
    let at = json[0]["retry"]["at"].as_str().unwrap().to_owned();
    assert!(at.ends_with('Z'), "{at}");
    assert_eq!(json[0]["next"]["attempt"], 2);
    insta::assert_snapshot!("explain_retry_at", text);

    let rules = "retry: {max_attempts: 1, on: {out_of_memory: {mem_factor: 2}}}";
    let (study, slurm) = self::study(&with_rules(rules));
    study.ok(&["run", "-q"]);
    slurm.set("1001", "OUT_OF_MEMORY 0:125 10G 60 n1");
    study.ok(&["monitor", "-q"]);
    let text = explain(&study, &["01", "01", "bids"]);
    assert!(text.contains("no attempts left (1 allowed)"), "{text}");
    assert!(
        text.contains("once the cause is fixed: snbb-scheduler retry"),
        "{text}"
    );
}

/// Gives the first procedure rules.
fn with_rules(rules: &str) -> String {
    let first = "    completion_marker: ['anat";
    format!(
        "slurm_mem: 10G\n{}",
        PIPELINE.replace(first, &format!("    {rules}\n{first}"))
    )
}

#[test]
fn jobs_of_others_and_scripts_that_are_missing() {
    let (study, slurm) = study(PIPELINE);
    std::fs::write(slurm.at("state/77"), "RUNNING\n").unwrap();
    std::fs::write(
        slurm.at("jobs/77"),
        "bids_sub-01_ses-01\n\n1700000000\nsbatch\n",
    )
    .unwrap();
    let text = explain(&study, &["01", "01", "bids"]);
    assert!(
        text.contains("job 77 must end first; to cancel it: scancel 77"),
        "{text}"
    );
    std::fs::remove_file(study.at("job.sh")).unwrap();
    let text = explain(&study, &["01", "02", "bids"]);
    assert!(text.contains("until then `run` cannot submit it"), "{text}");
    assert!(text.contains("script 'job.sh' was not found"), "{text}");
}

#[test]
fn what_cannot_be_read() {
    let (study, _slurm) = study(PIPELINE);
    // Longer than a file system takes, so that root cannot read it either.
    let name = "x".repeat(300);
    study.configure(&format!(
        "procedures: [{{name: a, output_dir: {name}, script: job.sh, completion_marker: x}}]\n"
    ));
    let (text, json) = explain_with(&study, &["01", "01", "a"], 7);
    assert_eq!(json[0]["outputs"]["verdict"], "unreadable");
    assert!(
        text.contains("readable for the user who runs this"),
        "{text}"
    );
    assert!(text.contains("File name too long"), "{text}");
}

#[test]
fn what_is_not_there_is_answered_with_what_is() {
    let (study, _slurm) = study(PIPELINE);
    for (words, code, expected) in [
        (&["sub-001"][..], 2, "did you mean sub-01?"),
        (&["01", "03"], 2, "its sessions are ses-01, ses-02"),
        (
            &["01", "01", "prepp"],
            2,
            "no procedure 'prepp' (available: bids, prep, table",
        ),
        (
            &["sub-01", "sub-02"],
            2,
            "both 'sub-01' and 'sub-02' are given",
        ),
    ] {
        let said = study.call(&[&["explain"], words].concat());
        assert_eq!(said.code, code, "{words:?} {}", said.err);
        assert!(said.err.contains(expected), "{words:?} {}", said.err);
    }
}

#[test]
fn a_narrow_terminal_wraps_and_colours() {
    let (study, slurm) = study(PIPELINE);
    study.ok(&["run", "-q"]);
    slurm.set("1001", "FAILED 127:0");
    study.ok(&["monitor", "-q"]);
    study.write("bids/sub-01/ses-01/dwi/x", "x");
    let text = pretty::in_terminal(&study, 72, &["explain", "01", "01", "bids"]);
    let text = pretty(&study, &text);
    assert!(text.contains("\u{1b}[1m"), "{text}");
    // Where lines with paths break depends on where the study is.
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| !line.contains("[study]") && !line.starts_with("  outputs"))
        .collect();
    assert!(
        lines.iter().all(|line| line.chars().count() <= 90),
        "{text}"
    );
    insta::assert_snapshot!("explain_terminal", lines.join("\n").replace('\u{1b}', "^"));
}

#[test]
fn a_job_that_waits_for_its_outputs_says_until_when() {
    let (study, slurm) = study(&PIPELINE.replace("output_grace: 0s", "output_grace: 10m"));
    study.ok(&["run", "-q"]);
    slurm.set("1001", "COMPLETED");
    study.ok(&["monitor", "-q"]);
    let words = "finished; waiting for outputs until 20";
    let text = explain(&study, &["01", "01", "bids"]);
    let words_here = "1 job finished; waiting for outputs until [time] (output_grace 10m)";
    assert!(text.contains(&format!("why      {words_here}")), "{text}");
    assert!(
        text.contains(&format!("to do    nothing yet; {words_here}")),
        "{text}"
    );
    let said = study.ok(&["status"]);
    assert!(
        said.err.contains(words) && said.err.contains("UTC"),
        "{}",
        said.err
    );
    slurm.set("1002", "COMPLETED");
    study.ok(&["monitor", "-q"]);
    let said = study.call(&["wait", "--timeout", "1s"]);
    let words = "note: 2 jobs finished; waiting for outputs until 20";
    assert_eq!(said.err.matches(words).count(), 1, "{}", said.err);
}

#[test]
fn d28_one_thing_has_one_word_in_json() {
    let mut study = Study::new();
    let _slurm = FakeSlurm::new(&mut study);
    study.configure(
        "procedures:\n  - {name: a, output_dir: a, script: job.sh, completion_marker: x}\n\
         \x20 - {name: b, output_dir: b, script: none.sh, depends_on: [a], completion_marker: x}\n",
    );
    study.scan(&["sub-01/ses-01"]);
    study.script("job.sh", "true");
    let json = |arguments: &[&str]| -> serde_json::Value {
        serde_json::from_str(&study.call(arguments).out).unwrap()
    };
    let findings = json(&["check", "--format", "json"]);
    for finding in findings.as_array().unwrap() {
        assert_eq!(finding["todo"], finding["advice"]);
        assert_ne!(finding["topic"], "news");
    }
    let needed = &json(&["explain", "01", "01", "b", "--format", "json"])[0]["dependencies"][0];
    assert_eq!(needed["complete"], false);
    assert_eq!(needed["ready"], needed["complete"]);
}
