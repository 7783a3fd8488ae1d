//! One test per difference: what is done now, and that the switch really brings the old way back.

mod interface;

use std::fs;

use super::site::site;
use crate::fake_slurm::FakeSlurm;
use crate::harness::{Said, Study};

/// Two steps per session and one per subject, as short as they can be.
pub const STEPS: &str = "\
output_grace: 0s
procedures:
  - {name: bids, output_dir: '', script: job.sh, completion_marker: 'anat/*_T1w.nii.gz'}
  - {name: prep, output_dir: prep, script: job.sh, depends_on: [bids], completion_marker: '*.html'}
";

pub fn study(config: &str, sessions: &[&str]) -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(config);
    study.script("job.sh", "true");
    study.scan(sessions);
    (study, slurm)
}

/// Lists what is due: `bids sub-01 ses-01`.
fn due(study: &Study) -> Vec<String> {
    let said = study.ok(&["manifest", "--format", "json"]);
    let list: Vec<serde_json::Value> = serde_json::from_str(&said.out).unwrap();
    let word =
        |row: &serde_json::Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    list.iter()
        .map(|row| {
            format!(
                "{} {} {}",
                word(row, "procedure"),
                word(row, "subject"),
                word(row, "session")
            )
            .trim_end()
            .to_owned()
        })
        .collect()
}

/// Says whether a marker of this form is satisfied by the one file that is there.
fn is_complete(file: &str, content: &str, marker: &str) -> bool {
    let config = format!(
        "procedures: [{{name: bids, output_dir: '', script: job.sh, completion_marker: {marker}}}]\n"
    );
    let (study, _) = study(&config, &["sub-01/ses-01"]);
    study.write(&format!("bids/sub-01/ses-01/{file}"), content);
    due(&study).is_empty()
}

fn says(said: &Said, words: &str) {
    assert!(
        said.err.contains(words) || said.out.contains(words),
        "no '{words}' in\n{}{}",
        said.out,
        said.err
    );
}

#[test]
fn failed_tasks() {
    for (switch, submitted) in [("", 1), ("resubmit_failed: yes\n", 3)] {
        let (study, slurm) = study(&format!("{switch}{STEPS}"), &["sub-01/ses-01"]);
        for _ in 0..3 {
            study.ok(&["run"]);
            slurm.set_all("FAILED 1:0");
        }
        assert_eq!(slurm.calls("sbatch"), submitted, "{switch}");
    }
    // Rows of the Python program too.
    let (study, slurm) = site("pandas-2.2.parquet");
    fs::remove_dir_all(study.at("bids/sub-0001")).unwrap();
    let said = study.call(&["manifest"]);
    assert_eq!(said.code, 7, "bids_root is empty: {}", said.err);
    assert!(!said.out.is_empty() && slurm.calls("sbatch") == 0);
}

#[test]
fn c12_failed_with_outputs() {
    for (key, due_then) in [("", 0), (", accept_outputs: yes", 1)] {
        let steps = STEPS.replace("_T1w.nii.gz'}", &format!("_T1w.nii.gz'{key}}}"));
        let (study, slurm) = study(&steps, &["sub-01/ses-01"]);
        study.ok(&["run"]);
        study.write("bids/sub-01/ses-01/anat/x_T1w.nii.gz", "x");
        slurm.set_all("FAILED 1:0");
        study.ok(&["monitor"]);
        assert_eq!(due(&study).len(), due_then, "{key}");
        let status = ["failed exit_code", "complete verified"][due_then];
        assert_eq!(study.statuses(), [format!("bids sub-01 ses-01: {status}")]);
    }
    let (study, slurm) = study(STEPS, &["sub-01/ses-01"]);
    study.ok(&["run"]);
    study.write("bids/sub-01/ses-01/anat/x_T1w.nii.gz", "x");
    slurm.set_all("FAILED 1:0");
    study.ok(&["monitor"]);
    study.ok(&["retry", "--accept-outputs", "--procedure", "bids"]);
    assert_eq!(due(&study), ["prep sub-01 ses-01"]);
}

