//! Whose a file is: what this program writes holds a mark, and nothing else is replaced or appended to.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::base::regular::open_regular;

/// Refuses to go on if something stands at a path that this program has not written: its files hold a mark in their
/// first 64 KiB. An empty file is nobody's. Returns what stands there.
pub fn refuse_foreign(path: &Path, mark: &str) -> io::Result<Option<File>> {
    let file = match open_regular(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut beginning = Vec::new();
    (&file).take(64 * 1024).read_to_end(&mut beginning)?;
    if beginning.is_empty() || holds(&beginning, mark.as_bytes()) {
        Ok(Some(file))
    } else {
        Err(foreign())
    }
}

pub fn holds(text: &[u8], mark: &[u8]) -> bool {
    text.windows(mark.len()).any(|part| part == mark)
}

/// The error about a file that is not this program's.
pub fn foreign() -> io::Error {
    io::Error::other("it was not written by this program; move it away, or name another file")
}
