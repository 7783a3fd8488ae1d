//! The safety stop through the program: each reason to stop, its line, its exit code, the way out.

mod losses;
mod trust;

use std::fs;
use std::path::Path;

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;
use crate::pretty::{pretty, problems};

const PIPELINE: &str = "slurm_partition: normal
output_grace: 0s
procedures:
  - {name: convert, output_dir: '', script: s.sh, completion_marker: anat/T1w.nii.gz}
  - {name: prep, output_dir: prep, script: s.sh, depends_on: [convert], completion_marker: report.html}
";

/// Twenty sessions of which everything is complete and known to be.
struct Complete {
    study: Study,
    slurm: FakeSlurm,
}

fn sessions() -> impl Iterator<Item = String> {
    (0..20).map(|n| format!("sub-{:02}/ses-{}", n / 2, n % 2))
}

impl Complete {
    /// `by_us`: by jobs of this program, else from the beginning.
    fn new(by_us: bool) -> Self {
        let mut study = Study::new();
        let slurm = FakeSlurm::new(&mut study);
        study.configure(PIPELINE);
        study.script("s.sh", "true");
        for session in sessions() {
            study.scan(&[&session]);
            if !by_us {
                convert(&study, &session);
                prep(&study, &session);
            }
        }
        if by_us {
            study.ok(&["run"]);
            sessions().for_each(|session| convert(&study, &session));
            slurm.set_all("COMPLETED");
            study.ok(&["run"]);
            sessions().for_each(|session| prep(&study, &session));
            slurm.set_all("COMPLETED");
        }
        let said = study.ok(&["run"]);
        assert!(said.err.contains("40 complete, 0 due"), "{}", said.err);
        Self { study, slurm }
    }

    fn remove(&self, path: &str) {
        fs::remove_dir_all(self.study.at(path)).unwrap();
    }

    /// Takes the outputs of the first `n` sessions away.
    fn lose(&self, root: &str, n: usize) {
        for session in sessions().take(n) {
            self.remove(&format!("{root}/{session}"));
        }
    }

    fn submitted(&self) -> usize {
        self.slurm.jobs().len()
    }

    /// Calls `run` twice and `run --dry-run`, which must stop for the reason of this snapshot and submit nothing.
    fn stops(&self, reason: &str) {
        let (before, events) = (self.submitted(), self.stop_events());
        let files = self.study.snapshot();
        let dry = self.study.call(&["run", "--dry-run"]);
        assert!(
            dry.code == 6 && dry.out.is_empty(),
            "{}{}",
            dry.out,
            dry.err
        );
        let queries = |path: &Path| path.ends_with("fake-slurm/calls");
        let differ = |before: &[(std::path::PathBuf, Vec<u8>)]| {
            let now = self.study.snapshot();
            let changed = now.iter().zip(before).filter(|(a, b)| a != b);
            changed
                .map(|(a, _)| a.0.clone())
                .filter(|path| !queries(path))
                .collect::<Vec<_>>()
        };
        assert!(
            differ(&files).is_empty(),
            "a dry run writes nothing: {:?}",
            differ(&files)
        );
        let said = self.study.call(&["run"]);
        assert_eq!(said.code, 6, "{}", said.err);
        insta::assert_snapshot!(reason, problems(&self.study, &said.err));
        insta::assert_snapshot!(reason, problems(&self.study, &dry.err));
        let files = self.study.snapshot();
        assert_eq!(self.study.call(&["run"]).code, 6, "the baseline stays");
        assert!(
            differ(&files).is_empty(),
            "nothing new: {:?}",
            differ(&files)
        );
        assert_eq!(self.submitted(), before);
        assert_eq!(self.stop_events(), events + 1, "told once");
        assert!(self.is_stopped());
    }

    fn goes_on(&self, arguments: &[&str], submitted: usize) {
        let before = self.submitted();
        let said = self.study.ok(arguments);
        assert_eq!(self.submitted() - before, submitted, "{}", said.err);
        assert!(!self.is_stopped(), "{}", said.err);
    }

