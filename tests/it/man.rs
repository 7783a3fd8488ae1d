//! The manual pages: all there, and well-formed for those who check such pages.
#![expect(
    clippy::disallowed_methods,
    reason = "starts the programs that show manual pages"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::Study;
use crate::pretty::{in_terminal, problems};

fn has(program: &str) -> bool {
    let found = ["/usr/bin", "/bin"]
        .iter()
        .any(|dir| Path::new(dir).join(program).is_file());
    if !found {
        eprintln!("SKIPPED: {program} is not installed: the manual pages are not checked by it");
    }
    found
}

#[test]
fn there_is_a_page_for_every_command_and_it_is_well_formed() {
    let study = Study::new();
    let dir = study.at("man");
    study.ok(&["man", "--output", dir.to_str().unwrap()]);
    let mut pages: Vec<String> = walkdir::WalkDir::new(&dir)
        .min_depth(1)
        .into_iter()
        .map(|entry| entry.unwrap().file_name().to_str().unwrap().to_owned())
        .collect();
    pages.sort();
    insta::assert_snapshot!(pages.join("\n"));
    // Without --output the main page alone.
    assert_eq!(
        study.ok(&["man"]).out.as_bytes(),
        fs::read(dir.join("snbb-scheduler.1")).unwrap()
    );
    // One page by its name.
    for (name, file) in [
        ("run", "snbb-scheduler-run.1"),
        ("state-verify", "snbb-scheduler-state-verify.1"),
        ("config", "snbb-scheduler-config.5"),
    ] {
        assert_eq!(
            study.ok(&["man", name]).out.as_bytes(),
            fs::read(dir.join(file)).unwrap()
        );
    }
    let said = study.call(&["man", "rum"]);
    assert_eq!(said.code, 2);
    insta::assert_snapshot!("man_misspelt", problems(&study, &said.err));
    let said = study.call(&["man", "x"]);
    assert!(
        said.err.contains("pages: ") && said.err.contains("config"),
        "{}",
        said.err
    );
    let keys = study.ok(&["man", "config"]).out;
    for key in [
        "output_grace",
        "completion_marker",
        "dicom_root",
        "max_drop",
    ] {
        assert!(keys.contains(key), "{key}");
    }
    for page in &pages {
        let path = dir.join(page);
        let text = fs::read_to_string(&path).unwrap();
        for heading in ["NAME", "SYNOPSIS", "OPTIONS"] {
            assert!(
                text.contains(&format!(".SH {heading}")),
                "{page}: {heading}"
            );
        }
        assert!(!text.contains("lock-always-granted"), "{page}");
        if has("groff") {
            let output = Command::new("groff")
                .args(["-ww", "-z", "-man", "-Tutf8", "-K", "utf8"])
                .arg(&path)
                .output()
                .unwrap();
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && err.is_empty(), "{page}: {err}");
        }
        if has("mandoc") {
            let output = Command::new("mandoc")
                .args(["-T", "lint", "-W", "warning"])
                .arg(&path)
                .output()
                .unwrap();
            let out = String::from_utf8_lossy(&output.stdout);
            let told: Vec<&str> = out
                .lines()
                // Pages bear no date; and how paragraphs are parted is clap_mangen's.
                .filter(|line| {
                    !line.contains("missing date") && !line.contains("skipping paragraph macro")
                })
                .collect();
            assert_eq!(told, [""; 0], "{page}");
        }
    }
    if has("man") {
        let output = Command::new("man")
            .args(["-l"])
            .arg(dir.join("snbb-scheduler.1"))
            .env("MANPAGER", "cat")
            .env("MANWIDTH", "100")
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        for words in [
            "Exit codes",
            "another invocation holds the lock",
            "SNBB_CONFIG",
            "snbb-scheduler-run(1)",
        ] {
            assert!(
                shown.to_lowercase().contains(&words.to_lowercase()),
                "{words}\n{shown}"
            );
        }
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let study = Study::new();
    study.write("file", "");
    let said = study.call(&["man", "--output", study.at("file/x").to_str().unwrap()]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("file/x"), "{}", said.err);
}

#[test]
fn d15_a_terminal_gets_the_page_through_man() {
    let mut study = Study::new();
    study.script("bin/man", "echo \"man $*\"; grep -c '^[.]SH'");
    study.path.insert(0, study.at("bin"));
    let shown = in_terminal(&study, 80, &["man", "run"]);
    assert!(shown.starts_with("man -l -\n"), "{shown}");
    assert!(!shown.contains(".TH"), "{shown}");
    // Not a terminal: the source, for a pipe.
    assert!(study.ok(&["man", "run"]).out.contains(".TH"));
    study.script("bin/man", "exit 1");
    assert!(in_terminal(&study, 80, &["man", "run"]).contains(".TH"));
}
