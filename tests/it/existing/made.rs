//! Results that the real nipoppy and BABS made, with a few lines of shell in place of fMRIPrep.
//!
//! Without `scripts/python-env adopt` and 7z these tests say SKIPPED, loudly.

use std::env;
use std::process::Command;

use super::init::{assert_done, init, reported};
use crate::harness::Study;
use crate::python;

/// Runs a script of `made/` on the study's directory. False: the programs are not here.
fn made_by(script: &str, study: &Study, args: &[&str]) -> bool {
    let Some(python) = python::environment("adopt") else {
        return false;
    };
    let programs = python.parent().unwrap().display().to_string();
    let output = Command::new("bash")
        .arg(format!("tests/it/existing/made/{script}"))
        .arg(study.dir.path().canonicalize().unwrap())
        .args(args)
        .env("PATH", format!("{programs}:{}", env::var("PATH").unwrap()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    true
}

#[test]
fn a_study_that_the_real_nipoppy_processed_is_complete() {
    let mut study = Study::new();
    if !made_by("nipoppy.sh", &study, &[]) {
        return;
    }
    let (_slurm, said) = init(&mut study, ["study/bids", "study/derivatives"]);
    insta::assert_snapshot!("made_by_nipoppy", reported(&study, &said));
    assert_done(&study, 4, &said);
}

#[test]
fn studies_that_the_real_babs_processed_are_complete() {
    if Command::new("7z").output().is_err() {
        eprintln!("SKIPPED: BABS needs 7z (p7zip-full)");
        return;
    }
    for level in ["session", "subject"] {
        let mut study = Study::new();
        if !made_by("babs.sh", &study, &[level]) {
            return;
        }
        let (_slurm, said) = init(&mut study, ["bids", "derivatives"]);
        insta::assert_snapshot!(format!("made_by_babs_{level}"), reported(&study, &said));
        assert_done(&study, 4, &said);
    }
}
