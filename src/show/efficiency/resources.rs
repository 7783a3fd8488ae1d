//! The tables of resources, for people and for scripts. Pure.

use polars::prelude::DataFrame;

use super::jobs::hours;
use super::{Efficiency, Percentiles, Usage, Verdict};
use crate::base::text::plural;
use crate::show::tables::exit::{clock, size};
use crate::show::tables::{TableError, frame, numbers, texts};

/// One resource of one procedure. Memory is in MB, time in seconds, CPU in percent of the allocated ones.
pub struct Resource<'a> {
    pub procedure: &'a str,
    pub name: &'static str,
    pub n: usize,
    pub used: Option<Percentiles>,
    pub asked: Option<i64>,
    /// Completed jobs that used less than half, and jobs that had too little. `None` for CPUs.
    pub over_and_short: Option<(usize, usize)>,
    pub suggested: Option<i64>,
    /// The line of the configuration.
    pub line: Option<String>,
    pub verdict: Verdict,
    pub waste_h: f64,
    text: fn(i64) -> String,
    asked_text: fn(i64) -> String,
}

/// All measured resources, in the order of the procedures.
pub fn resources(all: &[Efficiency]) -> impl Iterator<Item = Resource<'_>> {
    all.iter().flat_map(|found| {
        let cpu = found.cpu.as_ref().map(|cpu| {
            let share = |busy: f64| (busy * 100.0 + 1e-9).floor() as i64;
            let used = Percentiles {
                p50: share(cpu.busy_p50),
                p90: share(cpu.busy_p90),
                p95: share(cpu.busy_p95),
                max: share(cpu.busy_max),
            };
            Resource {
                procedure: &found.procedure,
                name: "CPU",
                n: cpu.n,
                used: Some(used),
                asked: Some(cpu.alloc_cpus),
                over_and_short: None,
                suggested: cpu.suggested,
                line: cpu.suggested.map(|cpus| format!("cpus_per_task: {cpus}")),
                verdict: cpu.verdict,
                waste_h: found.waste_h,
                text: |share| format!("{share} %"),
                asked_text: |cpus| plural(cpus.max(0) as usize, "CPU"),
            }
        });
        let memory = found.memory.as_ref();
        let time = found.time.as_ref();
        let memory = memory.map(|usage| of_usage(found, "memory", "mem", usage, size));
        let time = time.map(|usage| of_usage(found, "time", "time", usage, clock));
        [memory, time, cpu].into_iter().flatten()
    })
}

fn of_usage<'a>(
    found: &'a Efficiency,
    name: &'static str,
    key: &str,
    usage: &Usage,
    text: fn(i64) -> String,
) -> Resource<'a> {
    let line = usage.suggested_text.as_ref();
    Resource {
        procedure: &found.procedure,
        name,
        n: usage.n,
        used: usage.used,
        asked: usage.asked,
        over_and_short: Some((usage.over_asked, usage.under_asked)),
        suggested: usage.suggested,
        line: line.map(|value| format!("{key}: {value}")),
        verdict: usage.verdict,
        waste_h: found.waste_h,
        text,
        asked_text: text,
    }
}

/// The titles of [`Resource::cells`]: `>` marks a number, `!` a verdict.
pub const TITLES: &str = "procedure | used | >n | >p50 | >p90 | >p95 | >max | >requested | >over | >short | suggested | !verdict";

impl Resource<'_> {
    /// The row for people.
    pub fn cells(&self) -> Vec<String> {
        let used = self
            .used
            .map(|p| [p.p50, p.p90, p.p95, p.max].map(self.text));
        let counts = self.over_and_short;
        let counts = counts.map(|(over, short)| [over, short].map(|count| count.to_string()));
        let verdict = Some(self.verdict).filter(|verdict| *verdict != Verdict::Unknown);
        let verdict = verdict.map(|verdict| verdict.as_str().replace('_', "-"));
        let mut cells = vec![
            self.procedure.to_owned(),
            self.name.to_owned(),
            self.n.to_string(),
        ];
        cells.extend(used.unwrap_or_default());
        cells.push(self.asked.map(self.asked_text).unwrap_or_default());
        cells.extend(counts.unwrap_or_default());
        cells.push(self.line.clone().unwrap_or_default());
        cells.push(verdict.unwrap_or_default());
        cells
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
        number("n", |row| Some(row.n as i64)),
        number("p50", |row| Some(row.used?.p50)),
        number("p90", |row| Some(row.used?.p90)),
        number("p95", |row| Some(row.used?.p95)),
        number("max", |row| Some(row.used?.max)),
        number("asked", |row| row.asked),
        number("over", |row| Some(row.over_and_short?.0 as i64)),
        number("short", |row| Some(row.over_and_short?.1 as i64)),
        number("suggested", |row| row.suggested),
        text("suggested_line", |row| row.line.clone().unwrap_or_default()),
        text("verdict", |row| row.verdict.to_string()),
        hours("waste_h", rows.iter().map(|row| Some(row.waste_h))),
    ])
}
