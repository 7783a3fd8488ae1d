//! Files that appear whole or not at all, and lines that are added to a file.

use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::base::durable::{self, sync_directory_of};
use crate::base::regular::{FileError, open_for_appending};
use crate::executor::ExecutorError;

/// Says how far the writing of a file came.
#[derive(Debug)]
pub enum Written {
    /// It stands, and survives a power cut.
    Yes,
    /// Somebody else's file stands under that name.
    Taken,
    /// It stands; whether it survives a power cut is not known.
    Unsynced(io::Error),
}

/// Makes a file appear whole under its name, or not at all, unless the name is taken.
pub(super) fn write_once(path: &Path, bytes: &[u8], mode: u32) -> io::Result<Written> {
    Ok(
        match (durable::create(path, bytes, mode)?, sync_directory_of(path)) {
            (false, _) => Written::Taken,
            (true, Ok(())) => Written::Yes,
            (true, Err(error)) => Written::Unsynced(error),
        },
    )
}

pub(super) fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = open_for_appending(path)?;
    // A line that an earlier call could not finish must not swallow the next one.
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    if last != [b'\n'] {
        file.write_all(b"\n")?;
    }
    file.write_all(bytes)?;
    file.sync_all()?;
    sync_directory_of(path)
}

pub(super) fn io_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> ExecutorError {
    let failed = FileError::of(action, path);
    move |source| failed(source).into()
}

pub(super) fn damaged(path: &Path, what: &str) -> ExecutorError {
    io_error("understand", path)(io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{what}; if its job is surely gone, move this file away"),
    ))
}
