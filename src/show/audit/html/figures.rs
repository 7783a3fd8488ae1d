//! The figures of the page: a chart each, and a table that says the same.

use std::collections::BTreeMap;

use chrono::{DateTime, Days, NaiveDate, Utc};
use maud::{Markup, PreEscaped, html};

use super::charts::{self, Bar};
use super::lists;
use super::safe::{memory as gigabytes, plural, safe, spaced, thousands};
use super::table::Kind::{Number, Text};
use super::table::{cell, maybe, table};
use crate::show::audit::efficiency::time_limit_text;
use crate::show::audit::health::percent;
use crate::show::audit::report::{
    Backlog, Count, Percentiles, Progress, Rate, Report, Usage, Verdict,
};
use crate::show::tables::utc_time;

/// So many days are in the chart of the throughput.
const DAYS: u64 = 60;
/// So many bars are in a chart; the table has all.
const BARS: usize = 15;

/// Renders failures: by reason, by node, by what the logs say, one by one.
pub fn failures(report: &Report) -> Markup {
    let failures = &report.failures;
    let nothing = failures.by_reason.is_empty() && failures.by_node.iter().all(|n| n.failed == 0);
    let has_tasks = report.study.parts.contains(&"tasks");
    if nothing && report.logs.is_none() && !has_tasks {
        return html! {};
    }
    html! {
        section #failures aria-labelledby="failures-title" {
            h2 #failures-title { "Failures" }
            div.pair {
                div { (by_reason(report)) }
                div { (by_node(report)) }
            }
            (lists::known_errors(report))
            @if has_tasks {
                h3 { "Failed tasks" }
                (lists::failed(report))
            }
        }
    }
}

fn by_reason(report: &Report) -> Markup {
    let groups = &report.failures.by_reason;
    if groups.is_empty() {
        return html! {};
    }
    let bars = groups.iter().take(BARS).map(|group| Bar {
        name: group.reason.replace('_', " "),
        value: group.count as f64,
        text: thousands(group.count),
    });
    let bars: Vec<Bar> = bars.collect();
    let rows = groups.iter().map(|group| {
        vec![
            html! { (spaced(group.reason)) },
            html! { (thousands(group.count)) },
            html! { (listed(&group.procedures)) },
        ]
    });
    let rows: Vec<Vec<Markup>> = rows.collect();
    let columns = [("Reason", Text), ("Tasks", Number), ("Of", Text)];
    html! {
        h3 { "By reason" }
        (figure(charts::bars(&bars, "Failed tasks by reason"), "Failed tasks by reason", false,
            table("Failed tasks by reason", &columns, &rows)))
    }
}

fn by_node(report: &Report) -> Markup {
    let nodes = report
        .failures
        .by_node
        .iter()
        .filter(|node| node.failed > 0);
    let nodes: Vec<_> = nodes.collect();
    if nodes.is_empty() {
        return html! {};
    }
    let bars = nodes.iter().take(BARS).map(|node| Bar {
        name: node.node.to_string(),
        value: node.failed as f64,
        text: format!(
            "{} of {} ({})",
            thousands(node.failed),
            thousands(node.jobs),
            percent(node.share)
        ),
    });
    let bars: Vec<Bar> = bars.collect();
    let rows = nodes.iter().map(|node| {
        vec![
            cell(&node.node),
            html! { (thousands(node.failed)) },
            html! { (thousands(node.jobs)) },
            html! { (percent(node.share)) },
            html! { (listed(&node.reasons)) },
        ]
    });
    let rows: Vec<Vec<Markup>> = rows.collect();
    let columns = [
        ("Node", Text),
        ("Failed", Number),
        ("Jobs", Number),
        ("Share", Number),
        ("Reasons", Text),
    ];
    let caption = "Failed attempts by node, earlier ones included";
    html! {
        h3 { "By node" }
        (figure(charts::bars(&bars, caption), caption, false, table(caption, &columns, &rows)))
    }
}

fn listed(counts: &[Count]) -> String {
    let counts = counts.iter();
    let texts: Vec<String> = counts
        .map(|c| format!("{} {}", thousands(c.count), spaced(&c.word)))
        .collect();
    texts.join(", ")
}

