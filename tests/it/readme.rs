//! The five minutes of the README, as a reader would type them.
#![expect(
    clippy::disallowed_methods,
    reason = "runs the README's commands in a shell"
)]

use std::process::Command;

use crate::harness::executable;

/// Returns the fenced blocks of a language that run.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let blocks = crate::book::blocks::blocks(text).into_iter();
    blocks
        .filter(|block| block.language == language && block.remarks.is_empty())
        .map(|block| block.text)
        .collect()
}

#[test]
fn the_five_minutes_work_as_written() {
    let readme = include_str!("../../README.md");
    let part = readme
        .split("## A first pipeline in five minutes")
        .nth(1)
        .and_then(|rest| rest.split("\n## ").next())
        .unwrap();
    // No command of the README stands elsewhere.
    assert_eq!(blocks(readme, "console"), blocks(part, "console"));
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write("config.yaml", &blocks(part, "yaml")[0]);
    for (name, text) in ["convert.sh", "report.sh"]
        .into_iter()
        .zip(blocks(part, "bash"))
    {
        write(name, &text);
        executable(&dir.path().join(name));
    }
    let mut script = String::from("set -e\n");
    for block in blocks(part, "console") {
        for line in block.lines().filter_map(|line| line.strip_prefix("$ ")) {
            script.push_str(line);
            script.push('\n');
        }
    }
    script.push_str("snbb-scheduler session-status --format csv\n");
    let program = assert_cmd::cargo::cargo_bin("snbb-scheduler");
    let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
    let output = Command::new("bash")
        .args(["-c", &script])
        .current_dir(dir.path())
        .env_clear()
        .env("PATH", path)
        .env("HOME", dir.path())
        .output()
        .unwrap();
    let out = String::from_utf8_lossy(&output.stdout);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}\n{out}\n{err}");
    assert!(
        out.ends_with(
            "subject,session,convert,report\nsub-01,ses-01,complete,complete\n\
             sub-01,ses-02,complete,complete\nsub-02,ses-01,complete,complete\n"
        ),
        "{out}\n{err}"
    );
}

#[test]
fn the_exit_codes_are_those_of_the_program() {
    let readme = include_str!("../../README.md");
    let part = readme.split("## Exit codes").nth(1).unwrap();
    let rows = part.lines().filter_map(|line| line.strip_prefix("| "));
    let rows: Vec<String> = rows.skip(1).map(|row| row.replace('`', "")).collect();
    let codes = snbb_scheduler::base::exit::Exit::ALL;
    assert_eq!(rows.len(), codes.len());
    for (row, exit) in rows.iter().zip(codes) {
        let documented = format!("{} | {}", exit.code(), exit.meaning());
        assert!(row.starts_with(&documented), "{row}");
    }
}

/// To be turned round on the day of the first release on PyPI.
#[test]
fn d24_no_page_installs_a_distribution_that_is_not_published() {
    let pages = [
        "README.md",
        "docs/getting-started.md",
        "docs/install.md",
        "docs/python.md",
    ];
    for page in pages {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(page);
        let text = std::fs::read_to_string(path).unwrap();
        assert!(!text.contains("pip install snbb-scheduler"), "{page}");
        assert!(!text.contains("snbb-scheduler["), "{page}");
    }
}
