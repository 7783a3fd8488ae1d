//! The supervisor process of each running job: starts the script, waits, and records its end.
//!
//! [`super::LocalExecutor`] starts this program again in its own session, so that the job depends on
//! neither its caller nor a terminal. It leaves no descendant of the script running: once it has
//! recorded the end, nothing writes outputs anymore.
#![expect(clippy::disallowed_methods, reason = "starts the job's script")]

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::process::{Signal, WaitOptions};

use super::job::{Claim, End, Ending, JobRecord, Payload};
use super::record::Records;
use crate::base::process::{Host, ProcessId};
use crate::base::regular::FileError;
use crate::base::sys;

/// The beginning of the supervisor's one line of answer to the process that started it; an error follows, or nothing.
pub(super) const PREFIX: &str = "snbb-local: ";

/// How long after SIGTERM the remaining processes of an ended script get SIGKILL.
const LEFTOVER_GRACE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(50);

/// Runs job `number` of a record directory from start to end. `main` calls it for the hidden
/// subcommand `local-supervise DIRECTORY NUMBER`, which is not for people.
pub fn supervise(directory: &Path, number: u64) -> ExitCode {
    close_inherited();
    // Fails only for a process that already leads its session.
    let _ = rustix::process::setsid();
    let records = Records::at(directory);
    let taken = take(&records, number);
    say(&taken
        .as_ref()
        .map_or_else(ToString::to_string, |_| String::new()));
    match taken {
        Ok(Some(own)) => {
            let how = run(&records, number, own);
            let end = End {
                at: sys::now(),
                how,
            };
            // There is no one to report an error to; the next pass finds that the end is missing.
            let _ = records.write(number, "end", &end);
            ExitCode::SUCCESS
        }
        Ok(None) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// `None` if another process has taken the job.
fn take(records: &Records, number: u64) -> Result<Option<ProcessId>, Box<dyn std::error::Error>> {
    let process = ProcessId::current()?;
    let claim = Claim::Supervisor {
        process,
        host: Host::current()?,
        at: sys::now(),
    };
    Ok(records.write(number, "claim", &claim)?.then_some(process))
}

fn say(text: &str) {
    // The caller may have ended.
    let _ = writeln!(io::stdout(), "{PREFIX}{text}");
    let _ = io::stdout().flush();
}

fn run(records: &Records, number: u64, own: ProcessId) -> Ending {
    // Orphans of the script become children of this process instead of init, so that none is lost.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let child = match start(records, number) {
        Ok(child) => child,
        Err(error) => {
            return Ending::NotStarted {
                error: error.to_string(),
            };
        }
    };
    // `cancel` writes the request before it sends signals, so one of the two is noticed.
    if records.file(number, "cancel").try_exists().unwrap_or(false) {
        let _ = own.signal_followers(Signal::TERM);
    }
    let ending = wait_for(child.id());
    end_leftovers(own);
    ending
}

/// Waits for the script, and reaps orphans that end meanwhile: it may wait for a daemon of its own to be gone.
fn wait_for(script: u32) -> Ending {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get().cast_unsigned() == script => {
                return match (status.exit_status(), status.terminating_signal()) {
                    (Some(code), _) => Ending::Exited { code },
                    (None, Some(signal)) => Ending::Signalled { signal },
                    (None, None) => Ending::Lost,
                };
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Ending::Lost,
        }
    }
}

fn start(records: &Records, number: u64) -> Result<Child, Box<dyn std::error::Error>> {
    let (record, payload) = records.payload(number)?;
    let umask = record.umask.as_deref();
    if let Some(umask) = umask.and_then(|text| u32::from_str_radix(text, 8).ok()) {
        rustix::process::umask(Mode::from_raw_mode(umask));
    }
    let create = |path: &Path| File::create(path).map_err(FileError::of("write", path));
    let output = create(&record.output)?;
    let mut error = create(&record.error)?;
    let script = records.file(number, "script");
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
    std::fs::write(script, &payload.script)?;
    std::fs::set_permissions(script, Permissions::from_mode(0o700))?;
    let mut words = record.interpreter.iter();
    let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
    let mut command = Command::new(program);
    command
        .args(words)
        .arg(script)
        .args(&record.arguments)
        .env_clear()
        .envs(payload.environment.iter().cloned())
        .process_group(0);
    // As in Slurm, the job runs even if the directory no longer exists.
    let directory = Some(&*record.directory).filter(|directory| directory.is_dir());
    command.current_dir(directory.unwrap_or(Path::new("/tmp")));
    Ok(command)
}

/// Ends the remaining processes of the script, as Slurm does at the end of a batch script. Returns only
/// after all have ended.
fn end_leftovers(own: ProcessId) {
    let mut waited = Duration::ZERO;
    let mut signal = Signal::TERM;
    // An error (no free descriptor, for example) does not prove that none is left.
    while own.signal_followers(signal).unwrap_or(true) {
        std::thread::sleep(POLL);
        waited += POLL;
        if waited >= LEFTOVER_GRACE {
            signal = Signal::KILL;
        }
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
    }
}

/// Closes inherited descriptors: otherwise a `flock` around cron's command or a pipe would be held
/// until the job ends.
fn close_inherited() {
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let open: Vec<i32> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for fd in open {
        // The descriptor of the directory listing is already closed.
        if std::fs::symlink_metadata(format!("/proc/self/fd/{fd}")).is_err() {
            continue;
        }
        #[expect(unsafe_code, reason = "descriptors have no owner here")]
        // SAFETY: this runs first in a process that has itself opened nothing above the standard three,
        // so these descriptors have no owner here.
        unsafe {
            rustix::io::close(fd)
        };
    }
}
