//! The sections with figures over time and over attempts.

use super::Text;
use crate::base::sys::local_time;
use crate::show::audit::efficiency::{memory_text, time_limit_text};
use crate::show::audit::health::percent;
use crate::show::audit::report::{Usage, Verdict, signed};
use crate::show::audit::text::Align::{Left, Right};
use crate::show::tables::plural;

/// Prints a value in the unit of the configuration.
type Show = fn(i64) -> String;

impl Text<'_> {
    pub(super) fn trend(&mut self) {
        let Some(trend) = &self.report.trend else {
            return;
        };
        let changed = trend.matters.iter().filter(|m| m.before != m.now);
        let rows: Vec<Vec<String>> = changed
            .map(|m| {
                let change = m.now as i128 - m.before as i128;
                let mark = match (m.bad, change > 0) {
                    (true, true) => "worse",
                    (true, false) => "better",
                    (false, _) => "",
                };
                vec![
                    m.matter.replace('_', " "),
                    m.before.to_string(),
                    m.now.to_string(),
                    signed(change),
                    mark.to_owned(),
                ]
            })
            .collect();
        let since = local_time(trend.created_at);
        if rows.is_empty() {
            self.line(format!("nothing has changed since the report of {since}"));
        }
        let header = vec![
            ("matter", Left),
            ("before", Right),
            ("now", Right),
            ("change", Right),
            ("so it is", Left),
        ];
        self.list(&format!("changes since {since}"), header, rows);
    }

    pub(super) fn progress(&mut self) {
        let Some(progress) = &self.report.progress else {
            return;
        };
        let rate = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!("{rate:.1}"));
        let end = |end: Option<chrono::DateTime<chrono::Utc>>| {
            end.map_or(String::new(), |end| end.format("%Y-%m-%d").to_string())
        };
        let mut rows: Vec<Vec<String>> = progress
            .procedures
            .iter()
            .map(|procedure| {
                let last = procedure.days.last();
                vec![
                    procedure.procedure.to_string(),
                    last.map_or(0, |day| day.completed_so_far).to_string(),
                    last.map_or(0, |day| day.failed_so_far).to_string(),
                    rate(procedure.rate.last_7_days),
                    rate(procedure.rate.last_28_days),
                    procedure.backlog.tasks.to_string(),
                    end(procedure.backlog.expected_end),
                ]
            })
            .collect();
        if rows.len() > 1 {
            let sum = |get: fn(&crate::show::audit::report::Day) -> usize| {
                let last = progress.procedures.iter().filter_map(|p| p.days.last());
                last.map(get).sum::<usize>().to_string()
            };
            rows.push(vec![
                "total".to_owned(),
                sum(|day| day.completed_so_far),
                sum(|day| day.failed_so_far),
                rate(progress.rate.last_7_days),
                rate(progress.rate.last_28_days),
                progress.backlog.tasks.to_string(),
                end(progress.backlog.expected_end),
            ]);
        }
        let header = vec![
            ("procedure", Left),
            ("completed", Right),
            ("failed", Right),
            ("a day (7 d)", Right),
            ("a day (28 d)", Right),
            ("backlog", Right),
            ("expected end", Right),
        ];
        self.list("progress", header, rows);
    }

    pub(super) fn efficiency(&mut self) {
        let mut rows = Vec::new();
        for found in &self.report.efficiency {
            let name = found.procedure.to_string();
            let usages: [(&str, &Option<Usage>, Show); 2] = [
                ("memory", &found.memory, memory_text),
                ("time", &found.time, time_limit_text),
            ];
            for (what, usage, text) in usages {
                let Some(usage) = usage else { continue };
                let used = |get: fn(&crate::show::audit::report::Percentiles) -> i64| {
                    usage
                        .used
                        .as_ref()
                        .map_or(String::new(), |used| text(get(used)))
                };
                rows.push(vec![
                    name.clone(),
                    what.to_owned(),
                    usage.n.to_string(),
                    used(|p| p.p50),
                    used(|p| p.p90),
                    used(|p| p.p95),
                    used(|p| p.max),
                    usage.asked.map_or(String::new(), text),
                    usage.over_asked.to_string(),
                    usage.under_asked.to_string(),
                    usage.suggested_text.clone().map_or(String::new(), |value| {
                        let key = if what == "memory" { "mem" } else { "time" };
                        format!("{key}: {value}")
                    }),
                    match usage.verdict {
                        Verdict::OverAsked => "over-asked",
                        Verdict::UnderAsked => "under-asked",
                        Verdict::Fits => "fits",
                        Verdict::Unknown => "",
                    }
                    .to_owned(),
                ]);
            }
            if let Some(cpu) = &found.cpu {
                let mut row = vec![
                    name,
                    "CPU".to_owned(),
                    cpu.n.to_string(),
                    percent(cpu.busy_p50),
                    percent(cpu.busy_p90),
                ];
                row.resize(7, String::new());
                row.push(plural(cpu.alloc_cpus.max(0) as usize, "CPU"));
                row.resize(12, String::new());
                rows.push(row);
            }
        }
        let is_empty = rows.is_empty();
        let header = vec![
            ("procedure", Left),
            ("used", Left),
            ("n", Right),
            ("p50", Right),
            ("p90", Right),
            ("p95", Right),
            ("max", Right),
            ("asked", Right),
            ("over", Right),
            ("short", Right),
            ("suggested", Left),
            ("verdict", Left),
        ];
        self.list("efficiency of completed jobs", header, rows);
        if is_empty && self.has("efficiency") && !self.has("tasks") {
            self.line("no job has been measured yet (needs Slurm's accounting)".to_owned());
        }
    }
}
