//! The parts of the page: header, tiles, charts as SVG with a list of the same figures, the frame of the heat map,
//! and the maintenance section.

use chrono::{Duration, NaiveDate};
use maud::{Markup, html};

use super::{plural, safe, spaced, table, thousands};
use crate::base::sys::local_time;
use crate::base::text::few;
use crate::show::audit::attention::FailureGroup;
use crate::show::audit::sections::{self as lists, Counts, UPKEEP, tasks};
use crate::show::audit::{Count, Part, Report, count_of, count_of_group, percent};
use crate::show::tables::{Group, TaskState, utc_time};

/// Groups of failures that are not folded.
const GROUPS: usize = 6;
/// Tasks that a folded group names.
const NAMED: usize = 4;
/// Days of the chart of tasks per day.
const DAYS: i64 = 60;

/// The banner with study, time and selection.
pub(super) fn header(report: &Report) -> Markup {
    let study = &report.study;
    let at = study.created_at;
    html! {
        header.banner {
            div {
                p.kind { "Audit report" }
                h1 { (safe(&study.name())) }
                p.meta {
                    time datetime=(utc_time(at)) { (local_time(at)) }
                    " · snbb-scheduler " (study.version)
                    " · " code { (safe(study.config.as_ref().unwrap_or(&study.state_file))) }
                    @if let Some(selection) = &study.selection {
                        " · only " code { (safe(selection)) }
                    }
                }
            }
            button #theme type="button" hidden { "Theme: system" }
        }
    }
}

fn tile(class: &str, group: &str, label: Markup, count: usize, remark: Markup) -> Markup {
    html! {
        li class={ "tile " (class) } data-count=(count) data-group=(group) {
            span.label { (label) }
            span.value { (thousands(count)) }
            span.sub { (remark) }
        }
    }
}

pub(super) fn tiles(report: &Report) -> Markup {
    let totals = &report.totals;
    let counts = Group::ALL.into_iter();
    let counts = counts.map(|group| (group, count_of_group(&totals.decisions, group)));
    // The usual groups even if they are empty.
    let shown = counts.filter(|(group, count)| *group < Group::Unreadable || *count > 0);
    let alert = |count: usize| if count > 0 { "alert" } else { "" };
    let stale = report.stale.len();
    let (warnings, kinds) = warnings(report);
    html! {
        ul.tiles {
            @if report.study.has(Part::Tasks) {
                @for (group, count) in shown {
                    @let symbol = group.states().next().map(|state| state.style().symbol);
                    (tile(&format!("g-{group}"), group.as_str(),
                        html! { span.symbol aria-hidden="true" { @if let Some(symbol) = symbol { (symbol) } } (group.title()) },
                        count, html! { (parts(group, &totals.decisions)) }))
                }
                (tile("", "sessions", html! { "Sessions" }, totals.sessions,
                    html! { (plural(totals.subjects, "subject")) ", " (plural(totals.tasks, "task")) }))
                (health(report))
            }
            (tile(alert(stale), "stale", html! { "Stale jobs" }, stale, html! { "in flight too long" }))
            (tile(alert(warnings), "warnings", html! { a href="#upkeep" { "Warnings" } }, warnings, html! { (kinds) }))
        }
    }
}

/// The counts of the group's states, if it has several.
fn parts(group: Group, counts: &[Count]) -> String {
    let present = group.states().filter_map(|state| {
        let count = count_of(counts, state.as_str());
        (count > 0 && group.states().count() > 1).then(|| format!("{} {state}", thousands(count)))
    });
    present.collect::<Vec<_>>().join(", ")
}

