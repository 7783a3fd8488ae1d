//! The efficiency of single jobs. Pure.

use anstyle::AnsiColor;
use polars::prelude::{DataFrame, Float64Chunked, IntoColumn as _, NewChunkedArray as _};

use crate::model::state::{TaskRow, TaskStatus};
use crate::show::tables::{TableError, frame, numbers, texts, utc_time};

/// The use of requested resources by one ended attempt.
pub struct Job<'a> {
    pub row: &'a TaskRow,
    /// Unused CPU-hours plus a quarter of the unused GB-hours, the weights of Slurm's example for
    /// `TRESBillingWeights`. `None` if nothing was measured.
    pub waste_h: Option<f64>,
}

impl<'a> Job<'a> {
    /// `None` if the attempt has not ended.
    pub fn new(row: &'a TaskRow) -> Option<Self> {
        let facts = &row.facts;
        let hours = facts.elapsed_s.map(|s| s.max(0) as f64 / 3600.0);
        let unused = |held: f64, used: f64| (held - used).max(0.0);
        let cpu = || {
            let used = facts.cpu_time_s? as f64 / 3600.0;
            Some(unused(facts.alloc_cpus? as f64 * hours?, used))
        };
        let memory = || {
            let mb = unused(facts.req_mem_mb? as f64, facts.max_rss_mb? as f64);
            Some(mb / 1024.0 * hours? / 4.0)
        };
        let parts: Vec<f64> = [cpu(), memory()].into_iter().flatten().collect();
        (!row.is_in_flight()).then(|| Self {
            row,
            waste_h: (!parts.is_empty()).then(|| parts.iter().sum()),
        })
    }

    /// Seconds in the queue, never negative even if clocks differ.
    pub fn queue_wait_s(&self) -> Option<i64> {
        let facts = &self.row.facts;
        let wait = facts.started_at? - self.row.submitted_at?;
        Some(wait.num_seconds().max(0))
    }

    fn cpu_held_s(&self) -> Option<i64> {
        let facts = &self.row.facts;
        facts.alloc_cpus?.checked_mul(facts.elapsed_s?)
    }
}

/// A share in whole percent. `None` without a request.
fn percent(used: Option<i64>, asked: Option<i64>) -> Option<i64> {
    let (used, asked) = (used?, asked.filter(|asked| *asked > 0)?);
    Some((used as f64 / asked as f64 * 100.0).round() as i64)
}

/// Sorts by waste, the largest first, and unmeasured jobs last.
pub fn by_waste<T>(all: &mut [T], waste: impl Fn(&T) -> Option<f64>) {
    let key = |one: &T| waste(one).unwrap_or(-1.0);
    all.sort_by(|a, b| key(b).total_cmp(&key(a)));
}

/// One row per job, in the given order.
pub fn jobs_frame(jobs: &[Job<'_>]) -> Result<DataFrame, TableError> {
    let text = |name: &str, get: &dyn Fn(&TaskRow) -> Option<String>| {
        texts(name, jobs.iter().map(|job| get(job.row)))
    };
    let number = |name: &str, get: fn(&Job<'_>) -> Option<i64>| numbers(name, jobs.iter().map(get));
    frame(vec![
        text("procedure", &|row| Some(row.key.procedure.to_string())),
        text("subject", &|row| Some(row.key.subject.to_string())),
        text("session", &|row| Some(row.key.session.to_string())),
        number("attempt", |job| job.row.attempt.map(i64::from)),
        text("job_id", &|row| Some(row.job_id.as_ref()?.to_string())),
        text("status", &|row| Some(row.status.to_string())),
        text("reason", &|row| {
            let reason = row.reason.filter(|_| row.status != TaskStatus::Complete);
            Some(reason?.to_string())
        }),
        text("submitted_at", &|row| row.submitted_at.map(utc_time)),
        number("queue_wait_s", |job| job.queue_wait_s()),
        number("elapsed_s", |job| job.row.facts.elapsed_s),
        number("time_limit_s", |job| job.row.facts.time_limit_s),
        number("time_pct", |job| {
            percent(job.row.facts.elapsed_s, job.row.facts.time_limit_s)
        }),
        number("alloc_cpus", |job| job.row.facts.alloc_cpus),
        number("cpu_time_s", |job| job.row.facts.cpu_time_s),
        number("cpu_pct", |job| {
            percent(job.row.facts.cpu_time_s, job.cpu_held_s())
        }),
        number("req_mem_mb", |job| job.row.facts.req_mem_mb),
        number("max_rss_mb", |job| job.row.facts.max_rss_mb),
        number("mem_pct", |job| {
            percent(job.row.facts.max_rss_mb, job.row.facts.req_mem_mb)
        }),
        hours("waste_h", jobs.iter().map(|job| job.waste_h)),
    ])
}

/// A column of hours to two decimals.
pub(super) fn hours(
    name: &str,
    values: impl Iterator<Item = Option<f64>>,
) -> polars::prelude::Column {
    let round = |hours: f64| (hours * 100.0).round() / 100.0;
    let values = values.map(|value| value.map(round));
    Float64Chunked::from_iter_options(name.into(), values).into_column()
}

/// The colour of a cell. Shares have the colours of reportseff: full use of CPUs is good, but memory and time need
/// a margin.
pub fn color(column: &str, cell: &str) -> Option<AnsiColor> {
    let (good, too_much) = match (column, cell) {
        ("verdict", "fits") => return Some(AnsiColor::Green),
        ("verdict", "over-asked") => return Some(AnsiColor::Yellow),
        ("verdict", "under-asked") => return Some(AnsiColor::Red),
        ("cpu_pct", _) => (80, i64::MAX),
        ("mem_pct" | "time_pct", _) => (60, 90),
        _ => return None,
    };
    let percent: i64 = cell.parse().ok()?;
    if percent < 20 || percent > too_much {
        Some(AnsiColor::Red)
    } else {
        (percent > good).then_some(AnsiColor::Green)
    }
}
