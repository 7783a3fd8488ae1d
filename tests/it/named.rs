//! Subjects and sessions that are named and are not there, and directories whose names are nearly right.

use std::fs;

use crate::fake_slurm::FakeSlurm;
use crate::harness::{Said, Study};
use crate::pretty::pretty;

const STEPS: &str = "\
procedures:
  - {name: a, output_dir: a, script: job.sh, completion_marker: x}
  - {name: b, output_dir: b, script: job.sh, depends_on: [a], completion_marker: x}
  - {name: s, output_dir: s, script: job.sh, scope: subject, depends_on: [a], completion_marker: x}
";

fn study() -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(STEPS);
    study.scan(&["sub-0001/ses-01", "sub-0002/ses-01"]);
    study.script("job.sh", "true");
    study.ok(&["run", "-q"]);
    (study, slurm)
}

#[test]
fn d19_a_selection_that_matches_nothing_is_exit_2_in_every_command() {
    let (study, _slurm) = study();
    for command in [
        &["run"][..],
        &["run", "--dry-run"],
        &["manifest"],
        &["session-status"],
        &["outputs"],
        &["audit"],
        &["status"],
        &["status", "--failed"],
        &["cancel", "--dry-run"],
        &["retry", "--dry-run"],
        &["wait", "--timeout", "1s"],
        &["explain"],
        &["history"],
        &["logs"],
    ] {
        let is_bare = matches!(command[0], "explain" | "history" | "logs");
        let call = |subject: &str, session: &str| {
            let words = match (is_bare, session) {
                (true, "") => vec![subject],
                (true, _) => vec![subject, session],
                (false, "") => vec!["--subject", subject],
                (false, _) => vec!["--subject", subject, "--session", session],
            };
            study.call(&[command, &words].concat())
        };
        for (subject, session, hint) in [
            ("99", "", "available: sub-0001"),
            ("1", "", "did you mean sub-0001?"),
            ("0001", "07", "available: ses-01"),
        ] {
            let said = call(subject, session);
            assert_eq!(said.code, 2, "{command:?} {subject}: {}", said.err);
            assert!(said.err.contains(hint), "{command:?}: {}", said.err);
            assert_eq!(said.out, "");
        }
        assert_ne!(call("0001", "01").code, 2, "{command:?}");
    }
    // In the study, without a row so far: neither refused nor shown.
    study.scan(&["sub-0003/ses-01"]);
    let said = study.ok(&["status", "--subject", "0003", "--format", "json"]);
    assert_eq!(said.out, "[]\n");
    // On record, gone from the data.
    fs::remove_dir_all(study.at("dicom/sub-0002")).unwrap();
    study.ok(&["status", "--subject", "0002"]);
    assert_eq!(study.call(&["run", "--subject", "0002"]).code, 2);
    // A task of subject scope has no session.
    let said = study.call(&["run", "--procedure", "s", "--session", "01"]);
    assert_eq!(said.code, 2, "{}", said.err);
}

#[test]
fn d19_a_study_without_sessions_refuses_no_selection() {
    let mut study = Study::new();
    let _slurm = FakeSlurm::new(&mut study);
    study.configure(STEPS);
    study.script("job.sh", "true");
    for selection in [["--procedure", "a"], ["--subject", "99"]] {
        study.ok(&[&["run"][..], &selection].concat());
        study.ok(&[&["status"][..], &selection].concat());
    }
}

