//! Nights on which summer time begins or ends, and clocks that step: the same decisions as in UTC.
//!
//! The program and the fakes run with a clock of their own (libfaketime), which files' times follow too.

use std::fs;
use std::path::Path;
use std::process::Command;

use chrono::DateTime;

use super::{calls, spy};
use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;

/// Zones and the moment (UTC, epoch seconds) at which their clocks change.
const NIGHTS: [(&str, i64); 7] = [
    ("UTC", 1_792_890_000),
    // 2026-10-25 and 2027-03-28, 01:00 UTC
    ("Europe/Berlin", 1_792_890_000),
    ("Europe/Berlin", 1_806_195_600),
    // 2026-11-01 06:00 UTC and 2027-03-14 07:00 UTC
    ("America/New_York", 1_793_512_800),
    ("America/New_York", 1_805_007_600),
    // Half an hour: 2026-10-03 15:30 UTC and 2027-04-03 15:00 UTC
    ("Australia/Lord_Howe", 1_791_041_400),
    ("Australia/Lord_Howe", 1_806_764_400),
];

/// What a night looked like.
#[derive(Debug, PartialEq)]
struct Night {
    statuses: Vec<Vec<String>>,
    codes: Vec<i32>,
    /// Calls of sbatch.
    submitted: usize,
}

fn library() -> Option<&'static str> {
    let places = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
        "/usr/lib/faketime/libfaketime.so.1",
        "/usr/lib64/faketime/libfaketime.so.1",
    ];
    let found = places.into_iter().find(|place| Path::new(place).exists());
    if found.is_none() {
        eprintln!("SKIPPED: libfaketime is not installed");
    }
    found
}

/// Runs the program some minutes before and after a change of the clocks. `step` seconds are added to this
/// host's clock (and its files' times) after the submission.
fn tell(library: &str, zone: &str, change: i64, step: i64) -> Night {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    spy(&mut study);
    study.configure(
        "project: p\nprocedures:\n\
         - {name: a, output_dir: a, script: a.sh, completion_marker: done}\n\
         - {name: b, output_dir: b, script: b.sh, depends_on: [a], completion_marker: done}\n",
    );
    study.script("a.sh", "true");
    study.script("b.sh", "true");
    study.scan(&["sub-01/ses-01", "sub-02/ses-01", "sub-03/ses-01"]);
    let now = snbb_scheduler::base::sys::now().timestamp();
    let mut night = Night {
        statuses: Vec::new(),
        codes: Vec::new(),
        submitted: 0,
    };
    let mut call = |at: i64, arguments: &[&str]| {
        let output = study
            .program()
            .env("TZ", zone)
            .env("LD_PRELOAD", library)
            .env("FAKETIME", format!("{:+}", change + at - now))
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!said.contains("panicked"), "{said}");
        night.codes.push(output.status.code().unwrap());
        night.statuses.push(study.statuses());
    };
    call(-20 * 60, &["run"]);
    call(-60, &["monitor"]);
    for (job, name) in slurm.jobs() {
        let state = match name.as_str() {
            "a_sub-01_ses-01" => "COMPLETED",
            "a_sub-02_ses-01" => "FAILED 3:0",
            _ => "RUNNING",
        };
        slurm.set(&job, state);
    }
    study.write("derivatives/a/sub-01/ses-01/done", "");
    call(step + 60, &["monitor"]);
    call(step + 70 * 60, &["run"]);
    night.submitted = slurm.calls("sbatch");
    // What is stored is UTC, and what sacct is asked covers the time since the submission.
    for row in study.rows().iter().filter(|row| row["procedure"] == "a") {
        let text = row["submitted_at"].as_str().unwrap();
        let stored = DateTime::parse_from_rfc3339(text).unwrap().timestamp();
        let submitted = change - 20 * 60;
        assert!(
            (stored - submitted).abs() < 120,
            "{zone}: {text} for {submitted}"
        );
    }
    let mut asked = 0;
    for (arguments, _) in calls(&study) {
        let Some((_, rest)) = arguments.split_once("--starttime=") else {
            continue;
        };
        asked += 1;
        let text = rest.split(' ').next().unwrap();
        let since = epoch(zone, text);
        let submitted = change - 20 * 60;
        assert!(
            (submitted - 26 * 3600..=submitted - 22 * 3600).contains(&since),
            "{zone}: {text} is {since}, for a submission at {submitted}"
        );
    }
    assert!(asked >= 3, "{zone}: sacct was asked {asked} times");
    night
}

