//! `scripts/compare-python`, which needs the Python program itself: `SNBB_PYTHON_PROGRAM` says where it is.
#![expect(
    clippy::disallowed_methods,
    reason = "starts the script, and copies the Python program"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

fn python_program() -> Option<PathBuf> {
    let program = std::env::var_os("SNBB_PYTHON_PROGRAM").map(PathBuf::from);
    if program.is_none() {
        eprintln!(
            "SKIPPED: nothing is compared with the Python program: set SNBB_PYTHON_PROGRAM to a checkout of it"
        );
    }
    program
}

fn compare(program: &Path, keep: &Path, arguments: &[&str]) -> (i32, String) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/compare-python");
    let output = Command::new(script)
        .arg(program)
        .args(["--ours", env!("CARGO_BIN_EXE_snbb-scheduler"), "--keep"])
        .arg(keep)
        .args(arguments)
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8(text).unwrap(),
    )
}

#[test]
fn every_difference_to_the_python_program_is_one_that_the_page_names() {
    let Some(program) = python_program() else {
        return;
    };
    let keep = tempfile::tempdir().unwrap();
    let (studies, lives) = match std::env::var_os("SNBB_TEST_LONG") {
        Some(_) => ("500", "50"),
        None => ("25", "5"),
    };
    let arguments = ["--studies", studies, "--lives", lives, "--seed", "3"];
    let (code, text) = compare(&program, keep.path(), &arguments);
    assert_eq!(code, 0, "{text}");
    assert_eq!(std::fs::read_dir(keep.path()).unwrap().count(), 0);
}

#[test]
fn a_difference_that_nobody_meant_is_shown_and_kept() {
    let Some(program) = python_program().filter(|program| program.join("src").is_dir()) else {
        return;
    };
    let keep = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let to = copy.path().join("snbb_scheduler");
    std::fs::create_dir(&to).unwrap();
    for entry in std::fs::read_dir(program.join("src/snbb_scheduler")).unwrap() {
        let file = entry.unwrap();
        if file.file_type().unwrap().is_file() {
            std::fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
    let checks = to.join("checks.py");
    let mut text = std::fs::read_to_string(&checks).unwrap();
    text.push_str(
        "\n_real = is_complete\ndef is_complete(proc, *args, **more):\n    \
         return proc.name not in ('p0', 'bids') and _real(proc, *args, **more)\n",
    );
    std::fs::write(&checks, text).unwrap();
    let (code, text) = compare(
        copy.path(),
        keep.path(),
        &["--studies", "6", "--lives", "0"],
    );
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("only python") || text.contains("manifest "),
        "{text}"
    );
    for case in std::fs::read_dir(keep.path()).unwrap() {
        let case = case.unwrap().path();
        assert!(case.join("ours.yaml").exists() && case.join("dicom").exists());
        assert!(text.contains(&case.display().to_string()), "{text}");
    }
}
