//! `check`: each kind of trouble of a site is found, named and given a way out, and a site without any has none.

mod cluster;
mod documentation;
mod places;
mod setup;
mod slurm;
mod steps;

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;

pub const STEPS: &str = "\
procedures:
  - {name: bids, output_dir: '', script: job.sh, completion_marker: 'anat/*_T1w.nii.gz'}
  - {name: prep, output_dir: prep, script: job.sh, depends_on: [bids], completion_marker: done}
";

/// Is one finding, as scripts see it.
#[derive(Debug)]
pub struct Found {
    pub level: String,
    pub topic: String,
    pub about: String,
    pub text: String,
    pub advice: Option<String>,
}

/// Makes a site without trouble on a Slurm of shell scripts.
pub fn site() -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(STEPS);
    study.script("job.sh", "true");
    study.scan(&["sub-01/ses-01", "sub-02/ses-01"]);
    (study, slurm)
}

/// Calls `check --format json`, holds the answer to its schema, and returns it with the exit code.
pub fn check(study: &Study, arguments: &[&str]) -> (i32, Vec<Found>) {
    let said = study.call(&[&["check", "--format", "json"], arguments].concat());
    let json: Value = serde_json::from_str(&said.out)
        .unwrap_or_else(|error| panic!("{error}\n{}\n{}", said.out, said.err));
    let schema: Value =
        serde_json::from_str(include_str!("../../docs/schema/check.schema.json")).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let problems: Vec<String> = validator
        .iter_errors(&json)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(problems, [] as [String; 0]);
    let text = |finding: &Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let found: Vec<Found> = json
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| Found {
            level: text(finding, "level"),
            topic: text(finding, "topic"),
            about: text(finding, "about"),
            text: text(finding, "finding"),
            advice: finding["todo"].as_str().map(str::to_owned),
        })
        .collect();
    for finding in &found {
        assert_eq!(
            finding.advice.is_none(),
            finding.level == "ok",
            "{finding:?}"
        );
        assert!(!finding.text.contains("os error"), "{finding:?}");
    }
    let has_error = found.iter().any(|finding| finding.level == "error");
    assert_eq!(said.code != 0, has_error, "{found:#?}");
    (said.code, found)
}

/// Returns what is not in order.
pub fn trouble(study: &Study, arguments: &[&str]) -> Vec<Found> {
    let (_, found) = check(study, arguments);
    found
        .into_iter()
        .filter(|finding| finding.level != "ok")
        .collect()
}

/// Expects exactly one trouble.
#[track_caller]
pub fn only(study: &Study, level: &str, topic: &str, part: &str) -> Found {
    let mut found = trouble(study, &[]);
    assert_eq!(found.len(), 1, "{level} {topic} {part}: {found:#?}");
    let found = found.remove(0);
    assert_eq!(
        (found.level.as_str(), found.topic.as_str()),
        (level, topic),
        "{found:?}"
    );
    assert!(found.text.contains(part), "{part}: {found:?}");
    found
}

/// Expects a trouble among others.
#[track_caller]
pub fn among(study: &Study, arguments: &[&str], level: &str, topic: &str, part: &str) -> Found {
    let found = trouble(study, arguments);
    let shown = format!("{level} {topic} {part}: {found:#?}");
    let is_it = |finding: &Found| {
        finding.level == level && finding.topic == topic && finding.text.contains(part)
    };
    found
        .into_iter()
        .find(is_it)
        .unwrap_or_else(|| panic!("{shown}"))
}