/// Reads a local time as the system does.
fn epoch(zone: &str, local: &str) -> i64 {
    let output = Command::new("date")
        .env("TZ", zone)
        .args(["-d", local, "+%s"])
        .output()
        .unwrap();
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

#[test]
fn nights_and_steps_of_the_clock_change_no_decision() {
    let Some(library) = library() else { return };
    if fs::metadata("/usr/share/zoneinfo/Australia/Lord_Howe").is_err() {
        eprintln!("SKIPPED: there are no time zones");
        return;
    }
    let plain = tell(library, "UTC", NIGHTS[0].1, 0);
    assert_eq!(plain.submitted, 4);
    assert_eq!(
        plain.statuses.last().unwrap(),
        &[
            "a sub-01 ses-01: complete verified",
            "a sub-02 ses-01: failed exit_code",
            "a sub-03 ses-01: running running",
            "b sub-01 ses-01: pending queued",
        ]
    );
    let long = snbb_scheduler::base::sys::env("SNBB_TEST_LONG").is_some();
    for (place, (zone, change)) in NIGHTS.into_iter().enumerate() {
        for step in [0, -3600, 3600] {
            // Steps are told on two nights, and in the long run on all.
            if step == 0 || long || place < 2 {
                let night = tell(library, zone, change, step);
                assert_eq!(night, plain, "{zone}, {change}, a step of {step} s");
            }
        }
    }
}

/// A site's wrapper may drop `SLURM_TIME_FORMAT`: then times are local, and one night has an hour twice.
#[test]
fn local_times_of_a_wrapper_are_understood_in_the_hour_that_comes_twice() {
    let Some(library) = library() else { return };
    let (zone, change) = NIGHTS[1];
    if fs::metadata(format!("/usr/share/zoneinfo/{zone}")).is_err() {
        eprintln!("SKIPPED: there are no time zones");
        return;
    }
    for minutes in [-50, -10, 10, 50, 70] {
        let mut study = Study::new();
        let slurm = FakeSlurm::new(&mut study);
        for program in ["sbatch", "squeue", "sacct"] {
            let path = slurm.at("bin").join(program);
            let text = fs::read_to_string(&path).unwrap();
            assert!(text.contains("date +%s"));
            fs::write(path, text.replace("date +%s", "date +%Y-%m-%dT%H:%M:%S")).unwrap();
        }
        study.configure("project: p\nprocedures:\n- {name: a, output_dir: a, script: a.sh}\n");
        study.script("a.sh", "true");
        study.scan(&["sub-01/ses-01", "sub-02/ses-01"]);
        let now = snbb_scheduler::base::sys::now().timestamp();
        let call = |at: i64, arguments: &[&str]| {
            let output = study
                .program()
                .env("TZ", zone)
                .env("LD_PRELOAD", library)
                .env("FAKETIME", format!("{:+}", change + at * 60 - now))
                .args(arguments)
                .output()
                .unwrap();
            assert_eq!(output.status.code(), Some(0), "{output:?}");
        };
        call(minutes, &["run"]);
        for (job, name) in slurm.jobs() {
            let is_first = name == "a_sub-01_ses-01";
            slurm.set(&job, if is_first { "FAILED 3:0" } else { "RUNNING" });
        }
        call(minutes + 5, &["monitor"]);
        assert_eq!(
            study.statuses(),
            [
                "a sub-01 ses-01: failed exit_code",
                "a sub-02 ses-01: running running"
            ],
            "{minutes} min after the change"
        );
    }
}
