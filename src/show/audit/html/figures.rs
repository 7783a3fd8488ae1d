//! The charts of the page, each with a list of the same figures.

use std::collections::BTreeMap;

use chrono::{Days, NaiveDate};
use maud::{Markup, html};

use super::table;
use crate::base::text::few;
use crate::show::audit::Part;
use crate::show::audit::health::percent;
use crate::show::audit::report::{
    Efficiency, FailureGroup, Progress, Report, Usage, count_of, count_of_group,
};
use crate::show::audit::text::sections::figures::{self as lists, so_far};
use crate::show::audit::text::sections::tasks;
use crate::show::charts::safe::{plural, safe, spaced, thousands};
use crate::show::charts::{self, Bar};
use crate::show::tables::Group;

/// Days in the throughput chart.
const DAYS: u64 = 60;
/// Groups of failures that are not folded.
const GROUPS: usize = 6;
/// Tasks that a folded group names.
const NAMED: usize = 4;

fn folded(title: &str, content: Markup) -> Markup {
    html! { details.data { summary { (title) } (content) } }
}

/// A drawing that scrolls on narrow screens.
fn wide(label: &str, drawing: Markup) -> Markup {
    html! { div.drawing role="region" tabindex="0" aria-label=(safe(label)) { (drawing) } }
}

/// The pipeline, and the progress of each procedure.
pub(super) fn pipeline(report: &Report) -> Markup {
    let bars = report.procedures.iter().filter(|p| p.tasks > 0).map(|p| {
        let parts = Group::ALL.into_iter();
        let parts = parts.map(|group| (group.as_str(), count_of_group(&p.decisions, group)));
        let share = count_of(&p.decisions, "complete") as f64 / p.tasks as f64;
        Bar {
            name: &p.name,
            parts: parts.collect(),
            text: format!("{} of {}", percent(share), thousands(p.tasks)),
        }
    });
    let bars: Vec<Bar<'_>> = bars.collect();
    let list = tasks::procedures(report);
    html! {
        @if !bars.is_empty() {
            div.flow {
                (wide("Picture of the pipeline", report.pipeline.picture()))
                (charts::bars(&bars, "Share of complete tasks by procedure"))
            }
        }
        @if !list.rows.is_empty() { (folded("As a table", table(&list))) }
    }
}

/// Failures by cause, reason, node and known error.
pub(super) fn failures(report: &Report) -> Markup {
    let groups = &report.failures.groups;
    let shown = groups.get(..super::ROWS).unwrap_or(groups);
    let (first, others) = shown.split_at(shown.len().min(GROUPS));
    html! {
        @for group in first { (alike(report, group)) }
        @if !others.is_empty() {
            (folded(&plural(others.len(), "more group"), html! { @for group in others { (alike(report, group)) } }))
        }
        @if groups.is_empty() && report.study.has(Part::Tasks) { p { "No failed tasks." } }
        @if groups.len() > super::ROWS {
            p.hint { "To see all of them, choose the status “failed” in the sessions below." }
        }
        (table(&tasks::by_reason(report)))
        (table(&tasks::by_node(report)))
        (table(&tasks::by_pattern(report)))
        (table(&tasks::findings(report)))
    }
}

/// A group of similar failures, with its tasks folded.
fn alike(report: &Report, group: &FailureGroup) -> Markup {
    let list = tasks::failed_alike(report, group);
    let first = group.tasks.first();
    let first = first.and_then(|number| Some(&report.tasks.get(*number)?.key));
    let names = list.rows.iter().filter_map(|row| Some(safe(row.first()?)));
    let names: Vec<String> = names.collect();
    let mut findings = report.logs.iter().flat_map(|logs| &logs.findings);
    let excerpt = findings.find(|one| one.is_excerpt && Some(&one.key) == first);
    let known = excerpt.and_then(|one| {
        let mut patterns = report.logs.iter().flat_map(|logs| &logs.by_pattern);
        patterns.find(|known| known.pattern == one.pattern)
    });
    html! {
        article.alike {
            p.count { strong { (thousands(group.tasks.len())) } " " @if group.tasks.len() == 1 { "task" } @else { "tasks" } }
            div {
                h3 { (safe(&group.procedure)) " · " span.reason { (spaced(group.reason)) } }
                @if let Some(failure) = &group.failure { p { (safe(failure)) } }
                @if let Some(line) = &group.log_line { pre { (safe(line)) } }
                @if let Some(known) = known { p.hint { (safe(&known.meaning)) ": " (safe(&known.hint)) } }
                (folded(&few(&names, NAMED), html! {
                    (table(&list))
                    @if let Some(first) = first {
                        p.hint { "Once the cause is fixed: " code { "snbb-scheduler retry --like " (safe(&first.words())) } }
                    }
                }))
            }
        }
    }
}