#[test]
fn a_site_without_trouble_has_none_and_nothing_of_it_changes() {
    let (study, slurm) = site();
    let before = study.snapshot();
    let files = |study: &Study| -> BTreeSet<std::path::PathBuf> {
        let snapshot = study.snapshot().into_iter();
        // The fake Slurm keeps account of its calls.
        snapshot
            .map(|(path, _)| path)
            .filter(|path| !path.starts_with(study.at("fake-slurm")))
            .collect()
    };
    let paths = files(&study);
    let (code, found) = check(&study, &[]);
    assert_eq!(code, 0);
    assert!(
        found.iter().all(|finding| finding.level == "ok"),
        "{found:#?}"
    );
    for topic in [
        "config",
        "dicom_root",
        "bids_root",
        "derivatives_root",
        "sessions",
        "script",
        "state_file",
        "log_dir",
        "lock",
        "clock",
        "state",
        "slurm",
        "queue",
        "accounting",
        "submission",
        "executor",
        "safety",
        "notify",
    ] {
        assert!(
            found.iter().any(|finding| finding.topic == topic),
            "{topic}: {found:#?}"
        );
    }
    assert_eq!(files(&study), paths);
    for (path, content) in before {
        if !path.starts_with(study.at("fake-slurm"))
            && path.metadata().is_ok_and(|found| found.is_file())
        {
            assert_eq!(fs::read(&path).unwrap(), content, "{}", path.display());
        }
    }
    assert_eq!(
        (slurm.calls("sbatch"), slurm.calls("sbatch --test-only")),
        (0, 2)
    );
    assert!(slurm.jobs().is_empty());
    // After a whole course too.
    study.write("bids/sub-01/ses-01/anat/x_T1w.nii.gz", "x");
    study.ok(&["run"]);
    slurm.set_all("COMPLETED");
    study.write("bids/sub-02/ses-01/anat/x_T1w.nii.gz", "x");
    study.write("derivatives/prep/sub-01/ses-01/done", "x");
    study.ok(&["monitor"]);
    let found = trouble(&study, &[]);
    assert_eq!(found.len(), 0, "{found:#?}");
}

#[test]
fn what_was_tried_is_what_a_run_submits() {
    let (study, slurm) = site();
    study.configure(&format!(
        "slurm_mem: 2G\n{}",
        STEPS.replace(
            "script: job.sh,",
            "script: job.sh, qos: low, time: 90, sbatch_args: [--nice=5],"
        )
    ));
    assert_eq!(trouble(&study, &[]).len(), 0);
    let tried = fs::read_to_string(slurm.at("argv.test")).unwrap();
    study.ok(&["run"]);
    let line = |text: &str| -> Vec<String> {
        let words = shell_words::split(text.lines().next().unwrap()).unwrap();
        words
            .into_iter()
            .filter(|word| !word.starts_with("--comment="))
            .collect()
    };
    let mut tried = line(&tried);
    assert_eq!(tried.remove(0), "--test-only");
    assert_eq!(tried, line(&slurm.argv()));
}

#[test]
fn people_get_lines_with_the_worst_first_and_a_verdict() {
    let (study, _slurm) = site();
    let said = study.ok(&["check"]);
    let last = said.out.lines().last().unwrap();
    assert!(last.ends_with(" checks passed"), "{last}");
    assert!(said.out.starts_with("ok       config "), "{}", said.out);
    assert_eq!(study.ok(&["check", "-q"]).out, "");

    fs::remove_file(study.at("job.sh")).unwrap();
    study.configure(&format!("safety: {{max_drop: 100%}}\n{STEPS}"));
    let said = study.call(&["check"]);
    assert_eq!(said.code, 1);
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(
        lines[0].starts_with("error    script bids, prep: script 'job.sh' was not found"),
        "{}",
        said.out
    );
    assert!(lines[1].starts_with("         to do: "), "{}", said.out);
    let starts = |word: &str| lines.iter().any(|line| line.starts_with(word));
    assert!(starts("warning  safety safety.max_drop: "), "{}", said.out);
    assert_eq!(*lines.last().unwrap(), "failed: 1 error, 1 warning");
    let quiet = study.call(&["check", "-q"]).out;
    assert!(!quiet.contains("\nok "), "{quiet}");
    assert!(quiet.ends_with("failed: 1 error, 1 warning\n"), "{quiet}");
    let csv = study.call(&["check", "--format", "csv"]).out;
    assert!(
        csv.starts_with("level,topic,about,finding,advice,todo\nerror,script,bids,"),
        "{csv}"
    );
}
