//! The job scripts of `slurm_templates/`: sound, readable by Slurm, and leaving what the built-in markers
//! look for. Apptainer is replaced by `fixtures/bin/apptainer`.
#![expect(
    clippy::disallowed_methods,
    reason = "runs scripts and looks at their outputs"
)]

mod freesurfer;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn templates() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = std::fs::read_dir(Path::new(ROOT).join("slurm_templates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "sh"))
        .collect();
    files.sort();
    assert!(files.len() >= 9, "{files:?}");
    files
}

/// All shell scripts that are delivered.
fn scripts() -> Vec<PathBuf> {
    let mut files = templates();
    for dir in [
        "scripts",
        "scripts/demo.d",
        "scripts/release.d",
        "fixtures/bin",
    ] {
        let Ok(entries) = std::fs::read_dir(Path::new(ROOT).join(dir)) else {
            continue;
        };
        files.extend(entries.map(|entry| entry.unwrap().path()).filter(|path| {
            let text = std::fs::read(path).unwrap_or_default();
            let first = String::from_utf8_lossy(&text);
            let first = first.lines().next().unwrap_or_default();
            first.starts_with("#!") && (first.ends_with("bash") || first.ends_with("sh"))
        }));
    }
    files
}

#[test]
fn all_scripts_are_valid_bash() {
    for script in scripts() {
        let output = Command::new("bash")
            .arg("-n")
            .arg(&script)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}: {}",
            script.display(),
            text(&output)
        );
    }
}

#[test]
fn shellcheck_finds_nothing() {
    let Ok(output) = Command::new("shellcheck").args(scripts()).output() else {
        eprintln!("SKIPPED: shellcheck is not installed (apt-get install shellcheck)");
        return;
    };
    assert!(output.status.success(), "{}", text(&output));
}

/// sbatch stops reading `#SBATCH` at the first line that is neither blank nor a comment (sbatch(1)).
#[test]
fn slurm_sees_every_sbatch_line() {
    for script in templates() {
        let text = std::fs::read_to_string(&script).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("#!/bin/bash"), "{}", script.display());
        let (head, rest): (Vec<_>, Vec<_>) = {
            let first = text
                .lines()
                .position(|line| !line.trim().is_empty() && !line.starts_with('#'))
                .unwrap();
            (
                text.lines().take(first).collect(),
                text.lines().skip(first).collect(),
            )
        };
        assert_eq!(rest[0], "set -euo pipefail", "{}", script.display());
        assert!(
            !rest
                .iter()
                .any(|line| line.trim_start().starts_with("#SBATCH")),
            "{}",
            script.display()
        );
        for option in ["--time=", "--mem=", "--cpus-per-task="] {
            let option = format!("#SBATCH {option}");
            let found = head.iter().any(|line| line.starts_with(&option));
            assert!(found, "{}: no {option}", script.display());
        }
    }
}

/// A dataset, and scripts run in it as the scheduler runs them.
struct Site {
    dir: tempfile::TempDir,
}

