//! Discovery of sessions from directories or from a CSV or TSV file.
//!
//! Lists subjects and sessions, but does not read session directories. Unreadable directories and invalid names are
//! reported and do not end the scan; only an unreadable root is an error.

pub mod csv;
mod notes;
mod tree;

use std::path::PathBuf;

use crate::gather::disk::Unreadable;
use crate::gather::disk::reader::Reader;
use crate::gather::sessions::discover::csv::CsvError;
use crate::model::bids::{Search, Session, SessionSource};

/// The sessions that were found, sorted by subject and session, without duplicates.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    pub sessions: Vec<Session>,
    /// Skipped entries and other problems, one line per kind.
    pub notes: Vec<String>,
    /// Directories below the root that were ignored, with their probably intended labels: `sub-07/ses_1` and `ses-1`.
    pub misspelt: Vec<(String, String)>,
    /// Paths that could not be read. Sessions below them are unknown, not absent.
    pub unreadable: Vec<Unreadable>,
}

/// `1 directory below /data whose name is not valid BIDS`, with `place` ` below /data` or empty.
pub fn invalid_names(count: usize, place: &str) -> String {
    let (directories, names) = match count {
        1 => ("directory", "whose name is not valid BIDS"),
        _ => ("directories", "whose names are not valid BIDS"),
    };
    format!("{count} {directories}{place} {names}")
}

/// Why the sessions are unknown.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("{key} {} does not exist", .path.display())]
    RootMissing { key: &'static str, path: PathBuf },
    #[error("{key} {} {problem}", .path.display())]
    Root {
        key: &'static str,
        path: PathBuf,
        /// `is not a directory`, `cannot be read: Permission denied`
        problem: String,
    },
    #[error(transparent)]
    Csv(#[from] CsvError),
}

impl DiscoverError {
    pub fn hint(&self) -> String {
        match self {
            Self::RootMissing { key, .. } => {
                format!("mount its file system, or correct '{key}' in the configuration")
            }
            Self::Root { key, .. } => {
                format!("'{key}' must be a directory that this user may read and search")
            }
            Self::Csv(error) => error.hint.clone(),
        }
    }
}

/// # Errors
/// A root that is missing or cannot be read; an invalid sessions file.
pub fn discover(search: &Search<'_>) -> Result<Discovery, DiscoverError> {
    discover_by(&Reader::default(), search)
}

/// [`discover`] with a reader that keeps what it has read.
///
/// # Errors
/// As [`discover`].
pub fn discover_by(reader: &Reader, search: &Search<'_>) -> Result<Discovery, DiscoverError> {
    let scan = |key, root, level, is_source| {
        tree::scan(&tree::Tree {
            key,
            root,
            level,
            is_source,
            threads: search.threads,
            reader,
        })
    };
    let level = match search.sessionless {
        true => tree::SessionLevel::Optional,
        false => tree::SessionLevel::Required,
    };
    let by_datatype = tree::SessionLevel::OrDatatypes;
    match search.source {
        SessionSource::Dicom => scan("dicom_root", search.dicom_root, level, true),
        SessionSource::Bids => scan("bids_root", search.bids_root, by_datatype, false),
        SessionSource::Csv {
            file,
            subject_col,
            session_col,
        } => Ok(csv::read(search, file, subject_col, session_col)?),
    }
}
