//! The converters' scripts with the real HeuDiConv, Dcm2Bids and dcm2niix on DICOM files of real scanners. What they make
//! is opened by the real pybids as fMRIPrep and MRIQC do, and judged by the real BIDS validator.
//! Without `scripts/python-env apps` these tests say SKIPPED, loudly.
#![expect(
    clippy::disallowed_methods,
    reason = "runs the real programs and looks at their outputs"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use snbb_scheduler::gather::completion::Completion;
use snbb_scheduler::setup::catalogue::app;
use snbb_scheduler::show::failures::patterns::{Patterns, Tail};
use tempfile::TempDir;

use super::site::{ROOT, Site, text};
use crate::python::environment;

const PROTOCOLS: [&str; 13] = [
    "localizer",
    "t1_mprage_sag",
    "t1_mprage_sag",
    "ep2d_rest_run1",
    "ep2d_rest_run2",
    "ep2d_task-nback",
    "fMRI_task-stroop_2mm_AP",
    "rest_SBRef",
    "dti_64dir_AP",
    "dti_b0_PA",
    "SpinEchoFieldMap_AP",
    "SpinEchoFieldMap_PA",
    "vibe_mystery",
];

/// A site whose jobs run the real programs.
struct Real {
    site: Site,
    python: PathBuf,
    /// HeuDiConv cannot work in a path with a blank, such as the site's.
    scratch: TempDir,
}

impl Real {
    /// Scans sessions of these series. None: the programs cannot be installed here.
    fn new(name: &str, sessions: &'static [&'static str], protocols: &[&str]) -> Option<Self> {
        let python = environment("apps")?;
        let app = app(name).unwrap();
        let site = Site::new(app, sessions);
        for (file, text) in app.files() {
            site.write(file, text.as_bytes());
        }
        let scratch = tempfile::tempdir().unwrap();
        let real = Self {
            site,
            python,
            scratch,
        };
        for session in sessions {
            let dicom = real.site.at("dicom/sub-01").join(session);
            fs::remove_file(dicom.join("1.dcm")).unwrap();
            let made = Command::new(&real.python)
                .arg(Path::new(ROOT).join("fixtures/apps/make_session.py"))
                .arg(&dicom)
                .args(protocols)
                .output()
                .unwrap();
            assert!(made.status.success(), "{}", text(&made));
        }
        Some(real)
    }

    fn command(&self, session: &str) -> Command {
        let mut command = self.site.command(self.site.app, session);
        let path = std::env::var("PATH").unwrap();
        let (stub, programs) = (Path::new(ROOT).join("fixtures/bin"), self.python.parent());
        let path = format!("{}:{}:{path}", stub.display(), programs.unwrap().display());
        command
            .env("PATH", path)
            .env("STUB_REAL", "yes")
            .env("SNBB_SCRATCH", self.scratch.path());
        command
    }

    fn assert_clean(&self) {
        let left: Vec<_> = fs::read_dir(self.scratch.path()).unwrap().collect();
        assert!(left.is_empty(), "{}: {left:?}", self.site.app.name);
        self.site.assert_clean("real programs");
    }

    /// Returns the functional images of the dataset, which pybids and the validator accept.
    fn accepted(&self) -> Vec<String> {
        let output = Command::new(&self.python)
            .arg(Path::new(ROOT).join("fixtures/apps/accepts.py"))
            .arg(self.site.at("bids"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output));
        let names = String::from_utf8(output.stdout).unwrap();
        names.lines().map(str::to_owned).collect()
    }
}

/// What the series that no rule knows are reported as, by the pattern that the audit counts.
fn left_out(output: &Output) -> Vec<String> {
    let log = [&output.stdout[..], &output.stderr[..]].concat();
    let lines = String::from_utf8_lossy(&log).into_owned();
    let is_left_out = |line: &&str| {
        let tail = Tail::new(line.as_bytes().to_vec(), true);
        let found = Patterns::builtin().scan(&tail);
        found
            .iter()
            .any(|found| found.meaning.is_some_and(|m| &*m.name == "left_out"))
    };
    lines
        .lines()
        .filter(is_left_out)
        .map(str::to_owned)
        .collect()
}

