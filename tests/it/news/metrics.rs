//! The heartbeat and the figures for Prometheus, as other programs read them.
#![expect(
    clippy::disallowed_methods,
    reason = "lists what is left in a directory"
)]

use std::collections::BTreeMap;
use std::fs;

use serde_json::Value;

use super::{has, study};
use crate::harness::Study;
use crate::pretty::messages;
use crate::python::{python, run};

const KEYS: &str =
    "project: news\nmetrics_file: out/snbb.prom\nheartbeat_file: out/heartbeat.json\n";

/// Reads samples of a file by name and labels, as `tasks{procedure="prep",status="failed"}`.
fn samples(text: &str) -> BTreeMap<String, f64> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let name = name.strip_prefix("snbb_scheduler_").unwrap();
            let (family, labels) = name.split_once("{project=\"").unwrap();
            let (_, labels) = labels.split_once('"').unwrap();
            let name = match labels.strip_prefix(',') {
                Some(labels) => format!("{family}{{{labels}"),
                None => family.to_owned(),
            };
            (name, value.parse().unwrap())
        })
        .collect()
}

fn written(study: &Study) -> BTreeMap<String, f64> {
    samples(&study.read("out/snbb.prom"))
}

#[test]
fn d7_two_studies_share_no_series() {
    let series = |project: &str| -> std::collections::BTreeSet<String> {
        let (study, _slurm) = study(1, &format!("project: {project}\n"));
        study.ok(&["run", "-q"]);
        let text = study.ok(&["metrics"]).out;
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| line.rsplit_once(' ').unwrap().0.to_owned())
            .collect()
    };
    let (one, other) = (series("one"), series("other"));
    assert!(
        one.iter().all(|name| name.contains("{project=\"one\"")),
        "{one:?}"
    );
    assert!(one.is_disjoint(&other));
}

#[test]
fn d27_the_subject_of_a_message_has_a_name_of_its_own() {
    let (study, slurm) = study(1, "");
    study.script("keep.sh", "cat > /dev/null; echo \"$SNBB_MESSAGE_SUBJECT|$SNBB_SUBJECT\" > \"$(dirname \"$0\")/said\"");
    study.ok(&["run", "-q"]);
    slurm.set_all("FAILED 1:0");
    study.ok(&["monitor", "-q"]);
    let said = study.read("said");
    let (new, old) = said.trim().split_once('|').unwrap();
    assert!(new.starts_with("[snbb-scheduler]"), "{said}");
    assert_eq!(new, old);
}

