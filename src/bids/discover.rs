//! Discovery: which sessions exist, from directories or from a CSV file.

use std::path::Path;
use std::sync::Arc;

use super::{SessionLabel, SubjectLabel};
use crate::completion::Unreadable;

/// Holds what was found, sorted by subject and session, without doubles.
#[derive(Debug, Clone, Default)]
pub struct Discovery {
    pub sessions: Vec<Session>,
    /// Entries that were skipped and other things to report, one line per kind.
    pub notes: Vec<String>,
    /// What could not be read. Sessions below it are unknown, not absent.
    pub unreadable: Vec<Unreadable>,
}

/// Describes one session of one subject.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub subject: SubjectLabel,
    /// [`SessionLabel::none`] in a dataset without sessions.
    pub session: SessionLabel,
    pub dicom: Dicom,
}

/// Says where a session's DICOM files are.
#[derive(Debug, Clone, PartialEq)]
pub enum Dicom {
    At(Arc<Path>),
    /// There are none: no task of this session is due.
    Missing,
    /// Sessions come from `bids_root`: nothing needs DICOM files.
    NotNeeded,
}
