//! Several calls at once on one study: with the lock, with calls that are killed, with a lock that
//! locks nothing, and by another user. Real processes, a Slurm of shell scripts.
//!
//! `SNBB_TEST_LONG=1` makes every sweep 200 rounds long.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests start processes, and read the environment and /proc"
)]

mod holders;
mod mounts;
mod plans;
mod sweeps;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use crate::fake_slurm::FakeSlurm;
use crate::harness::{Said, Study, executable};
use crate::pretty::messages;

const PIPELINE: &str = "\
settle_time: 2s
procedures:
  - {name: step, output_dir: step, script: step.sh, completion_marker: done}
";

/// Rounds of the sweeps that prove that calls at once do no harm.
const ROUNDS: usize = 200;

/// After so many rounds a study is full enough, and a new one is begun.
const ROUNDS_OF_A_STUDY: usize = 10;

/// Sessions that come with each round.
const NEW: usize = 3;

/// Known to debug builds only.
const USELESS_LOCK: &str = "--lock-always-granted-for-tests";

/// A study that grows.
struct Growing {
    study: Study,
    slurm: FakeSlurm,
    rounds: usize,
    /// Job id per task name, as the state told it last.
    known: BTreeMap<String, String>,
}

impl Growing {
    fn new() -> Self {
        let mut study = Study::new();
        let slurm = FakeSlurm::new(&mut study);
        study.configure(PIPELINE);
        study.script("step.sh", "true");
        Self {
            study,
            slurm,
            rounds: 0,
            known: BTreeMap::new(),
        }
    }

    fn is_full(&self) -> bool {
        self.rounds == ROUNDS_OF_A_STUDY
    }

    fn grow(&mut self) {
        self.rounds += 1;
        for session in 0..NEW {
            let session = format!("sub-{:02}/ses-{session}", self.rounds);
            self.study.scan(&[&session]);
        }
    }

    fn tasks(&self) -> usize {
        self.rounds * NEW
    }

    /// Counts the jobs that Slurm accepted, per job name.
    fn jobs(&self) -> BTreeMap<String, Vec<String>> {
        let mut jobs: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (id, name) in self.slurm.jobs() {
            jobs.entry(name).or_default().push(id);
        }
        jobs
    }

    /// Reads the rows and sees that none of those seen before is gone.
    fn look(&mut self) -> BTreeMap<String, String> {
        let rows = self.study.job_ids();
        for name in self.known.keys() {
            assert!(rows.contains_key(name), "the row of {name} is lost");
        }
        self.known.clone_from(&rows);
        rows
    }

    /// Every task has one job, and its row knows it.
    fn is_exact(&mut self) {
        let rows = self.look();
        let jobs = self.jobs();
        assert_eq!(jobs.len(), self.tasks(), "each task has a job: {jobs:#?}");
        for (name, ids) in &jobs {
            assert_eq!(ids.len(), 1, "{name} was submitted {} times", ids.len());
            assert_eq!(rows.get(name), Some(&ids[0]), "the row of {name}");
        }
        assert_eq!(rows.len(), self.tasks());
    }
}

/// Is a call of the program that goes on.
struct Call {
    child: Child,
}

