//! The page's header, tiles, heat map frame and maintenance section.

use maud::{Markup, html};

use super::figures::stack;
use super::{plural, safe, spaced, table, thousands};
use crate::base::sys::local_time;
use crate::show::audit::Report;
use crate::show::audit::sections::UPKEEP;
use crate::show::audit::{Count, Part, count_of, count_of_group, percent};
use crate::show::tables::{Group, TaskState, utc_time};

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
    let shown = counts.filter(|(group, count)| group.is_always_shown() || *count > 0);
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
