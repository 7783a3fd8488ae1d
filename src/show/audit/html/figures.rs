//! The charts of the page as SVG, each with a list of the same figures.

use chrono::{Duration, NaiveDate};
use maud::{Markup, html};

use super::{plural, safe, spaced, table, thousands};
use crate::base::text::few;
use crate::show::audit::Report;
use crate::show::audit::attention::FailureGroup;
use crate::show::audit::sections::{self as lists, Counts, tasks};
use crate::show::audit::{Part, count_of, count_of_group, percent};
use crate::show::tables::Group;

/// Groups of failures that are not folded.
const GROUPS: usize = 6;
/// Tasks that a folded group names.
const NAMED: usize = 4;
/// Days of the chart of tasks per day.
const DAYS: i64 = 60;

fn folded(title: &str, content: Markup) -> Markup {
    html! { details.data { summary { (title) } (content) } }
}

/// The pipeline, and the progress of each procedure.
pub(super) fn pipeline(report: &Report) -> Markup {
    let procedures = || report.procedures.iter().filter(|p| p.tasks > 0);
    let Some(most) = procedures().map(|p| p.tasks).max() else {
        return html! {};
    };
    html! {
        div.flow {
            // Scrolls on narrow screens.
            div.drawing role="region" tabindex="0" aria-label="Picture of the pipeline" { (report.pipeline.svg(None)) }
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
    let daily = lists::daily(report, DAYS);
    let most = daily.iter().map(|(_, done, failed)| *done.max(failed));
    let (most, end) = (most.max().unwrap_or(0), today + Duration::days(1));
    let title = format!("Per day, last {DAYS} days");
    html! {
        h3 { "Complete so far, by procedure" }
        ul.key {
            li { span.line.done aria-hidden="true" {} "complete" }
            li { span.line.fail aria-hidden="true" {} "failed" }
        }
        div.panels {
            @for procedure in procedures() {
                @let (done, failed) = lists::so_far(procedure);
                @let days: Vec<Counts> = procedure.days.iter().map(|day| (day.date, day.completed_so_far, day.failed_so_far)).collect();
                @let counts = format!("{} complete, {} failed", thousands(done), thousands(failed));
                figure.panel {
                    figcaption { strong { (safe(&procedure.procedure)) } span { (counts) } }
                    (curve(&days, from, to, top, &format!("{}: {counts}", procedure.procedure)))
                }
            }
        }
        h3 { (title) }
        figure { (curve(&daily, end - Duration::days(DAYS), end, most, &title)) }
        (folded("As a table", table(&lists::per_day(&daily))))
        (table(&lists::progress(report)))
    }
}

/// About four round values from 0 to `most`.
fn ticks(most: usize) -> impl Iterator<Item = usize> {
    let rough = (most / 4).max(1);
    let power = 10_usize.pow(rough.ilog10());
    let mut steps = [1, 2, 5, 10].into_iter().map(|step| step * power);
    let step = steps.find(|step| *step >= rough);
    (0..=most).step_by(step.unwrap_or(rough))
}

/// Rounds a position to a visible precision.
fn px(place: f64) -> f64 {
    (place * 10.0).round() / 10.0
}

/// Draws the counts of days as steps, with axes for `from..=to` and `0..=top`.
fn curve(days: &[Counts], from: NaiveDate, to: NaiveDate, top: usize, label: &str) -> Markup {
    // The left edge leaves room for the values, the bottom for the dates.
    let (width, height, left) = (300.0, 150.0, 44.0);
    let (right, bottom) = (width - 14.0, height - 22.0);
    let span = (to - from).num_days().max(1) as f64;
    let x = |day: NaiveDate| px(left + (right - left) * (day - from).num_days() as f64 / span);
    let y = |count: usize| px(bottom - (bottom - 8.0) * count as f64 / (top.max(1) as f64 * 1.05));
    let steps = |value: fn(&Counts) -> usize| {
        let steps = days.iter();
        let steps = steps.map(|day| format!("H{}V{}", x(day.0), y(value(day))));
        format!("M{left} {bottom}{}H{right}", steps.collect::<String>())
    };
    let done = steps(|(_, done, _)| *done);
    // Labels of the same day would cover each other.
    let mut dates = vec![
        (from, "start"),
        (from + (to - from) / 2, "middle"),
        (to, "end"),
    ];
    dates.dedup_by_key(|(day, _)| *day);
    html! {
        svg role="img" aria-label=(safe(label)) viewBox={ "0 0 " (width) " " (height) } width=(width) height=(height) {
            @for value in ticks(top) {
                line.grid x1=(left) x2=(right) y1=(y(value)) y2=(y(value)) {}
                text.end x=(left - 6.0) y=(y(value) + 4.0) { (value) }
            }
            @for (day, class) in dates { text class=(class) x=(x(day)) y=(height - 6.0) { (day.format("%e %b")) } }
            path.area d={ (done) "V" (bottom) "Z" } {}
            path.done d=(done) {}
            path.fail d=(steps(|(.., failed)| *failed)) {}
        }
    }
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
