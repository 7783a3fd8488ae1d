//! Readers that leave early, and the signals that jobs inherit.

use std::fs;

use super::limits::{study, through_shell};
use crate::harness::Study;

#[test]
fn a_reader_that_leaves_early_is_no_error() {
    let (study, _slurm) = study();
    // More than a pipe holds.
    for number in 0..600 {
        study.scan(&[&format!("sub-x{number}/ses-01")]);
    }
    study.ok(&["run"]);
    for command in [
        "status",
        "status --format json",
        "manifest",
        "session-status --format csv",
        "history sub-x1",
        "explain sub-x1 ses-01",
        "outputs",
        "audit",
        "metrics",
        "man",
        "completions bash",
        "run --dry-run",
        "run --help",
    ] {
        let output = through_shell(
            &study,
            &format!("\"$P\" {command} | head -n 1; echo ${{PIPESTATUS[0]}}"),
        );
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let out = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(out.ends_with("0\n"), "{command}: {out}\n{said}");
        for wrong in ["panicked", "roken pipe", "error:"] {
            assert!(!said.contains(wrong), "{command}: {said}");
        }
    }
}

/// A signal that is ignored stays so in what is started: jobs must not inherit what this program needs.
#[test]
fn no_job_inherits_how_this_program_takes_signals() {
    for caller in ["", "trap '' XFSZ; "] {
        let study = Study::new();
        study.configure(
            "executor: local\nproject: p\nprocedures:\n- {name: a, output_dir: a, script: a.sh, completion_marker: done}\n",
        );
        let (part, file) = (study.at("ignored.part"), study.at("ignored"));
        study.script(
            "a.sh",
            &format!(
                "grep SigIgn /proc/$$/status > {0}; mv {0} {1}",
                part.display(),
                file.display()
            ),
        );
        study.scan(&["sub-01/ses-01"]);
        let output = through_shell(&study, &format!("{caller}exec \"$P\" run"));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{said}");
        let since = std::time::Instant::now();
        let line = loop {
            match fs::read_to_string(&file) {
                Ok(line) => break line,
                Err(error) => assert!(since.elapsed().as_secs() < 60, "{error}: {said}"),
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        };
        let mask = line.split_whitespace().nth(1).unwrap();
        let ignored = u64::from_str_radix(mask, 16).unwrap();
        for (name, signal) in [("SIGPIPE", 13), ("SIGXFSZ", 25)] {
            assert_eq!(ignored >> (signal - 1) & 1, 0, "{caller}{name} is ignored");
        }
    }
}
