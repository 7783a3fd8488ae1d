//! The catalogue's own entries on results that their scripts did not make.

use std::fs;

use snbb_scheduler::setup::catalogue::app;

use super::{Content, adopting, count, decisions, lines, plant, plant_as};
use crate::fake_slurm::FakeSlurm;
use crate::harness::{Study, executable};

/// A study of the catalogue's own entries.
fn of_catalogue(names: &[&str]) -> (Study, FakeSlurm) {
    let apps = names.iter().map(|name| app(name).unwrap());
    let entries: String = apps.clone().map(|app| app.entry_for(&[], None)).collect();
    let (study, slurm) = adopting(&entries);
    for app in apps {
        let script = format!("{}.sh", app.name);
        study.write(&script, app.script);
        executable(&study.at(&script));
    }
    (study, slurm)
}

/// Fails unless everything is complete and nothing is submitted.
fn assert_all_done(study: &Study, slurm: &FakeSlurm, tasks: usize, what: &str) {
    let found = decisions(study);
    assert_eq!(
        (found.len(), count(&found, "complete")),
        (tasks, tasks),
        "{what}: {found:?}"
    );
    study.ok(&["run", "--dry-run"]);
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 0, "{what}");
}

#[test]
fn the_entry_of_fmriprep_knows_results_of_any_version() {
    for content in [Content::Here, Content::Elsewhere] {
        // The third one's runs were called run-01 and are run-1 in the results.
        for (raw, results, tasks) in [
            (
                "fmriprep-21-full-no-sessions.raw",
                "fmriprep-21-full-no-sessions",
                3,
            ),
            (
                "fmriprep-23-minimal-sessions.raw",
                "fmriprep-23-minimal-sessions",
                8,
            ),
            ("fmriprep-ds000001.raw", "fmriprep-ds000001", 3),
        ] {
            let (study, slurm) = of_catalogue(&["fmriprep"]);
            plant_as(content, &study, raw, "", "bids");
            plant_as(content, &study, results, "", "derivatives/fmriprep");
            let what = format!("{results} {content:?}");
            assert_all_done(&study, &slurm, tasks, &what);
        }
    }
}

#[test]
fn the_entry_of_fmriprep_tells_what_is_missing_or_failed() {
    let (study, _slurm) = of_catalogue(&["fmriprep"]);
    plant(&study, "fmriprep-ds000001.raw", "bids");
    plant(&study, "fmriprep-ds000001", "derivatives/fmriprep");
    let due = || count(&decisions(&study), "due");
    let at = |path: &str| study.at("derivatives/fmriprep").join(path);
    let run = "func/sub-02_task-balloonanalogrisktask_run-3_from-scanner_to-T1w_mode-image_xfm.txt";
    for missing in ["sub-01.html", &format!("sub-02/{run}")] {
        fs::rename(at(missing), study.at("away")).unwrap();
        assert_eq!(due(), 1, "{missing}");
        fs::rename(study.at("away"), at(missing)).unwrap();
    }
    for failed in ["sub-03/log/1_x/crash-x.txt", "sub-03/unfinished"] {
        study.write(&format!("derivatives/fmriprep/{failed}"), "");
        assert_eq!(due(), 1, "{failed}");
        fs::remove_file(at(failed)).unwrap();
    }
    // The report of another subject, whose label begins alike.
    fs::rename(at("sub-03.html"), at("sub-030.html")).unwrap();
    assert_eq!(due(), 1);
    // Reports of a subject with many sessions.
    study.write("derivatives/fmriprep/sub-03_anat.html", "x");
    assert_eq!(due(), 0);
    // Each echo is a file of the input, and all echoes are one result.
    for echo in 1..=3 {
        study.write(
            &format!("bids/sub-03/func/sub-03_task-x_run-4_echo-{echo}_bold.nii.gz"),
            "x",
        );
    }
    assert_eq!(due(), 0);
}

#[test]
fn the_entry_of_mriqc_knows_results_that_were_there() {
    for content in [Content::Here, Content::Elsewhere] {
        let (study, slurm) = of_catalogue(&["mriqc"]);
        plant_as(
            content,
            &study,
            "mriqc-no-sessions",
            "",
            "derivatives/mriqc",
        );
        let metrics = lines("mriqc-no-sessions").into_iter();
        let images = metrics.filter_map(|(path, _)| {
            Some(format!("bids/{}.nii.gz", path.strip_suffix(".json")?))
                .filter(|image| image.starts_with("bids/sub-"))
        });
        let mut tasks = 0;
        for image in images {
            tasks += usize::from(image.ends_with("T1w.nii.gz"));
            study.write(&image, "x");
        }
        assert!(tasks >= 2);
        assert_all_done(&study, &slurm, tasks, &format!("{content:?}"));
        for more in ["func/sub-01_task-x_run-04_bold", "anat/sub-02_run-2_T1w"] {
            let image = format!("bids/sub-0{}/{more}.nii.gz", &more[10..11]);
            study.write(&image, "x");
        }
        assert_eq!(count(&decisions(&study), "due"), 2);
    }
}

#[test]
fn the_entry_of_freesurfer_knows_results_that_were_there() {
    for content in [Content::Here, Content::Elsewhere] {
        let (study, slurm) = of_catalogue(&["freesurfer"]);
        plant(&study, "fmriprep-ds000001.raw", "bids");
        let subjects = "sourcedata/freesurfer/";
        plant_as(
            content,
            &study,
            "fmriprep-ds000001",
            subjects,
            "derivatives/freesurfer",
        );
        assert_all_done(&study, &slurm, 3, &format!("{content:?}"));
        // What recon-all leaves after a failure.
        let done = study.at("derivatives/freesurfer/sub-02/scripts/recon-all.done");
        fs::remove_file(&done).unwrap();
        fs::write(&done, "1\n").unwrap();
        assert_eq!(count(&decisions(&study), "due"), 1);
    }
    // Several sessions lie beside each other.
    let (study, slurm) = of_catalogue(&["freesurfer"]);
    for session in ["ses-1", "ses-2"] {
        study.write(
            &format!("bids/sub-01/{session}/anat/sub-01_{session}_T1w.nii.gz"),
            "x",
        );
        for file in ["scripts/recon-all.done", "stats/aseg.stats"] {
            let text = "------------------------------\nSUBJECT x\n";
            study.write(
                &format!("derivatives/freesurfer/sub-01_{session}/{file}"),
                text,
            );
        }
    }
    assert_all_done(&study, &slurm, 2, "sessions");
}