/// Renders how the work goes on.
pub fn progress(report: &Report) -> Markup {
    let Some(progress) = &report.progress else {
        return html! {};
    };
    let today = report.study.created_at.date_naive();
    let days = progress.procedures.iter().flat_map(|p| &p.days);
    let Some(from) = days.clone().map(|day| day.date).min() else {
        return html! {};
    };
    let to = days.clone().map(|day| day.date).fold(today, NaiveDate::max);
    let top = days
        .clone()
        .map(|day| day.completed_so_far.max(day.failed_so_far));
    let top = top.max().unwrap_or(0);
    html! {
        section #progress aria-labelledby="progress-title" {
            h2 #progress-title { "Progress" }
            p.lead { (forecast(progress)) }
            h3 { "Complete so far, by procedure" }
            ul.key {
                li { span.line.done aria-hidden="true" {} "complete" }
                li { span.line.fail aria-hidden="true" {} "failed" }
            }
            div.panels {
                @for procedure in &progress.procedures {
                    @let last = procedure.days.last();
                    @let done = last.map_or(0, |day| day.completed_so_far);
                    @let failed = last.map_or(0, |day| day.failed_so_far);
                    figure.panel {
                        figcaption {
                            strong { (safe(&procedure.procedure)) }
                            span { (thousands(done)) " complete, " (thousands(failed)) " failed" }
                        }
                        (PreEscaped(charts::progress(&procedure.days, from, to, top,
                            &format!("{}: complete and failed tasks over time, up to {done} and {failed}", procedure.procedure))))
                    }
                }
            }
            (by_procedure(progress))
            h3 { "Throughput of the last " (DAYS) " days" }
            ul.key {
                li { span.box.done aria-hidden="true" {} "complete (up)" }
                li { span.box.fail aria-hidden="true" {} "failed (down)" }
            }
            (throughput(progress, to))
            @if progress.bad_lines > 0 {
                p.hint { (plural(progress.bad_lines, "line")) " of the audit log could not be understood." }
            }
        }
    }
}

fn forecast(progress: &Progress) -> Markup {
    let backlog = &progress.backlog;
    html! {
        strong { (plural(backlog.tasks, "task")) } " will go on without a person"
        @if let Some(rate) = progress.rate.last_7_days { ", " strong { (format!("{rate:.1}")) } " complete a day" }
        @if let Some(end) = backlog.expected_end {
            "; expected to be done by " strong { time datetime=(utc_time(end)) { (end.format("%e %B %Y")) } }
        } @else if backlog.tasks > 0 {
            "; no forecast, because a step had no completed task in the last 7 days"
        }
        "."
    }
}

fn by_procedure(progress: &Progress) -> Markup {
    let rate = |rate: Option<f64>| html! { (rate.map_or("–".to_owned(), |r| format!("{r:.1}"))) };
    let end = |end: Option<DateTime<Utc>>| {
        html! { (end.map_or("–".to_owned(), |end| end.format("%Y-%m-%d").to_string())) }
    };
    let row = |name: &str, done: usize, failed: usize, r: &Rate, backlog: &Backlog| {
        vec![
            cell(name),
            html! { (thousands(done)) },
            html! { (thousands(failed)) },
            rate(r.last_7_days),
            rate(r.last_28_days),
            html! { (thousands(backlog.tasks)) },
            end(backlog.expected_end),
        ]
    };
    let sums = |p: &crate::show::audit::report::ProcedureProgress| {
        let last = p.days.last();
        last.map_or((0, 0), |day| (day.completed_so_far, day.failed_so_far))
    };
    let mut rows: Vec<Vec<Markup>> = Vec::new();
    let (mut all_done, mut all_failed) = (0, 0);
    for procedure in &progress.procedures {
        let (done, failed) = sums(procedure);
        all_done += done;
        all_failed += failed;
        rows.push(row(
            &procedure.procedure,
            done,
            failed,
            &procedure.rate,
            &procedure.backlog,
        ));
    }
    if rows.len() > 1 {
        let all = (&progress.rate, &progress.backlog);
        rows.push(row("All", all_done, all_failed, all.0, all.1));
    }
    let columns = [
        ("Procedure", Text),
        ("Complete", Number),
        ("Failed", Number),
        ("A day (7 days)", Number),
        ("A day (28 days)", Number),
        ("Backlog", Number),
        ("Expected end", Number),
    ];
    table("Progress and forecast by procedure", &columns, &rows)
}

fn throughput(progress: &Progress, to: NaiveDate) -> Markup {
    let from = to - Days::new(DAYS - 1);
    let mut sums: BTreeMap<NaiveDate, (usize, usize)> = BTreeMap::new();
    let days = progress.procedures.iter().flat_map(|p| &p.days);
    for day in days.filter(|day| day.date >= from) {
        let sum = sums.entry(day.date).or_default();
        sum.0 += day.completed;
        sum.1 += day.failed;
    }
    let days = from.iter_days().take_while(|day| *day <= to);
    let days = days.map(|day| {
        let (completed, failed) = sums.get(&day).copied().unwrap_or_default();
        (day, completed, failed)
    });
    let days: Vec<(NaiveDate, usize, usize)> = days.collect();
    let caption = "Tasks that became complete and that failed, by day";
    let rows = sums.iter().rev().map(|(day, (completed, failed))| {
        vec![
            html! { (day) },
            html! { (thousands(*completed)) },
            html! { (thousands(*failed)) },
        ]
    });
    let rows: Vec<Vec<Markup>> = rows.collect();
    let columns = [("Day", Text), ("Complete", Number), ("Failed", Number)];
    figure(
        charts::throughput(&days, caption),
        caption,
        false,
        table(caption, &columns, &rows),
    )
}

