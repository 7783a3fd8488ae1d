//! The progress figures, as in the JSON of `audit`.

use std::sync::Arc;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Serialize, Serializer};

use crate::show::tables::utc_time;

/// Progress of the study, from the audit log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Progress {
    /// In order of priority, without procedures that have neither events nor a backlog.
    pub procedures: Vec<ProcedureProgress>,
    /// Over all procedures of the report.
    pub rate: Rate,
    pub backlog: Backlog,
    /// Invalid lines of the audit log.
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

/// One day (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Day {
    pub date: NaiveDate,
    pub submitted: usize,
    pub completed: usize,
    pub failed: usize,
    /// Sums up to and including this day. A rerun counts again.
    pub completed_so_far: usize,
    pub failed_so_far: usize,
}

/// Completed tasks per day (24 h) before the report.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Rate {
    /// Average of the last 7 days, or of the days since the first event if there are fewer.
    pub last_7_days: Option<f64>,
    /// The same over 28 days.
    pub last_28_days: Option<f64>,
}

/// Incomplete tasks that will run automatically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Backlog {
    /// Tasks that are due, in flight, over a limit, waiting or settling, but not failed, blocked, paused or
    /// unreadable ones.
    pub tasks: usize,
    /// Expected end at the rate of the last 7 days. `None` without completed tasks in that time, or without a
    /// backlog.
    #[serde(serialize_with = "maybe_time")]
    pub expected_end: Option<DateTime<Utc>>,
}

fn maybe_time<S: Serializer>(at: &Option<DateTime<Utc>>, serializer: S) -> Result<S::Ok, S::Error> {
    match at {
        Some(at) => serializer.serialize_str(&utc_time(*at)),
        None => serializer.serialize_none(),
    }
}