#[test]
fn completed_without_outputs() {
    for (switch, submitted) in [("", 1), ("resubmit_failed: yes\n", 3)] {
        let (study, slurm) = study(&format!("{switch}{STEPS}"), &["sub-01/ses-01"]);
        for _ in 0..3 {
            study.ok(&["run"]);
            slurm.set_all("COMPLETED");
        }
        assert_eq!(slurm.calls("sbatch"), submitted, "{switch}");
        study.ok(&["monitor"]);
        assert_eq!(
            study.statuses(),
            ["bids sub-01 ses-01: failed no_output"],
            "{switch}"
        );
    }
}

#[test]
fn hidden_and_empty_files() {
    for (file, content, marker, expected) in [
        ("anat/x_T1w.nii.gz", "x", "'anat/*_T1w.nii.gz'", true),
        (
            "anat/.x_T1w.nii.gz.Ab12",
            "x",
            "'anat/*_T1w.nii.gz*'",
            false,
        ),
        ("anat/.x_T1w.nii.gz", "x", "'anat/.*_T1w.nii.gz'", true),
        ("anat/x_T1w.nii.gz", "", "'anat/*_T1w.nii.gz'", false),
        (
            "anat/x_T1w.nii.gz",
            "",
            "[{glob: 'anat/*_T1w.nii.gz', min_size: 0}]",
            true,
        ),
        ("done", "", "done", true),
    ] {
        assert_eq!(
            is_complete(file, content, marker),
            expected,
            "{file} {marker}"
        );
    }
}

#[test]
fn an_empty_marker_list() {
    for marker in ["[]", "''"] {
        let config = format!(
            "procedures: [{{name: bids, output_dir: '', script: job.sh, completion_marker: {marker}}}]\n"
        );
        let (study, _) = study(&config, &["sub-01/ses-01"]);
        fs::create_dir_all(study.at("bids/sub-01/ses-01")).unwrap();
        assert_eq!(due(&study), ["bids sub-01 ses-01"]);
        study.write("bids/sub-01/ses-01/anything", "");
        assert_eq!(due(&study), [""; 0]);
    }
}

#[test]
fn all_sessions() {
    for (depends_on, expected) in [
        ("[bids]", vec!["bids sub-01 ses-02"]),
        (
            "[{name: bids, sessions: any}]",
            vec!["bids sub-01 ses-02", "group sub-01"],
        ),
    ] {
        let config = format!(
            "procedures:\n  - {{name: bids, output_dir: '', script: job.sh, completion_marker: done}}\n  \
             - {{name: group, output_dir: group, script: job.sh, scope: subject, depends_on: {depends_on}, completion_marker: done}}\n"
        );
        let (study, _) = study(&config, &["sub-01/ses-01", "sub-01/ses-02"]);
        study.write("bids/sub-01/ses-01/done", "");
        assert_eq!(due(&study), expected, "{depends_on}");
    }
}

#[test]
fn living_jobs() {
    let (study, slurm) = study(STEPS, &["sub-01/ses-01"]);
    study.ok(&["run"]);
    study.write("bids/sub-01/ses-01/anat/x_T1w.nii.gz", "x");
    for state in ["PENDING", "RUNNING"] {
        slurm.set_all(state);
        study.ok(&["run"]);
        assert_eq!(slurm.calls("sbatch"), 1, "{state}");
        assert!(
            study.statuses()[0]
                .starts_with(&format!("bids sub-01 ses-01: {}", state.to_lowercase()))
        );
    }
    slurm.set("1001", "COMPLETED");
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 2, "prep is due now");
}

#[test]
fn unaccounted_jobs() {
    let config = format!("lost_grace: 0s\n{STEPS}");
    for (config, expected) in [(STEPS, "pending unaccounted"), (&config, "failed lost")] {
        let (study, slurm) = study(config, &["sub-01/ses-01"]);
        study.ok(&["run"]);
        slurm.set_all("GONE");
        study.ok(&["monitor"]);
        study.ok(&["monitor"]);
        assert_eq!(
            study.statuses(),
            [format!("bids sub-01 ses-01: {expected}")]
        );
    }
}

#[test]
fn slurm_states() {
    for (state, reason) in [("PREEMPTED", "preempted"), ("DEADLINE", "deadline")] {
        let (study, slurm) = study(STEPS, &["sub-01/ses-01"]);
        study.ok(&["run"]);
        slurm.set_all(state);
        study.ok(&["monitor"]);
        assert_eq!(
            study.statuses(),
            [format!("bids sub-01 ses-01: failed {reason}")]
        );
    }
}

