//! Delivers a digest to the program of `notify.command`, without a shell.
#![expect(
    clippy::disallowed_methods,
    reason = "this is the leaf that starts the program of `notify.command`"
)]

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::base::run::{End, run};
use crate::base::text::maybe;
use crate::show::mail::Message;

/// Why the program did not take the digest.
#[derive(Debug, thiserror::Error)]
pub enum MessengerError {
    #[error("cannot start {}: {source}", .path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error("{} ended with {how}{stderr}", .path.display())]
    Failed {
        path: PathBuf,
        how: String,
        stderr: String,
    },
    #[error("{} was killed because it did not finish within {seconds} s", .path.display())]
    TimedOut { path: PathBuf, seconds: u64 },
}

impl MessengerError {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Start { .. } => {
                "set notify.command to an executable file; a script must begin with '#!' and its interpreter"
            }
            Self::Failed { .. } | Self::TimedOut { .. } => {
                "run it in a shell with some text on its standard input"
            }
        }
    }
}

/// Characters of the program's stderr that are quoted.
const STDERR_SHOWN: usize = 300;
/// Bytes that the program may print.
const MAX_OUTPUT: usize = 64 << 20;

/// Runs a program with a digest on its standard input and the subject as `SNBB_MESSAGE_SUBJECT`.
///
/// # Errors
/// It did not start, did not finish in time, or did not end with exit code 0.
pub fn send(path: &Path, message: &Message, limit: Duration) -> Result<(), MessengerError> {
    let start = |source| MessengerError::Start {
        path: path.to_owned(),
        source,
    };
    let subject = message.subject.replace('\0', " ");
    let mut command = Command::new(path);
    command
        .env("SNBB_MESSAGE_SUBJECT", &subject)
        // The old name, for one release: in other places SNBB_SUBJECT is the participant.
        .env("SNBB_SUBJECT", &subject)
        .current_dir("/")
        .stdin(in_memory(message.text.as_bytes()).map_err(start)?);
    let ended = run(command, limit, MAX_OUTPUT).map_err(start)?;
    let how = match ended.end {
        End::Exit(0) => return Ok(()),
        End::TimedOut { seconds } => {
            return Err(MessengerError::TimedOut {
                path: path.to_owned(),
                seconds,
            });
        }
        End::Exit(code) => format!("exit code {code}"),
        End::Signal(signal) => format!("signal {signal}"),
        End::TooLong { bytes } => format!("more than {bytes} bytes of output"),
        End::Unseen => "an unknown status".to_owned(),
    };
    let stderr: String = ended.stderr.chars().take(STDERR_SHOWN).collect();
    let stderr = Some(stderr.trim()).filter(|stderr| !stderr.is_empty());
    Err(MessengerError::Failed {
        path: path.to_owned(),
        how,
        stderr: maybe(": ", stderr.map(|stderr| stderr.replace('\n', " ")), ""),
    })
}

/// A file in memory. A pipe could block either side, and a digest may report a full disk.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("snbb-scheduler", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
