//! Requested and used resources of jobs, and suggested requests. Pure.
//!
//! Slurm samples memory (`JobAcctGatherFrequency`, 30 s by default) and may miss a short peak. Suggestions
//! therefore leave a margin above the measured use.

mod tables;

use std::cmp::Reverse;
use std::sync::Arc;

use itertools::Itertools as _;
use serde::Serialize;

use crate::base::words::words;
use crate::model::job::ExecutorKind;
use crate::model::procedure::ProcedureDag;
use crate::model::state::{Reason, TaskRow, TaskStatus};
use crate::show::tables::exit::{clock, size};

pub use tables::{
    Job, Resource, TITLES, by_waste, color, jobs_frame, resources, resources_frame, resources_table,
};

/// Attempts that are needed for a suggestion.
const ENOUGH: usize = 5;

/// If a smaller share of attempts needs more than requested, retries are cheaper than a larger request for all.
const RARE_PERCENT: usize = 2;

/// Margin above the average number of busy CPUs, because parallel steps need more than the average.
const CPU_MARGIN_PERCENT: i64 = 25;

/// An attempt that used this share of its request was close to being killed.
const NEAR_PERCENT: i64 = 90;

/// Requested and used resources of all attempts of a procedure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Efficiency {
    pub procedure: Arc<str>,
    /// In MB of 2^20 bytes; used is the peak of the largest step (`MaxRSS`).
    pub memory: Option<Usage>,
    /// In seconds.
    pub time: Option<Usage>,
    pub cpu: Option<CpuUse>,
    /// The sum over all attempts, see [`Job::waste_h`].
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

/// The efficiency of each procedure with a measured attempt. Procedures of the configuration come first, in
/// its order, then others by name.
pub fn efficiency<'a>(
    attempts: impl Iterator<Item = &'a TaskRow>,
    dag: &ProcedureDag,
) -> Vec<Efficiency> {
    let groups = attempts.into_group_map_by(|row| Arc::clone(&row.key.procedure));
    let groups = groups.into_iter();
    let groups = groups.sorted_by_key(|(name, _)| (dag.rank(name), Arc::clone(name)));
    let all = groups.map(|(procedure, mut attempts)| {
        attempts.sort_by_key(|row| Reverse(row.submitted_at));
        let waste = attempts.iter().filter_map(|row| Job::new(row)?.waste_h);
        Efficiency {
            procedure,
            memory: usage(&attempts, &MEMORY),
            time: usage(&attempts, &TIME),
            cpu: cpu(&attempts),
            // `sum` of no numbers would be -0.0.
            waste_h: waste.fold(0.0, |sum, waste| sum + waste),
        }
    });
    all.filter(|one| one.memory.is_some() || one.time.is_some() || one.cpu.is_some())
        .collect()
}

/// The nearest-rank percentiles. `None` without values.
pub fn percentiles(values: &mut [i64]) -> Option<Percentiles> {
    values.sort_unstable();
    let at = |percent: usize| {
        let rank = (values.len() * percent).div_ceil(100).max(1);
        values.get(rank - 1).copied()
    };
    Some(Percentiles {
        p50: at(50)?,
        p90: at(90)?,
        p95: at(95)?,
        max: at(100)?,
    })
}

/// How a resource is read and rounded.
struct Measure {
    used: fn(&TaskRow) -> Option<i64>,
    asked: fn(&TaskRow) -> Option<i64>,
    /// The reason of attempts that had too little.
    want: Reason,
    /// Margins above the 95th percentile and above the maximum, in percent.
    above_p95: i64,
    above_max: i64,
    round_up: fn(i64) -> i64,
    text: fn(i64) -> String,
}

const MEMORY: Measure = Measure {
    used: |row| row.facts.max_rss_mb.filter(|mb| *mb > 0),
    asked: |row| row.facts.req_mem_mb.filter(|mb| *mb > 0),
    want: Reason::OutOfMemory,
    above_p95: 20,
    above_max: 5,
    round_up: |mb| match mb {
        ..=512 => up_to(mb, 64),
        513..=2048 => up_to(mb, 256),
        2049..=65_536 => up_to(mb, 1024),
        _ => up_to(mb, 8192),
    },
    text: size,
};

const TIME: Measure = Measure {
    used: |row| row.facts.elapsed_s.filter(|s| *s > 0),
    asked: |row| row.facts.time_limit_s.filter(|s| *s > 0),
    want: Reason::Timeout,
    above_p95: 50,
    above_max: 10,
    round_up: |s| match s {
        ..=600 => up_to(s, 60),
        601..=3600 => up_to(s, 300),
        3601..=43_200 => up_to(s, 1800),
        _ => up_to(s, 3600),
    },
    text: clock,
};

