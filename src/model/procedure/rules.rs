//! How the tasks of a procedure are submitted, and when they are submitted again: plain values, as
//! the configuration declares them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{MemSize, TimeLimit};
use crate::base::words::words;
use crate::model::state::Reason;

/// How tasks of one procedure are submitted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SubmitRules {
    /// How many tasks of this procedure may be in flight; none: no limit.
    pub max_in_flight: Option<usize>,
    /// None: a failed task waits for a person.
    pub retry: Option<RetryRules>,
    /// So many failures in a row without a success pause the procedure; none: never.
    pub pause_after_failures: Option<u32>,
    /// So many jobs must have succeeded before more than these are submitted; 0: no warm-up.
    pub warmup: usize,
    pub array: ArrayMode,
    /// How many tasks of one array may run at a time (`%K` of sbatch's `--array`); none: no limit.
    pub array_throttle: Option<u32>,
    /// For subject scope: the subject must have so many sessions that are ready. At least 1.
    pub min_sessions: usize,
    /// A complete task is due again when a session (for subject scope) or input files have come since.
    pub rerun_when_stale: bool,
    /// A task whose job failed is complete if its outputs are.
    pub accept_outputs: bool,
}

words! {
    /// When due tasks of a procedure become one job array.
    #[derive(Default)]
    pub enum ArrayMode {
        #[default]
        Never = "never",
        /// When ten or more with equal resources are due.
        Auto = "auto",
        /// Also for a single one.
        Always = "always",
    }
}

/// Says which failures are tried again without a person, and how often.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryRules {
    /// Attempts in all, the first one included, since the task's row was made or cleared. Failures
    /// of the infrastructure do not count.
    pub max_attempts: u32,
    /// Attempts more after failures that are the machine's fault.
    pub max_infrastructure: u32,
    /// What is not listed waits for a person.
    pub on: BTreeMap<Reason, RetryRule>,
}

/// Says how the next attempt differs after one kind of failure.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetryRule {
    /// Memory of the next attempt, as a multiple of what the last one asked for.
    pub mem_factor: Option<f64>,
    /// Not more than this.
    pub mem_max: Option<MemSize>,
    /// Time limit of the next attempt, as a multiple of what the last one asked for.
    pub time_factor: Option<f64>,
    pub time_max: Option<TimeLimit>,
    /// The next attempts do not run on the nodes of this one.
    pub exclude_node: bool,
    /// Exit codes that are tried again; empty: all. A signal is 128 and its number.
    pub codes: Vec<u8>,
    /// Time between the failure and the next attempt; none: at once, after a failure of the
    /// infrastructure a minute, then doubled each time.
    pub delay: Option<Duration>,
}
