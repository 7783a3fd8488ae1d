//! Reading directories and files of the data trees with few system calls.
//!
//! Independent of labels and rules. A failure to read is a value of its own, [`Unreadable`], and never counts as an
//! absence.

pub mod cached;
pub mod listing;
pub mod reader;

use std::path::PathBuf;

use rustix::io::Errno;

/// A path that could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    pub path: PathBuf,
    /// The system's message: `Permission denied`.
    pub error: String,
}

/// True if the error means that the path does not exist.
fn is_absence(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}
