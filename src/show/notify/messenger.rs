//! Hands a digest to a person's own program. No shell stands in between.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the leaf that starts the program of `notify.command`"
)]

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::show::mail::Message;

/// Says why the program did not take the digest.
#[derive(Debug, thiserror::Error)]
pub enum MessengerError {
    #[error("cannot start {}: {source}", .path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error("{} ended with {how}{said}", .path.display())]
    Failed {
        path: PathBuf,
        how: String,
        said: String,
    },
    #[error("{} did not end within {seconds} s and was ended", .path.display())]
    TimedOut { path: PathBuf, seconds: u64 },
}

impl MessengerError {
    /// Says what to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Start { .. } => {
                "notify.command is the path of an executable file, with '#!' and an interpreter if it is a script"
            }
            Self::Failed { .. } | Self::TimedOut { .. } => {
                "try it in a shell with some text on its standard input"
            }
        }
    }
}

/// How much of the program's own words is repeated.
const SAID: u64 = 300;

/// How much of them is kept in memory.
const KEPT: u64 = 1 << 20;

/// Runs a program with a digest on its standard input and the subject as `SNBB_MESSAGE_SUBJECT`.
///
/// # Errors
/// It did not start, did not end in time, or ended with something else than exit code 0.
pub fn tell(path: &Path, message: &Message, limit: Duration) -> Result<(), MessengerError> {
    let start = |source| MessengerError::Start {
        path: path.to_owned(),
        source,
    };
    // Files in memory, not pipes: neither side can then wait for the other, and a full disk is one of
    // the things that a digest tells of.
    let stdin = filled(message.text.as_bytes()).map_err(start)?;
    let mut stderr = bounded_file().map_err(start)?;
    let subject = message.subject.replace('\0', " ");
    let mut child = Command::new(path)
        .env("SNBB_MESSAGE_SUBJECT", &subject)
        // The old name, for one release: elsewhere it is the participant.
        .env("SNBB_SUBJECT", &subject)
        .current_dir("/")
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::null())
        .stderr(Stdio::from(stderr.try_clone().map_err(start)?))
        .process_group(0)
        .spawn()
        .map_err(start)?;
    let since = Instant::now();
    let mut pause = Duration::from_millis(1);
    let status = loop {
        match child.try_wait().map_err(start)? {
            Some(status) => break status,
            None if since.elapsed() >= limit => {
                if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                    // An error means that nobody is left.
                    let _ = kill_process_group(group, Signal::KILL);
                }
                let _ = child.wait();
                return Err(MessengerError::TimedOut {
                    path: path.to_owned(),
                    seconds: limit.as_secs(),
                });
            }
            None => std::thread::sleep(pause),
        }
        pause = (pause * 2).min(Duration::from_millis(100));
    };
    if status.success() {
        return Ok(());
    }
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "an unknown status".to_owned(),
    };
    Err(MessengerError::Failed {
        path: path.to_owned(),
        how,
        said: last_words(&mut stderr),
    })
}

fn filled(bytes: &[u8]) -> io::Result<File> {
    let mut file = memory_file()?;
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}

/// Makes a file that takes no more than [`KEPT`] bytes.
fn bounded_file() -> io::Result<File> {
    let file = memory_file()?;
    file.set_len(KEPT)?;
    fcntl_add_seals(&file, SealFlags::GROW)?;
    Ok(file)
}

fn memory_file() -> io::Result<File> {
    Ok(memfd_create(
        "snbb-scheduler",
        MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING,
    )?
    .into())
}

fn last_words(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let read = file
        .rewind()
        .and_then(|()| file.take(SAID).read_to_end(&mut bytes));
    let text = String::from_utf8_lossy(&bytes);
    match (read, text.trim_matches(['\0', ' ', '\n', '\r', '\t'])) {
        (Ok(_), words) if !words.is_empty() => format!(": {}", words.replace('\n', " ")),
        _ => String::new(),
    }
}
