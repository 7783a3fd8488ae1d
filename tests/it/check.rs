//! `check`: each kind of trouble of a site is found, named and given a way out, and a site without any has none.

mod cluster;
mod documentation;
mod places;
mod slurm;

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
            advice: finding["advice"].as_str().map(str::to_owned),
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
        "news",
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
    assert!(
        last.starts_with("sound: ") && last.ends_with(" in order"),
        "{last}"
    );
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
    assert!(
        said.out.contains("\nwarning  safety safety.max_drop: "),
        "{}",
        said.out
    );
    assert_eq!(*lines.last().unwrap(), "not sound: 1 error, 1 warning");
    let quiet = study.call(&["check", "-q"]).out;
    assert!(!quiet.contains("\nok "), "{quiet}");
    assert!(
        quiet.ends_with("not sound: 1 error, 1 warning\n"),
        "{quiet}"
    );
    let csv = study.call(&["check", "--format", "csv"]).out;
    assert!(
        csv.starts_with("level,topic,about,finding,advice\nerror,script,bids,"),
        "{csv}"
    );
}

#[test]
fn a_configuration_with_problems_is_exit_code_2_with_every_line() {
    let (study, _slurm) = site();
    study.configure("bids_rot: x\nscan_threads: 0\n");
    let (code, found) = check(&study, &[]);
    assert_eq!(code, 2);
    let texts: Vec<&str> = found.iter().map(|finding| finding.text.as_str()).collect();
    assert!(
        texts.iter().any(|text| text.starts_with("line 6: ")),
        "{texts:?}"
    );
    assert!(
        texts
            .iter()
            .any(|text| text.starts_with("line 7: scan_threads")),
        "{texts:?}"
    );
    assert!(found.iter().all(|finding| finding.topic == "config"));
    let said = study.call(&["--config", "/nowhere.yaml", "check"]);
    assert_eq!(said.code, 2);
    assert!(said.out.contains("there is no such file"), "{}", said.out);
    assert!(
        said.out.contains("to do: name the file by --config"),
        "{}",
        said.out
    );
    // Shared outputs are a warning of the configuration.
    study.configure("procedures:\n  - {name: a, output_dir: a, script: job.sh, completion_marker: x}\n  - {name: b, output_dir: a, script: job.sh, completion_marker: x}\n");
    only(
        &study,
        "warning",
        "config",
        "when one is complete, both are",
    );
}

