//! How the work goes on, as the JSON of `audit` has it.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Serialize, Serializer};

use crate::show::tables::utc_time;

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

fn maybe_time<S: Serializer>(at: &Option<DateTime<Utc>>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.serialize_str(&utc_time(*at)),
        None => serializer.serialize_none(),
    }
}
