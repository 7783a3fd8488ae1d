//! Hands a digest to a person's own program. No shell stands in between.
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

/// How many letters of the program's own words are repeated.
const SAID: usize = 300;
/// How many bytes the program may print.
const MOST: usize = 64 << 20;

/// Runs a program with a digest on its standard input and the subject as `SNBB_MESSAGE_SUBJECT`.
///
/// # Errors
/// It did not start, did not end in time, or ended with something else than exit code 0.
pub fn tell(path: &Path, message: &Message, limit: Duration) -> Result<(), MessengerError> {
    let start = |source| MessengerError::Start {
        path: path.to_owned(),
        source,
    };
    let subject = message.subject.replace('\0', " ");
    let mut command = Command::new(path);
    command
        .env("SNBB_MESSAGE_SUBJECT", &subject)
        // The old name, for one release: elsewhere it is the participant.
        .env("SNBB_SUBJECT", &subject)
        .current_dir("/")
        .stdin(in_memory(message.text.as_bytes()).map_err(start)?);
    let ended = run(command, limit, MOST).map_err(start)?;
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
    let said: String = ended.stderr.chars().take(SAID).collect();
    let said = Some(said.trim()).filter(|said| !said.is_empty());
    Err(MessengerError::Failed {
        path: path.to_owned(),
        how,
        said: maybe(": ", said.map(|said| said.replace('\n', " ")), ""),
    })
}

/// A file in memory, not a pipe: neither side can then wait for the other, and a full disk is one of the things that
/// a digest tells of.
fn in_memory(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("snbb-scheduler", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    file.rewind()?;
    Ok(file)
}
