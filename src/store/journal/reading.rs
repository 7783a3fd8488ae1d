//! Reads the journal strictly, or salvages the readable part of a damaged one.

use std::io;
use std::path::Path;

use super::error::{JournalError, io_error};
use super::{Entry, Salvaged, line, require_file};
use crate::base::durable;

/// Reads all entries. A missing file has none, an end that a crash cut is ignored, and any other
/// unreadable line is an error.
pub fn read(path: &Path) -> Result<Vec<Entry>, JournalError> {
    let mut tries = 3;
    let bytes = loop {
        match read_file(path) {
            // NFS: the file was removed meanwhile; there may be a new one.
            Err(JournalError::Io { source, .. }) if durable::is_stale(&source) && tries > 1 => {
                tries -= 1
            }
            Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                return Ok(Vec::new());
            }
            other => break other?,
        }
    };
    let found = line::scan(&bytes).map_err(|damage| damage.at(path))?;
    Ok(found.entries)
}

/// Reads all readable entries and skips damage; `None` without a file.
pub fn salvage(path: &Path) -> Result<Option<Salvaged>, JournalError> {
    let bytes = match read_file(path) {
        Ok(bytes) => bytes,
        Err(JournalError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(None);
        }
        Err(error) => return Err(error),
    };
    Ok(Some(match line::scan(&bytes) {
        Ok(found) => Salvaged {
            entries: found.entries,
            damaged: Vec::new(),
        },
        Err(_) => line::salvage(&bytes),
    }))
}

fn read_file(path: &Path) -> Result<Vec<u8>, JournalError> {
    let file = durable::open_again(path).map_err(io_error("open", path))?;
    require_file(path, &file)?;
    durable::content(&file).map_err(io_error("read", path))
}
