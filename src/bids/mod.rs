//! BIDS: labels of subjects and sessions, and the discovery of what was scanned.

pub mod cohort;
pub mod csv;
pub mod dicom;
pub mod discover;
pub mod labels;
pub mod near;

pub use cohort::{Cohort, CohortSource};
pub use discover::{
    Dicom, DiscoverError, Discovery, Search, Session, SessionSource, discover, discover_by,
};
pub use labels::{LabelError, SessionLabel, SubjectLabel};
