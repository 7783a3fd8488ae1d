//! Reading the journal: all that counts, or, of a damaged one, all that can be read.

use std::io;
use std::path::Path;

use super::error::{JournalError, io_error};
use super::{Entry, Salvaged, line, require_file};
use crate::base::durable;

/// Reads all entries. A missing file has none; a cut end is left out; any other line that
/// cannot be read is an error.
pub fn read(path: &Path) -> Result<Vec<Entry>, JournalError> {
    let mut tries = 3;
    let bytes = loop {
        match read_file(path) {
            // On NFS a file that was removed meanwhile: there may be a new one, or none.
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

/// Reads all entries that can be read, whatever is between them. None: there is no file.
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
    let file = durable::open_again(path).map_err(|source| io_error("open", path, source))?;
    require_file(path, &file)?;
    durable::content(&file).map_err(|source| io_error("read", path, source))
}
