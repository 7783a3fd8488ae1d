//! Reading the data trees: directories and files, each with few calls, and what that cost.
//!
//! Knows neither labels nor rules. What cannot be read is a value of its own, [`Unreadable`]; it is
//! never taken for an absence.

pub mod annex;
pub mod cost;
pub mod listing;
pub mod reader;
pub mod regular;

use std::path::PathBuf;

/// Names what could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    pub path: PathBuf,
    /// The system's words: `Permission denied`.
    pub error: String,
}
