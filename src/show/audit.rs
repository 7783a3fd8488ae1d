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

/// Says which parts of the report are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Decisions, health, failures, stale jobs, orphans, scripts, progress.
    pub tasks: bool,
    pub dicom: bool,
    pub logs: bool,
    pub efficiency: bool,
}

impl Parts {
    pub const ALL: Self = Self {
        tasks: true,
        dicom: true,
        logs: true,
        efficiency: true,
    };
    pub const NONE: Self = Self {
        tasks: false,
        dicom: false,
        logs: false,
        efficiency: false,
    };

    /// True if sessions must be looked for.
    pub fn needs_sessions(self) -> bool {
        self.tasks || self.dicom
    }

    /// Returns the words of the report.
    pub fn words(self) -> Vec<&'static str> {
        let parts = [
            (self.tasks, "tasks"),
            (self.dicom, "dicom"),
            (self.logs, "logs"),
            (self.efficiency, "efficiency"),
        ];
        let parts = parts.into_iter();
        parts
            .filter_map(|(wanted, word)| wanted.then_some(word))
            .collect()
    }
}
