//! Slurm's bad days: each must end as the documentation says, with a reason and an exit code, and nothing lost.
//!
//! On real clusters where a day can be made, with fakes where not.
#![expect(
    clippy::disallowed_methods,
    reason = "tests start programs and look at the disk"
)]

mod controller;
mod database;
mod ends;
mod fakes;
mod identity;
mod limits;
mod node;

use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::harness::{Said, Study};

/// Far more than anything takes.
const PATIENCE: Duration = Duration::from_secs(180);

/// Calls the program as another user, who gets the study.
fn call_as(study: &Study, user: &str, arguments: &[&str]) -> Said {
    let chown = Command::new("chown")
        .args(["-R", user])
        .arg(study.dir.path())
        .status();
    assert!(chown.unwrap().success());
    let output = Command::new("setpriv")
        .args(["--reuid", user, "--regid", user, "--clear-groups"])
        .arg(env!("CARGO_BIN_EXE_snbb-scheduler"))
        .args(arguments)
        .env_clear()
        .envs(study.environment())
        .current_dir("/")
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

/// Calls the program until a condition holds for what it says and the rows.
fn until(study: &Study, arguments: &[&str], done: impl Fn(&Said, &[String]) -> bool) -> Said {
    until_by(study, &|arguments| study.call(arguments), arguments, done)
}

fn until_by(
    study: &Study,
    call: &dyn Fn(&[&str]) -> Said,
    arguments: &[&str],
    done: impl Fn(&Said, &[String]) -> bool,
) -> Said {
    let since = Instant::now();
    loop {
        let said = call(arguments);
        let statuses = study.statuses();
        if done(&said, &statuses) {
            return said;
        }
        assert!(
            since.elapsed() < PATIENCE,
            "still {statuses:#?}; code {}, {}\n{:#?}\n{:#?}",
            said.code,
            said.err,
            study.rows(),
            logs(study)
        );
        sleep(Duration::from_millis(300));
    }
}

/// The logs of jobs, for messages about a failed test.
fn logs(study: &Study) -> Vec<(PathBuf, String)> {
    let files = study.snapshot().into_iter();
    let logs = files.filter(|(path, _)| path.starts_with(study.at("logs")));
    logs.map(|(path, text)| (path, String::from_utf8_lossy(&text).into_owned()))
        .collect()
}

/// Waits for something outside of the program.
fn wait_until(what: &str, done: impl Fn() -> bool) {
    let since = Instant::now();
    while !done() {
        assert!(since.elapsed() < PATIENCE, "{what} has not come");
        sleep(Duration::from_millis(100));
    }
}

/// The row of a subject, all columns.
fn row(study: &Study, procedure: &str, subject: &str) -> serde_json::Value {
    let rows = study.rows();
    rows.iter()
        .find(|row| row["subject"] == subject && row["procedure"] == procedure)
        .unwrap_or_else(|| panic!("no row of {procedure} {subject}: {rows:#?}"))
        .clone()
}

fn job_id(study: &Study, procedure: &str, subject: &str) -> String {
    row(study, procedure, subject)["job_id"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// A script body: waits for a file `go` beside the state and then leaves the marker `done`.
const UNTIL_GO: &str = r#"while [ ! -e "$SNBB_DERIVATIVES_ROOT/../go" ]; do sleep 0.1; done
mkdir -p "$SNBB_OUTPUT_DIR"; touch "$SNBB_OUTPUT_DIR/done""#;
