//! The efficiency figures of one procedure, as in the JSON of `audit`.

use std::sync::Arc;

use serde::Serialize;

use crate::base::words::words;

/// Requested and used resources of all attempts of a procedure.
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

/// One resource, requested and used.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Usage {
    /// Completed attempts with a measurement, the basis of `used`.
    pub n: usize,
    /// `None` if no attempt completed.
    pub used: Option<Percentiles>,
    /// The request of the newest attempt. `None` if it is unknown or unlimited.
    pub asked: Option<i64>,
    /// Of the `n`, attempts that used less than half of their request.
    pub over_asked: usize,
    /// Attempts that failed because they had too little; not included in `n`.
    pub under_asked: usize,
    pub verdict: Verdict,
    /// The suggested request in the same unit, above the use of every attempt. `None` if there are too few
    /// attempts, or too few short ones among many.
    pub suggested: Option<i64>,
    /// The same in the notation of the configuration (`mem: 24G`, `time: 06:00:00`).
    pub suggested_text: Option<String>,
}

/// Nearest-rank percentiles, so each is a measured value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    pub p50: i64,
    pub p90: i64,
    pub p95: i64,
    pub max: i64,
}

words! {
    /// The rating of a request.
    pub enum Verdict {
        /// The suggestion is less than three quarters of the request.
        OverAsked = "over_asked",
        /// The suggestion exceeds the request, because attempts failed or almost failed.
        UnderAsked = "under_asked",
        Fits = "fits",
        /// Too few attempts, or no request.
        Unknown = "unknown",
    }
}

/// The share of their CPUs that jobs keep busy.
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
    /// Suggested number of CPUs, never more than now. `None` with too few attempts.
    pub suggested: Option<i64>,
}
