//! The charts of the page as SVG, each with a list of the same figures.

use chrono::NaiveDate;
use maud::{Markup, html};

use super::{plural, safe, spaced, table, thousands};
use crate::base::text::few;
use crate::show::audit::attention::FailureGroup;
use crate::show::audit::report::Report;
use crate::show::audit::sections::{self as lists, so_far, tasks};
use crate::show::audit::{Part, count_of, count_of_group, percent};
use crate::show::efficiency::{Efficiency, Usage};
use crate::show::progress::Day;
use crate::show::tables::Group;

/// Groups of failures that are not folded.
const GROUPS: usize = 6;
/// Tasks that a folded group names.
const NAMED: usize = 4;
/// Width of the labels next to an axis.
const SIDE: f64 = 44.0;
const FOOT: f64 = 22.0;

fn folded(title: &str, content: Markup) -> Markup {
    html! { details.data { summary { (title) } (content) } }
}

/// A drawing that scrolls on narrow screens.
fn wide(label: &str, drawing: Markup) -> Markup {
    html! { div.drawing role="region" tabindex="0" aria-label=(safe(label)) { (drawing) } }
}

/// The pipeline, and the progress of each procedure.
pub(super) fn pipeline(report: &Report) -> Markup {
    let procedures = || report.procedures.iter().filter(|p| p.tasks > 0);
    let Some(most) = procedures().map(|p| p.tasks).max() else {
        return html! {};
    };
    html! {
        div.flow {
            (wide("Picture of the pipeline", report.pipeline.svg(None)))
            ul.bars aria-label="Share of complete tasks by procedure" {
                @for p in procedures() {
                    @let parts = Group::ALL.map(|group| (group.as_str(), count_of_group(&p.decisions, group)));
                    @let share = count_of(&p.decisions, "complete") as f64 / p.tasks as f64;
                    li {
                        span.name { (safe(&p.name)) }
                        (stack(&parts, most))
                        span { (percent(share)) " of " (thousands(p.tasks)) }
                    }
                }
            }
        }
        (folded("As a table", table(&tasks::procedures(report))))
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
    let procedures = || report.progress.iter().flat_map(|all| &all.procedures);
    let days = || procedures().flat_map(|p| &p.days);
    let Some(from) = days().map(|day| day.date).min() else {
        return html! {};
    };
    let today = report.study.created_at.date_naive();
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
            @for procedure in procedures() {
                @let (done, failed) = so_far(procedure);
                @let counts = format!("{} complete, {} failed", thousands(done), thousands(failed));
                figure.panel {
                    figcaption { strong { (safe(&procedure.procedure)) } span { (counts) } }
                    (curve(&procedure.days, from, to, top, &format!("{}: {counts}", procedure.procedure)))
                }
            }
        }
        (table(&lists::progress(report)))
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
                div { h3 { (title) } (wide(&label, usage(&rows, unit, axis, &label))) }
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

fn svg(width: f64, height: f64, label: &str, shapes: Markup) -> Markup {
    html! {
        svg role="img" aria-label=(safe(label)) viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height) {
            (shapes)
        }
    }
}

/// About `count` round values from 0 to `most`, at least `least` apart.
fn ticks(most: f64, count: f64, least: f64) -> Vec<f64> {
    let rough = (most / count).max(least);
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|step| *step >= rough * 0.999);
    let step = step.unwrap_or(rough);
    (0..=1000)
        .map(|number| f64::from(number) * step)
        .take_while(|value| *value <= most)
        .collect()
}

/// Rounds a position to a visible precision.
fn px(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}

