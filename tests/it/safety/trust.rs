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
        world.stops("stop_20_of_20_of_prep");
        // An empty mount point.
        fs::create_dir(world.study.at("derivatives/prep")).unwrap();
        assert_eq!(world.study.call(&["run"]).code, 6);
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
    for command in ["manifest", "session-status", "graph", "audit"] {
        let said = world.study.ok(&[command]);
        assert_eq!(problems(&world.study, &said.err), "", "{command}");
        let said = world.study.call(&[command, "--recheck"]);
        insta::assert_snapshot!("stop_at_recheck", problems(&world.study, &said.err));
    }
    assert_eq!(world.study.call(&["run", "--recheck"]).code, 6);
    // What stopped a run is not forgotten by the next one.
    assert_eq!(world.study.call(&["run"]).code, 6);
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
    world.stops("stop_12_of_20_by_rule");

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
    let first_lines = |text: &str| {
        let lines: Vec<&str> = text.lines().take(3).collect();
        pretty(&world.study, &lines.join("\n"))
    };
    insta::assert_snapshot!("trusted", first_lines(&explain(&[])));
    world.lose("derivatives/prep", 1);
    insta::assert_snapshot!("trusted_and_lost", first_lines(&explain(&[])));
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
    world.stops("stop_12_of_20_of_prep");
}
