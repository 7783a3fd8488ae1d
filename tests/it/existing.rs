//! Results that were there before this program: in the layouts of the apps, judged where they lie.

#![expect(clippy::disallowed_methods, reason = "tests start programs")]

mod entries;
mod init;
mod made;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::fake_slurm::FakeSlurm;
use crate::harness::Study;

const LISTINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/derivatives");

/// Makes the files of a listing, with their sizes.
fn plant(study: &Study, listing: &str, below: &str) {
    plant_as(Content::Here, study, listing, "", below);
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Content {
    Here,
    /// As in a clone by git-annex: links that lead nowhere.
    Elsewhere,
}

fn lines(listing: &str) -> Vec<(String, String)> {
    let text = fs::read_to_string(Path::new(LISTINGS).join(format!("{listing}.tsv"))).unwrap();
    let lines = text.lines().map(|line| line.split_once('\t').unwrap());
    lines
        .map(|(path, size)| (path.to_owned(), size.to_owned()))
        .collect()
}

/// Does the same for what lies below a directory of the listing.
fn plant_as(content: Content, study: &Study, listing: &str, part: &str, below: &str) {
    for (path, size) in lines(listing) {
        let Some(path) = path.strip_prefix(part) else {
            continue;
        };
        let up = "../".repeat(path.matches('/').count());
        let path = study.at(below).join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match content {
            Content::Here => {
                let file = fs::File::create(&path).unwrap();
                file.set_len(size.parse().unwrap_or(1)).unwrap();
            }
            Content::Elsewhere => {
                let key = format!("MD5E-s{}--0af3", size.parse().unwrap_or(1));
                let object = format!("{up}.git/annex/objects/Xk/9m/{key}/{key}");
                symlink(object, &path).unwrap();
            }
        }
    }
}

fn adopting(procedures: &str) -> (Study, FakeSlurm) {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.configure(&format!(
        "discover: bids\nsafety: {{min_free: 0}}\nprocedures:\n{procedures}"
    ));
    study.script("job.sh", "true");
    (study, slurm)
}

/// The decision on each task, as `procedure subject session: word`.
fn decisions(study: &Study) -> Vec<String> {
    let said = study.ok(&["session-status", "--format", "json"]);
    let rows: Vec<Value> = serde_json::from_str(&said.out).unwrap();
    let mut found = Vec::new();
    for row in rows {
        for (procedure, cell) in row["procedures"].as_object().unwrap() {
            let (subject, session) = (&row["subject"], &row["session"]);
            let [subject, session] = [subject, session].map(|label| label.as_str().unwrap());
            let word = cell["decision"].as_str().unwrap();
            found.push(format!("{procedure} {subject} {session}: {word}"));
        }
    }
    found
}

fn count(decisions: &[String], word: &str) -> usize {
    let end = format!(": {word}");
    decisions.iter().filter(|line| line.ends_with(&end)).count()
}

const FMRIPREP: &str = r#"
  - name: fmriprep
    output_dir: fmriprep
    script: job.sh
    scope: subject
    completion_marker:
      - { glob: "{subject}.html", base: procedure }
      - { glob: "**/func/*_desc-confounds_timeseries.tsv", when: "**/func/*_bold.nii.gz", count: input }
"#;

#[test]
fn fmriprep_without_sessions_is_complete_where_it_lies() {
    let (study, slurm) = adopting(FMRIPREP);
    plant(&study, "fmriprep-21-full-no-sessions.raw", "bids");
    plant(
        &study,
        "fmriprep-21-full-no-sessions",
        "derivatives/fmriprep",
    );
    let before = decisions(&study);
    assert_eq!(
        (before.len(), count(&before, "complete")),
        (3, 3),
        "{before:?}"
    );
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 0);

    // One of two runs is missing.
    let run =
        "derivatives/fmriprep/sub-02/func/sub-02_task-flanker_run-1_desc-confounds_timeseries.tsv";
    fs::remove_file(study.at(run)).unwrap();
    assert_eq!(
        decisions(&study),
        [
            "fmriprep sub-01 : complete",
            "fmriprep sub-02 : due",
            "fmriprep sub-03 : complete"
        ]
    );
    let said = study.ok(&["explain", "sub-02", "fmriprep", "--format", "json"]);
    let tasks: Value = serde_json::from_str(&said.out).unwrap();
    let rule = &tasks[0]["outputs"]["required"][1];
    assert_eq!(
        (&rule["state"], &rule["count"]),
        (&"missing".into(), &1.into()),
        "{rule}"
    );
    // The report of sub-01 is nobody else's.
    fs::remove_file(study.at("derivatives/fmriprep/sub-03.html")).unwrap();
    assert_eq!(count(&decisions(&study), "due"), 2);
}

