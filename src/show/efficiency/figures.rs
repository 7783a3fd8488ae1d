//! The figures of one procedure's jobs, as the JSON of `audit` has them.

use std::sync::Arc;

use serde::Serialize;

use crate::base::words::words;

/// Compares what the jobs of a procedure asked for with what they used. Attempts of all times count.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Efficiency {
    pub procedure: Arc<str>,
    /// In MB of 2^20 bytes; used is the peak of the largest step (`MaxRSS`).
    pub memory: Option<Usage>,
    /// In seconds.
    pub time: Option<Usage>,
    pub cpu: Option<CpuUse>,
    /// The sum over all attempts, see [`super::Job::waste_h`].
    pub waste_h: f64,
}

/// Compares one resource, asked for and used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Usage {
    /// Attempts that were measured and completed: those that `used` is about.
    pub n: usize,
    /// None: no attempt completed.
    pub used: Option<Percentiles>,
    /// What the newest attempt asked for; none: not known, or no limit.
    pub asked: Option<i64>,
    /// Of the `n`, attempts that used less than half of what they asked for.
    pub over_asked: usize,
    /// Attempts that failed for want of this resource; not among the `n`.
    pub under_asked: usize,
    pub verdict: Verdict,
    /// What to ask for, in the same unit: more than any attempt used or was killed at. None: too few
    /// attempts to say, or too few of many were short to ask more for all.
    pub suggested: Option<i64>,
    /// The same as it is written in the configuration (`mem: 24G`, `time: 06:00:00`).
    pub suggested_text: Option<String>,
}

/// Holds nearest-rank percentiles: each is a value that occurred.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    pub p50: i64,
    pub p90: i64,
    pub p95: i64,
    pub max: i64,
}

words! {
    /// Rates what is asked for.
    pub enum Verdict {
        /// The suggestion is less than three quarters of what is asked for.
        OverAsked = "over_asked",
        /// The suggestion is more than what is asked for: attempts failed for want of it, or came close.
        UnderAsked = "under_asked",
        Fits = "fits",
        /// Too few attempts, or nothing is asked for.
        Unknown = "unknown",
    }
}

/// Says which part of their CPUs jobs keep busy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CpuUse {
    pub n: usize,
    /// CPUs of the newest attempt.
    pub alloc_cpus: i64,
    /// Median over attempts of CPU time / (elapsed x CPUs); 1 is all of them all the time.
    pub busy_p50: f64,
    pub busy_p90: f64,
    pub busy_p95: f64,
    pub busy_max: f64,
    pub verdict: Verdict,
    /// How many CPUs to ask for, never more than now. None: too few attempts to say.
    pub suggested: Option<i64>,
}