#[test]
fn missing_roots() {
    let sessions: Vec<String> = (10..30).map(|n| format!("sub-{n}/ses-01")).collect();
    let sessions: Vec<&str> = sessions.iter().map(String::as_str).collect();
    for (switch, arguments, code) in [
        ("", vec!["run"], 6),
        ("", vec!["run", "--accept-drop"], 0),
        ("safety: {max_drop: 100%}\n", vec!["run"], 0),
    ] {
        let (study, _) = study(&format!("{switch}{STEPS}"), &sessions);
        study.ok(&["run"]);
        for session in &sessions[..10] {
            fs::remove_dir_all(study.at(&format!("dicom/{session}"))).unwrap();
        }
        assert_eq!(study.call(&arguments).code, code, "{switch}{arguments:?}");
        // A root that is gone stops in any case.
        fs::remove_dir_all(study.at("dicom")).unwrap();
        assert_ne!(study.call(&["run"]).code, 0, "{switch}");
    }
}

#[test]
fn pause_after_failures() {
    let sessions: Vec<String> = (10..22).map(|n| format!("sub-{n}/ses-01")).collect();
    let sessions: Vec<&str> = sessions.iter().map(String::as_str).collect();
    for (switch, submitted) in [("", 11), ("pause_after_failures: 0\n", 12)] {
        let (study, slurm) = study(&format!("{switch}{STEPS}"), &sessions);
        study.ok(&["run", "--max-jobs", "11"]);
        slurm.set_all("FAILED 1:0");
        study.ok(&["run"]);
        assert_eq!(slurm.calls("sbatch"), submitted, "{switch}");
    }
}

#[test]
fn labels() {
    let (study, _) = study(
        STEPS,
        &["sub-01/ses-01", "sub-a_b/ses-01", "sub-02/ses-1.bak"],
    );
    assert_eq!(due(&study), ["bids sub-01 ses-01"]);
    says(
        &study.ok(&["manifest"]),
        "some names in the data are unusual or not valid BIDS",
    );
}

#[test]
fn own_checks() {
    let config = |check: &str| {
        format!(
            "procedures:\n  - {{name: freesurfer, output_dir: fs, script: job.sh, scope: subject{check}}}\n  \
             - {{name: qsirecon, output_dir: recon, script: job.sh, completion_marker: null}}\n"
        )
    };
    let (study, _) = study(&config(""), &["sub-01/ses-01", "sub-01/ses-02"]);
    for session in ["ses-01", "ses-02"] {
        study.write(&format!("bids/sub-01/{session}/anat/x_T1w.nii.gz"), "x");
        for dir in [
            format!("sub-01_{session}"),
            format!("sub-01_{session}.long.sub-01"),
        ] {
            study.write(
                &format!("derivatives/fs/{dir}/scripts/recon-all.done"),
                "------\n",
            );
        }
        study.write(
            &format!("derivatives/recon/derivatives/qsirecon-x/sub-01_{session}.html"),
            "x",
        );
    }
    // A cross-sectional result in the template's place is none.
    study.write("derivatives/fs/sub-01/scripts/recon-all.done", "------\n");
    assert_eq!(due(&study), ["freesurfer sub-01"]);
    study.write(
        "derivatives/fs/sub-01/base-tps",
        "sub-01_ses-01\nsub-01_ses-02\n",
    );
    assert_eq!(due(&study), [""; 0]);
    // A session with a defaced image only is none of the check's.
    study.scan(&["sub-01/ses-03"]);
    study.write("bids/sub-01/ses-03/anat/x_acq-defaced_T1w.nii.gz", "x");
    study.write(
        "derivatives/recon/derivatives/qsirecon-x/sub-01_ses-03.html",
        "x",
    );
    assert_eq!(due(&study), [""; 0]);
    // The way back: a marker decides.
    fs::remove_file(study.at("derivatives/fs/sub-01/base-tps")).unwrap();
    study.configure(&config(
        ", check: markers, completion_marker: scripts/recon-all.done",
    ));
    assert_eq!(due(&study), [""; 0]);
    study.configure(&format!("qsirecon_spec: none.yaml\n{}", config("")));
    let said = study.call(&["manifest"]);
    assert_eq!(said.code, 2, "{}", said.err);
    says(&said, "none.yaml");
}
