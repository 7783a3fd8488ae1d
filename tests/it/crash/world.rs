//! Studies to crash in, and what must hold of them afterwards.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use snbb_scheduler::model::state::TaskRow;
use snbb_scheduler::store::audit_log;
use snbb_scheduler::store::audit_log::{EventKind, Record};
use snbb_scheduler::store::state_file::Store;

use crate::fake_slurm::FakeSlurm;
use crate::harness::{Said, Study};

/// Doubts are settled at the second look, one thread scans, and the name of the project does not depend on the place.
const CONFIG: &str = "\
project: crash
slurm_partition: normal
scan_threads: 1
safety: {min_free: 0}
settle_time: 0s
output_grace: 0s
procedures:
  - name: convert
    output_dir: ''
    script: convert.sh
    completion_marker: anat/*_T1w.nii.gz
";

/// How often a command may be called until nothing changes any more.
const PATIENCE: usize = 8;

/// Is a study with its cluster.
pub struct World {
    pub study: Study,
    pub slurm: FakeSlurm,
}

/// Holds all rows there are, and all jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    /// Rows of the state without what differs from call to call (times, ids).
    pub rows: Vec<String>,
    /// The same of the attempts file.
    pub attempts: Vec<String>,
    /// Names of all jobs that sbatch ever accepted.
    pub jobs: Vec<String>,
    /// What is paused: procedures, or `the study`.
    pub paused: Vec<String>,
}

impl Picture {
    /// Complains of what is too much and of what is missing.
    pub fn is_like(&self, expected: &Self) -> Result<(), String> {
        let parts = [
            (&self.rows, &expected.rows),
            (&self.attempts, &expected.attempts),
            (&self.jobs, &expected.jobs),
            (&self.paused, &expected.paused),
        ];
        let complaints: Vec<String> = parts
            .iter()
            .flat_map(|(found, expected)| {
                let extra = without(found, expected);
                let missing = without(expected, found);
                extra
                    .into_iter()
                    .map(|line| format!("  found:    {line}"))
                    .chain(
                        missing
                            .into_iter()
                            .map(|line| format!("  expected: {line}")),
                    )
            })
            .collect();
        if complaints.is_empty() {
            Ok(())
        } else {
            Err(format!("ended differently\n{}", complaints.join("\n")))
        }
    }
}

/// Returns what a list has more often than another.
fn without<'a>(list: &'a [String], other: &[String]) -> Vec<&'a String> {
    let mut rest = other.to_vec();
    list.iter()
        .filter(|line| match rest.iter().position(|found| found == *line) {
            Some(at) => {
                rest.swap_remove(at);
                false
            }
            None => true,
        })
        .collect()
}

impl World {
    fn new() -> Self {
        let mut study = Study::new();
        let slurm = FakeSlurm::new(&mut study);
        study.configure(CONFIG);
        study.script("convert.sh", "true");
        Self { study, slurm }
    }

    /// Makes a study without a state, in which three tasks are due.
    pub fn fresh() -> Self {
        let world = Self::new();
        world
            .study
            .scan(&["sub-01/ses-01", "sub-01/ses-02", "sub-02/ses-01"]);
        world
    }

    /// Makes a study without a state, in which three tasks are due that become one array.
    pub fn array() -> Self {
        let world = Self::fresh();
        world.study.configure(&format!("array: always\n{CONFIG}"));
        world
    }

    /// Also writes a heartbeat and metrics, and sends notifications.
    pub fn reporting(self) -> Self {
        self.study.script("notify.sh", "true");
        self.study.configure(&format!(
            "heartbeat_file: beat.json\nmetrics_file: snbb.prom\nnotify: {{command: notify.sh}}\n{CONFIG}"
        ));
        self
    }

    /// Makes a study without a state, in which two tasks are due.
    pub fn two_due() -> Self {
        let world = Self::new();
        world.study.scan(&["sub-01/ses-01", "sub-02/ses-01"]);
        world
    }

    /// Makes a study with a history in which three tasks are due: one failed and was cleared, one is new,
    /// of one the outputs are gone. The job of a fourth has just ended; a fifth is complete.
    pub fn grown() -> Self {
        let world = Self::with_ended_jobs();
        world.study.ok(&["monitor"]);
        world.study.ok(&["retry"]);
        std::fs::remove_dir_all(world.study.at("bids/sub-01/ses-02")).unwrap();
        world.end("convert_sub-02_ses-02", "COMPLETED");
        world.study.scan(&["sub-02/ses-01"]);
        world
    }

    /// Makes a study with two failed rows and earlier attempts, for `retry`.
    pub fn failed() -> Self {
        let world = Self::with_ended_jobs();
        world.study.ok(&["monitor"]);
        world.study.ok(&["retry"]);
        world.study.ok(&["run"]);
        world.end("convert_sub-01_ses-01", "FAILED 2:0");
        world.end("convert_sub-02_ses-02", "TIMEOUT 0:15");
        world.study.ok(&["monitor"]);
        world
    }

    /// Makes a study whose next run pauses the procedure: its last job failed, and a task is due.
    pub fn failing() -> Self {
        let world = Self::with_ended_jobs();
        world.study.ok(&["monitor"]);
        world.study.ok(&["retry"]);
        // What ends in the same second as a success does not count as after it.
        std::thread::sleep(std::time::Duration::from_millis(1100));
        world.study.ok(&["run"]);
        world.end("convert_sub-01_ses-01", "FAILED 2:0");
        world.study.ok(&["monitor"]);
        world
            .study
            .configure(&format!("pause_after_failures: 1\n{CONFIG}"));
        world.study.ok(&["retry"]);
        world
    }

    /// Makes a study of which three jobs have ended and nobody has looked, for `monitor`.
    pub fn with_ended_jobs() -> Self {
        let world = Self::new();
        world.study.scan(&[
            "sub-01/ses-01",
            "sub-01/ses-02",
            "sub-02/ses-02",
            "sub-03/ses-01",
        ]);
        world.study.ok(&["run"]);
        world.end("convert_sub-01_ses-01", "FAILED 1:0");
        world.end("convert_sub-01_ses-02", "COMPLETED");
        world.end("convert_sub-03_ses-01", "COMPLETED");
        world
    }

    /// Makes a study with something of each kind for `clean`: a session that is gone, logs, old events.
    pub fn with_old_things() -> Self {
        let world = Self::with_ended_jobs();
        world.study.ok(&["monitor"]);
        std::fs::remove_dir_all(world.study.at("dicom/sub-03")).unwrap();
        for (id, name) in world.slurm.jobs() {
            for end in ["out", "err"] {
                let path = format!("logs/convert/{name}_{id}.{end}");
                world.study.write(&path, "text");
                let file = std::fs::File::open(world.study.at(&path)).unwrap();
                file.set_modified(std::time::UNIX_EPOCH).unwrap();
            }
        }
        world
    }

    /// Makes a world like this one, for which this one is only the pattern: a copy beside its original is refused.
    pub fn copy(&self) -> Self {
        let [state, aside] = ["state.parquet", "pattern"];
        let _ = std::fs::rename(self.study.at(state), self.study.at(aside));
        let study = self.study.copy();
        let _ = std::fs::rename(study.at(aside), study.at(state));
        let slurm = FakeSlurm::of(&study);
        Self { study, slurm }
    }

    /// Ends the newest job of a name; one that ends well leaves its outputs.
    fn end(&self, name: &str, state: &str) {
        let jobs = self.slurm.jobs();
        let (id, _) = jobs.iter().rfind(|(_, found)| found == name).unwrap();
        self.slurm.set(id, state);
        if state == "COMPLETED" {
            let parts: Vec<&str> = name.split('_').collect();
            let (subject, session) = (parts[1], parts[2]);
            self.study.write(
                &format!("bids/{subject}/{session}/anat/{subject}_{session}_T1w.nii.gz"),
                "x",
            );
        }
    }

    /// Calls the program under strace. Returns when Slurm's commands have ended too, also if the program was
    /// killed: they inherit a descriptor that is waited for. The code of a killed call is -1.
    pub fn traced(&self, arguments: &[&str], strace: &[&str], trace: &Path) -> Said {
        self.start(
            Command::new("sh")
                .args(["-c", r#"exec "$@" 9>&1"#, "sh", "strace", "-qq", "-y", "-o"])
                .arg(trace)
                .args(strace),
            arguments,
        )
    }

    /// Calls the program, and all that it starts, with files of so many bytes at most (`ulimit -f`).
    pub fn limited(&self, arguments: &[&str], bytes: usize) -> Said {
        let limit = format!("--fsize={bytes}");
        self.start(
            Command::new("sh").args(["-c", r#"exec "$@" 9>&1"#, "sh", "prlimit", &limit, "--"]),
            arguments,
        )
    }

    /// Calls the program.
    pub fn call(&self, arguments: &[&str]) -> Said {
        self.start(
            Command::new("sh").args(["-c", r#"exec "$@" 9>&1"#, "sh"]),
            arguments,
        )
    }

    fn start(&self, command: &mut Command, arguments: &[&str]) -> Said {
        let path: Vec<_> = self
            .study
            .path
            .iter()
            .cloned()
            .chain(["/usr/bin".into(), "/bin".into()])
            .collect();
        let output = command
            .arg(assert_cmd::cargo::cargo_bin("snbb-scheduler"))
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("HOME", self.study.dir.path())
            .env("SNBB_CONFIG", self.study.at("config.yaml"))
            .envs(self.study.env.iter().cloned())
            .current_dir("/")
            .output()
            .unwrap();
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// True if a message leads to the study. That the configuration is a test's is said at each call, and does not count.
    pub fn names_a_path(&self, said: &Said) -> bool {
        let place = self.study.dir.path().to_string_lossy();
        said.err
            .lines()
            .any(|line| line.contains(&*place) && !line.contains("settle_time"))
    }

    /// Returns all files but those of the cluster, with their content.
    pub fn files(&self) -> Vec<(std::path::PathBuf, Vec<u8>)> {
        let mut files = self.study.snapshot();
        files.retain(|(path, _)| !path.starts_with(self.slurm.at("")));
        files
    }

    pub fn store(&self) -> Store {
        Store::at(&self.study.at("state.parquet")).unwrap()
    }

    /// Returns the rows of the state with its journal, and those of the attempts file.
    fn all_rows(&self) -> Result<(Vec<TaskRow>, Vec<TaskRow>), String> {
        let store = self.store();
        let state = store.read().map_err(|error| error.to_string())?;
        let mut attempts = store.read_attempts().map_err(|error| error.to_string())?;
        // What the journal has replaced, and no save has moved yet.
        attempts.extend_from_slice(state.superseded());
        Ok((state.rows().to_vec(), attempts))
    }

    /// Looks whether the state can be read and still has every attempt of `before`.
    pub fn is_whole(&self, before: &Self) -> Result<(), String> {
        let said = self.call(&["status", "--format", "json"]);
        let shown: Result<Vec<serde_json::Value>, _> = serde_json::from_str(&said.out);
        if said.code != 0 || shown.is_err() {
            return Err(format!("status: code {}: {}", said.code, said.err.trim()));
        }
        let attempt = |row: &TaskRow| format!("{} {:?} {:?}", row.key, row.attempt, row.job_id);
        let (rows, attempts) = self.all_rows()?;
        let there: Vec<String> = rows.iter().chain(&attempts).map(attempt).collect();
        let (rows, attempts) = before.all_rows()?;
        match rows
            .iter()
            .chain(&attempts)
            .map(attempt)
            .find(|attempt| !there.contains(attempt))
        {
            Some(lost) => Err(format!("lost: {lost}")),
            None => Ok(()),
        }
    }

    /// Looks whether the state or its journal names the submission of each job.
    pub fn every_job_has_its_intent(&self, what: &str) {
        let state = self.store().read().unwrap();
        for (id, name) in self.slurm.jobs() {
            let job = std::fs::read_to_string(self.slurm.at("jobs").join(&id)).unwrap();
            let comment = job.lines().nth(1).unwrap();
            let known = state.rows().iter().any(|row| {
                row.submission_id
                    .as_deref()
                    .is_some_and(|submission| comment.ends_with(submission))
            });
            assert!(known, "{what}: nothing is known of job {id} ({name})");
        }
    }

    /// Returns how often the state file was replaced; 0 if there is none.
    pub fn generation(&self) -> Result<u64, String> {
        let state = self.store().read().map_err(|error| error.to_string())?;
        Ok(state.meta.generation)
    }

    /// Calls a command until nothing changes any more, and returns how things are then. Each call must end well.
    pub fn settle(&self, arguments: &[&str]) -> Result<Picture, String> {
        let picture = self.settle_somehow(arguments)?;
        self.all_jobs_are_logged()?;
        Ok(picture)
    }

    /// Is [`Self::settle`] after a call that could not write its audit log.
    pub fn settle_somehow(&self, arguments: &[&str]) -> Result<Picture, String> {
        let mut before: Option<(Picture, bool)> = None;
        for _ in 0..PATIENCE {
            let said = self.call(arguments);
            if said.code != 0 {
                return Err(format!(
                    "{arguments:?} afterwards: code {}: {}",
                    said.code,
                    said.err.trim()
                ));
            }
            let now = self.picture()?;
            let in_doubt = now.rows.iter().any(|row| row.contains("Submitting"));
            let now = Some((now, in_doubt));
            if now == before && !in_doubt {
                break;
            }
            before = now;
        }
        match before {
            Some((picture, false)) => {
                self.nothing_is_left_over()?;
                Ok(picture)
            }
            _ => Err("still in doubt after many calls".to_owned()),
        }
    }

    fn picture(&self) -> Result<Picture, String> {
        let (rows, attempts) = self.all_rows()?;
        let jobs: BTreeMap<String, String> = self.slurm.jobs().into_iter().collect();
        for row in &rows {
            let job = row.job_id.as_ref().and_then(|id| jobs.get(id.as_str()));
            if !row.is_in_doubt() && job.map(String::as_str) != row.job_name.as_deref() {
                return Err(format!("{}: its job {:?} is {job:?}", row.key, row.job_id));
            }
        }
        let words = |rows: &[TaskRow]| {
            let mut list: Vec<String> = rows.iter().map(timeless).collect();
            list.sort();
            list
        };
        let mut names: Vec<String> = jobs.values().map(|name| timeless_name(name)).collect();
        names.sort();
        let control = self.store().read_control();
        let paused = control
            .map_err(|error| error.to_string())?
            .pauses()
            .map(|(name, _)| name.map_or_else(|| "the study".to_owned(), ToString::to_string))
            .collect();
        Ok(Picture {
            paused,
            rows: words(&rows),
            attempts: words(&attempts),
            jobs: names,
        })
    }

    fn nothing_is_left_over(&self) -> Result<(), String> {
        let paths = self.store().paths;
        for path in [&paths.journal, &paths.lock] {
            if path.symlink_metadata().is_ok() {
                return Err(format!("left over: {}", path.display()));
            }
        }
        Ok(())
    }

    /// Reads the audit log and its archives.
    pub fn events(&self) -> Result<Vec<Record>, String> {
        let log = audit_log::read(&self.study.at("scheduler_audit.jsonl"));
        let log = log.map_err(|error| format!("audit log: {error}"))?;
        let log = log.unwrap_or_default();
        match log.bad_archives.first() {
            Some((path, error)) => Err(format!("{}: {error}", path.display())),
            None => Ok(log.records),
        }
    }

    fn all_jobs_are_logged(&self) -> Result<(), String> {
        let logged: Vec<String> = self
            .events()?
            .iter()
            .filter(|event| matches!(event.kind, EventKind::Submitted | EventKind::Adopted))
            .filter_map(|event| event.job_id.as_ref().map(ToString::to_string))
            .collect();
        match self
            .slurm
            .jobs()
            .into_iter()
            .find(|(id, _)| !logged.contains(id))
        {
            Some((id, name)) => Err(format!("job {id} ({name}) is not in the audit log")),
            None => Ok(()),
        }
    }
}

/// Returns a job's name without the digits that tell one array from another.
fn timeless_name(name: &str) -> String {
    match name.split_once("_array_") {
        Some((procedure, _)) => format!("{procedure}_array"),
        None => name.to_owned(),
    }
}

/// Says of a row what must not depend on when and how often the program was called.
fn timeless(row: &TaskRow) -> String {
    format!(
        "{}: {:?} {:?} attempt {:?}, job {}, {:?} {:?} {:?} {:?}",
        row.key,
        row.status,
        row.reason,
        row.attempt,
        row.job_id.is_some(),
        row.job_name.as_deref().map(timeless_name),
        row.facts.slurm_state,
        row.facts.exit_code,
        row.replaces_outputs,
    )
}
