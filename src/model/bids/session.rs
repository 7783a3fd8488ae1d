//! Sessions as plain data: what one is, where they are looked for, and which are held back.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::Duration;

use super::{SessionLabel, SubjectLabel};

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

/// Says where sessions come from.
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

/// Says where the sessions of a study are to be looked for, and how.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    pub source: &'a SessionSource,
    pub dicom_root: &'a Path,
    pub bids_root: &'a Path,
    /// Below `dicom_root`, a subject without `ses-*` is one session with the empty label.
    pub sessionless: bool,
    /// Ids of a sessions file become labels of the Python program's widths.
    pub pad_ids: bool,
    /// Threads that wait for the file system at the same time.
    pub threads: usize,
}

/// Says which sessions are held back although their DICOM directory is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Gate {
    /// A session waits while its newest file is younger than this.
    pub settle: Option<Duration>,
    /// A session with fewer files waits; one without any always does.
    pub min_files: u64,
}
