//! Discovery: which sessions exist, from directories or from a CSV or TSV file.
//!
//! Looks at subject and session directories only, never into them. What cannot be read or has an
//! odd name is reported and never ends the scan; only a root that cannot be read is an error.

pub mod csv;
mod notes;
mod tree;

use std::path::PathBuf;

use crate::gather::disk::Unreadable;
use crate::gather::disk::reader::Reader;
use crate::gather::sessions::discover::csv::CsvError;
use crate::model::bids::{Search, Session, SessionSource};

/// Holds what was found, sorted by subject and session, without doubles.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    pub sessions: Vec<Session>,
    /// Entries that were skipped and other things to report, one line per kind.
    pub notes: Vec<String>,
    /// Directories below the root that were left alone, and the labels that they were probably meant to have:
    /// `sub-07/ses_1` and `ses-1`.
    pub near: Vec<(String, String)>,
    /// What could not be read. Sessions below it are unknown, not absent.
    pub unreadable: Vec<Unreadable>,
}

/// Says why nothing can be known of the sessions.
#[derive(Debug, thiserror::Error)]
pub enum DiscoverError {
    #[error("{key} {} does not exist", .path.display())]
    RootMissing { key: &'static str, path: PathBuf },
    #[error("{key} {} is not a directory", .path.display())]
    RootNotADirectory { key: &'static str, path: PathBuf },
    #[error("{key} {} cannot be read: {error}", .path.display())]
    RootUnreadable {
        key: &'static str,
        path: PathBuf,
        error: String,
    },
    #[error(transparent)]
    Csv(#[from] CsvError),
}

impl DiscoverError {
    /// Says what to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::RootMissing { key, .. } | Self::RootNotADirectory { key, .. } => {
                format!(
                    "is its file system mounted? otherwise correct '{key}' in the configuration"
                )
            }
            Self::RootUnreadable { key, .. } => {
                format!("the user who runs this needs read and search permission on '{key}'")
            }
            Self::Csv(error) => error.hint.clone(),
        }
    }
}

/// Finds the sessions of the study.
///
/// # Errors
/// A root that is missing or cannot be read; a sessions file that cannot be understood.
pub fn discover(search: &Search<'_>) -> Result<Discovery, DiscoverError> {
    discover_by(&Reader::default(), search)
}

/// Does the same by a reader that keeps account.
///
/// # Errors
/// As [`discover`].
pub fn discover_by(reader: &Reader, search: &Search<'_>) -> Result<Discovery, DiscoverError> {
    match search.source {
        SessionSource::Dicom => tree::scan(&tree::Tree {
            key: "dicom_root",
            root: search.dicom_root,
            level: if search.sessionless {
                tree::SessionLevel::Optional
            } else {
                tree::SessionLevel::Required
            },
            is_source: true,
            threads: search.threads,
            reader,
        }),
        SessionSource::Bids => tree::scan(&tree::Tree {
            key: "bids_root",
            root: search.bids_root,
            level: tree::SessionLevel::OrDatatypes,
            is_source: false,
            threads: search.threads,
            reader,
        }),
        SessionSource::Csv {
            file,
            subject_col,
            session_col,
        } => Ok(csv::read(search, file, subject_col, session_col)?),
    }
}