fn health(report: &Report) -> Markup {
    let health = &report.health;
    let bands = [
        ("good", "●", health.good, "from 80 %"),
        ("fair", "◐", health.fair, "from 40 %"),
        ("poor", "○", health.poor, "below 40 %"),
    ];
    let shares = bands.map(|(band, _, count, _)| (band, count));
    let total = health.good + health.fair + health.poor;
    html! {
        li.tile.wide data-group="health" {
            span.label { "Health of sessions" }
            span.bands {
                @for (band, symbol, count, share) in bands {
                    span class={ "band g-" (band) } data-count=(count) data-band=(band) title=(share) {
                        span.symbol aria-hidden="true" { (symbol) } strong { (thousands(count)) } " " (band)
                    }
                }
            }
            (stack(&shares, total))
            span.sub {
                @if let Some(mean) = health.mean { "mean " (percent(mean)) " complete" }
                @if health.none > 0 { " · " (thousands(health.none)) " not rated" }
            }
        }
    }
}

/// The number of warnings, and the same by kind.
fn warnings(report: &Report) -> (usize, String) {
    let dicom = report.dicom.iter().flat_map(|dicom| &dicom.findings);
    let jobs = report.orphans.jobs.iter().flatten();
    let kinds = [
        (report.unreadable.len(), "unreadable"),
        (dicom.count(), "DICOM"),
        (report.orphans.rows.len() + jobs.count(), "orphans"),
        (report.scripts.len(), "scripts"),
    ];
    let present = kinds.iter().filter(|(count, _)| *count > 0);
    let present = present.map(|(count, kind)| format!("{kind}: {}", thousands(*count)));
    let count = kinds.iter().map(|(count, _)| count).sum();
    (count, present.collect::<Vec<_>>().join(", "))
}

/// The frame of the heat map, which the page's script fills. Without scripts the page shows `lists`.
pub(super) fn matrix(report: &Report, lists: Markup) -> Markup {
    let matrix = &report.matrix;
    if matrix.sessions.is_empty() || matrix.procedures.is_empty() {
        return Markup::default();
    }
    let words = TaskState::ALL.into_iter();
    let words = words.filter(|word| count_of(&report.totals.decisions, word.as_str()) > 0);
    html! {
        form #filters role="search" aria-label="Filter sessions" {
            label { "Text " input #text type="search" autocomplete="off" spellcheck="false"
                placeholder="sub-0001, job, reason"; }
            label { "Status " select #status {
                option value="" { "any" }
                @for word in words.clone() { option value=(word) { (spaced(word.as_str())) } }
            } }
            label { "Procedure " select #procedure {
                option value="" { "any" }
                @for (number, name) in matrix.procedures.iter().enumerate() {
                    option value=(number) { (safe(name)) }
                }
            } }
            label { "Health " select #band {
                option value="" { "any" }
                @for band in ["good", "fair", "poor", "none"] { option value=(band) { (band) } }
            } }
            button type="reset" { "Clear" }
            output #shown role="status" {}
        }
        noscript {
            p.notice { "The heat map requires JavaScript. The rest of the page works without it." }
            (lists)
        }
        p #grid-help .hint {
            "Use the arrow keys to move, Enter to open details, and column titles to sort. A task of subject scope appears in each session of its subject."
        }
        div #grid role="grid" tabindex="0" aria-labelledby="matrix-title" aria-describedby="grid-help" {}
        p #print-more .more hidden {}
        ul.legend aria-label="Symbols" {
            @for word in words {
                li { span class={ "chip g-" (word.style().group) } aria-hidden="true" { (word.style().symbol) } (spaced(word.as_str())) }
            }
        }
    }
}

/// The maintenance section.
pub(super) fn upkeep(report: &Report) -> Markup {
    let lists = UPKEEP.map(|list| list(report));
    html! {
        @if lists.iter().all(|list| list.rows.is_empty()) { p { "No maintenance needed." } }
        @for list in &lists { (table(list)) }
        @if report.orphans.jobs.is_none() {
            p.hint { "Jobs without a row are listed only with " code { "--queue" } "." }
        }
    }
}

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
fn stack(parts: &[(&'static str, usize)], whole: usize) -> Markup {
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
