//! The audit: one report about a whole study, for people who look after it.
//!
//! [`collect`] gathers, the small modules beside it compute (pure), [`report`] holds the result, and
//! [`text`] and [`html`] show it. Reads only: what is written ([`saved_reports`]) is asked for by name.

pub mod attention;
pub mod collect;
pub mod details;
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
    /// What a report looks at.
    pub enum Part {
        Tasks = "tasks",
        Dicom = "dicom",
        Logs = "logs",
        Efficiency = "efficiency",
    }
}
