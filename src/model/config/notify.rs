//! Notifications: which events, and how they are sent.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::base::words::words;

/// The `notify` section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotifyConfig {
    pub email: bool,
    /// A program that gets the digest on its standard input.
    pub command: Option<PathBuf>,
    pub on: BTreeSet<Occasion>,
}

words! {
    /// A kind of change for the worse, the worst first.
    pub enum Occasion {
        /// The tool could not do its work.
        Error = "error",
        /// Slurm did not answer in several calls in a row.
        Unreachable = "unreachable",
        SafetyStop = "safety_stop",
        /// A procedure was paused because its jobs failed one after the other.
        Paused = "paused",
        /// Submissions were refused, or a script is missing.
        Refused = "refused",
        /// A task failed and is not tried again by the retry rules.
        Failed = "failed",
        /// As `Failed`: nobody knows what became of the job.
        Lost = "lost",
        /// A job will not start by itself.
        Held = "held",
        /// A submission has been in doubt for long.
        InDoubt = "in_doubt",
    }
}

impl NotifyConfig {
    /// True if there is anybody to tell.
    pub fn is_on(&self) -> bool {
        self.email || self.command.is_some()
    }
}
