//! The process that stands beside each running job: starts the script, waits, writes down how it ended.
//!
//! It is this program, started again by [`super::LocalExecutor`] in a session of its own, so that the
//! job needs neither its caller nor a terminal. It leaves no descendant of the script alive: when it
//! has written the end, nothing writes outputs any more.
#![expect(clippy::disallowed_methods, reason = "starts the job's script")]

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::process::{Signal, WaitOptions, WaitStatus};

use super::job::{Claim, End, Ending, JobRecord, Payload};
use super::process::{Host, ProcessId};
use super::record::Records;
use crate::base::sys;

/// Begins the one line that the supervisor says to the process that started it.
pub(super) const SAYS: &str = "snbb-local: ";
pub(super) const STARTED: &str = "started";
pub(super) const TAKEN: &str = "taken";

/// How long processes that are left when the script has ended get to end by themselves.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(50);

/// Runs job `number` of a record directory from its start to its end. What `main` calls for the
/// hidden subcommand `local-supervise DIRECTORY NUMBER`; never to be called by people.
pub fn supervise(directory: &Path, number: u64) -> ExitCode {
    close_inherited();
    // Fails only for a process that leads its session already.
    let _ = rustix::process::setsid();
    match take(directory, number) {
        Ok(Some((records, own))) => {
            say(STARTED);
            let how = run(&records, number, own);
            let end = End {
                at: sys::now(),
                how,
            };
            // Nobody can be told: a missing end is found as such.
            let _ = records.end(number, &end);
            ExitCode::SUCCESS
        }
        Ok(None) => {
            say(TAKEN);
            ExitCode::SUCCESS
        }
        Err(error) => {
            say(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn take(
    directory: &Path,
    number: u64,
) -> Result<Option<(Records, ProcessId)>, Box<dyn std::error::Error>> {
    let records = Records::at(directory);
    let process = ProcessId::current()?;
    let claim = Claim::Supervisor {
        process,
        host: Host::current()?,
        at: sys::now(),
    };
    Ok(records.claim(number, &claim)?.then_some((records, process)))
}

fn say(text: &str) {
    // The caller may be gone.
    let _ = writeln!(io::stdout(), "{SAYS}{text}");
    let _ = io::stdout().flush();
}

fn run(records: &Records, number: u64, own: ProcessId) -> Ending {
    // Orphans of the script come to this process instead of to init: so none gets lost.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let child = match start(records, number) {
        Ok(child) => child,
        Err(error) => {
            return Ending::NotStarted {
                error: error.to_string(),
            };
        }
    };
    // Whoever cancels writes this first and then sends signals: one of the two is seen.
    if records.is_cancelled(number).unwrap_or(false) {
        signal_followers(own, Signal::TERM);
    }
    let ending = wait_for(&child);
    end_leftovers(own);
    ending
}

fn start(records: &Records, number: u64) -> Result<Child, Box<dyn std::error::Error>> {
    let (record, payload) = records.payload(number)?;
    if let Some(mask) = record.umask.as_deref()
        && let Ok(mask) = u32::from_str_radix(mask, 8)
    {
        rustix::process::umask(Mode::from_raw_mode(mask));
    }
    let output = create(&record.output)?;
    let mut error = create(&record.error)?;
    let script = records.script_path(number);
    let started = command(&record, &payload, &script)
        .and_then(|mut command| {
            command
                .stdin(Stdio::null())
                .stdout(output)
                .stderr(error.try_clone()?)
                .spawn()
        })
        .map_err(|source| {
            let interpreter = record.interpreter.join(" ");
            format!(
                "cannot start {interpreter} {}: {source}",
                record.script.display()
            )
        });
    if let Err(message) = &started {
        let _ = writeln!(error, "snbb-scheduler: {message}");
    }
    Ok(started?)
}

fn command(record: &JobRecord, payload: &Payload, script: &Path) -> io::Result<Command> {
    std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o700)
        .open(script)?
        .write_all(&payload.script)?;
    let mut words = record.interpreter.iter();
    let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command
        .args(words)
        .arg(script)
        .args(&record.arguments)
        .env_clear()
        .envs(
            payload
                .environment
                .iter()
                .map(|(name, value)| (name, value)),
        )
        .process_group(0);
    // As Slurm does: a directory that is gone is no reason not to run.
    command.current_dir(if record.directory.is_dir() {
        record.directory.as_path()
    } else {
        Path::new("/tmp")
    });
    Ok(command)
}

fn create(path: &Path) -> Result<File, String> {
    File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Waits for the script's own process; reaps orphans that end meanwhile.
fn wait_for(child: &Child) -> Ending {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() as u32 == child.id() => {
                return ending(status);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return Ending::RemovedProcedures,
        }
    }
}

fn ending(status: WaitStatus) -> Ending {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => Ending::Exited { code },
        (None, Some(signal)) => Ending::Signalled { signal },
        (None, None) => Ending::RemovedProcedures,
    }
}

/// Ends what the script left running, as Slurm does at the end of a batch script. Does not return
/// before all of it is gone.
fn end_leftovers(own: ProcessId) {
    let mut waited = Duration::ZERO;
    let mut signal = Signal::TERM;
    while signal_followers(own, signal) {
        std::thread::sleep(POLL);
        waited += POLL;
        if waited >= LEFTOVER_GRACE {
            signal = Signal::KILL;
        }
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
    }
}

/// Returns whether there was anything to send a signal to, or nobody knows.
fn signal_followers(own: ProcessId, signal: Signal) -> bool {
    let Ok(followers) = own.followers() else {
        // No descriptor is free, say: that is no proof that nobody is left.
        return true;
    };
    for process in &followers {
        let _ = process.signal(signal);
    }
    !followers.is_empty()
}

/// Closes what the caller's own parents left open: a `flock` around cron's line or a pipe would
/// else be held for as long as the job runs.
fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let open: Vec<i32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for fd in open {
        // The listing's own descriptor is closed by now.
        if std::fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_err() {
            continue;
        }
        #[expect(unsafe_code, reason = "descriptors have no owner here")]
        // SAFETY: this runs first in a process that has opened nothing above the standard three
        // itself, so no owner of these descriptors exists here.
        unsafe {
            rustix::io::close(fd)
        };
    }
}