#[test]
fn scripts_that_slurm_would_not_take_or_not_as_they_say() {
    let (study, _slurm) = site();
    study.configure("slurm_mem: 8G\nprocedures:\n  - {name: bids, output_dir: '', script: job.sh, completion_marker: x}\n");
    assert_eq!(trouble(&study, &[]).len(), 0);
    for (text, level, part) in [
        ("echo\n", "error", "does not begin with '#!'"),
        (
            "\u{feff}#!/bin/sh\n",
            "error",
            "begins with a byte order mark",
        ),
        ("#!/bin/bash\r\ntrue\r\n", "error", "DOS line breaks"),
        (
            "#!/bin/bash\n#SBATCH --wait\n",
            "error",
            "'#SBATCH --wait' in line 2",
        ),
        (
            "#!/bin/bash\n#SBATCH --array=1-5\n",
            "error",
            "'#SBATCH --array=1-5' in line 2",
        ),
        (
            "#!/bin/bash\nmodule load x\n#SBATCH --time=5\n",
            "warning",
            "line 3: #SBATCH --time=5",
        ),
        (
            "#!/bin/bash\n#SBATCH --output=x.log\n",
            "warning",
            "names its logs, without effect",
        ),
        (
            "#!/bin/bash\n#SBATCH --mem=64G\n",
            "warning",
            "--mem=64G in line 2, 8G in the configuration",
        ),
        (
            "#!/opt/no/such/python3\n",
            "warning",
            "interpreter /opt/no/such/python3",
        ),
        (
            "#!/usr/bin/env no-such-python\n",
            "warning",
            "interpreter env no-such-python",
        ),
    ] {
        study.write("job.sh", text);
        only(&study, level, "script", part);
    }
    fs::write(study.at("job.sh"), b"#!/bin/bash\n# caf\xe9\n").unwrap();
    only(&study, "warning", "script", "not UTF-8 in line 2");
    let mut large = b"#!/bin/bash\n".to_vec();
    large.resize((4 << 20) + 1, b'#');
    fs::write(study.at("job.sh"), large).unwrap();
    only(&study, "error", "script", "larger than 4 MiB");
    fs::remove_file(study.at("job.sh")).unwrap();
    only(&study, "error", "script", "was not found");
    study.write("job.sh", "#!/bin/bash\n");
    // Executable or not does not matter to Slurm; open to all does.
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(study.at("job.sh"), fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(trouble(&study, &[]).len(), 0);
    fs::set_permissions(study.at("job.sh"), fs::Permissions::from_mode(0o666)).unwrap();
    only(&study, "warning", "script", "every user");
}

#[test]
fn settings_that_are_dear_and_messengers_that_cannot_run() {
    let (study, _slurm) = site();
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mail = format!(
        "notify: {{email: yes}}\naudit: {{email_recipients: [a@example.org], smtp_host: 127.0.0.1, smtp_port: {port}}}\n"
    );
    study.script("messenger", "cat > /dev/null");
    study.write("plain", "x");
    let configured = |rest: &str| study.configure(&format!("{rest}{STEPS}"));
    for text in [
        &mail,
        "notify: {command: messenger}\n",
        "heartbeat_file: news/h.json\n",
    ] {
        configured(text);
        let found = trouble(&study, &[]);
        assert_eq!(found.len(), 0, "{text} {found:#?}");
    }
    drop(listener);
    configured(&mail);
    only(&study, "warning", "news", "cannot be reached");
    for (text, level, topic, part) in [
        (
            "safety: {min_free: 0}\n",
            "warning",
            "safety",
            "disk of the state",
        ),
        ("resubmit_failed: yes\n", "warning", "safety", "for ever"),
        (
            "notify: {command: plain}\n",
            "error",
            "news",
            "not an executable file",
        ),
        (
            "notify: {command: none}\n",
            "error",
            "news",
            "cannot be used",
        ),
        (
            "metrics_file: none/x.prom\n",
            "warning",
            "news",
            "does not exist",
        ),
        (
            "heartbeat_file: plain/x.json\n",
            "warning",
            "news",
            "nothing can be written",
        ),
    ] {
        configured(text);
        only(&study, level, topic, part);
    }
    configured("audit: {smtp_password: secret}\n");
    let found = trouble(&study, &[]);
    assert!(
        found
            .iter()
            .any(|f| f.topic == "config" && f.text.contains("smtp_password")),
        "{found:#?}"
    );
    assert!(!format!("{found:?}").contains("secret"));
}

#[test]
fn sessions_and_names_that_were_meant_to_be_some() {
    let (study, _slurm) = site();
    for name in ["dicom/Sub-03", "dicom/sub-01/ses_02", "dicom/sublist"] {
        fs::create_dir_all(study.at(name)).unwrap();
    }
    let found = only(&study, "warning", "sessions", "nearly a BIDS name");
    assert!(
        found.text.contains("Sub-03 (sub-03?)") && found.text.contains("ses_02 (ses-02?)"),
        "{found:?}"
    );
    study.configure(&format!("exclude: [sub-77]\n{STEPS}"));
    fs::remove_dir(study.at("dicom/Sub-03")).unwrap();
    fs::remove_dir(study.at("dicom/sub-01/ses_02")).unwrap();
    only(
        &study,
        "warning",
        "sessions",
        "matches no session: exclude: sub-77 (line 6",
    );

    study.write("sessions.csv", "UID,ScanID,dicom_path\n1,2,/nowhere\n");
    study.configure(&format!("sessions_file: sessions.csv\n{STEPS}"));
    only(
        &study,
        "warning",
        "sessions",
        "1 of 1 sessions that were looked at: /nowhere",
    );
    study.write("sessions.csv", "UID,dicom_path\n1,/nowhere\n");
    only(&study, "error", "sessions", "has no column 'ScanID'");
}

#[test]
fn markers_that_can_never_match() {
    let (study, _slurm) = site();
    study.configure(
        "procedures:\n  - name: bids\n    output_dir: ''\n    script: job.sh\n    completion_marker:\n      - anat/*_T1w.nii.gz\n      - dwi/*_dwi.nii.gz\n      - {glob: perf/*_asl.nii.gz, when: perf/*}\n      - '*/x'\n",
    );
    for number in 1..=2 {
        study.write(&format!("bids/sub-0{number}/ses-01/anat/a_T1w.nii.gz"), "x");
    }
    assert_eq!(
        trouble(&study, &[]).len(),
        0,
        "two sessions are too few to tell"
    );
    study.scan(&["sub-03/ses-01"]);
    study.write("bids/sub-03/ses-01/anat/a_T1w.nii.gz", "x");
    let found = only(&study, "warning", "markers", "dwi/*_dwi.nii.gz; none of 3");
    assert!(
        !found.text.contains("perf") && found.about == "bids",
        "{found:?}"
    );
    study.write("bids/sub-02/ses-01/dwi/a_dwi.nii.gz", "x");
    assert_eq!(trouble(&study, &[]).len(), 0);
}