fn usage(newest_first: &[&TaskRow], resource: &Measure) -> Option<Usage> {
    let all = newest_first.iter();
    let complete = all.clone().filter(|row| row.status == TaskStatus::Complete);
    let measured: Vec<(i64, Option<i64>)> = complete
        .filter_map(|row| Some(((resource.used)(row)?, (resource.asked)(row))))
        .collect();
    let is_short = |row: &&&TaskRow| row.reason == Some(resource.want);
    let short = all.filter(|row| row.status == TaskStatus::Failed && is_short(row));
    let under_asked = short.clone().count();
    if measured.is_empty() && under_asked == 0 {
        return None;
    }
    let over_asked = measured
        .iter()
        .filter(|(used, asked)| asked.is_some_and(|asked| used.saturating_mul(2) < asked))
        .count();
    let n = measured.len();
    let used = percentiles(&mut measured.iter().map(|(used, _)| *used).collect_vec());
    let asked = newest_first.iter().find_map(|row| (resource.asked)(row));
    let by_use = used
        .filter(|_| n >= ENOUGH)
        .map(|used| more(used.p95, resource.above_p95).max(more(used.max, resource.above_max)));
    let is_rare = under_asked * 100 < RARE_PERCENT * (n + under_asked);
    let killed_at = short.filter_map(|row| (resource.asked)(row)).max();
    let by_want = killed_at
        .filter(|_| !is_rare)
        .map(|asked| more(asked, 50).max(asked.saturating_add(1)));
    // Attempts that failed for another reason count, too, but not cancelled ones, which may have hung.
    let most = newest_first
        .iter()
        .filter(|row| row.reason != Some(Reason::Cancelled))
        .filter(|row| !is_short(row) || (resource.asked)(row).is_none())
        .filter_map(|row| (resource.used)(row))
        .max();
    let above_most = most.filter(|_| by_use.or(by_want).is_some());
    let above_most = above_most.map(|most| more(most, resource.above_max));
    let wanted = by_use.max(by_want).max(above_most);
    let wanted = wanted.map(resource.round_up);
    let is_near = asked.zip(most).is_some_and(|(asked, most)| {
        most.saturating_mul(100) >= asked.saturating_mul(NEAR_PERCENT)
    });
    // The margin alone does not justify a larger request.
    let most = asked.filter(|_| !is_near && (under_asked == 0 || is_rare));
    let wanted = wanted.map(|wanted| wanted.min(most.unwrap_or(i64::MAX)));
    let would_kill = |wanted: &i64| killed_at.is_some_and(|killed_at| *wanted <= killed_at);
    let suggested = wanted.filter(|wanted| !would_kill(wanted));
    let verdict = match (asked, wanted) {
        // More for all would cost more than a few retries, and less would kill more attempts.
        (Some(_), Some(_)) if suggested.is_none() => Verdict::Fits,
        _ => verdict(asked, suggested),
    };
    Some(Usage {
        n,
        used,
        asked,
        over_asked,
        under_asked,
        verdict,
        suggested,
        suggested_text: suggested.map(resource.text),
    })
}

fn verdict(asked: Option<i64>, suggested: Option<i64>) -> Verdict {
    match (asked, suggested) {
        (Some(asked), Some(suggested)) if suggested > asked => Verdict::UnderAsked,
        (Some(asked), Some(suggested)) if suggested.saturating_mul(4) < asked.saturating_mul(3) => {
            Verdict::OverAsked
        }
        (Some(_), Some(_)) => Verdict::Fits,
        _ => Verdict::Unknown,
    }
}

fn cpu(newest_first: &[&TaskRow]) -> Option<CpuUse> {
    let measured: Vec<(f64, i64)> = newest_first
        .iter()
        .filter(|row| row.status == TaskStatus::Complete)
        .filter_map(|row| {
            let facts = &row.facts;
            let (used, elapsed, cpus) = (facts.cpu_time_s?, facts.elapsed_s?, facts.alloc_cpus?);
            (used >= 0 && elapsed > 0 && cpus > 0)
                .then(|| (used as f64 / (elapsed as f64 * cpus as f64), cpus))
        })
        .collect();
    let (_, alloc_cpus) = measured.first()?;
    // In millionths, so that `percentiles` can be used.
    let millionths = |of: fn(&(f64, i64)) -> f64| {
        let mut all: Vec<i64> = measured.iter().map(|one| (of(one) * 1e6) as i64).collect();
        percentiles(&mut all)
    };
    let shares = millionths(|(share, _)| *share)?;
    let busy = millionths(|(share, cpus)| share * *cpus as f64);
    let busy = busy.filter(|_| measured.len() >= ENOUGH);
    let wanted = busy.map(|busy| up_to(more(busy.p95, CPU_MARGIN_PERCENT), 1_000_000) / 1_000_000);
    // Jobs that keep all their CPUs busy might not keep more busy.
    let suggested = wanted.map(|cpus| cpus.clamp(1, (*alloc_cpus).max(1)));
    let share = |millionths: i64| millionths as f64 / 1e6;
    Some(CpuUse {
        n: measured.len(),
        alloc_cpus: *alloc_cpus,
        busy_p50: share(shares.p50),
        busy_p90: share(shares.p90),
        busy_p95: share(shares.p95),
        busy_max: share(shares.max),
        verdict: verdict(Some(*alloc_cpus), suggested),
        suggested,
    })
}

fn more(value: i64, percent: i64) -> i64 {
    value.saturating_add(value / 100 * percent + value % 100 * percent / 100)
}

fn up_to(value: i64, step: i64) -> i64 {
    value.saturating_add(step - 1) / step * step
}

/// Why there is nothing to compare.
pub fn no_measurement(executor: ExecutorKind) -> &'static str {
    match executor {
        ExecutorKind::Slurm => "no job has been measured yet (needs Slurm's accounting)",
        ExecutorKind::Local => {
            "nothing to compare: the local executor measures only how long jobs ran"
        }
    }
}

#[cfg(test)]
mod tests;
