//! `-q`: nothing at all while nothing changes.

use super::{STEP, study};

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
    assert!(study.ok(&["run", "-q"]).err.contains("starting a new one"));
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
    let first = said(&["run", "-q"]);
    let lines: Vec<&str> = first.lines().collect();
    assert_eq!(lines.len(), 2, "{first}");
    assert!(
        lines[0].starts_with(
            "warning: 2 tasks have failed: 1 of prep (exit_code), 1 of prep (timeout); the first, prep sub-01 ses-01: "
        ),
        "{first}"
    );
    assert!(
        lines[1].starts_with("hint: `snbb-scheduler status --failed`"),
        "{first}"
    );
    assert_eq!(said(&["run", "-q"]), "", "nothing has changed since");
    slurm.set("1003", "FAILED 3:0");
    let second = said(&["monitor", "-q"]);
    assert!(
        second.contains("1 task has failed: 1 of prep (exit_code)"),
        "{second}"
    );
    // The same words again, of another attempt.
    assert_eq!(said(&["retry", "-q"]), "");
    assert_eq!(said(&["run", "-q"]), "");
    slurm.set_all("FAILED 3:0");
    assert!(said(&["run", "-q"]).contains("3 tasks have failed: 3 of prep (exit_code)"));
    assert_eq!(said(&["retry", "-q"]), "");
    assert_eq!(said(&["run", "-q"]), "");
    slurm.set_all("FAILED 3:0");
    assert!(said(&["run", "-q"]).contains("3 tasks have failed: 3 of prep (exit_code)"));
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
    assert!(said(&["run", "-q"]).contains("1 of prep (timeout)"));
}

#[test]
fn a_standing_warning_is_said_once_and_an_error_each_time() {
    let (study, slurm) = study(2, "");
    study.ok(&["run", "-q"]);
    std::fs::remove_file(study.at("prep.sh")).unwrap();
    study.scan(&["sub-03/ses-01"]);
    let said = |arguments: &[&str]| study.call(arguments).err;
    let first = said(&["run", "-q"]);
    assert!(
        first.contains("warning: prep: ") && first.contains("hint: "),
        "{first}"
    );
    assert_eq!(said(&["run", "-q"]), "");
    assert!(said(&["run"]).contains("warning: prep: "), "not without -q");
    assert_eq!(said(&["run", "-q"]), "");
    // What is new is said, and only that.
    slurm.set("1001", "PENDING JobHeldUser");
    let held = said(&["run", "-q"]);
    assert!(
        held.contains("will not start unless someone intervenes"),
        "{held}"
    );
    assert!(!held.contains("prep.sh"), "{held}");
    assert_eq!(said(&["run", "-q"]), "");
    // Each command has its own memory; what was mended and breaks again is new.
    assert!(said(&["monitor", "-q"]).contains("will not start unless someone intervenes"));
    slurm.set("1001", "PENDING");
    assert_eq!(said(&["run", "-q"]), "");
    slurm.set("1001", "PENDING JobHeldUser");
    assert!(said(&["run", "-q"]).contains("will not start unless someone intervenes"));
    // After a day it is said again.
    let path = study.at("state.calls.json");
    let mut memory: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    for (_, at) in memory["warned"]["run"].as_object_mut().unwrap() {
        *at = "2020-01-01T00:00:00Z".into();
    }
    std::fs::write(&path, memory.to_string()).unwrap();
    assert!(said(&["run", "-q"]).contains("prep.sh"));
    assert_eq!(said(&["run", "-q"]), "");

    slurm.break_program("squeue", "no answer");
    for _ in 0..3 {
        assert!(said(&["run", "-q"]).contains("error: the queue is not responding"));
    }
}

/// Warnings of the configuration are known only after it is read.
#[test]
fn warnings_of_the_configuration_are_no_exception() {
    let (study, _slurm) = study(1, "settle_time: 1s\n");
    let said = |arguments: &[&str]| study.ok(arguments).err;
    assert!(said(&["run", "-q"]).contains("shorter than 30s"));
    assert_eq!(said(&["run", "-q"]), "");
    assert!(said(&["run"]).contains("shorter than 30s"));
    study.write("config.yaml", "notifi: 1\n");
    let said = study.call(&["run", "-q"]);
    assert_eq!(said.code, 2);
    assert!(said.err.contains("unknown key"), "{}", said.err);
}
