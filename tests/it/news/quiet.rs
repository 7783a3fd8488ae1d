//! `-q`: nothing at all while nothing changes.

use super::{STEP, study};
use crate::pretty::{messages, pretty};

#[test]
fn a_quiet_call_says_nothing_when_nothing_changes() {
    let (study, slurm) = study(2, "");
    let quiet = |arguments: &[&str]| {
        let said = study.ok(&[arguments, &["-q"]].concat());
        assert_eq!(
            (said.out.as_str(), said.err.as_str()),
            ("", ""),
            "{arguments:?}"
        );
    };
    quiet(&["monitor"]);
    // That a state is begun is said once, to whoever it is.
    assert_eq!(study.ok(&["run", "-q"]).err.lines().count(), 1);
    quiet(&["monitor"]);
    quiet(&["run"]);
    slurm.set_all("RUNNING");
    quiet(&["monitor"]);
    slurm.set_all("FAILED 1:0");
    study.ok(&["run"]);
    quiet(&["run"]);
    quiet(&["retry"]);
    quiet(&["retry"]);
    quiet(&["run"]);
}

/// Whoever watches nothing but the mail of cron hears of failures: once, and each time anew.
#[test]
fn a_quiet_call_says_what_it_is_the_first_to_see_failed() {
    let (study, slurm) = study(3, "");
    let said = |arguments: &[&str]| study.ok(arguments).err;
    assert_eq!(said(&["run", "-q"]).lines().count(), 1, "a state is begun");
    slurm.set("1001", "TIMEOUT");
    slurm.set("1002", "FAILED 3:0");
    let told = |arguments: &[&str]| pretty(&study, &said(arguments));
    insta::assert_snapshot!(told(&["run", "-q"]));
    assert_eq!(said(&["run", "-q"]), "", "nothing has changed since");
    slurm.set("1003", "FAILED 3:0");
    insta::assert_snapshot!(told(&["monitor", "-q"]));
    // The same words again, of another attempt.
    for _ in 0..2 {
        assert_eq!(said(&["retry", "-q"]), "");
        assert_eq!(said(&["run", "-q"]), "");
        slurm.set_all("FAILED 3:0");
        insta::assert_snapshot!("all_have_failed", told(&["run", "-q"]));
    }
}

/// What the retry rules try again concerns nobody until they give up.
#[test]
fn a_quiet_call_is_silent_about_what_is_tried_again() {
    let (study, slurm) = study(1, "");
    let rules = ", retry: {max_attempts: 2, on: {timeout: {}}}}\n";
    study.configure(&STEP.replace("}\n", rules));
    let said = |arguments: &[&str]| study.ok(arguments).err;
    assert_eq!(said(&["run", "-q"]).lines().count(), 1, "a state is begun");
    slurm.set_all("TIMEOUT");
    assert_eq!(said(&["run", "-q"]), "");
    slurm.set_all("TIMEOUT");
    insta::assert_snapshot!(pretty(&study, &said(&["run", "-q"])));
}

#[test]
fn a_standing_warning_is_said_once_and_an_error_each_time() {
    let (study, slurm) = study(2, "");
    study.ok(&["run", "-q"]);
    std::fs::remove_file(study.at("prep.sh")).unwrap();
    study.scan(&["sub-03/ses-01"]);
    // Without the numbers, which are a warning only with `-q`.
    let said = |arguments: &[&str]| {
        let text = messages(&study, &study.call(arguments));
        let lines = text.lines().filter(|line| !line.contains(" refused"));
        lines.collect::<Vec<_>>().join("\n")
    };
    let no_script = said(&["run", "-q"]);
    insta::assert_snapshot!("no_script", no_script);
    assert_eq!(said(&["run", "-q"]), "");
    assert_eq!(said(&["run"]), no_script, "not without -q");
    assert_eq!(said(&["run", "-q"]), "");
    // What is new is said, and only that.
    slurm.set("1001", "PENDING JobHeldUser");
    let held = said(&["run", "-q"]);
    insta::assert_snapshot!("a_held_job", held);
    assert_eq!(said(&["run", "-q"]), "");
    // Each command has its own memory; what was mended and breaks again is new.
    assert_eq!(said(&["monitor", "-q"]), held);
    slurm.set("1001", "PENDING");
    assert_eq!(said(&["run", "-q"]), "");
    slurm.set("1001", "PENDING JobHeldUser");
    assert_eq!(said(&["run", "-q"]), held);
    // After a day it is said again.
    let path = study.at("state.calls.json");
    let mut memory: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (_, at) in memory["warned"]["run"].as_object_mut().unwrap() {
        *at = "2020-01-01T00:00:00Z".into();
    }
    std::fs::write(&path, memory.to_string()).unwrap();
    assert_eq!(said(&["run", "-q"]), format!("{held}\n{no_script}"));
    assert_eq!(said(&["run", "-q"]), "");

    slurm.break_program("squeue", "no answer");
    for _ in 0..3 {
        let told = study.call(&["run", "-q"]);
        assert_eq!(told.code, 5);
        insta::assert_snapshot!("a_silent_queue", messages(&study, &told));
    }
}

/// Warnings of the configuration are known only after it is read.
#[test]
fn warnings_of_the_configuration_are_no_exception() {
    let (study, _slurm) = study(1, "settle_time: 1s\n");
    let said = |arguments: &[&str]| study.ok(arguments).err;
    let is_short = |text: &str| {
        text.lines()
            .any(|line| line.starts_with("warning: ") && line.contains("settle_time"))
    };
    assert!(is_short(&said(&["run", "-q"])));
    assert_eq!(said(&["run", "-q"]), "");
    assert!(is_short(&said(&["run"])));
    study.write("config.yaml", "notifi: 1\n");
    let said = study.call(&["run", "-q"]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!(messages(&study, &said));
}
