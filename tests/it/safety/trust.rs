//! The safety stop where complete tasks are trusted for a while (`recheck`).

use std::path::PathBuf;

use super::*;
use crate::harness::quiet_period;

/// Twenty sessions that a run with `recheck` has seen complete.
fn trusted() -> Complete {
    let world = Complete::new(true);
    world
        .study
        .configure(&format!("recheck: {}\n{PIPELINE}", quiet_period()));
    world.study.write("derivatives/README", "x");
    world.goes_on(&["run"], 0);
    world
}

fn files(world: &Complete) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files = world.study.snapshot();
    files.retain(|(path, _)| !path.ends_with("fake-slurm/calls"));
    files
}

#[test]
fn a_directory_of_results_that_is_gone_stops_the_next_run() {
    for recheck in [true, false] {
        let world = match recheck {
            true => trusted(),
            false => Complete::new(true),
        };
        world.study.write("derivatives/README", "x");
        fs::rename(world.study.at("derivatives/prep"), world.study.at("away")).unwrap();
        let expected =
            "20 of 20 complete tasks of prep have lost their outputs (more than max_drop, 10%)";
        world.stops(expected);
        // An empty mount point.
        fs::create_dir(world.study.at("derivatives/prep")).unwrap();
        assert!(world.study.call(&["run"]).err.contains(expected));
        fs::remove_dir(world.study.at("derivatives/prep")).unwrap();
        fs::rename(world.study.at("away"), world.study.at("derivatives/prep")).unwrap();
        world.goes_on(&["run"], 0);
    }
}

#[test]
fn losses_are_seen_at_the_next_look_and_count_until_they_are_dealt_with() {
    let world = trusted();
    let before = files(&world);
    world.goes_on(&["run"], 0);
    assert!(files(&world) == before, "a run without news writes nothing");
    world.lose("derivatives/prep", 12);
    world.goes_on(&["run"], 0);
    let lost = "12 of 20 complete tasks of prep have lost their outputs (more than max_drop, 10%)";
    for command in ["manifest", "session-status", "graph", "audit"] {
        let said = world.study.ok(&[command]);
        assert!(!said.err.contains(lost), "{command}: {}", said.err);
        let said = world.study.call(&[command, "--recheck"]);
        assert!(said.err.contains(lost), "{command}: {}", said.err);
    }
    assert_eq!(world.study.call(&["run", "--recheck"]).code, 6);
    // What stopped a run is not forgotten by the next one.
    assert!(world.study.call(&["run"]).err.contains(lost));
    world.goes_on(&["run", "--accept-drop", "--max-jobs", "5"], 5);
    world.goes_on(&["run", "--max-jobs", "4"], 4);
    world.goes_on(&["run"], 3);
}

#[test]
fn other_rules_and_other_rows_are_looked_at() {
    let world = trusted();
    let period = quiet_period();
    world.lose("derivatives/prep", 12);
    world.study.configure(&format!(
        "recheck: {period}\n{}",
        PIPELINE.replace("report.html", "'*.html'")
    ));
    world.stops("the completion rule of prep was changed in the configuration, and 12 of 20 complete tasks do not satisfy the new rule");

    let world = trusted();
    world.lose("derivatives/prep", 4);
    // A run for some looks where it submits, and marks nothing as looked at.
    world.goes_on(&["run", "--subject", "00"], 0);
    world.goes_on(&["run", "--subject", "00", "--recheck"], 2);
    world.goes_on(&["run", "--recheck", "--dry-run"], 0);
    world.goes_on(&["run"], 0);
    world.goes_on(&["run", "--recheck"], 2);
}

#[test]
fn explain_says_when_outputs_were_and_will_be_looked_at() {
    let world = trusted();
    let explain = |more: &[&str]| {
        let words = [&["explain", "00", "0", "prep"], more].concat();
        world.study.ok(&words).out
    };
    let text = explain(&[]);
    assert!(
        text.contains("complete; outputs last checked at 20"),
        "{text}"
    );
    assert!(text.contains("nothing; its outputs are complete"), "{text}");
    world.lose("derivatives/prep", 1);
    let text = explain(&[]);
    assert!(
        text.contains("complete; outputs last checked at 20"),
        "{text}"
    );
    assert!(
        text.contains("To check now: snbb-scheduler run --recheck"),
        "{text}"
    );
    let text = explain(&["--recheck"]);
    assert!(text.starts_with("prep sub-00 ses-0: due"), "{text}");
}

#[test]
fn late_input_of_trusted_tasks_is_reported_where_a_run_does_not_look() {
    let world = trusted();
    let stale = || {
        world
            .study
            .ok(&["session-status"])
            .out
            .matches("stale")
            .count()
    };
    assert_eq!(stale(), 0);
    world.study.write("dicom/sub-00/ses-0/late.dcm", "x");
    assert_eq!(stale(), 1);
    world.goes_on(&["run"], 0);
    assert_eq!(stale(), 1, "a run has not taken it for looked at");
}

/// Nobody looks at excluded sessions, so no run has seen their outputs.
#[test]
fn attack_sessions_that_were_excluded_are_looked_at_when_they_come_back() {
    let world = trusted();
    let included = world.study.read("config.yaml");
    world
        .study
        .write("config.yaml", &format!("exclude: ['*']\n{included}"));
    world.goes_on(&["run"], 0);
    world.lose("derivatives/prep", 12);
    world.goes_on(&["run"], 0);
    world.study.write("config.yaml", &included);
    world
        .stops("12 of 20 complete tasks of prep have lost their outputs (more than max_drop, 10%)");
}
