//! Opening the log for appending: a regular file that is a log already, or an empty one.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::base::{durable, regular};

pub(super) fn open(path: &Path) -> io::Result<File> {
    durable::make_directory_of(path)?;
    // Also read: whether the last line is whole.
    let mut file = regular::open_for_appending(path)?;
    regular::require_regular(&file)?;
    if !is_log(&mut file)? {
        return Err(durable::foreign());
    }
    Ok(file)
}

/// What each event begins with.
pub(super) const MARK: &[u8] = b"{\"timestamp\"";

/// True if a file is empty, or its beginning or end holds an event: a crash may have spoilt one of them.
fn is_log(file: &mut File) -> io::Result<bool> {
    const PART: u64 = 64 * 1024;
    let length = file.metadata()?.len();
    for from in [0, length.saturating_sub(PART)] {
        let mut part = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        file.by_ref().take(PART).read_to_end(&mut part)?;
        if part.is_empty() || durable::contains(&part, MARK) {
            return Ok(true);
        }
    }
    Ok(false)
}
