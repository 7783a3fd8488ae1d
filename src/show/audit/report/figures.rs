//! Figures over attempts and over time: efficiency, progress, trend.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use serde::Serialize;

use super::{maybe_time, time};

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