#[test]
fn d18_a_misspelt_word_is_answered_with_the_nearest_one() {
    let mut study = Study::new();
    let _slurm = FakeSlurm::new(&mut study);
    study.configure(
        "procedures: [{name: fmriprep, output_dir: a, script: job.sh, completion_marker: x}]\n",
    );
    study.scan(&["sub-01/ses-01"]);
    let mut told = Vec::new();
    for arguments in [
        &["run", "--procedure", "fmriprp"][..],
        &["status", "--procedure", "fmriprp"],
        &["pause", "--procedure", "fmriprp"],
        &["explain", "01", "01", "fmripre"],
        &["status", "--status", "faild"],
        &["session-status", "--status", "bloked"],
        &["status", "--reason", "time-out"],
        &["retry", "--reason", "no_outputs"],
        &["status", "--sort", "elapse"],
    ] {
        let said = study.call(arguments);
        assert_eq!(said.code, 2, "{arguments:?}: {}", said.err);
        told.push(format!("{}\n{}", arguments.join(" "), said.err));
    }
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn d29_odd_names_are_shown_by_run_and_check_and_counted_elsewhere() {
    let (study, _slurm) = study();
    study.scan(&["sub-0003/ses_1", "sub-0004/Ses-1", "08/ses-01"]);
    study.ok(&["run"]);
    let notes = |said: &Said| -> String {
        let lines = said.err.lines();
        let notes = lines.filter(|line| line.starts_with("note: "));
        pretty(&study, &notes.collect::<Vec<_>>().join("\n"))
    };
    for command in [&["run"][..], &["run", "--dry-run"]] {
        insta::assert_snapshot!("odd_names", notes(&study.ok(command)));
    }
    for command in ["manifest", "session-status"] {
        insta::assert_snapshot!("odd_names_counted", notes(&study.ok(&[command])));
    }
    let said = study.call(&["check"]);
    assert!(said.out.contains("ses_1"), "{}{}", said.out, said.err);
    for command in [
        &["explain", "0001"][..],
        &["status"],
        &["outputs"],
        &["clean", "--rows", "--older-than", "1d", "--dry-run"],
    ] {
        let said = study.ok(command);
        assert!(!said.err.contains("ses_1"), "{command:?}: {}", said.err);
    }
    let said = study.call(&["explain", "9"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("available: sub-"), "{}", said.err);
    fs::remove_dir_all(study.at("dicom/08")).unwrap();
    let said = study.ok(&["manifest"]);
    insta::assert_snapshot!("odd_names_left", notes(&said));
}

#[test]
fn a_filtered_table_has_no_rows_of_zeros() {
    let (study, slurm) = study();
    let first = |arguments: &[&str]| -> Vec<String> {
        let said = study.ok(arguments);
        let rows = said
            .out
            .lines()
            .skip(1)
            .take_while(|line| !line.trim().is_empty());
        let names = rows.filter_map(|line| line.split_whitespace().next());
        names
            .filter(|name| name.chars().all(char::is_alphabetic))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(first(&["status"]), ["a", "b", "s", "total"]);
    assert_eq!(first(&["status", "--procedure", "a"]), ["a", "total"]);
    assert_eq!(first(&["status", "--subject", "0001"]), ["a", "total"]);
    assert_eq!(first(&["status", "--status", "pending"]), ["a", "total"]);
    assert_eq!(first(&["status", "--since", "2026-01-31"]), ["a", "total"]);
    assert_eq!(first(&["status", "--since", "7d"]), ["a", "total"]);
    // Columns that are asked for stand alone, once and in that order, with UTC for machines.
    let named = ["status", "--columns", "job_id,subject,job_id,submitted_at"];
    let said = study.ok(&[&named[..], &["--format", "csv"]].concat());
    let mut lines = said.out.lines();
    assert_eq!(lines.next(), Some("job_id,subject,submitted_at"));
    assert!(
        lines
            .next()
            .is_some_and(|line| line.starts_with("1001,sub-0001,") && line.ends_with('Z'))
    );
    assert!(!study.ok(&named).out.contains("attempt"));
    let said = study.call(&["status", "--columns", "subjct"]);
    assert!(
        said.code == 2 && said.err.contains("'subject'"),
        "{}",
        said.err
    );
    slurm.set("1001", "FAILED 3:0");
    study.ok(&["monitor", "-q"]);
    let said = study.ok(&["status", "--failed"]);
    assert!(said.out.starts_with("1 failed task\n"), "{}", said.out);
    let said = study.ok(&[
        "status",
        "--failed",
        "--columns",
        "job_id,reason",
        "--format",
        "csv",
    ]);
    assert_eq!(said.out, "job_id,reason\n1001,exit_code\n");
    // What was not selected has neither a row nor a column.
    let said = study.ok(&["session-status", "--procedure", "a"]);
    assert!(!said.out.contains("not-selected"), "{}", said.out);
    let head: Vec<&str> = said
        .out
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(head, ["status", "a", "total"]);
}

#[test]
fn attack_wait_for_tasks_that_were_never_submitted_is_exit_2() {
    let (study, _slurm) = study();
    // Nothing of it is due before its dependency is complete.
    assert_eq!(study.call(&["wait", "--procedure", "b"]).code, 2);
    let study = Study::new();
    study.configure(STEPS);
    study.scan(&["sub-0001/ses-01"]);
    assert_eq!(study.call(&["wait", "--subject", "0001"]).code, 2);
    study.ok(&["wait"]);
}

/// Also before anything is on record.
#[test]
fn attack_names_are_refused_in_a_study_without_rows() {
    let study = Study::new();
    study.configure(STEPS);
    study.scan(&["sub-0001/ses-01"]);
    for command in ["history", "logs"] {
        assert_eq!(study.call(&[command, "0001", "07"]).code, 2, "{command}");
        assert_eq!(study.call(&[command, "99"]).code, 2, "{command}");
    }
    assert_eq!(study.call(&["retry", "--subject", "99"]).code, 2);
    study.ok(&["history", "0001", "01"]);
}

/// The local executor asks Slurm for nothing.
#[test]
fn attack_a_dry_run_shows_no_options_of_slurm_with_the_local_executor() {
    let mut study = Study::new();
    let _slurm = FakeSlurm::new(&mut study);
    for (executor, is_asked) in [("slurm", true), ("local", false)] {
        study.configure(&format!(
            "executor: {executor}\nslurm_partition: p\nslurm_account: ''\nprocedures: [{{name: a, output_dir: a, script: job.sh, mem: 4G}}]\n"
        ));
        study.scan(&["sub-0001/ses-01"]);
        study.script("job.sh", "true");
        let said = study.call(&["run", "--dry-run", "--format", "json"]);
        let rows: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        let resources = rows[0]["resources"].as_str().unwrap_or_default();
        assert_eq!(!resources.is_empty(), is_asked, "{executor}: {resources}");
    }
}
