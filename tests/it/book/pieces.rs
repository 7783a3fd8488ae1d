//! What the pages show and nobody types: scripts and pieces of configuration.

use std::fs;
use std::path::Path;
use std::process::Command;

use snbb_scheduler::config::keys::Section;

use super::blocks::{blocks, pages};

/// Scripts are looked at by bash and shellcheck.
#[test]
fn scripts_of_the_book_are_sound() {
    let has_shellcheck = Path::new("/usr/bin/shellcheck").is_file();
    if !has_shellcheck {
        eprintln!(
            "SKIPPED: shellcheck is not installed: scripts of the book are looked at by bash only"
        );
    }
    let dir = tempfile::tempdir().unwrap();
    for (page, text) in pages() {
        for block in blocks(&text)
            .iter()
            .filter(|block| block.language == "bash")
        {
            let file = dir.path().join("script");
            fs::write(&file, &block.text).unwrap();
            let mut checks = vec![Command::new("bash")];
            checks[0].arg("-n");
            if has_shellcheck && block.text.starts_with("#!") {
                checks.push(Command::new("shellcheck"));
            }
            for mut check in checks {
                let output = check.arg(&file).output().unwrap();
                let out = String::from_utf8_lossy(&output.stdout);
                let err = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{page}:{}: {out}{err}", block.line);
            }
        }
    }
}

/// Puts a piece of a procedure into one.
fn whole(piece: &str) -> String {
    let top = piece
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()));
    let mut keys = top
        .filter_map(|line| line.split_once(':'))
        .map(|(key, _)| key);
    let is_of_procedure =
        keys.any(|key| Section::Procedure.key(key).is_some() && Section::Site.key(key).is_none());
    if !is_of_procedure {
        return piece.to_owned();
    }
    let mut whole = "procedures:\n  - name: x\n    output_dir: x\n    script: x.sh\n".to_owned();
    for line in piece.lines() {
        whole.push_str(&format!("    {line}\n"));
    }
    whole
}

/// Pieces of configuration are loaded; Prometheus' and Ansible's say so in their fence.
#[test]
fn configurations_of_the_book_are_valid() {
    let mut count = 0;
    for (page, text) in pages() {
        for block in blocks(&text)
            .iter()
            .filter(|block| block.language == "yaml" && block.remarks.is_empty())
        {
            let file = Path::new("/site/config.yaml");
            let text = whole(&block.text);
            let env = |name: &str| (name == "HOME").then(|| "/home/ada".into());
            let overrides = snbb_scheduler::config::Overrides::default();
            let loaded = snbb_scheduler::config::load::interpret(
                text.as_bytes(),
                Some(file),
                false,
                &env,
                &overrides,
                Path::new("/"),
            );
            if let Err(error) = loaded {
                panic!("{page}:{}: {error}", block.line);
            }
            count += 1;
        }
    }
    assert!(count > 5, "{count}");
}
