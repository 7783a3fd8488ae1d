//! Opening the log for appending: a regular file that is a log already, or an empty one.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use rustix::fs::OFlags;

use crate::base::durable;
use crate::base::regular::require_regular;

pub(super) fn open_for_appending(path: &Path) -> io::Result<File> {
    durable::make_directory_of(path)?;
    // Also read: whether the last line is whole.
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(path)?;
    require_regular(&file)?;
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
        if part.is_empty() || durable::holds(&part, MARK) {
            return Ok(true);
        }
    }
    Ok(false)
}