impl Site {
    fn new() -> Self {
        let site = Self {
            dir: tempfile::tempdir().unwrap(),
        };
        for dir in ["bids", "derivatives", "scratch", "dicom/sub-0001/ses-01"] {
            std::fs::create_dir_all(site.path(dir)).unwrap();
        }
        site.write("license.txt", "");
        site.write("heuristic.py", "");
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn run_failing(&self, script: &str, output: &str, args: &[&str], fail: &str) -> Output {
        let bin = Path::new(ROOT).join("fixtures/bin");
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut command = Command::new(Path::new(ROOT).join("slurm_templates").join(script));
        command
            .args(args)
            .env("PATH", path)
            .env("STUB_LOG", self.path("calls"))
            .env("STUB_FAIL", fail)
            .env("SNBB_BIDS_ROOT", self.path("bids"))
            .env("SNBB_DERIVATIVES_ROOT", self.path("derivatives"))
            .env("SNBB_OUTPUT_DIR", self.path(output))
            .env("SNBB_SCRATCH", self.path("scratch"))
            .env("SNBB_FS_LICENSE", self.path("license.txt"))
            .env("SNBB_HEURISTIC", self.path("heuristic.py"))
            .env_remove("SLURM_TMPDIR");
        command.output().unwrap()
    }

    /// Runs a script to its good end, and looks that it cleaned up and left nothing half-written.
    fn run(&self, script: &str, output: &str, args: &[&str]) {
        let result = self.run_failing(script, output, args, "");
        assert!(result.status.success(), "{script}: {}", text(&result));
        self.assert_clean(script);
    }

    fn assert_clean(&self, script: &str) {
        assert_eq!(self.found("scratch/*"), Vec::<String>::new(), "{script}");
        let half = "{bids,derivatives}/**/.*.tmp";
        assert_eq!(self.found(half), Vec::<String>::new(), "{script}");
    }

    /// Lists what a glob matches that is not empty.
    fn found(&self, pattern: &str) -> Vec<String> {
        let list = format!(
            "shopt -s globstar; for f in {pattern}; do [ ! -s \"$f\" ] || echo \"$f\"; done"
        );
        let output = Command::new("bash")
            .args(["-c", &list])
            .current_dir(self.dir.path())
            .output()
            .unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect()
    }

    fn assert_markers(&self, dir: &str, markers: &[&str]) {
        for marker in markers {
            let found = self.found(&format!("{dir}/{marker}"));
            assert!(!found.is_empty(), "{marker} is missing in {dir}");
        }
    }

    /// Returns how Apptainer was called since the last time.
    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("calls")).unwrap_or_default();
        let _ = std::fs::remove_file(self.path("calls"));
        text.lines().map(str::to_owned).collect()
    }

    /// Returns the arguments of each call of recon-all since the last time.
    fn recon_all(&self) -> Vec<String> {
        self.calls()
            .iter()
            .filter_map(|call| call.split_once("recon-all -sd "))
            .filter_map(|(_, rest)| rest.split_once(' '))
            .map(|(_, args)| args.replace(&format!("{}/", self.path("bids").display()), ""))
            .collect()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

const BIDS: &[&str] = &[
    "anat/*_T1w.nii.gz",
    "dwi/*dir-AP*_dwi.nii.gz",
    "dwi/*dir-AP*_dwi.bvec",
    "dwi/*dir-AP*_dwi.bval",
    "dwi/*dir-PA*_dwi.nii.gz",
    "fmap/*acq-func_dir-AP*epi.nii.gz",
    "fmap/*acq-func_dir-PA*epi.nii.gz",
    "func/*task-rest*_bold.nii.gz",
];
const BIDS_POST: &[&str] = &["fmap/*acq-dwi*_epi.nii.gz"];
const DEFACING: &[&str] = &["anat/*acq-defaced*_T1w.nii.gz"];
const QSIPREP: &[&str] = &[
    "*.html",
    "dwi/*_dwi_preproc.nii.gz",
    "dwi/*_dwi_preproc.bvec",
    "dwi/*_dwi_preproc.bval",
    "dwi/*desc-image_qc.tsv",
];

/// The whole pipeline for a session, with its label and without one.
#[test]
fn the_built_in_markers_find_what_the_scripts_leave() {
    for session in ["ses-01", ""] {
        let site = Site::new();
        let part = format!("sub-0001/{session}");
        let part = part.trim_end_matches('/');
        let bids = format!("bids/{part}");
        let dicom = site.path("dicom/sub-0001/ses-01");
        let args = ["sub-0001", session, dicom.to_str().unwrap()];

        site.run("snbb_run_bids.sh", &bids, &args);
        site.assert_markers(&bids, BIDS);
        assert!(site.path("bids/dataset_description.json").exists());
        site.run("snbb_run_bids_post.sh", &bids, &args);
        site.assert_markers(&bids, BIDS_POST);
        site.run("snbb_run_defacing.sh", &bids, &args);
        site.assert_markers(&bids, DEFACING);

        let qsiprep = format!("derivatives/qsiprep/{part}");
        site.run("snbb_run_qsiprep.sh", &qsiprep, &args);
        site.assert_markers(&qsiprep, QSIPREP);
        let freesurfer = "derivatives/freesurfer/sub-0001";
        site.run("snbb_run_freesurfer.sh", freesurfer, &args[..1]);
        site.assert_markers(freesurfer, &["scripts/recon-all.done"]);
        site.run(
            "snbb_run_qsirecon.sh",
            &format!("derivatives/qsirecon/{part}"),
            &args,
        );
        let name = part.replace('/', "_");
        let report = format!("derivatives/*/{name}.html");
        site.assert_markers("derivatives/qsirecon", &[&report]);

        // A second attempt, with everything in its place.
        site.run("snbb_run_bids.sh", &bids, &args);
        site.run("snbb_run_bids_post.sh", &bids, &args);
        site.run("snbb_run_defacing.sh", &bids, &args);
        site.assert_markers(&bids, BIDS);
        let images = site.found(&format!("{bids}/anat/*.nii.gz"));
        assert_eq!(
            images.len(),
            2,
            "a defaced image is not defaced again: {images:?}"
        );
    }
}

#[test]
fn the_other_scripts_leave_the_markers_that_they_name() {
    let site = Site::new();
    let dicom = site.path("dicom/sub-0001/ses-01");
    let args = ["sub-0001", "ses-01", dicom.to_str().unwrap()];
    site.write("bids/sub-0001/ses-01/anat/sub-0001_ses-01_T1w.nii.gz", "x");
    let mriqc = "derivatives/mriqc/sub-0001/ses-01";
    site.run("mriqc.sh", mriqc, &args);
    site.assert_markers(mriqc, &["*/*.json"]);
    let fmriprep = "derivatives/fmriprep/sub-0001";
    site.run("fmriprep.sh", fmriprep, &args[..1]);
    assert!(site.path(fmriprep).with_extension("html").is_file());
    assert!(!site.path(fmriprep).join("unfinished").exists());
    let nifti = "derivatives/nifti/sub-0001/ses-01";
    site.run("dcm2niix.sh", nifti, &args);
    site.assert_markers(nifti, &["*.nii.gz"]);
}

#[test]
fn the_exit_code_of_the_program_is_the_jobs() {
    let site = Site::new();
    let dicom = site.path("dicom/sub-0001/ses-01");
    let args = ["sub-0001", "ses-01", dicom.to_str().unwrap()];
    let bids = "bids/sub-0001/ses-01";
    site.run("snbb_run_bids.sh", bids, &args);
    for (script, program) in [
        ("snbb_run_bids.sh", "heudiconv"),
        ("snbb_run_defacing.sh", "pydeface"),
        ("snbb_run_qsiprep.sh", "qsiprep"),
        ("snbb_run_qsirecon.sh", "qsirecon"),
        ("fmriprep.sh", "fmriprep"),
        ("mriqc.sh", "mriqc"),
        ("dcm2niix.sh", "dcm2niix"),
    ] {
        std::fs::create_dir_all(site.path("derivatives/qsiprep")).unwrap();
        std::fs::create_dir_all(site.path("derivatives/freesurfer")).unwrap();
        let output = format!("derivatives/{program}/sub-0001/ses-01");
        let result = site.run_failing(script, &output, &args, program);
        assert_eq!(result.status.code(), Some(9), "{script}: {}", text(&result));
        site.assert_clean(script);
    }
    assert_eq!(site.found("bids/**/*defaced*"), Vec::<String>::new());
    for template in templates() {
        let script = template.file_name().unwrap().to_str().unwrap();
        let result = site.run_failing(script, "derivatives/x", &[], "");
        assert!(
            text(&result).contains("usage:"),
            "{script}: {}",
            text(&result)
        );
        assert!(!result.status.success());
    }
}

#[test]
fn a_fieldmap_is_made_of_images_without_diffusion_weighting_only() {
    let site = Site::new();
    let dwi =
        |name: &str, text: &str| site.write(&format!("bids/sub-0001/ses-01/dwi/{name}"), text);
    dwi("sub-0001_ses-01_dir-AP_dwi.nii.gz", "ap");
    dwi("sub-0001_ses-01_dir-PA_dwi.nii.gz", "pa");
    dwi("sub-0001_ses-01_dir-PA_dwi.json", r#"{"EchoTime": 0.08}"#);
    let dir = "bids/sub-0001/ses-01";
    let run = || site.run("snbb_run_bids_post.sh", dir, &["sub-0001", "ses-01"]);

    run();
    assert_eq!(site.calls(), Vec::<String>::new(), "copied as it is");
    dwi("sub-0001_ses-01_dir-PA_dwi.bval", "0 5 0\n");
    run();
    assert_eq!(site.calls(), Vec::<String>::new());
    dwi("sub-0001_ses-01_dir-PA_dwi.bval", "0 1000 1000\n");
    dwi("sub-0001_ses-01_dir-PA_dwi.bvec", "0 1 0\n0 0 1\n0 0 0\n");
    run();
    let calls = site.calls();
    assert!(
        calls.len() == 1 && calls[0].contains("dwiextract -bzero"),
        "{calls:?}"
    );

    let sidecar = site
        .path(dir)
        .join("fmap/sub-0001_ses-01_acq-dwi_dir-PA_epi.json");
    let sidecar: serde_json::Value =
        serde_json::from_slice(&std::fs::read(sidecar).unwrap()).unwrap();
    let intended = "bids::sub-0001/ses-01/dwi/sub-0001_ses-01_dir-AP_dwi.nii.gz";
    assert_eq!(sidecar["IntendedFor"], serde_json::json!([intended]));
    assert_eq!(sidecar["EchoTime"], 0.08);
}

#[test]
fn defaced_images_get_the_acquisition_label() {
    let site = Site::new();
    let anat = "bids/sub-0001/ses-01/anat";
    for name in ["run-1_T1w", "acq-mprage_run-2_T1w"] {
        site.write(&format!("{anat}/sub-0001_ses-01_{name}.nii.gz"), "image");
    }
    site.run("snbb_run_defacing.sh", anat, &["sub-0001", "ses-01"]);
    assert_eq!(
        site.found(&format!("{anat}/*defaced*")),
        [
            format!("{anat}/sub-0001_ses-01_acq-defaced_run-1_T1w.nii.gz"),
            format!("{anat}/sub-0001_ses-01_acq-defacedmprage_run-2_T1w.nii.gz"),
        ]
    );
}
