//! Notifications: which events, and how they are sent.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// Holds the `notify` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotifyConfig {
    pub email: bool,
    /// A program that gets the digest on its standard input.
    pub command: Option<PathBuf>,
    pub on: BTreeSet<Occasion>,
}

/// Names a kind of change for the worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Occasion {
    /// The tool could not do its work.
    Error,
    /// Slurm did not answer in several calls in a row.
    Unreachable,
    SafetyStop,
    /// A procedure was paused because its jobs failed one after the other.
    Paused,
    /// Submissions were refused, or a script is missing.
    Refused,
    /// A task failed and is not tried again by the retry rules.
    Failed,
    /// As `Failed`: nobody knows what became of the job.
    Lost,
    /// A job will not start by itself.
    Held,
    /// A submission has been in doubt for long.
    InDoubt,
}

impl Occasion {
    /// The worst first.
    pub const ALL: [Self; 9] = [
        Self::Error,
        Self::Unreachable,
        Self::SafetyStop,
        Self::Paused,
        Self::Refused,
        Self::Failed,
        Self::Lost,
        Self::Held,
        Self::InDoubt,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Unreachable => "unreachable",
            Self::SafetyStop => "safety_stop",
            Self::Paused => "paused",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Lost => "lost",
            Self::Held => "held",
            Self::InDoubt => "in_doubt",
        }
    }
}

impl Default for NotifyConfig {
    fn default() -> Self {
        Self {
            email: false,
            command: None,
            on: Occasion::ALL.into(),
        }
    }
}

impl NotifyConfig {
    /// True if there is anybody to tell.
    pub fn is_on(&self) -> bool {
        self.email || self.command.is_some()
    }
}