#[test]
fn fmriprep_of_several_sessions_and_freesurfer_below_it_are_complete() {
    let (study, _slurm) = adopting(
        r#"
  - name: fmriprep
    output_dir: fmriprep
    script: job.sh
    scope: subject
    completion_marker:
      - { glob: "{subject}.html", base: procedure }
      - { glob: "**/func/*_desc-coreg_boldref.nii.gz", when: "**/func/*_bold.nii.gz", count: input }
  - name: freesurfer
    output_dir: fmriprep/sourcedata/freesurfer/{subject}
    script: job.sh
    scope: subject
    completion_marker: [{ glob: scripts/recon-all.done }, { glob: surf/lh.white, min_size: 1K }]
"#,
    );
    plant(&study, "fmriprep-23-minimal-sessions.raw", "bids");
    plant(
        &study,
        "fmriprep-23-minimal-sessions",
        "derivatives/fmriprep",
    );
    let found = decisions(&study);
    assert_eq!(count(&found, "complete"), found.len(), "{found:?}");
    assert_eq!(found.len(), 2 * 2 * 4);
}

#[test]
fn reports_of_mriqc_beside_the_subjects_are_counted() {
    let (study, _slurm) = adopting(
        r#"
  - name: mriqc
    output_dir: mriqc
    script: job.sh
    scope: subject
    completion_marker:
      - { glob: "{subject}_*_bold.html", base: procedure, when: "func/*_bold.nii.gz", count: input }
      - { glob: "{subject}_T1w.html", base: derivatives, min_count: 1 }
"#,
    );
    plant(&study, "mriqc-no-sessions", "derivatives/mriqc");
    for subject in ["01", "16"] {
        for run in 1..=3 {
            study.write(
                &format!("bids/sub-{subject}/func/sub-{subject}_task-x_run-{run}_bold.nii.gz"),
                "x",
            );
        }
    }
    // `base: derivatives` looks one level above.
    assert_eq!(count(&decisions(&study), "due"), 2);
    for subject in ["01", "16"] {
        study.write(&format!("derivatives/sub-{subject}_T1w.html"), "x");
    }
    assert_eq!(count(&decisions(&study), "complete"), 2);
    study.write("bids/sub-16/func/sub-16_task-x_run-4_bold.nii.gz", "x");
    assert_eq!(count(&decisions(&study), "due"), 1);
}

const ZIPS: &str = r#"
  - name: fmriprep
    output_dir: babs
    script: job.sh
    completion_marker:
      - { glob: "{subject}_{session}_fmriprep-*.zip", base: procedure, min_size: 10 }
  - name: recon
    output_dir: "freesurfer/{subject}_{session}"
    script: job.sh
    completion_marker: scripts/recon-all.done
"#;

/// A directory with the results of everybody is read once, however many tasks ask for it.
#[test]
fn a_flat_directory_of_results_is_read_once() {
    let (study, _slurm) = adopting(ZIPS);
    for subject in 0..40 {
        let (subject, session) = (format!("sub-{subject:03}"), "ses-01");
        study.write(&format!("bids/{subject}/{session}/anat/x_T1w.nii.gz"), "x");
        if subject != "sub-007" {
            let zip = format!("derivatives/babs/{subject}_{session}_fmriprep-25-0-0.zip");
            study.write(&zip, "0123456789");
            let run = format!("derivatives/freesurfer/{subject}_{session}/scripts/recon-all.done");
            study.write(&run, "x");
        }
    }
    study.write("derivatives/babs/sub-007_ses-01_fmriprep-25-0-0.zip", "");
    let found = decisions(&study);
    assert_eq!(
        (found.len(), count(&found, "complete")),
        (80, 78),
        "{found:?}"
    );

    let log = study.at("calls");
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-e", "trace=openat,open", "-o"])
        .arg(&log);
    let Ok(status) = strace
        .arg(env!("CARGO_BIN_EXE_snbb-scheduler"))
        .args([
            "--config",
            study.at("config.yaml").to_str().unwrap(),
            "-q",
            "manifest",
        ])
        .output()
    else {
        eprintln!("SKIPPED: strace is not installed");
        return;
    };
    assert!(status.status.success(), "{status:?}");
    let calls = fs::read_to_string(log).unwrap();
    assert_eq!(calls.matches("derivatives/babs\"").count(), 1, "{calls}");
}

