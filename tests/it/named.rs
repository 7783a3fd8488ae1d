//! Subjects and sessions that are named and are not there, and directories whose names are nearly right.

use std::fs;

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;

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
fn every_command_says_the_same_of_who_is_not_there() {
    let (study, _slurm) = study();
    for (command, code, place) in [
        (&["run"][..], 0, "in the study"),
        (&["run", "--dry-run"], 0, "in the study"),
        (&["manifest"], 0, "in the study"),
        (&["session-status"], 0, "in the study"),
        (&["outputs"], 0, "in the study"),
        (&["audit"], 0, "in the study"),
        (&["status"], 0, "on record"),
        (&["status", "--failed"], 0, "on record"),
        (&["cancel", "--dry-run"], 0, "on record"),
        (&["retry", "--dry-run"], 0, "on record"),
        (&["wait", "--timeout", "1s"], 0, "on record"),
        (&["explain"], 2, "in the study"),
        (&["history"], 0, "on record"),
        (&["logs"], 1, "on record"),
    ] {
        let is_bare = code == 2 || matches!(command[0], "history" | "logs");
        let named = |subject: &'static str, session: &'static str| -> Vec<&str> {
            let words = match (is_bare, session) {
                (true, "") => vec![subject],
                (true, _) => vec![subject, session],
                (false, "") => vec!["--subject", subject],
                (false, _) => vec!["--subject", subject, "--session", session],
            };
            [command, &words].concat()
        };
        for (subject, session, message, hint) in [
            (
                "99",
                "",
                "there is no subject sub-99",
                "session-status` lists",
            ),
            (
                "1",
                "",
                "there is no subject sub-1",
                "did you mean sub-0001?",
            ),
            (
                "0001",
                "07",
                "there is no session ses-07 of sub-0001",
                "its sessions are ses-01",
            ),
        ] {
            let said = study.call(&named(subject, session));
            assert_eq!(said.code, code, "{command:?} {subject}: {}", said.err);
            let message = format!("{message} {place}");
            assert_eq!(
                said.err.matches(&message).count(),
                1,
                "{command:?}: {}",
                said.err
            );
            assert!(said.err.contains(hint), "{command:?}: {}", said.err);
        }
        let said = study.call(&named("0001", "01"));
        assert!(
            !said.err.contains("there is no "),
            "{command:?}: {}",
            said.err
        );
    }
}

#[test]
fn names_that_are_nearly_right_are_told_where_sessions_are_made() {
    let (study, _slurm) = study();
    study.scan(&["sub-0003/ses_1", "sub-0004/Ses-1", "08/ses-01"]);
    let near = "3 directories below ";
    let names = "left alone: 08 (sub-08?), sub-0003/ses_1 (ses-1?), sub-0004/Ses-1 (ses-1?)";
    for command in [
        &["run"][..],
        &["run", "--dry-run"],
        &["manifest"],
        &["session-status"],
    ] {
        let said = study.ok(command);
        assert!(
            said.err.contains(near) && said.err.contains(names),
            "{command:?}: {}",
            said.err
        );
        assert!(
            !said.err.contains("sessionless"),
            "{command:?}: {}",
            said.err
        );
    }
    let said = study.call(&["check"]);
    assert!(
        said.out.contains("ses_1 (ses-1?)"),
        "{}{}",
        said.out,
        said.err
    );
    for command in [
        &["explain", "0001"][..],
        &["status"],
        &["outputs"],
        &["clean", "--rows", "--older-than", "1d", "--dry-run"],
    ] {
        let said = study.ok(command);
        assert!(!said.err.contains("ses_1"), "{command:?}: {}", said.err);
    }
    for (words, hint) in [
        (&["8"][..], "session-status"),
        (
            &["0003"],
            "the directory sub-0003/ses_1 was left alone: rename it, if it is ses-1",
        ),
        (
            &["08"],
            "the directory 08 was left alone: rename it, if it is sub-08",
        ),
    ] {
        let said = study.call(&[&["explain"], words].concat());
        assert_eq!(said.code, 2);
        assert!(said.err.contains(hint), "{}", said.err);
    }
    fs::remove_dir_all(study.at("dicom/08")).unwrap();
    let said = study.ok(&["manifest"]);
    assert!(said.err.contains("2 directories below"), "{}", said.err);
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
    assert_eq!(first(&["status", "--since", "7d"]), ["a", "total"]);
    slurm.set("1001", "FAILED 3:0");
    study.ok(&["monitor", "-q"]);
    assert_eq!(first(&["status", "--failed"]), ["a", "total"]);
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
    assert_eq!(head, ["decision", "a", "total"]);
}
