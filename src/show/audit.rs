//! The audit: one report about a whole study, for people who look after it.
//!
//! [`collect`] gathers, the small modules beside it compute (pure), [`report`] holds the result, and
//! [`text`] and [`html`] show it. Reads only: what is written ([`saved_reports`]) is asked for by name.

pub mod collect;
pub mod details;
pub mod efficiency;
pub mod health;
pub mod html;
pub mod inputs;
pub mod logs;
pub mod matters;
pub mod patterns;
pub mod progress;
pub mod report;
pub mod saved_reports;
pub mod summary;
pub(crate) mod testing;
pub mod text;
pub mod trend;

/// A part of the report that can be asked for alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Decisions, health, failures, stale jobs, orphans, scripts, progress.
    Tasks,
    Dicom,
    Logs,
    Efficiency,
}

impl Part {
    pub const ALL: &[Self] = &[Self::Tasks, Self::Dicom, Self::Logs, Self::Efficiency];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tasks => "tasks",
            Self::Dicom => "dicom",
            Self::Logs => "logs",
            Self::Efficiency => "efficiency",
        }
    }
}