    /// Whether the last run was a safety stop.
    fn is_stopped(&self) -> bool {
        let metrics = self.study.ok(&["metrics"]).out;
        let mut lines = metrics.lines();
        let line = lines.find(|line| line.starts_with("snbb_scheduler_safety_stop{"));
        line.unwrap().ends_with(" 1")
    }

    fn stop_events(&self) -> usize {
        let log = fs::read_to_string(self.study.at("scheduler_audit.jsonl")).unwrap_or_default();
        log.lines()
            .filter(|line| line.contains("\"event\": \"safety_stop\""))
            .count()
    }
}

/// Replaces the free space of this machine.
fn without_sizes(text: &str) -> String {
    let sizes = regex::Regex::new(r"\d+(\.\d+)? ?[KMGTP]?i?B? free").unwrap();
    sizes.replace_all(text, "[size] free").into_owned()
}

fn convert(study: &Study, session: &str) {
    study.write(&format!("bids/{session}/anat/T1w.nii.gz"), "x");
}

fn prep(study: &Study, session: &str) {
    study.write(&format!("derivatives/prep/{session}/report.html"), "x");
}

#[test]
fn sessions_that_vanish_stop_a_run() {
    let world = Complete::new(true);
    world.lose("dicom", 4);
    world.goes_on(&["run"], 0);
    world.remove("dicom/sub-05");
    world.stops("stop_14_of_20_sessions");
    let status = world.study.ok(&["status"]).err;
    insta::assert_snapshot!("stop_in_status", problems(&world.study, &status));
    for command in ["manifest", "session-status"] {
        let said = world.study.ok(&[command]);
        insta::assert_snapshot!("stop_in_lists", problems(&world.study, &said.err));
    }
    let events = world.stop_events();
    world.goes_on(&["run", "--accept-drop"], 0);
    assert_eq!(world.stop_events(), events + 1, "that it was accepted");
    world.goes_on(&["run"], 0);
    // The new number is the one that counts now.
    world.study.scan(&["sub-70/ses-1", "sub-71/ses-1"]);
    world.goes_on(&["run"], 2);
    world.remove("dicom/sub-06");
    world.remove("dicom/sub-07");
    world.remove("dicom/sub-70");
    world.stops("stop_11_of_16_sessions");
}

#[test]
fn outputs_that_vanish_stop_a_run_whoever_made_them() {
    for by_us in [true, false] {
        let world = Complete::new(by_us);
        world.lose("derivatives/prep", 4);
        world.goes_on(&["run"], 4);
        for session in sessions().take(4) {
            prep(&world.study, &session);
        }
        world.slurm.set_all("COMPLETED");
        world.goes_on(&["run"], 0);
        world.lose("derivatives/prep", 12);
        world.stops("stop_12_of_20_of_prep");
        // Outputs that are there again are no loss.
        for session in sessions().take(12) {
            prep(&world.study, &session);
        }
        world.goes_on(&["run"], 0);
        world.lose("derivatives/prep", 12);
        world.stops("stop_12_of_20_of_prep");
        world.goes_on(&["run", "--accept-drop", "--max-jobs", "5"], 5);
        // What was accepted is no alarm while it waits for its turn.
        world.goes_on(&["run", "--max-jobs", "4"], 4);
        world.goes_on(&["run"], 3);
        world.lose("bids", 0);
    }
}

#[test]
fn a_step_whose_inputs_vanish_is_named_and_the_ones_after_it_wait() {
    let world = Complete::new(true);
    world.lose("bids", 10);
    world.stops("stop_10_of_20_of_convert");
    // Only a part of the study is asked for: the rule is the same.
    let said = world.study.call(&["run", "--subject", "0[0-1]"]);
    assert_eq!(said.code, 0, "four are no alarm: {}", said.err);
}

