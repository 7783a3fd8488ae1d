//! `scripts/compare-python`, with a stand-in for the Python program (`fixtures/python-rules/`).
#![expect(
    clippy::disallowed_methods,
    reason = "starts the script and reads its report"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Runs the script; none (and says so) without a Python.
fn compare(keep: &Path, arguments: &[&str], env: &[(&str, &str)]) -> Option<(i32, String)> {
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: no python3");
        return None;
    }
    let output = Command::new(root().join("scripts/compare-python"))
        .arg("--python")
        .arg(root().join("fixtures/python-rules/manifest"))
        .args(["--ours", env!("CARGO_BIN_EXE_snbb-scheduler"), "--keep"])
        .arg(keep)
        .args(arguments)
        .envs(env.iter().copied())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    Some((output.status.code().unwrap_or(-1), text))
}

fn kept(keep: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(keep).unwrap();
    entries.map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn every_difference_to_the_python_rules_is_one_that_the_page_names() {
    let keep = tempfile::tempdir().unwrap();
    let cases = match std::env::var_os("SNBB_TEST_LONG") {
        Some(_) => "1000",
        None => "25",
    };
    let arguments = ["--cases", cases, "--seed", "3"];
    let Some((code, text)) = compare(keep.path(), &arguments, &[]) else {
        return;
    };
    assert_eq!(code, 0, "{text}");
    assert!(
        text.contains("     0 with unexplained differences"),
        "{text}"
    );
    for kind in ["order", "all-sessions", "empty-files"] {
        assert!(text.contains(&format!("\n  {kind} ")), "{kind}: {text}");
    }
    assert_eq!(kept(keep.path()), [""; 0].map(PathBuf::from));
}

#[test]
fn a_difference_that_nobody_meant_is_shown_and_kept() {
    let keep = tempfile::tempdir().unwrap();
    let arguments = ["--cases", "12", "--seed", "5"];
    let fault = [("PYTHON_RULES_FAULT", "bids")];
    let Some((code, text)) = compare(keep.path(), &arguments, &fault) else {
        return;
    };
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("is unexplained; it is kept in "), "{text}");
    assert!(text.contains("only in python"), "{text}");
    let kept = kept(keep.path());
    assert!(!kept.is_empty());
    for case in kept {
        assert!(case.join("ours.yaml").exists() && case.join("dicom").exists());
        assert!(text.contains(&case.display().to_string()), "{text}");
    }
}