/// Renders what was asked for against what was used.
pub fn efficiency(report: &Report) -> Markup {
    if report.efficiency.is_empty() {
        return html! {
            @if report.study.parts == ["efficiency"] {
                p { "No job has been measured yet; this needs Slurm's accounting." }
            }
        };
    }
    let of = |get: fn(&crate::show::audit::report::Efficiency) -> Option<&Usage>| -> Vec<(&str, &Usage)> {
        let all = report.efficiency.iter();
        all.filter_map(|found| Some((&*found.procedure, get(found)?)))
            .collect()
    };
    let memory = of(|found| found.memory.as_ref());
    let time = of(|found| found.time.as_ref());
    let cpu = report.efficiency.iter().filter_map(|found| {
        let cpu = found.cpu.as_ref()?;
        Some(vec![
            cell(&found.procedure),
            html! { (thousands(cpu.n)) },
            html! { (cpu.alloc_cpus) },
            html! { (percent(cpu.busy_p50)) },
            html! { (percent(cpu.busy_p90)) },
        ])
    });
    let cpu: Vec<Vec<Markup>> = cpu.collect();
    html! {
        section #efficiency aria-labelledby="efficiency-title" {
            h2 #efficiency-title { "Asked for and used" }
            ul.key {
                li { span.box.used aria-hidden="true" {} "used: median to 95th percentile, line to the maximum" }
                li { span.tick.asked aria-hidden="true" {} "asked for" }
                li { span.diamond aria-hidden="true" {} "suggested" }
            }
            (usages("Memory", "mem", &memory, 1024.0, "GB", gigabytes))
            (usages("Time", "time", &time, 3600.0, "hours", time_limit_text))
            @if !cpu.is_empty() {
                h3 { "CPUs kept busy" }
                (table("Share of their CPUs that jobs kept busy", &[
                    ("Procedure", Text), ("Jobs", Number), ("CPUs", Number), ("Median", Number), ("90th percentile", Number),
                ], &cpu))
            }
        }
    }
}

fn usages(
    title: &str,
    key: &str,
    rows: &[(&str, &Usage)],
    unit: f64,
    axis: &str,
    text: fn(i64) -> String,
) -> Markup {
    if rows.is_empty() {
        return html! {};
    }
    let label = format!("{title} asked for, used and suggested, by procedure");
    let chart = charts::usage(rows, unit, axis, &label);
    let cells = rows.iter().map(|(procedure, usage)| {
        let used = |get: fn(&Percentiles) -> i64| {
            html! { (usage.used.as_ref().map(|used| text(get(used))).unwrap_or_default()) }
        };
        let suggestion = usage.suggested_text.as_ref();
        let suggestion = suggestion.map(|value| format!("{key}: {value}"));
        vec![
            cell(procedure),
            html! { (thousands(usage.n)) },
            used(|p| p.p50),
            used(|p| p.p90),
            used(|p| p.p95),
            used(|p| p.max),
            html! { (usage.asked.map(text).unwrap_or_default()) },
            html! { (thousands(usage.over_asked)) },
            html! { (thousands(usage.under_asked)) },
            html! { @match usage.verdict {
                Verdict::OverAsked => { span.over { "▼ asks for too much" } },
                Verdict::UnderAsked => { span.worse { "▲ asks for too little" } },
                Verdict::Fits => { span.better { "✓ fits" } },
                Verdict::Unknown => { "not known" },
            } },
            maybe(suggestion.as_deref()),
        ]
    });
    let cells: Vec<Vec<Markup>> = cells.collect();
    let columns = [
        ("Procedure", Text),
        ("Jobs", Number),
        ("Median", Number),
        ("90 %", Number),
        ("95 %", Number),
        ("Maximum", Number),
        ("Asked", Number),
        ("Used less than half", Number),
        ("Failed for want", Number),
        ("Verdict", Text),
        ("Suggested", Text),
    ];
    html! {
        h3 { (title) }
        (figure(chart, &label, true, table(&label, &columns, &cells)))
    }
}

/// Puts a chart and its table together.
fn figure(chart: String, caption: &str, open: bool, table: Markup) -> Markup {
    html! {
        figure {
            figcaption.hidden { (caption) }
            (PreEscaped(chart))
        }
        details.data open[open] {
            summary { "As a table" }
            (table)
        }
    }
}