#[test]
fn a_changed_configuration_is_named_and_harmless_changes_are_none() {
    let world = Complete::new(true);
    let changed = PIPELINE.replace("report.html", "other.html");
    world.study.configure(&changed);
    world.stops("stop_20_of_20_by_rule");
    world
        .study
        .configure(&PIPELINE.replace("depends_on", "cpus_per_task: 2, depends_on"));
    world.goes_on(&["run"], 0);
    // Without the second step, and with most sessions excluded.
    let first = PIPELINE.lines().take(4).collect::<Vec<_>>().join("\n");
    world
        .study
        .configure(&format!("exclude: ['0[0-8]']\n{first}\n"));
    world.goes_on(&["run"], 0);
    world.study.configure(PIPELINE);
    world.goes_on(&["run"], 0);
    // Another root.
    fs::rename(world.study.at("derivatives"), world.study.at("old")).unwrap();
    world.study.write("derivatives/README", "x");
    world.stops("stop_20_of_20_of_prep");
}

#[test]
fn the_limit_is_the_sites() {
    let world = Complete::new(false);
    world.lose("derivatives/prep", 9);
    for (limit, code) in [("40%", 6), ("45%", 0)] {
        world
            .study
            .configure(&format!("safety: {{max_drop: {limit}}}\n{PIPELINE}"));
        assert_eq!(
            world.study.call(&["run", "--max-jobs", "0"]).code,
            code,
            "{limit}"
        );
    }
}

#[test]
fn a_directory_that_cannot_be_read_is_no_drop() {
    // Tests run as root, which reads everything; a name that is too long is an error for all.
    let world = Complete::new(true);
    for n in 0..5 {
        let path = world.study.at(&format!("dicom/sub-0{n}"));
        fs::remove_dir_all(&path).unwrap();
        std::os::unix::fs::symlink("y".repeat(300), &path).unwrap();
    }
    let said = world.study.call(&["run"]);
    assert_eq!(said.code, 7, "{}", said.err);
    assert!(!world.is_stopped(), "{}", said.err);
}

#[test]
fn no_room_stops_a_run_and_has_its_own_way_out() {
    let world = Complete::new(true);
    world.study.scan(&["sub-99/ses-1"]);
    world
        .study
        .configure(&format!("safety: {{min_free: 9999T}}\n{PIPELINE}"));
    for arguments in [
        &["run"][..],
        &["run", "--accept-drop"],
        &["run", "--dry-run"],
    ] {
        let said = world.study.call(arguments);
        assert_eq!(said.code, 6, "{}", said.err);
        let told = problems(&world.study, &said.err);
        insta::assert_snapshot!("stop_no_space", without_sizes(&told));
    }
    assert_eq!(world.stop_events(), 1, "free bytes change at each look");
    for looking in ["manifest", "session-status", "outputs"] {
        let said = world.study.call(&[looking]);
        assert_eq!(said.code, 0, "{}", said.err);
        let told = problems(&world.study, &said.err);
        insta::assert_snapshot!("stop_no_space_in_lists", without_sizes(&told));
    }
    world
        .study
        .configure(&format!("safety: {{min_free: 0}}\n{PIPELINE}"));
    world.goes_on(&["run"], 1);
}

#[test]
fn what_commands_show_without_a_root_is_partial() {
    let world = Complete::new(true);
    world.goes_on(&["run"], 0);
    fs::rename(world.study.at("derivatives"), world.study.at("away")).unwrap();
    for command in ["manifest", "session-status", "graph", "outputs", "audit"] {
        let said = world.study.call(&[command]);
        assert_eq!(said.code, 7, "{command}: {}", said.err);
    }
    let report = world.study.call(&["audit", "--format", "json"]).out;
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["unreadable"].as_array().unwrap().len(), 1);
}

#[test]
fn a_root_that_was_emptied_on_purpose_is_accepted_until_it_is_filled_again() {
    let world = Complete::new(true);
    let path = world.study.at("derivatives");
    world.remove("derivatives/prep");
    world.stops("stop_root_is_empty");
    world.goes_on(&["run", "--accept-drop", "--max-jobs", "2"], 2);
    world.goes_on(&["run"], 18);
    for session in sessions() {
        prep(&world.study, &session);
    }
    world.slurm.set_all("COMPLETED");
    world.goes_on(&["run"], 0);
    world.remove("derivatives/prep");
    world.stops("stop_root_is_empty");
    fs::remove_dir(&path).unwrap();
    let said = world.study.call(&["run"]);
    assert_eq!(said.code, 6, "{}", said.err);
    insta::assert_snapshot!("stop_root_is_missing", problems(&world.study, &said.err));
}