#[test]
fn the_figures_follow_the_study() {
    let (study, slurm) = study(3, &format!("{KEYS}pause_after_failures: 2\n"));
    let of = |status: &str| format!("tasks{{procedure=\"prep\",status=\"{status}\"}}");
    study.ok(&["run"]);
    let now = written(&study);
    assert_eq!(now[&of("pending")], 3.0);
    assert_eq!(now[&of("failed")], 0.0);
    assert_eq!(now["submissions_total"], 3.0);
    assert_eq!(now["runs_total{exit_code=\"0\"}"], 1.0);
    assert_eq!(now["sessions"], 3.0);
    assert_eq!(now["decisions{procedure=\"prep\",decision=\"due\"}"], 3.0);
    assert_eq!(now["state_readable"], 1.0);
    assert!(now["oldest_pending_timestamp_seconds{procedure=\"prep\"}"] > 1.7e9);
    assert!(
        now["last_good_run_timestamp_seconds"]
            >= now["oldest_pending_timestamp_seconds{procedure=\"prep\"}"]
    );
    assert!(now["last_run_duration_seconds"] > 0.0);

    slurm.set("1001", "FAILED 1:0");
    slurm.set("1002", "TIMEOUT 0:15");
    slurm.set("1003", "PENDING JobHeldUser");
    let before = study.read("out/snbb.prom");
    let mut opened = fs::File::open(study.at("out/snbb.prom")).unwrap();
    study.ok(&["monitor"]);
    assert_ne!(study.read("out/snbb.prom"), before);
    assert_eq!(
        std::io::read_to_string(&mut opened).unwrap(),
        before,
        "a reader sees all of the old file or all of the new one"
    );
    let now = written(&study);
    assert_eq!((now[&of("pending")], now[&of("failed")]), (1.0, 2.0));
    assert_eq!(
        now["tasks_failed{procedure=\"prep\",reason=\"timeout\"}"],
        1.0
    );
    assert_eq!(now["tasks_held"], 1.0);
    assert_eq!(
        now["runs_total{exit_code=\"0\"}"], 1.0,
        "a monitor is no run"
    );
    study.ok(&["run"]);
    assert_eq!(written(&study)["procedure_paused{procedure=\"prep\"}"], 1.0);

    let good = written(&study)["last_good_run_timestamp_seconds"];
    slurm.break_program("squeue", "no answer");
    assert_eq!(study.call(&["run"]).code, 5);
    let now = written(&study);
    assert_eq!(now["last_run_exit_code"], 5.0);
    assert_eq!(now["last_good_run_timestamp_seconds"], good);
    assert_eq!(now["slurm_unreachable_calls"], 1.0);
    let beat: Value = serde_json::from_str(&study.read("out/heartbeat.json")).unwrap();
    assert_eq!(
        (&beat["exit_code"], &beat["format"]),
        (&5.into(), &1.into())
    );
    assert_eq!(beat["tasks"]["failed"], 2);
    assert!(beat["error"].is_string(), "{beat}");
    assert!(beat["time"].as_str().unwrap() >= beat["last_good_run"].as_str().unwrap());
    slurm.heal("squeue");

    // The command shows the same, from the files.
    let printed = samples(&study.ok(&["metrics"]).out);
    assert_eq!(printed, now);
    study.ok(&[
        "metrics",
        "--output",
        study.at("out/other.prom").to_str().unwrap(),
    ]);
    assert_eq!(samples(&study.read("out/other.prom")), now);

    // The state is damaged: the file says so instead of nothing.
    study.write("state.parquet", "x");
    assert_eq!(study.call(&["run"]).code, 1);
    let now = written(&study);
    assert_eq!(now["state_readable"], 0.0);
    assert!(!now.contains_key(&of("pending")));
    assert_eq!(now["last_run_exit_code"], 1.0);
    // Files that readers find are whole, and nothing else is left beside them.
    let mut names: Vec<_> = fs::read_dir(study.at("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, ["heartbeat.json", "other.prom", "snbb.prom"]);
}

#[test]
fn a_place_that_cannot_be_written_costs_a_warning_and_no_submission() {
    let (study, slurm) = study(
        2,
        "metrics_file: config.yaml/x.prom\nheartbeat_file: config.yaml/beat\n",
    );
    let said = study.ok(&["run"]);
    insta::assert_snapshot!(messages(&study, &said));
    assert_eq!(slurm.jobs().len(), 2);
    assert_eq!(study.rows().len(), 2);
    // What is no file in the place of one of the state's is said at once.
    fs::remove_file(study.at("state.calls.json")).unwrap();
    fs::create_dir(study.at("state.calls.json")).unwrap();
    let said = study.call(&["run"]);
    assert_eq!(said.code, 2);
    has(&said.err, &["state.calls.json", "is not a regular file"]);
    fs::remove_dir(study.at("state.calls.json")).unwrap();
    let said = study.call(&["metrics", "--output", "/dev/null/x.prom"]);
    assert_eq!(said.code, 1);
    has(&said.err, &["/dev/null/x.prom"]);
}

#[test]
fn two_calls_at_once_lose_no_figure() {
    let (study, _slurm) = study(1, KEYS);
    study.ok(&["run"]);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..3 {
                    study.ok(&["run", "--lock-timeout", "5m"]);
                }
            });
        }
    });
    assert_eq!(written(&study)["runs_total{exit_code=\"0\"}"].round(), 10.0);
}

#[test]
fn a_parser_of_prometheus_reads_it_and_finds_its_conventions() {
    let Some(python) = python() else { return };
    let (study, slurm) = study(2, KEYS);
    study.ok(&["run"]);
    slurm.set("1001", "OUT_OF_MEMORY 0:125 32G");
    study.ok(&["run"]);
    run(
        python,
        &study.at("out/snbb.prom"),
        r#"
from prometheus_client.parser import text_string_to_metric_families
text = open(path).read()
families = list(text_string_to_metric_families(text))
names = [f.name for f in families]
assert len(names) == len(set(names)), names
seen = set()
for f in families:
    assert f.name.startswith("snbb_scheduler_"), f.name
    assert f.documentation and not f.documentation.endswith("."), f
    assert f.type in ("gauge", "counter"), f
    assert f.samples, f
    for s in f.samples:
        # Counters end with _total, and nothing else does.
        assert s.name.endswith("_total") == (f.type == "counter"), s
        key = (s.name, tuple(sorted(s.labels.items())))
        assert key not in seen, key
        seen.add(key)
def value(name, **labels):
    return next(s.value for f in families for s in f.samples if s.name == "snbb_scheduler_" + name and s.labels == dict(labels, project="news"))
assert value("tasks_failed", procedure="prep", reason="out_of_memory") == 1
assert value("submissions_total") == 2
assert sum(s.value for f in families for s in f.samples if s.name == "snbb_scheduler_tasks") == 2
"#,
    );
}

/// Without the keys nothing is written beside the state, and the command works all the same.
#[test]
fn without_the_keys_there_is_no_further_file() {
    let (study, _slurm) = study(1, "");
    study.configure(super::STEP);
    study.ok(&["run"]);
    study.ok(&["run", "-q"]);
    assert!(study.at("state.calls.json").symlink_metadata().is_err());
    let said = study.ok(&["metrics"]);
    let now = samples(&said.out);
    assert_eq!(now["tasks{procedure=\"prep\",status=\"pending\"}"], 1.0);
    // A total of 0 would be wrong: two runs were made, and nobody counted them.
    assert!(!now.keys().any(|name| name.contains("_total")), "{now:?}");
    insta::assert_snapshot!(messages(&study, &said));
    assert!(!now.contains_key("last_run_exit_code"));
}