#[test]
fn d1_real_converters_make_datasets_that_pybids_and_the_validator_accept() {
    for (name, run, unknown) in [
        ("heudiconv", "run-", &["vibe_mystery"][..]),
        ("dcm2bids", "run-0", &["localizer", "SBRef", "vibe_mystery"]),
    ] {
        let sessions = &["ses-01", "ses-02"];
        let Some(real) = Real::new(name, sessions, &PROTOCOLS) else {
            return;
        };
        // Both at once, so that both find no description of the dataset.
        let jobs: Vec<_> = sessions
            .iter()
            .map(|session| {
                let mut command = real.command(session);
                std::thread::spawn(move || command.output().unwrap())
            })
            .collect();
        for job in jobs {
            let output = job.join().unwrap();
            assert!(output.status.success(), "{name}: {}", text(&output));
            let lines = left_out(&output);
            assert_eq!(lines.len(), unknown.len(), "{name}: {lines:?}");
            for series in unknown {
                assert!(lines.iter().any(|line| line.contains(series)), "{lines:?}");
            }
        }
        assert_eq!(real.site.completion(), Completion::Complete, "{name}");
        real.assert_clean();
        let mut expected = Vec::new();
        for session in sessions {
            let prefix = format!("sub-01_{session}_task-");
            for image in ["nback", "rest_RUN1", "rest_RUN2", "stroop"] {
                expected.push(format!("{prefix}{}_bold.nii.gz", image.replace("RUN", run)));
            }
            if name == "heudiconv" {
                expected.push(format!("{prefix}rest_sbref.nii.gz"));
            }
        }
        expected.sort();
        let mut images = real.accepted();
        images.sort();
        assert_eq!(images, expected, "{name}");
        for image in [
            "dwi/NAME_dir-PA_dwi.bval",
            "fmap/NAME_acq-func_dir-PA_epi.nii.gz",
        ] {
            let image = image.replace("NAME", "sub-01_ses-02");
            let path = real.site.at("bids/sub-01/ses-02").join(&image);
            assert!(path.exists(), "{name}: {image}");
        }
    }
}

#[test]
fn d1_real_converters_work_without_sessions() {
    for name in ["heudiconv", "dcm2bids"] {
        let Some(real) = Real::new(name, &[""], &["T1w", "task-rest_bold"]) else {
            return;
        };
        let output = real.command("").output().unwrap();
        assert!(output.status.success(), "{name}: {}", text(&output));
        assert_eq!(real.site.completion(), Completion::Complete, "{name}");
        assert_eq!(real.accepted(), ["sub-01_task-rest_bold.nii.gz"], "{name}");
    }
}

#[test]
fn d1_real_dcm2niix_makes_an_image_of_each_series() {
    let Some(real) = Real::new("dcm2niix", &["ses-01"], &PROTOCOLS) else {
        return;
    };
    let output = real
        .command("ses-01")
        .env("SNBB_DCM2NIIX_IMAGE", "")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(real.site.completion(), Completion::Complete);
    real.assert_clean();
    let files = fs::read_dir(real.site.at("derivatives/nifti/sub-01/ses-01")).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let images = names.filter(|name| name.ends_with(".nii.gz")).count();
    assert_eq!(images, PROTOCOLS.len());
}

/// Sessions that hold nothing to convert fail with a line that names the cause.
#[test]
fn d1_real_converters_fail_when_they_convert_nothing() {
    for name in ["heudiconv", "dcm2bids", "dcm2niix"] {
        let Some(real) = Real::new(name, &["ses-01"], &[]) else {
            return;
        };
        real.site.write("dicom/sub-01/ses-01/1.dcm", b"no DICOM");
        let output = real.command("ses-01").output().unwrap();
        assert!(!output.status.success(), "{name}: {}", text(&output));
        assert_eq!(real.site.completion(), Completion::Incomplete, "{name}");
        real.assert_clean();
        // dcm2niix writes to stdout, the others to stderr.
        let log = [&output.stdout[..], &output.stderr[..]].concat();
        let tail = Tail::new(log, true);
        let line = Patterns::builtin().excerpt(&tail).unwrap();
        let pattern = line.meaning.map(|meaning| &*meaning.name);
        assert_eq!(pattern, Some("conversion"), "{name}: {}", line.line);
    }
}

#[test]
fn d3_real_runs_that_a_name_numbers_keep_their_numbers() {
    let protocols = ["bold_rest_run2", "task-faces", "task-faces", "T1w"];
    let Some(real) = Real::new("heudiconv", &["ses-01"], &protocols) else {
        return;
    };
    let output = real.command("ses-01").output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(left_out(&output), Vec::<String>::new());
    let expected = ["faces_run-1", "faces_run-2", "rest_run-2"]
        .map(|image| format!("sub-01_ses-01_task-{image}_bold.nii.gz"));
    assert_eq!(real.accepted(), expected);
}