/// Draws the cumulative counts of one procedure. All procedures share the axes: `from..=to`, `0..=top`.
fn curve(days: &[Day], from: NaiveDate, to: NaiveDate, top: usize, label: &str) -> Markup {
    let (width, height) = (300.0, 150.0);
    let (right, bottom) = (width - 14.0, height - FOOT);
    let most = top.max(1) as f64;
    let span = (to - from).num_days().max(1) as f64;
    let x = |day: NaiveDate| SIDE + (right - SIDE) * (day - from).num_days() as f64 / span;
    let y = |count: f64| bottom - (bottom - 8.0) * count / (most * 1.05);
    // Daily sums become a step line over the whole time.
    let steps = |value: fn(&Day) -> usize| {
        let mut path = format!("M{} {}", SIDE, bottom);
        for day in days {
            let now = px(y(value(day) as f64));
            path.push_str(&format!("H{}V{now}", px(x(day.date))));
        }
        path + &format!("H{right}")
    };
    let done = steps(|day| day.completed_so_far);
    let middle = from + (to - from) / 2;
    // Labels of the same day would cover each other.
    let mut dates = vec![(from, "start"), (middle, "middle"), (to, "end")];
    dates.dedup_by_key(|(day, _)| *day);
    svg(
        width,
        height,
        label,
        html! {
            @for value in ticks(most, 4.0, 1.0) {
                @let y = y(value);
                line.grid x1=(SIDE) x2=(right) y1=(px(y)) y2=(px(y)) {}
                text.end x=(SIDE - 6.0) y=(px(y + 4.0)) { (value) }
            }
            @for (day, class) in dates { text class=(class) x=(px(x(day))) y=(height - 6.0) { (day.format("%e %b")) } }
            path.area d={ (done) "V" (bottom) "Z" } {}
            path.done d=(done) {}
            path.fail d=(steps(|day| day.failed_so_far)) {}
        },
    )
}

/// Draws the parts of a whole side by side over the available width.
pub(super) fn stack(parts: &[(&'static str, usize)], whole: usize) -> Markup {
    let mut end = 0;
    let parts = parts.iter().filter(|(_, size)| *size > 0);
    let parts = parts.map(|(class, size)| {
        end += size;
        (class, end - size, size)
    });
    html! {
        svg.stack viewBox={ "0 0 " (whole.max(1)) " 1" } preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            @for (class, from, size) in parts {
                rect class={ "g-" (class) } x=(from) y="0" width=(size) height="1" {}
            }
        }
    }
}

/// Draws used (median to maximum, thick up to the 95th percentile), requested and suggested resources per
/// procedure. `unit` is the size of the axis' unit.
fn usage(rows: &[(&str, &Usage)], unit: f64, axis: &str, label: &str) -> Markup {
    let (width, height) = (640.0, rows.len() as f64 * 34.0 + 48.0);
    let bottom = height - 2.0 * FOOT;
    let most = rows.iter().flat_map(|(_, usage)| {
        let used = usage.used.map(|used| used.max);
        [used, usage.asked, usage.suggested].into_iter().flatten()
    });
    let most = most.max().unwrap_or(1).max(1) as f64 / unit * 1.06;
    // The width of the names.
    let (names, right) = (182.0, width - 16.0);
    let x = |value: f64| px(names + (right - names) * value / most);
    let place = |value: i64| x(value as f64 / unit);
    svg(
        width,
        height,
        label,
        html! {
            @for value in ticks(most, 8.0, 0.0) {
                line.grid x1=(x(value)) x2=(x(value)) y1="2" y2=(bottom) {}
                text.middle x=(x(value)) y=(bottom + 16.0) { ((value * 1000.0).round() / 1000.0) }
            }
            text.middle x=(px((names + right) / 2.0)) y=(height - 6.0) { (axis) }
            @for (row, (procedure, usage)) in rows.iter().enumerate() {
                @let y = row as f64 * 34.0 + 19.0;
                text.end x=(names - 8.0) y=(y + 4.0) { (shown(procedure)) }
                @if let Some(used) = usage.used {
                    @let (p50, p95, max) = (place(used.p50), place(used.p95), place(used.max));
                    path.used d={ "M" (p50) " " (y) "H" (max) "M" (max) " " (y - 5.0) "v10" } {}
                    rect.used x=(p50) y=(y - 5.0) width=(px(p95 - p50)) height="10" {}
                }
                @if let Some(asked) = usage.asked { path.asked d={ "M" (place(asked)) " " (y - 12.0) "v24" } {} }
                @if let Some(suggested) = usage.suggested {
                    path.suggested d={ "M" (place(suggested)) " " (y - 7.0) "l6 7l-6 7l-6-7z" } {}
                }
            }
        },
    )
}

/// A name for a chart. Longer ones are cut; the table has the full names.
fn shown(name: &str) -> String {
    let name = safe(name);
    match name.char_indices().nth(24) {
        Some((end, _)) => name.get(..end).unwrap_or_default().to_owned() + "…",
        None => name,
    }
}
