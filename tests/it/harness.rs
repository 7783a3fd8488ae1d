//! What the tests share: a study on disk, the program, its output.
#![expect(
    clippy::disallowed_methods,
    reason = "reads the environment and finds programs"
)]

pub mod disk;
pub mod facts;
pub mod rows;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use assert_cmd::Command;
use tempfile::TempDir;

/// Is a study in a temporary directory: roots, scripts, a configuration.
pub struct Study {
    pub dir: TempDir,
    /// Directories that the program's `PATH` begins with.
    pub path: Vec<PathBuf>,
    pub env: Vec<(String, String)>,
}

/// A time for `recheck` within which no task's turn comes while a test runs.
pub fn quiet_period() -> String {
    let now = snbb_scheduler::base::sys::now().timestamp();
    let is_quiet = |hours: &i64| {
        let part = hours * 3600 / 24;
        part - now % part > 600
    };
    format!("{}h", (20..=24).rev().find(is_quiet).unwrap())
}

/// The directories of the machine's programs; those of `SNBB_TEST_SLURM` come first if it is set.
pub fn system_path() -> Vec<PathBuf> {
    let slurm = std::env::var_os("SNBB_TEST_SLURM").map(PathBuf::from);
    let slurm = slurm
        .iter()
        .flat_map(|dir| [dir.join("bin"), dir.join("sbin")]);
    slurm
        .chain(["/usr/bin", "/bin"].map(PathBuf::from))
        .collect()
}

/// These, and then those of the caller.
pub fn search_path() -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = system_path()
        .into_iter()
        .chain(std::env::split_paths(&path));
    std::env::join_paths(all).expect("plain names")
}

/// One of the machine's programs.
pub fn system_program(name: &str) -> PathBuf {
    let mut places = system_path().into_iter().map(|dir| dir.join(name));
    places
        .find(|place| place.is_file())
        .unwrap_or_else(|| panic!("this machine has no {name}"))
}