#[test]
fn a_job_that_ends_while_a_root_is_gone_is_not_blamed() {
    let world = Complete::new(true);
    world.study.scan(&["sub-98/ses-1", "sub-99/ses-1"]);
    world.goes_on(&["run"], 2);
    let ids: Vec<String> = world.slurm.jobs().into_iter().map(|(id, _)| id).collect();
    world.slurm.set(&ids[40], "COMPLETED");
    world.slurm.set(&ids[41], "TIMEOUT");
    let away = world.study.at("away");
    fs::rename(world.study.at("bids"), &away).unwrap();
    fs::create_dir(world.study.at("bids")).unwrap();
    let ends = |world: &Complete| -> Vec<String> {
        let mut rows = world.study.statuses();
        rows.retain(|row| row.contains("sub-9"));
        rows
    };
    for command in ["monitor", "run", "monitor", "run"] {
        let said = world.study.call(&[command]);
        assert_eq!(
            said.code,
            if command == "run" { 6 } else { 0 },
            "{}",
            said.err
        );
        assert!(
            problems(&world.study, &said.err).contains("bids_root"),
            "{}",
            said.err
        );
        let ends = ends(&world);
        assert!(
            ends[0].contains("running"),
            "its outputs cannot be seen: {ends:?}"
        );
        assert_eq!(
            ends[1], "convert sub-99 ses-1: failed timeout",
            "the end is saved"
        );
    }
    fs::remove_dir(world.study.at("bids")).unwrap();
    fs::rename(&away, world.study.at("bids")).unwrap();
    convert(&world.study, "sub-98/ses-1");
    world.study.ok(&["monitor"]);
    assert_eq!(ends(&world)[0], "convert sub-98 ses-1: complete verified");
}

#[test]
fn the_ends_of_jobs_are_saved_although_the_run_stops() {
    let world = Complete::new(true);
    world.study.scan(&["sub-99/ses-1"]);
    world.goes_on(&["run"], 1);
    world
        .slurm
        .set(&world.slurm.jobs()[40].0.clone(), "OUT_OF_MEMORY");
    world.lose("derivatives/prep", 10);
    assert_eq!(world.study.call(&["run"]).code, 6);
    let mut rows = world.study.statuses();
    rows.retain(|row| row.starts_with("convert sub-99"));
    assert_eq!(rows, ["convert sub-99 ses-1: failed out_of_memory"]);
}

#[test]
fn a_state_without_a_baseline_is_judged_by_its_rows() {
    let world = Complete::new(true);
    // As if the Python program or pandas had written it, or a repair had made it of the audit log.
    fs::remove_file(world.study.at("state.parquet")).unwrap();
    let _ = fs::remove_file(world.study.at("state.parquet.bak"));
    world.study.ok(&["state", "repair", "--yes"]);
    let away = world.study.at("away");
    fs::rename(world.study.at("dicom/sub-03"), &away).unwrap();
    world.lose("dicom", 4);
    let said = world.study.call(&["run"]);
    assert_eq!(said.code, 6, "{}", said.err);
    insta::assert_snapshot!("stop_14_of_20_sessions", problems(&world.study, &said.err));
    fs::rename(&away, world.study.at("dicom/sub-03")).unwrap();
    world.study.ok(&["run"]);
    world.lose("derivatives/prep", 10);
    world.stops("stop_6_of_20_of_prep");
}

#[test]
fn accepting_is_for_the_whole_study() {
    let study = Study::new();
    let said = study.call(&["run", "--accept-drop", "--subject", "01"]);
    assert_eq!(said.code, 2, "{}", said.err);
}
