//! Figures over attempts and over time: efficiency, progress, trend.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use serde::Serialize;

use super::{maybe_time, time};

/// Compares what the jobs of a procedure asked for with what they used. Attempts of all times count.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Efficiency {
    pub procedure: Arc<str>,
    /// In MB of 2^20 bytes; used is the peak of the largest step (`MaxRSS`).
    pub memory: Option<Usage>,
    /// In seconds.
    pub time: Option<Usage>,
    pub cpu: Option<CpuUse>,
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

/// Rates what is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The suggestion is less than three quarters of what is asked for.
    OverAsked,
    /// The suggestion is more than what is asked for: attempts failed for want of it, or came close.
    UnderAsked,
    Fits,
    /// Too few attempts, or nothing is asked for.
    Unknown,
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
}

/// Tells how the work goes on, from the audit log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Progress {
    /// In order of priority; procedures without any event are missing.
    pub procedures: Vec<ProcedureProgress>,
    /// Over all procedures of the report.
    pub rate: Rate,
    pub backlog: Backlog,
    /// Lines of the audit log that could not be understood.
    pub bad_lines: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcedureProgress {
    pub procedure: Arc<str>,
    /// Days with an event, oldest first.
    pub days: Vec<Day>,
    pub rate: Rate,
    pub backlog: Backlog,
}

/// Is one day (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Day {
    pub date: NaiveDate,
    pub submitted: usize,
    pub completed: usize,
    pub failed: usize,
    /// Sums up to and including this day. A task that is run again counts again.
    pub completed_so_far: usize,
    pub failed_so_far: usize,
}

/// Says how fast tasks become complete, per day (24 h), over the time before the report.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Rate {
    /// Completed tasks of the last 7 days / 7, or / the days since the first event if those are fewer.
    pub last_7_days: Option<f64>,
    /// The same over 28 days.
    pub last_28_days: Option<f64>,
}

/// Holds what will run by itself and is not complete yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Backlog {
    /// Tasks that are due, in flight, over a limit, waiting or settling; not the failed, blocked, paused
    /// and unreadable ones.
    pub tasks: usize,
    /// When they are done at the rate of the last 7 days. None: nothing became complete in that time, or
    /// there is no backlog.
    #[serde(serialize_with = "maybe_time")]
    pub expected_end: Option<DateTime<Utc>>,
}

/// Compares with an earlier report of the same selection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    /// The earlier report's file and time.
    pub file: String,
    #[serde(serialize_with = "time")]
    pub created_at: DateTime<Utc>,
    /// Sums of the whole study, one per matter.
    pub matters: Vec<MatterTrend>,
    pub procedures: Vec<ProcedureTrend>,
    /// True if a matter of which less is better has grown.
    pub worse: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MatterTrend {
    /// `sessions`, `complete`, `failed`, `poor`, ...
    pub matter: &'static str,
    pub before: usize,
    pub now: usize,
    /// True if less is better.
    pub bad: bool,
}

/// Counts tasks by decision. A procedure that one of the two reports lacks counts 0 there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcedureTrend {
    pub procedure: Arc<str>,
    pub complete_before: usize,
    pub complete_now: usize,
    pub failed_before: usize,
    pub failed_now: usize,
}
