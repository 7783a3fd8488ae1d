//! Settings of notifications: the events, and how they are sent.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::base::words::words;

/// The `notify` section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotifyConfig {
    pub email: bool,
    /// A program that receives the digest on standard input.
    pub command: Option<PathBuf>,
    pub on: BTreeSet<Occasion>,
}

words! {
    /// A kind of event to report, the worst first.
    pub enum Occasion {
        /// The program failed.
        Error = "error",
        /// Slurm did not respond in several consecutive invocations.
        Unreachable = "unreachable",
        SafetyStop = "safety_stop",
        /// The circuit breaker paused a procedure.
        Paused = "paused",
        /// Submissions were refused, or a script is missing.
        Refused = "refused",
        /// A task failed and is not retried automatically.
        Failed = "failed",
        /// Like `Failed`, but the job's result is unknown.
        Lost = "lost",
        /// A job will not start on its own.
        Held = "held",
        /// A submission has been in doubt for a long time.
        InDoubt = "in_doubt",
    }
}

impl NotifyConfig {
    pub fn is_on(&self) -> bool {
        self.email || self.command.is_some()
    }
}
