//! BIDS: labels of subjects and sessions, and the discovery of what was scanned.

pub mod discover;
pub mod labels;

pub use discover::{Dicom, Discovery, Session};
pub use labels::{LabelError, SessionLabel, SubjectLabel};
