//! `init` proposes what is there already.

use std::fs;
use std::os::unix::fs::symlink;

use super::{Content, adopting, count, decisions, plant, plant_as};
use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;

const ROOTS: [&str; 2] = ["bids", "derivatives"];

/// Lets `init` write the study's configuration for these roots, beside what is there.
pub fn init(study: &mut Study, [bids, derivatives]: [&str; 2]) -> (FakeSlurm, String) {
    let slurm = FakeSlurm::new(study);
    fs::remove_file(study.at("config.yaml")).unwrap();
    let dir = study.dir.path().to_str().unwrap().to_owned();
    let roots = [bids, derivatives].map(|root| study.at(root).to_str().unwrap().to_owned());
    let [bids, derivatives] = roots.each_ref().map(String::as_str);
    let options = ["--bids-root", bids, "--derivatives-root", derivatives];
    let args = [&["init", &dir, "--yes"], options.as_slice()].concat();
    let said = study.ok(&args);
    (slurm, said.out + &said.err)
}

/// All cells of `session-status` are complete, and nothing is submitted.
pub fn assert_done(study: &Study, tasks: usize, said: &str) {
    let found = decisions(study);
    assert_eq!(
        (count(&found, "complete"), found.len()),
        (tasks, tasks),
        "{found:?}\n{said}"
    );
    let plan = study.ok(&["run", "--dry-run", "--format", "json"]);
    let due: Vec<serde_json::Value> = serde_json::from_str(&plan.out).unwrap();
    assert!(due.is_empty(), "{}", plan.out);
    let checked = study.call(&["check"]);
    assert_eq!(checked.code, 0, "{}{}", checked.out, checked.err);
}

#[test]
fn results_without_sessions_are_proposed_and_complete() {
    for content in [Content::Here, Content::Elsewhere] {
        let mut study = Study::new();
        plant(&study, "fmriprep-21-full-no-sessions.raw", "bids");
        let listing = "fmriprep-21-full-no-sessions";
        plant_as(content, &study, listing, "", "derivatives/fmriprep");
        plant_as(
            content,
            &study,
            "mriqc-no-sessions",
            "",
            "derivatives/mriqc",
        );
        let (_slurm, said) = init(&mut study, ROOTS);
        assert!(said.contains("in fmriprep: 3 of 3 subjects"), "{said}");
        assert_done(&study, 6, &said);
    }
}

#[test]
fn results_with_sessions_and_freesurfer_below_them_are_proposed_and_complete() {
    let mut study = Study::new();
    plant(&study, "fmriprep-23-minimal-sessions.raw", "bids");
    plant(
        &study,
        "fmriprep-23-minimal-sessions",
        "derivatives/fmriprep",
    );
    let (_slurm, said) = init(&mut study, ROOTS);
    assert_done(&study, 2 * 2 * 4, &said);
}

#[test]
fn results_of_nipoppy_are_proposed_and_complete() {
    let mut study = Study::new();
    plant(&study, "fmriprep-21-full-no-sessions.raw", "bids");
    let listing = "fmriprep-21-full-no-sessions";
    plant(&study, listing, "derivatives/fmriprep/21.0.2/output");
    let (_slurm, said) = init(&mut study, ROOTS);
    assert!(said.contains("in fmriprep/21.0.2/output: 3 of 3"), "{said}");
    assert_done(&study, 3, &said);
}

/// BABS 0.5.4 names zip files so; in a clone of its output store they are links of git-annex.
#[test]
fn zip_files_of_babs_are_proposed_and_complete() {
    for is_by_session in [true, false] {
        let mut study = Study::new();
        for subject in ["sub-01", "sub-02"] {
            for session in ["ses-a", "ses-b"] {
                let scan =
                    format!("bids/{subject}/{session}/func/{subject}_{session}_task-x_bold.nii.gz");
                study.write(&scan, "x");
                if !is_by_session && session == "ses-b" {
                    continue;
                }
                let level = match is_by_session {
                    true => format!("_{session}"),
                    false => String::new(),
                };
                let link = study.at(&format!(
                    "derivatives/babs/{subject}{level}_fmriprep-24-1-1.zip"
                ));
                fs::create_dir_all(link.parent().unwrap()).unwrap();
                let key = "MD5E-s12345--0af3.zip";
                symlink(format!(".git/annex/objects/Xk/9m/{key}/{key}"), link).unwrap();
            }
        }
        let (_slurm, said) = init(&mut study, ROOTS);
        assert!(said.contains("fmriprep 24.1.1 in babs: "), "{said}");
        assert_done(&study, 4, &said);
    }
}

/// What is added later finds its results as `init` does, and says nothing of those of others.
#[test]
fn an_app_that_is_added_takes_the_results_that_are_there() {
    let (study, _slurm) = adopting(
        "- {name: own, output_dir: own, scope: subject, script: job.sh, completion_marker: x}\n",
    );
    plant(&study, "fmriprep-21-full-no-sessions.raw", "bids");
    let listing = "fmriprep-21-full-no-sessions";
    plant(&study, listing, "derivatives/fmriprep/21.0.2/output");
    plant(&study, "mriqc-no-sessions", "derivatives/mriqc");
    study.write("derivatives/own/sub-01/x", "x");
    let said = study.ok(&["init", "--add", "fmriprep"]);
    let said = said.out + &said.err;
    assert!(
        said.contains("found results: fmriprep in fmriprep/21.0.2/output: 3 of 3"),
        "{said}"
    );
    assert!(!said.contains("mriqc") && !said.contains("own:"), "{said}");
    let found = decisions(&study);
    assert_eq!(
        (count(&found, "complete"), found.len()),
        (4, 6),
        "{found:?}"
    );
    // A root that is away is no reason not to add an entry.
    fs::rename(study.at("bids"), study.at("away")).unwrap();
    let said = study.ok(&["init", "--add", "smriprep"]);
    assert!(
        said.err.contains("were not looked for: bids_root"),
        "{}",
        said.err
    );
}

/// An app that the catalogue does not have, and an entry that finds nothing complete, are named and not proposed.
#[test]
fn what_is_not_proposed_is_named() {
    let mut study = Study::new();
    plant(&study, "fmriprep-21-full-no-sessions.raw", "bids");
    study.write("derivatives/own/sub-01/result.txt", "x");
    study.write(
        "derivatives/own/dataset_description.json",
        r#"{"GeneratedBy": [{"Name": "ownpipe", "Version": "3"}]}"#,
    );
    study.write("derivatives/mriqc/sub-01/anat/broken.json", "x");
    let (_slurm, said) = init(&mut study, ROOTS);
    assert!(said.contains("own: results of ownpipe"), "{said}");
    assert!(said.contains("0 of 3"), "{said}");
    assert!(
        !study.read("config.yaml").contains("  - name: mriqc"),
        "{said}"
    );
}
