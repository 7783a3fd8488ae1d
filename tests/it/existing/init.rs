//! `init` proposes what is there already.

use std::fs;
use std::os::unix::fs::symlink;

use super::{Content, adopting, count, decisions, plant, plant_as};
use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;
use crate::pretty::pretty;

const ROOTS: [&str; 2] = ["bids", "derivatives"];

/// Lets `init` write the study's configuration for these roots, beside what is there.
pub fn init(study: &mut Study, [bids, derivatives]: [&str; 2]) -> (FakeSlurm, String) {
    let slurm = FakeSlurm::new(study);
    fs::remove_file(study.at("config.yaml")).unwrap();
    let dir = study.dir.path().to_str().unwrap().to_owned();
    let roots = [bids, derivatives].map(|root| study.at(root).to_str().unwrap().to_owned());
    let [bids, derivatives] = roots.each_ref().map(String::as_str);
    let options = ["--bids-root", bids, "--derivatives-root", derivatives];
    let how = ["init", &dir, "--yes", "--executor", "local"];
    let args = [how.as_slice(), &options].concat();
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

/// What is reported about existing results: all notes except the one about what the catalogue offers.
pub fn reported(study: &Study, said: &str) -> String {
    let starts = ["found results: ", "note: "];
    let lines = said.lines().filter(|line| {
        starts.iter().any(|word| line.starts_with(word)) && !line.contains("--procedures")
    });
    pretty(study, &lines.collect::<Vec<_>>().join("\n"))
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
        insta::assert_snapshot!("without_sessions", reported(&study, &said));
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
    insta::assert_snapshot!("nipoppy", reported(&study, &said));
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
        let level = if is_by_session {
            "sessions"
        } else {
            "subjects"
        };
        insta::assert_snapshot!(format!("babs_{level}"), reported(&study, &said));
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
    insta::assert_snapshot!("added", reported(&study, &said.err));
    let found = decisions(&study);
    assert_eq!(
        (count(&found, "complete"), found.len()),
        (4, 6),
        "{found:?}"
    );
    // A root that is away is no reason not to add an entry.
    fs::rename(study.at("bids"), study.at("away")).unwrap();
    let said = study.ok(&["init", "--add", "smriprep"]);
    insta::assert_snapshot!("added_without_root", reported(&study, &said.err));
}

/// nipoppy keeps FreeSurfer's subjects below each session.
#[test]
fn freesurfer_of_nipoppy_is_proposed_and_complete() {
    let mut study = Study::new();
    for session in ["ses-a", "ses-b"] {
        study.write(
            &format!("bids/sub-01/{session}/anat/sub-01_{session}_T1w.nii.gz"),
            "x",
        );
        let place = format!("derivatives/freesurfer/7.3.2/output/{session}/sub-01");
        for file in [
            "scripts/recon-all.done",
            "stats/aseg.stats",
            "surf/lh.white",
        ] {
            study.write(&format!("{place}/{file}"), "what FreeSurfer writes there");
        }
    }
    let (_slurm, said) = init(&mut study, ROOTS);
    insta::assert_snapshot!("nipoppy_freesurfer", reported(&study, &said));
    assert_done(&study, 2, &said);
}

/// Transforms of runs came with fMRIPrep 21.0.
#[test]
fn results_of_fmriprep_20_are_proposed_and_complete() {
    let mut study = Study::new();
    plant(&study, "fmriprep-21-full-no-sessions.raw", "bids");
    let listing = "fmriprep-21-full-no-sessions";
    plant(&study, listing, "derivatives/fmriprep");
    for entry in walkdir::WalkDir::new(study.at("derivatives")) {
        let entry = entry.unwrap();
        if entry
            .file_name()
            .to_string_lossy()
            .contains("_mode-image_xfm")
        {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    let (_slurm, said) = init(&mut study, ROOTS);
    insta::assert_snapshot!("fmriprep_20", reported(&study, &said));
    assert_done(&study, 3, &said);
}

/// A subject is complete by its report; sessions that nobody processed are named.
#[test]
fn attack_sessions_without_results_are_named() {
    let mut study = Study::new();
    for session in ["ses-1", "ses-2"] {
        study.write(
            &format!("bids/sub-01/{session}/func/sub-01_{session}_task-x_bold.nii.gz"),
            "x",
        );
    }
    let place = study.at("derivatives/fmriprep/sub-01");
    let func = "ses-1/func/sub-01_ses-1_task-x_from-boldref_to-T1w_mode-image_desc-coreg_xfm.txt";
    study.write(&format!("derivatives/fmriprep/sub-01/{func}"), "x");
    fs::create_dir_all(place.join("ses-1/anat")).unwrap();
    let image = place.join("ses-1/anat/sub-01_ses-1_desc-preproc_T1w.nii.gz");
    fs::write(image, vec![0; 200_000]).unwrap();
    study.write("derivatives/fmriprep/sub-01.html", "x");
    let (_slurm, said) = init(&mut study, ROOTS);
    insta::assert_snapshot!("session_without_results", reported(&study, &said));
}

/// Zip files of another app that few subjects have are not asked of all.
#[test]
fn attack_a_few_other_zip_files_of_babs_make_nothing_due() {
    let mut study = Study::new();
    for subject in ["sub-01", "sub-02"] {
        study.write(
            &format!("bids/{subject}/ses-1/func/{subject}_ses-1_task-x_bold.nii.gz"),
            "x",
        );
        let version = if subject == "sub-01" {
            "20-2-3"
        } else {
            "23-1-3"
        };
        study.write(
            &format!("derivatives/babs/{subject}_ses-1_fmriprep-{version}.zip"),
            "x",
        );
    }
    study.write("derivatives/babs/sub-01_ses-1_freesurfer-20-2-3.zip", "x");
    let (_slurm, said) = init(&mut study, ROOTS);
    insta::assert_snapshot!("babs_versions", reported(&study, &said));
    assert_done(&study, 2, &said);
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
    insta::assert_snapshot!("not_proposed", reported(&study, &said));
    assert!(
        !study.read("config.yaml").contains("  - name: mriqc"),
        "{said}"
    );
}
