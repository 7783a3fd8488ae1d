//! The program under strace: what it calls, and what it does when a call fails.
#![expect(clippy::disallowed_methods, reason = "starts strace")]

use std::path::Path;
use std::process::Command;

use crate::harness::{Said, Study};

/// True if strace can be used; says loudly if not.
pub fn works(test: &str) -> bool {
    let works = Command::new("strace")
        .args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=none", "true"])
        .status()
        .is_ok_and(|status| status.success());
    if !works {
        eprintln!("SKIPPED: {test}: strace does not work here");
    }
    works
}

/// Calls the program with the study's configuration under strace.
pub fn call(study: &Study, strace: &[&str], arguments: &[&str]) -> Said {
    let program = study.program();
    let program = program.get_program().to_owned();
    let mut path = study.path.clone();
    path.extend(["/usr/bin".into(), "/bin".into()]);
    let output = Command::new("strace")
        .args(["-f", "-qq"])
        .args(strace)
        .arg(program)
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("HOME", study.dir.path())
        .env("SNBB_CONFIG", study.at("config.yaml"))
        .output()
        .unwrap();
    let said = Said {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    };
    assert!(!said.err.contains("panicked"), "{}", said.err);
    said
}

/// Reads a trace of `strace -y`: name and line of each call, at its beginning.
pub fn calls(trace: &Path) -> Vec<(String, String)> {
    std::fs::read_to_string(trace)
        .unwrap()
        .lines()
        .filter_map(|line| {
            let line = line.split_once(' ')?.1.trim_start();
            let (name, _) = line.split_once('(')?;
            let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            name.bytes()
                .all(is_name)
                .then(|| (name.to_owned(), line.to_owned()))
        })
        .collect()
}
