//! The comparison with an earlier report.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::time;

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
