//! The sessions of a study: from directories, from a CSV or TSV file, and from the lists of those that the site wants.

pub mod dicom;
pub mod discover;
pub mod late;
pub mod lists;
