//! Rules for submitting and retrying the tasks of a procedure, as declared in the configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{MemSize, TimeLimit};
use crate::base::words::words;
use crate::model::state::Reason;

/// Submission rules of one procedure.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SubmitRules {
    /// Maximum number of tasks in flight.
    pub max_in_flight: Option<usize>,
    /// `None` if failed tasks wait for `retry`.
    pub retry: Option<RetryRules>,
    /// Number of consecutive failures that pause the procedure; `None` for never.
    pub pause_after_failures: Option<u32>,
    /// Number of jobs that must succeed before more are submitted; 0 for no warm-up.
    pub warmup: usize,
    pub array: ArrayMode,
    /// Maximum number of tasks of one array that run at the same time (`%K` of sbatch's `--array`).
    pub array_throttle: Option<u32>,
    /// For subject scope: the number of ready sessions that a subject needs. At least 1.
    pub min_sessions: usize,
    /// A complete task is due again after new sessions (for subject scope) or new input files.
    pub rerun_when_stale: bool,
    /// A failed job counts as complete if its outputs are complete.
    pub accept_outputs: bool,
}

words! {
    /// When due tasks of a procedure are submitted as one job array.
    #[derive(Default)]
    pub enum ArrayMode {
        #[default]
        Never = "never",
        /// If at least ten with the same resources are due.
        Auto = "auto",
        /// Even for a single one.
        Always = "always",
    }
}

/// Automatic retry policy.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryRules {
    /// Maximum number of attempts, including the first, since the task's row was created or cleared. Infrastructure
    /// failures do not count.
    pub max_attempts: u32,
    /// Maximum number of additional attempts after infrastructure failures.
    pub max_infrastructure: u32,
    /// Failures with other reasons wait for `retry`.
    pub on: BTreeMap<Reason, RetryRule>,
}

/// Changes of the next attempt after one kind of failure.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetryRule {
    /// Multiplies the last attempt's memory request.
    pub mem_factor: Option<f64>,
    pub mem_max: Option<MemSize>,
    /// Multiplies the last attempt's time limit.
    pub time_factor: Option<f64>,
    pub time_max: Option<TimeLimit>,
    /// The next attempts do not run on this attempt's nodes.
    pub exclude_node: bool,
    /// Exit codes to retry; empty for all. A signal is 128 plus its number.
    pub codes: Vec<u8>,
    /// Time between the failure and the next attempt. `None` means immediately, or for infrastructure failures one
    /// minute, doubled each time.
    pub delay: Option<Duration>,
}