/// The progress of the work over time.
pub(super) fn progress(report: &Report) -> Markup {
    let Some(progress) = &report.progress else {
        return Markup::default();
    };
    let today = report.study.created_at.date_naive();
    let days = || progress.procedures.iter().flat_map(|p| &p.days);
    let Some(from) = days().map(|day| day.date).min() else {
        return Markup::default();
    };
    let to = days().map(|day| day.date).fold(today, NaiveDate::max);
    let top = days().map(|day| day.completed_so_far.max(day.failed_so_far));
    let top = top.max().unwrap_or(0);
    html! {
        h3 { "Complete so far, by procedure" }
        ul.key {
            li { span.line.done aria-hidden="true" {} "complete" }
            li { span.line.fail aria-hidden="true" {} "failed" }
        }
        div.panels {
            @for procedure in &progress.procedures {
                @let (done, failed) = so_far(procedure);
                @let counts = format!("{} complete, {} failed", thousands(done), thousands(failed));
                figure.panel {
                    figcaption { strong { (safe(&procedure.procedure)) } span { (counts) } }
                    (charts::progress(&procedure.days, from, to, top, &format!("{}: {counts}", procedure.procedure)))
                }
            }
        }
        (table(&lists::progress(report)))
        h3 { "Throughput of the last " (DAYS) " days" }
        ul.key {
            li { span.box.done aria-hidden="true" {} "complete (up)" }
            li { span.box.fail aria-hidden="true" {} "failed (down)" }
        }
        (throughput(progress, to))
    }
}

fn throughput(progress: &Progress, to: NaiveDate) -> Markup {
    let from = to - Days::new(DAYS - 1);
    let mut sums: BTreeMap<NaiveDate, (usize, usize)> = BTreeMap::new();
    let days = progress.procedures.iter().flat_map(|p| &p.days);
    for day in days.filter(|day| day.date >= from) {
        let sum = sums.entry(day.date).or_default();
        *sum = (sum.0 + day.completed, sum.1 + day.failed);
    }
    let days = from.iter_days().take_while(|day| *day <= to);
    let days = days.map(|day| {
        let (completed, failed) = sums.get(&day).copied().unwrap_or_default();
        (day, completed, failed)
    });
    let days: Vec<(NaiveDate, usize, usize)> = days.collect();
    let list = lists::by_day(sums.into_iter().rev());
    html! {
        @if !list.rows.is_empty() {
            figure {
                figcaption.hidden { (list.title) }
                (wide(&list.title, charts::throughput(&days, &list.title)))
            }
            (folded("As a table", table(&list)))
        }
    }
}

/// Requested, used and suggested resources.
pub(super) fn efficiency(report: &Report) -> Markup {
    let chart = |title: &str, unit, axis, get: fn(&Efficiency) -> Option<&Usage>| {
        let all = report.efficiency.iter();
        let rows = all.filter_map(|found| Some((&*found.procedure, get(found)?)));
        let rows: Vec<(&str, &Usage)> = rows.collect();
        let label = format!("{title} requested, used and suggested, by procedure");
        html! {
            @if !rows.is_empty() {
                div { h3 { (title) } (wide(&label, charts::usage(&rows, unit, axis, &label))) }
            }
        }
    };
    let list = lists::efficiency(report);
    if list.is_empty() {
        return html! {};
    }
    html! {
        @if !report.efficiency.is_empty() {
            ul.key {
                li { span.box.used aria-hidden="true" {} "used: median to 95th percentile, line to the maximum" }
                li { span.tick.asked aria-hidden="true" {} "requested" }
                li { span.diamond aria-hidden="true" {} "suggested" }
            }
        }
        div.pair {
            (chart("Memory", 1024.0, "GB", |found| found.memory.as_ref()))
            (chart("Time", 3600.0, "hours", |found| found.time.as_ref()))
        }
        (table(&list))
    }
}
