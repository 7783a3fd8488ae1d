//! Sessions, the parameters of their discovery, and the gate that holds some back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::Duration;

use super::{SessionLabel, SubjectLabel};

/// One session of one subject.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub subject: SubjectLabel,
    /// [`SessionLabel::none`] in a dataset without sessions.
    pub session: SessionLabel,
    pub dicom: Dicom,
}

/// The location of a session's DICOM files.
#[derive(Debug, Clone, PartialEq)]
pub enum Dicom {
    At(Arc<Path>),
    /// There are none, so no task of this session is due.
    Missing,
    /// Sessions come from `bids_root`, so no DICOM files are needed.
    NotNeeded,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionSource {
    /// `sub-*/ses-*` below `dicom_root`.
    Dicom,
    /// `sub-*[/ses-*]` below `bids_root` (`discover: bids`).
    Bids,
    /// A CSV or TSV file (`sessions_file`).
    Csv {
        file: PathBuf,
        subject_col: String,
        session_col: String,
    },
}

/// Parameters for the discovery of a study's sessions.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    pub source: &'a SessionSource,
    pub dicom_root: &'a Path,
    pub bids_root: &'a Path,
    /// In `dicom_root`, a subject without `ses-*` is one session with the empty label.
    pub sessionless: bool,
    /// Pads ids of a sessions file to the label widths of the Python program.
    pub pad_ids: bool,
    /// Number of threads that read the file system in parallel.
    pub threads: usize,
}

/// The conditions for holding a session back although its DICOM directory exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gate {
    /// A session waits while its newest file is younger than this.
    pub settle: Option<Duration>,
    /// A session with fewer files waits; one without any always does.
    pub min_files: u64,
}
