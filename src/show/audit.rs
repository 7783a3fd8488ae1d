//! The audit: one report about a whole study.
//!
//! [`collect`] gathers the sources, the small modules compute figures (pure), [`report`] has the result, and
//! [`text`] and [`html`] show it. Only [`saved_reports`] writes files, on request.

pub mod attention;
pub mod collect;
pub mod health;
pub mod html;
pub mod inputs;
pub mod logs;
pub mod report;
pub mod saved_reports;
pub mod summary;
pub(crate) mod testing;
pub mod text;
pub mod trend;

use crate::base::words::words;

words! {
    /// The parts of a report.
    pub enum Part {
        Tasks = "tasks",
        Dicom = "dicom",
        Logs = "logs",
        Efficiency = "efficiency",
    }
}