#[test]
fn placeholders_that_cannot_be_meant_are_refused() {
    for (text, part) in [
        ("output_dir: 'fs/{subjet}'", "contains '{subjet}'"),
        (
            "output_dir: 'fs/{session}'",
            "contains {session} but not {subject}",
        ),
        ("output_dir: 'fs/{subject}'", "no path contains {session}"),
        (
            "output_dir: fs, scope: subject, forbid: ['{session}.log']",
            "a task with 'scope: subject' has no session",
        ),
        (
            "output_dir: fs, completion_marker: [{glob: '*.html', base: procedure}]",
            "must contain {subject}",
        ),
        (
            "output_dir: fs, completion_marker: [{glob: '*.html', count: input}]",
            "`when` is not set",
        ),
        (
            "output_dir: fs, completion_marker: '{a,b}.html'",
            "other than {subject} and {session}",
        ),
        (
            "output_dir: fs, completion_marker: [{glob: '{subject}*.html', base: procedure}]",
            "would also match files of longer labels",
        ),
        (
            "output_dir: 'fs/{subject}x/{session}'",
            "has no separator after {subject}",
        ),
        (
            "output_dir: 'fs/{subject}', scope: subject, check: freesurfer",
            "do not support placeholders",
        ),
    ] {
        let (study, _slurm) = adopting(&format!("  - {{name: a, script: job.sh, {text}}}\n"));
        let said = study.call(&["manifest"]);
        assert_eq!(said.code, 2, "{text}: {}", said.err);
        assert!(said.err.contains(part), "{text}: {}", said.err);
    }
}

/// The examples of `docs/adopting.md`.
#[test]
fn each_example_of_the_guide_is_complete_and_submits_nothing() {
    let page = include_str!("../../docs/adopting.md");
    let mut examples = 0;
    for section in page.split("\n## ").skip(1) {
        let blocks: Vec<(&str, &str)> = section
            .split("```")
            .skip(1)
            .step_by(2)
            .filter_map(|block| block.split_once('\n'))
            .collect();
        let [("yaml", settings), ("files", files)] = blocks[..] else {
            assert!(blocks.is_empty(), "{section}");
            continue;
        };
        let mut study = Study::new();
        let slurm = FakeSlurm::new(&mut study);
        let site = "state_file: state.parquet\nscript_dir: .\nsafety: {min_free: 0}\n";
        study.write("config.yaml", &format!("{site}{settings}"));
        for line in settings.lines() {
            if let Some((_, script)) = line.split_once("script: ") {
                study.script(script, "true");
            }
        }
        for file in files.lines() {
            study.write(file, "x");
        }
        let found = decisions(&study);
        assert_eq!(count(&found, "complete"), found.len(), "{found:?}");
        assert!(!found.is_empty());
        study.ok(&["run"]);
        assert_eq!(slurm.calls("sbatch"), 0, "{section}");
        // The last file is what proves one of them.
        fs::remove_file(study.at(files.lines().last().unwrap())).unwrap();
        assert_eq!(count(&decisions(&study), "due"), 1, "{section}");
        examples += 1;
    }
    assert_eq!(examples, 4);
}

const NIPOPPY_MANIFEST: &str = "\
participant_id\tvisit_id\tsession_id\tdatatype
01\tBL\tBL\t['anat']
01\tM06\t\t
01\tM12\tM12\t['anat']
02\tBL\tBL\t['anat','dwi']
02\tM06\t\t
02\tM12\tM12\t['anat','dwi']
";

/// The lists that come with a dataset of BIDS or nipoppy say which sessions there are.
#[test]
fn lists_of_bids_and_nipoppy_are_read_as_they_are() {
    let mut study = Study::new();
    let slurm = FakeSlurm::new(&mut study);
    study.script("job.sh", "true");
    let listed = |file: &str| {
        study.configure(&format!(
            "sessions_file: {file}\nsafety: {{min_free: 0}}\nprocedures:\n  \
             - {{name: a, output_dir: a, script: job.sh, completion_marker: x}}\n"
        ));
    };
    study.write(
        "participants.tsv",
        "participant_id\tage\tsex\nsub-01\t30\tn/a\nsub-02\tn/a\tF\n",
    );
    listed("participants.tsv");
    study.scan(&["sub-01/ses-BL", "sub-02/ses-M12"]);
    assert_eq!(decisions(&study), ["a sub-01 : due", "a sub-02 : due"]);

    study.write("manifest.tsv", NIPOPPY_MANIFEST);
    listed("manifest.tsv\npad_ids: no");
    let said = study.ok(&["session-status"]);
    assert_eq!(said.err, "");
    assert_eq!(
        decisions(&study),
        [
            "a sub-01 ses-BL: due",
            "a sub-01 ses-M12: no-dicom",
            "a sub-02 ses-BL: no-dicom",
            "a sub-02 ses-M12: due"
        ]
    );
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), 2);
    let said = study.ok(&["explain", "sub-01", "ses-M12", "a"]);
    let place = study.at("dicom/sub-01/ses-M12");
    assert!(said.out.contains(place.to_str().unwrap()), "{}", said.out);
    study.ok(&["check"]);
}
