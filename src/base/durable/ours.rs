//! Marks by which the program recognises its own files: no other file is replaced or appended to.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::base::regular::open_regular;

/// Opens the file at a path, or fails if this program has not written it: its files contain a mark in their first
/// 64 KiB. An empty file is accepted. `None` if it does not exist.
pub fn refuse_foreign(path: &Path, mark: &str) -> io::Result<Option<File>> {
    let file = match open_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut beginning = Vec::new();
    (&file).take(64 * 1024).read_to_end(&mut beginning)?;
    if beginning.is_empty() || contains(&beginning, mark.as_bytes()) {
        Ok(Some(file))
    } else {
        Err(foreign())
    }
}

pub fn contains(text: &[u8], mark: &[u8]) -> bool {
    text.windows(mark.len()).any(|part| part == mark)
}

/// The error for a file that this program has not written.
pub fn foreign() -> io::Error {
    io::Error::other("it was not written by this program; move it away or choose another file")
}
