//! The sessions of a study: from directories or a CSV or TSV file, and the lists `include` and `exclude`.

pub mod dicom;
pub mod discover;
pub mod lists;
