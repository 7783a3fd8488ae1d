//! Reading the data trees: directories and files, each with few calls.
//!
//! Knows neither labels nor rules. What cannot be read is a value of its own, [`Unreadable`]; it is
//! never taken for an absence.

pub mod cached;
pub mod listing;
pub mod reader;

use std::path::PathBuf;

use rustix::io::Errno;

/// Names what could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    pub path: PathBuf,
    /// The system's words: `Permission denied`.
    pub error: String,
}

/// True if the error says that there is nothing of that kind at the path.
fn is_absence(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}
