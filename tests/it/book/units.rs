//! The systemd units of the book, as systemd reads them.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::ROOT;
use super::blocks::blocks;
use crate::harness::executable;

#[test]
fn systemd_finds_nothing_wrong_with_the_units() {
    let text = fs::read_to_string(Path::new(ROOT).join("docs/cron.md")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    // The unit names a program that must be there.
    let program = dir.path().join("snbb-scheduler");
    fs::write(&program, "#!/bin/sh\n").unwrap();
    executable(&program);
    let mut units = Vec::new();
    for block in blocks(&text).iter().filter(|block| block.language == "ini") {
        let first = block.text.lines().next().unwrap_or_default();
        let name = first.rsplit('/').next().unwrap();
        assert!(
            first.starts_with("# ") && name.contains('.'),
            "{first}: the first line names the file"
        );
        let unit = dir.path().join(name);
        let text = block
            .text
            .replace("%h/.local/bin/snbb-scheduler", program.to_str().unwrap());
        assert!(text != block.text || name.ends_with(".timer"), "{name}");
        fs::write(&unit, text).unwrap();
        units.push(unit);
    }
    assert_eq!(units.len(), 3);
    if !Path::new("/usr/bin/systemd-analyze").is_file() {
        eprintln!(
            "SKIPPED: systemd-analyze is not installed: the units of the book are not checked by it"
        );
        return;
    }
    let output = Command::new("systemd-analyze")
        .args(["verify", "--user", "--man=no"])
        .args(&units)
        .env("XDG_RUNTIME_DIR", dir.path())
        .env("HOME", dir.path())
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    let said: Vec<&str> = err
        .lines()
        .filter(|line| line.contains(dir.path().to_str().unwrap()) || line.contains("snbb"))
        .collect();
    assert!(output.status.success() && said.is_empty(), "{err}");
    // The times that the timer names.
    for line in text
        .lines()
        .filter_map(|line| line.strip_prefix("OnCalendar="))
    {
        let output = Command::new("systemd-analyze")
            .args(["calendar", line])
            .output()
            .unwrap();
        assert!(output.status.success(), "{line}");
    }
}