/// What a finished call said.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Study {
    /// Makes the roots and an empty configuration that names them.
    pub fn new() -> Self {
        let study = Self {
            dir: tempfile::tempdir().unwrap(),
            path: Vec::new(),
            env: measured(),
        };
        for root in ["dicom", "bids", "derivatives", "logs"] {
            fs::create_dir(study.at(root)).unwrap();
        }
        study.configure("");
        study
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// Copies everything to another place, as it is now.
    pub fn copy(&self) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let there = |path: &Path| match path.strip_prefix(self.dir.path()) {
            Ok(rest) => dir.path().join(rest),
            Err(_) => path.to_owned(),
        };
        for entry in walkdir::WalkDir::new(self.dir.path()).min_depth(1) {
            let entry = entry.unwrap();
            let to = there(entry.path());
            if entry.file_type().is_dir() {
                fs::create_dir(to).unwrap();
            } else {
                fs::copy(entry.path(), &to).unwrap();
                // Whoever judges by age must find the copies as old as what they are copies of.
                let modified = entry.metadata().unwrap().modified().unwrap();
                let copy = fs::OpenOptions::new().write(true).open(&to);
                if let Ok(copy) = copy {
                    copy.set_modified(modified).unwrap();
                }
            }
        }
        Self {
            path: self.path.iter().map(|path| there(path)).collect(),
            env: self.env.clone(),
            dir,
        }
    }

    /// Writes the configuration: roots and state file, and what is given.
    pub fn configure(&self, rest: &str) {
        self.write(
            "config.yaml",
            &format!(
                "dicom_root: dicom\nbids_root: bids\nderivatives_root: derivatives\n\
                 state_file: state.parquet\nslurm_log_dir: logs\n{rest}"
            ),
        );
    }

    /// Adds sessions that have DICOM files: `sub-01/ses-01`.
    pub fn scan(&self, sessions: &[&str]) {
        for session in sessions {
            self.write(&format!("dicom/{session}/0001.dcm"), "x");
        }
    }

    /// Writes a file and the directories above it.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Writes an executable bash script beside the configuration.
    pub fn script(&self, name: &str, body: &str) {
        self.write(name, &format!("#!/bin/bash\nset -euo pipefail\n{body}\n"));
        executable(&self.at(name));
    }

    pub fn read_bytes(&self, path: &str) -> Vec<u8> {
        fs::read(self.at(path)).unwrap()
    }

    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.at(path)).unwrap()
    }

    /// The small environment that the program has under cron.
    pub fn environment(&self) -> Vec<(String, OsString)> {
        let path = self.path.iter().cloned().chain(system_path());
        let mut all = vec![
            ("PATH".to_owned(), std::env::join_paths(path).unwrap()),
            ("HOME".to_owned(), self.dir.path().into()),
            ("TZ".to_owned(), "UTC".into()),
            ("SNBB_CONFIG".to_owned(), self.at("config.yaml").into()),
        ];
        let own = self.env.iter();
        all.extend(own.map(|(name, value)| (name.clone(), value.into())));
        all
    }

    /// Returns the program with this study's configuration and a small environment, as under cron.
    pub fn program(&self) -> Command {
        let mut command = Command::cargo_bin("snbb-scheduler").unwrap();
        command
            .env_clear()
            .envs(self.environment())
            .current_dir("/");
        command
    }

    /// Calls the program and returns what it said. A panic or a backtrace fails the test.
    pub fn call(&self, arguments: &[&str]) -> Said {
        let output = self.program().args(arguments).output().unwrap();
        let said = Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(
            !said.err.contains("panicked") && !said.err.contains("stack backtrace"),
            "{arguments:?}: {}",
            said.err
        );
        said
    }

    /// Calls the program and expects exit code 0.
    pub fn ok(&self, arguments: &[&str]) -> Said {
        let said = self.call(arguments);
        assert_eq!(said.code, 0, "{arguments:?}\n{}\n{}", said.out, said.err);
        said
    }

    /// Returns the rows of the state as `status` shows them to scripts.
    pub fn rows(&self) -> Vec<serde_json::Value> {
        serde_json::from_str(&self.ok(&["status", "--format", "json"]).out).unwrap()
    }

    /// Returns each row in a few words, sorted: `bids sub-01 ses-01: failed timeout`.
    pub fn statuses(&self) -> Vec<String> {
        let mut list: Vec<String> = self
            .rows()
            .iter()
            .map(|row| {
                let text = |key: &str| row[key].as_str().unwrap_or("-").to_owned();
                format!(
                    "{} {} {}: {} {}",
                    text("procedure"),
                    text("subject"),
                    text("session"),
                    text("status"),
                    text("reason")
                )
            })
            .collect();
        list.sort();
        list
    }

    /// Returns the job id of each row, by job name; empty while in doubt.
    pub fn job_ids(&self) -> BTreeMap<String, String> {
        let id_of = |row: &serde_json::Value| {
            let text = |key: &str| row[key].as_str().unwrap_or("").to_owned();
            let name = format!(
                "{}_{}_{}",
                text("procedure"),
                text("subject"),
                text("session")
            );
            (name, text("job_id"))
        };
        self.rows().iter().map(id_of).collect()
    }

    /// Calls the program until the rows, as [`Self::statuses`] tells them, are as wanted.
    pub fn until(
        &self,
        arguments: &[&str],
        patience: Duration,
        done: impl Fn(&[String]) -> bool,
    ) -> Vec<String> {
        let since = Instant::now();
        loop {
            self.ok(arguments);
            let statuses = self.statuses();
            if done(&statuses) {
                return statuses;
            }
            assert!(since.elapsed() < patience, "still {statuses:#?}");
            std::thread::sleep(Duration::from_millis(300));
        }
    }

    /// Returns all files below the study with their content, to see that nothing changed.
    pub fn snapshot(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files: Vec<(PathBuf, Vec<u8>)> = walkdir::WalkDir::new(self.dir.path())
            .into_iter()
            .map(|entry| entry.unwrap())
            .map(|entry| {
                let content = fs::read(entry.path()).unwrap_or_default();
                (entry.into_path(), content)
            })
            .collect();
        files.sort();
        files
    }
}

/// Sets the execute bits.
pub fn executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Returns what a program that is built to measure coverage must know, wherever the tests call it: where to write. In
/// its working directory it would be in the way.
#[expect(clippy::disallowed_methods, reason = "told by whoever measures")]
fn measured() -> Vec<(String, String)> {
    let name = "LLVM_PROFILE_FILE";
    std::env::var(name)
        .map(|path| (name.to_owned(), path))
        .into_iter()
        .collect()
}