impl Call {
    /// Starts the program by a command that ends with the command to start.
    fn start(study: &Study, by: &[&str], arguments: &[&str], env: &[(&str, &Path)]) -> Self {
        let program = assert_cmd::cargo::cargo_bin("snbb-scheduler");
        let mut words: Vec<&std::ffi::OsStr> = by.iter().map(std::ffi::OsStr::new).collect();
        // Whatever the program starts holds this one's stdout too, as descriptor 9: its end tells the
        // end of them all.
        words.extend(
            ["sh", "-c", "exec 9>&1 >/dev/null; exec \"$@\"", "sh"].map(std::ffi::OsStr::new),
        );
        words.push(program.as_os_str());
        let mut path: Vec<PathBuf> = study.path.clone();
        path.extend(["/usr/bin".into(), "/bin".into()]);
        let child = Command::new(words[0])
            .args(&words[1..])
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::join_paths(path).unwrap())
            .env("HOME", study.dir.path())
            .env("SNBB_CONFIG", study.at("config.yaml"))
            .envs(env.iter().copied())
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Self { child }
    }

    /// Waits for its end, and for that of all that it started.
    fn end(mut self) -> Said {
        let mut err = String::new();
        let mut pipe = self.child.stderr.take().unwrap();
        pipe.read_to_string(&mut err).unwrap();
        let status = self.child.wait().unwrap();
        let mut out = String::new();
        let mut pipe = self.child.stdout.take().unwrap();
        pipe.read_to_string(&mut out).unwrap();
        assert!(
            !err.contains("panicked") && !err.contains("stack backtrace"),
            "{err}"
        );
        Said {
            code: status.code().unwrap_or(-1),
            out,
            err,
        }
    }

    /// Ends it as a crash does; `deep`: with the sbatch that it waits for.
    fn kill(&mut self, deep: bool) {
        let pid = self.child.id();
        if deep {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            for child in children.unwrap_or_default().split_ascii_whitespace() {
                kill(child.parse().unwrap());
            }
        }
        let _ = self.child.kill();
    }
}

fn kill(pid: i32) {
    if let Some(pid) = rustix::process::Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
}

/// A node's name, a tree of processes and a `/proc` of its own, as on another login node.
fn on_node(name: &str) -> Vec<String> {
    let set_name = format!("echo {name} > /proc/sys/kernel/hostname; exec \"$@\"");
    [
        "unshare",
        "--uts",
        "--pid",
        "--mount",
        "--fork",
        "--kill-child",
        "--mount-proc",
        "sh",
        "-c",
        &set_name,
        "sh",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn has_namespaces() -> bool {
    let command = on_node("login1");
    let output = Command::new(&command[0])
        .args(&command[1..])
        .args(["uname", "-n"])
        .output();
    output.is_ok_and(|output| output.stdout == b"login1\n")
}

/// What was said, but for the warning about a short settle_time.
fn errors(said: &Said) -> Vec<&str> {
    said.err
        .lines()
        .filter(|line| !line.contains("settle_time"))
        .collect()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn tell(text: &str) {
    let _ = writeln!(std::io::stderr(), "\n=== {text} ===");
}

fn is_long() -> bool {
    std::env::var_os("SNBB_TEST_LONG").is_some()
}

fn rounds(short: usize) -> usize {
    if is_long() { 200 } else { short }
}

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn wait_for(path: &Path) {
    let since = Instant::now();
    while !path.exists() {
        assert!(
            since.elapsed() < Duration::from_secs(60),
            "no {}",
            path.display()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Lets a call of sbatch wait before it does anything, or one of squeue after its answer, for the
/// removal of a file.
struct Gate {
    file: PathBuf,
}

impl Gate {
    fn new(growing: &Growing, name: &str) -> Self {
        let file = growing.slurm.at(name);
        fs::write(&file, "").unwrap();
        Self { file }
    }

    fn start(&self, growing: &Growing, at: &str, arguments: &[&str]) -> Call {
        let env = [("FAKE_WAIT", Path::new(at)), ("FAKE_WAIT_FILE", &self.file)];
        let call = Call::start(&growing.study, &[], arguments, &env);
        wait_for(&self.file.with_extension("reached"));
        call
    }

    fn open(&self) {
        fs::remove_file(&self.file).unwrap();
    }
}

/// Whether a call stopped because another one changed the files under its hands.
fn gave_way(said: &Said) -> bool {
    said.code == 1 && said.err.contains("another process")
}

/// Every job is in its task's row, or shown as a second one. Returns how many are.
fn all_are_known(growing: &mut Growing, said: &Said) -> usize {
    let rows = growing.look();
    let jobs = growing.jobs();
    let mut doubled = 0;
    assert_eq!(rows.len(), growing.tasks());
    for (name, ids) in &jobs {
        for id in ids {
            if rows.get(name) == Some(id) {
                continue;
            }
            doubled += 1;
            assert!(
                said.err.contains(&format!("scancel {id}")),
                "job {id} of {name} is unknown: {}",
                said.err
            );
        }
        assert!(ids.contains(&rows[name]), "{name}: {ids:?}");
    }
    doubled
}
