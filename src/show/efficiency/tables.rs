//! The tables of jobs and of resources, for people and for scripts. Pure.

use anstyle::AnsiColor;
use polars::prelude::{Column, DataFrame, Float64Chunked, IntoColumn as _, NewChunkedArray as _};

use super::{Efficiency, Percentiles, Usage, Verdict};
use crate::base::text::plural;
use crate::model::state::{Reason, TaskRow, TaskStatus};
use crate::show::tables::exit::{clock, size};
use crate::show::tables::rows::row_column;
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
    let rows: Vec<&TaskRow> = jobs.iter().map(|job| job.row).collect();
    let number = |name: &str, get: fn(&Job<'_>) -> Option<i64>| numbers(name, jobs.iter().map(get));
    let reason = |row: &&TaskRow| {
        let reason = row.reason.filter(|_| row.status != TaskStatus::Complete);
        reason.map(Reason::as_str)
    };
    let names = "procedure subject session attempt job_id status reason submitted_at queue_wait_s \
        elapsed_s time_limit_s time_pct alloc_cpus cpu_time_s cpu_pct req_mem_mb max_rss_mb mem_pct waste_h";
    let columns = names.split_whitespace().map(|name| {
        Ok(match name {
            "reason" => texts(name, rows.iter().map(reason)),
            "queue_wait_s" => number(name, |job| job.queue_wait_s()),
            "time_pct" => number(name, |job| {
                percent(job.row.facts.elapsed_s, job.row.facts.time_limit_s)
            }),
            "cpu_pct" => number(name, |job| {
                percent(job.row.facts.cpu_time_s, job.cpu_held_s())
            }),
            "mem_pct" => number(name, |job| {
                percent(job.row.facts.max_rss_mb, job.row.facts.req_mem_mb)
            }),
            "waste_h" => hours(name, jobs.iter().map(|job| job.waste_h)),
            _ => row_column(name, &rows, None, utc_time)?,
        })
    });
    frame(columns.collect::<Result<_, TableError>>()?)
}

/// A column of hours to two decimals.
fn hours(name: &str, values: impl Iterator<Item = Option<f64>>) -> Column {
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

/// One resource of one procedure. Memory is in MB, time in seconds, CPU in percent of the allocated ones.
pub struct Resource<'a> {
    pub procedure: &'a str,
    pub name: &'static str,
    /// The key of the configuration.
    key: &'static str,
    /// For CPUs without counts of jobs that used less than half or had too little.
    usage: Usage,
    waste_h: f64,
    text: fn(i64) -> String,
    asked_text: fn(i64) -> String,
}

/// All measured resources, in the order of the procedures.
pub fn resources(all: &[Efficiency]) -> impl Iterator<Item = Resource<'_>> {
    all.iter().flat_map(|found| {
        let resource = |(name, key), usage: Option<Usage>, text, asked_text| {
            usage.map(|usage| Resource {
                procedure: &found.procedure,
                name,
                key,
                usage,
                waste_h: found.waste_h,
                text,
                asked_text,
            })
        };
        let cpu = found.cpu.as_ref().map(|cpu| {
            let share = |busy: f64| (busy * 100.0 + 1e-9).floor() as i64;
            Usage {
                n: cpu.n,
                used: Some(Percentiles {
                    p50: share(cpu.busy_p50),
                    p90: share(cpu.busy_p90),
                    p95: share(cpu.busy_p95),
                    max: share(cpu.busy_max),
                }),
                asked: Some(cpu.alloc_cpus),
                over_asked: 0,
                under_asked: 0,
                verdict: cpu.verdict,
                suggested: cpu.suggested,
                suggested_text: cpu.suggested.map(|cpus| cpus.to_string()),
            }
        });
        let (memory, time) = (found.memory.clone(), found.time.clone());
        let cpus = |cpus: i64| plural(cpus.max(0) as usize, "CPU");
        [
            resource(
                ("memory", "mem"),
                memory,
                size as fn(i64) -> String,
                size as fn(i64) -> String,
            ),
            resource(("time", "time"), time, clock, clock),
            resource(
                ("CPU", "cpus_per_task"),
                cpu,
                |share| format!("{share} %"),
                cpus,
            ),
        ]
        .into_iter()
        .flatten()
    })
}

/// The titles of [`Resource::cells`]: `>` marks a number, `!` a verdict.
pub const TITLES: &str = "procedure | used | >n | >p50 | >p90 | >p95 | >max | >requested | >over | >short | suggested | !verdict";

impl Resource<'_> {
    /// The row for people.
    pub fn cells(&self) -> Vec<String> {
        let usage = &self.usage;
        let verdict = Some(usage.verdict).filter(|verdict| *verdict != Verdict::Unknown);
        let mut cells = vec![
            self.procedure.to_owned(),
            self.name.to_owned(),
            usage.n.to_string(),
        ];
        let used = usage
            .used
            .map(|p| [p.p50, p.p90, p.p95, p.max].map(self.text));
        cells.extend(used.unwrap_or_default());
        cells.push(usage.asked.map(self.asked_text).unwrap_or_default());
        let counts = self.counts();
        cells.extend(counts.map(|count| count.map_or_else(String::new, |it| it.to_string())));
        cells.push(self.line().unwrap_or_default());
        cells.push(verdict.map_or_else(String::new, |it| it.as_str().replace('_', "-")));
        cells
    }

    /// Completed jobs that used less than half, and jobs that had too little. `None` for CPUs.
    fn counts(&self) -> [Option<usize>; 2] {
        let counts = [self.usage.over_asked, self.usage.under_asked];
        counts.map(|count| Some(count).filter(|_| self.name != "CPU"))
    }

    /// The suggested line of the configuration.
    fn line(&self) -> Option<String> {
        let value = self.usage.suggested_text.as_ref()?;
        Some(format!("{}: {value}", self.key))
    }
}

/// The rows for people as a table.
pub fn resources_table(rows: &[Resource<'_>]) -> Result<DataFrame, TableError> {
    let rows: Vec<Vec<String>> = rows.iter().map(Resource::cells).collect();
    let columns = TITLES.split(" | ").enumerate().map(|(at, title)| {
        let title = title.trim_start_matches(['>', '!']);
        texts(title, rows.iter().map(|cells| cells.get(at)))
    });
    frame(columns.collect())
}

/// The rows for scripts.
pub fn resources_frame(rows: &[Resource<'_>]) -> Result<DataFrame, TableError> {
    let text = |name: &str, get: fn(&Resource<'_>) -> String| {
        texts(name, rows.iter().map(|row| Some(get(row))))
    };
    let number =
        |name: &str, get: fn(&Resource<'_>) -> Option<i64>| numbers(name, rows.iter().map(get));
    frame(vec![
        text("procedure", |row| row.procedure.to_owned()),
        text("resource", |row| row.name.to_lowercase()),
        number("n", |row| Some(row.usage.n as i64)),
        number("p50", |row| Some(row.usage.used?.p50)),
        number("p90", |row| Some(row.usage.used?.p90)),
        number("p95", |row| Some(row.usage.used?.p95)),
        number("max", |row| Some(row.usage.used?.max)),
        number("asked", |row| row.usage.asked),
        number("over", |row| Some(row.counts()[0]? as i64)),
        number("short", |row| Some(row.counts()[1]? as i64)),
        number("suggested", |row| row.usage.suggested),
        text("suggested_line", |row| row.line().unwrap_or_default()),
        text("verdict", |row| row.usage.verdict.to_string()),
        hours("waste_h", rows.iter().map(|row| Some(row.waste_h))),
    ])
}
