//! The lock and the journal among several processes and on file systems that fail.
//!
//! The other processes are this very test binary: [`child`] is an ignored test that does what
//! an environment variable tells it.
#![expect(
    clippy::disallowed_methods,
    reason = "the tests start processes and read their task from the environment"
)]

mod faults;
mod takeover;

use std::fs::{self, File, FileTimes, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use snbb_scheduler::model::job::JobId;
use snbb_scheduler::model::state::TaskKey;
use snbb_scheduler::store::journal;
use snbb_scheduler::store::journal::{Entry, Intent, Journal, JournalError};
use snbb_scheduler::store::lock::{Lock, LockError, Timing};

const TASK: &str = "SNBB_TEST_CHILD_TASK";
const DIRECTORY: &str = "SNBB_TEST_CHILD_DIRECTORY";
const NAME: &str = "lock_and_journal::child";

const LONG: Duration = Duration::from_secs(3600);

/// Believes a silent lock at once and tries often, so that no test waits.
const IMPATIENT: Timing = Timing {
    heartbeat: Duration::from_secs(30),
    stale_after: Duration::from_secs(600),
    watch: Duration::ZERO,
    pause: Duration::from_millis(1),
};

#[test]
#[ignore = "started by the other tests as a process of its own"]
fn child() {
    let (Some(task), Some(directory)) = (std::env::var_os(TASK), std::env::var_os(DIRECTORY))
    else {
        return;
    };
    let place = Place {
        directory: directory.into(),
    };
    let task = task.into_string().unwrap();
    let mut words = task.split(' ');
    let word = words.next().unwrap();
    let number: u32 = words.next().map_or(0, |number| number.parse().unwrap());
    match word {
        "count" => place.count(number, None),
        "count-and-die" => place.count(number, Some(7)),
        "hold" => {
            let lock = place.acquire(LONG).unwrap();
            say("held");
            wait_for_parent();
            drop(lock);
        }
        "hold-with-child" => {
            let lock = place.acquire(LONG).unwrap();
            let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
            say(&sleeper.id().to_string());
            sleeper.wait().unwrap();
            drop(lock);
        }
        "try" => {
            say("ready");
            wait_for_parent();
            let lock = place.acquire(Duration::ZERO);
            say(if lock.is_ok() { "won" } else { "held" });
            wait_for_parent();
            if let Ok(lock) = lock {
                lock.check().unwrap();
                say("still won");
            }
        }
        "lock-error" => match place.acquire(Duration::ZERO) {
            Err(error @ LockError::Io(_)) => say(&format!("{error} | {}", error.hint())),
            other => panic!("{other:?}"),
        },
        "journal" => place.append_until_error(number),
        "append" => {
            let mut journal = Journal::open(&place.journal()).unwrap();
            journal.append(&intents(number)).unwrap();
        }
        other => panic!("no task '{other}'"),
    }
}

#[derive(Clone)]
struct Place {
    directory: PathBuf,
}

impl Place {
    fn lock(&self) -> PathBuf {
        self.directory.join("state.lock")
    }

    fn journal(&self) -> PathBuf {
        self.directory.join("state.journal.jsonl")
    }

    fn acquire(&self, timeout: Duration) -> Result<Lock, LockError> {
        Lock::acquire_with(&self.lock(), "test", timeout, IMPATIENT)
    }

    /// Increments a number in a file, in a way that loses updates if two do it at once. Each
    /// increment is also one byte of a log. With `lives`, kills itself with the lock held each time after that many rounds.
    fn count(&self, rounds: u32, lives: Option<u32>) {
        let counter = self.directory.join("counter");
        let mut log = OpenOptions::new()
            .append(true)
            .open(self.directory.join("log"))
            .unwrap();
        for round in 1..=rounds {
            let lock = self.acquire(LONG).unwrap();
            let count: u64 = fs::read_to_string(&counter).unwrap().parse().unwrap();
            std::thread::yield_now();
            lock.check().unwrap();
            fs::write(&counter, (count + 1).to_string()).unwrap();
            log.write_all(b".").unwrap();
            lock.check().unwrap();
            if lives.is_some_and(|lives| round % lives == 0) {
                let own = rustix::process::getpid();
                rustix::process::kill_process(own, rustix::process::Signal::KILL).unwrap();
            }
        }
    }

    fn append_until_error(&self, appends: u32) {
        let mut journal = match Journal::open(&self.journal()) {
            Ok(journal) => journal,
            Err(error) => return say(&format!("open: {error} | {}", error.hint())),
        };
        for n in 1..=appends {
            if let Err(error) = journal.append(&intents(1)) {
                say(&format!("append {n}: {error} | {}", error.hint()));
                let again = journal.append(&intents(1)).unwrap_err();
                assert!(matches!(again, JournalError::FailedBefore { .. }));
                return;
            }
        }
        say("no error");
    }
}

fn intents(count: u32) -> Vec<Entry> {
    let intent = |n: u32| {
        Entry::Intent(Intent {
            key: TaskKey::new(&format!("sub-{n}"), "ses-01", "qsiprep"),
            submission_id: format!("id{n}").into(),
            job_name: format!("qsiprep_sub-{n}_ses-01").into(),
            attempt: 1,
            submitted_at: Default::default(),
            replaces_outputs: false,
            retry: Default::default(),
            input_sessions: None,
            project: None,
            state_file: None,
            req_mem_mb: None,
            time_limit_s: None,
        })
    };
    (0..count).map(intent).collect()
}

/// The test harness prints on the same line before; so a line of our own.
fn say(text: &str) {
    println!("\nSAYS {text}");
}

/// Waits for a line of the parent, or its end.
fn wait_for_parent() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// Is a process that does a task of [`child`]. Killed when dropped.
struct Process {
    child: Child,
    output: BufReader<std::process::ChildStdout>,
}

impl Process {
    fn start(place: &Place, task: &str) -> Self {
        Self::start_by(place, task, &[])
    }

    /// Starts it by a command that ends with the command to start (`unshare ...`, `strace ...`).
    fn start_by(place: &Place, task: &str, by: &[&str]) -> Self {
        let own = std::env::current_exe().unwrap();
        let mut words: Vec<_> = by.iter().map(std::ffi::OsString::from).collect();
        words.push(own.into());
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .args([NAME, "--exact", "--ignored", "--nocapture"])
            .env(TASK, task)
            .env(DIRECTORY, &place.directory)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// Returns what it says next.
    fn says(&mut self) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            if self.output.read_line(&mut line).unwrap() == 0 {
                panic!("it ended without a word: {:?}", self.child.wait());
            }
            if let Some(text) = line.strip_prefix("SAYS ") {
                return text.trim_end().to_owned();
            }
        }
    }

    fn go_on(&mut self) {
        writeln!(self.child.stdin.as_mut().unwrap()).unwrap();
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn ends_well(mut self) -> bool {
        drop(self.child.stdin.take());
        // Read to the end, so that it never waits for the pipe.
        std::io::copy(&mut self.output, &mut std::io::sink()).unwrap();
        self.child.wait().unwrap().success()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn place() -> (tempfile::TempDir, Place) {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("counter"), "0").unwrap();
    fs::write(directory.path().join("log"), "").unwrap();
    let place = Place {
        directory: directory.path().to_owned(),
    };
    (directory, place)
}

fn names(directory: &Path) -> Vec<String> {
    let mut names: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn skip(test: &str, why: &str) {
    eprintln!("SKIPPED {test}: {why}");
}

/// Tells whether a helper program works here (`unshare` needs root, `strace` may be missing).
fn works(command: &[&str]) -> bool {
    Command::new(command[0])
        .args(&command[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[test]
fn no_update_is_lost_among_processes() {
    let (_directory, place) = place();
    let all: Vec<_> = (0..6)
        .map(|_| Process::start(&place, "count 100"))
        .collect();
    for process in all {
        assert!(process.ends_well());
    }
    let counter = fs::read_to_string(place.directory.join("counter")).unwrap();
    assert_eq!(counter, "600");
    assert_eq!(names(&place.directory), ["counter", "log"]);
}

/// Two login nodes and more: own host name, own pids (all are pid 1), the same directory.
#[test]
fn no_update_is_lost_among_login_nodes() {
    let node = |script: &'static str| {
        let unshare = [
            "unshare",
            "--uts",
            "--pid",
            "--mount",
            "--fork",
            "--mount-proc",
        ];
        [&unshare[..], &["--kill-child", "sh", "-c", script]].concat()
    };
    if !works(&node("echo login0 > /proc/sys/kernel/hostname")) {
        return skip("no_update_is_lost_among_login_nodes", "unshare needs root");
    }
    let scripts = [
        "echo login1 > /proc/sys/kernel/hostname; exec \"$0\" \"$@\"",
        "echo login2 > /proc/sys/kernel/hostname; exec \"$0\" \"$@\"",
        "echo login3 > /proc/sys/kernel/hostname; exec \"$0\" \"$@\"",
        // A container that kept the host's name.
        "exec \"$0\" \"$@\"",
    ];
    let (_directory, place) = place();
    let mut all: Vec<_> = scripts
        .into_iter()
        .map(|script| Process::start_by(&place, "count 100", &node(script)))
        .collect();
    all.push(Process::start(&place, "count 100"));
    all.push(Process::start(&place, "count 100"));
    for process in all {
        assert!(process.ends_well());
    }
    let counter = fs::read_to_string(place.directory.join("counter")).unwrap();
    assert_eq!(counter, "600");
    assert_eq!(names(&place.directory), ["counter", "log"]);
}

#[test]
fn directory_of_somebody_else_is_a_clear_error() {
    let nobody = [
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
    ];
    let own = std::env::current_exe().unwrap();
    let probe = [&nobody[..], &[own.to_str().unwrap(), "--list"]].concat();
    if !works(&probe) {
        return skip(
            "directory_of_somebody_else_is_a_clear_error",
            "setpriv needs root",
        );
    }
    let (directory, place) = place();
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    fs::set_permissions(directory.path(), mode(0o755)).unwrap();
    let mut process = Process::start_by(&place, "lock-error", &nobody);
    let lock = process.says();
    let mut process = Process::start_by(&place, "journal 1", &nobody);
    let texts = format!("{lock}\n{}", process.says());
    insta::assert_snapshot!(texts.replace(place.directory.to_str().unwrap(), "[dir]"));

    // A strict umask of the holder: who it is cannot be read, that it is held can.
    let lock = place.acquire(Duration::ZERO).unwrap();
    fs::set_permissions(directory.path(), mode(0o777)).unwrap();
    fs::set_permissions(place.lock(), mode(0o600)).unwrap();
    let mut process = Process::start_by(&place, "try", &nobody);
    assert_eq!(process.says(), "ready");
    process.go_on();
    assert_eq!(process.says(), "held");
    process.go_on();
    assert!(process.ends_well());
    lock.check().unwrap();
}
