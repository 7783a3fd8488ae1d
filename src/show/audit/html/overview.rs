//! The upper part of the page: title, tiles, procedures, and the frame of the heat map.

use maud::{Markup, html};

use super::table;
use crate::base::sys::local_time;
use crate::show::audit::Part;
use crate::show::audit::health::percent;
use crate::show::audit::report::{Count, Report, count_of, count_of_group};
use crate::show::audit::text::sections::{head, upkeep};
use crate::show::charts::safe::{plural, safe, spaced, thousands};
use crate::show::charts::stack;
use crate::show::tables::{Group, TaskState, utc_time};

/// Renders the banner with what was looked at, and when.
pub fn header(report: &Report) -> Markup {
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
            button #theme type="button" hidden { "Theme: as the system" }
        }
    }
}

/// Warns that figures are not the whole truth.
pub fn partial(report: &Report) -> Markup {
    html! {
        @if report.is_partial() {
            p.notice role="note" {
                strong { "⚠ Something could not be read. " }
                "The figures below are not the whole truth; see "
                a href="#upkeep" { "what needs upkeep" } "."
            }
        }
    }
}

/// Renders a tile; `class` says how it looks.
fn tile(class: &str, group: &str, label: Markup, count: usize, remark: Markup) -> Markup {
    html! {
        li class={ "tile " (class) } data-count=(count) data-group=(group) {
            span.label { (label) }
            span.value { (thousands(count)) }
            span.sub { (remark) }
        }
    }
}

/// Renders the tiles.
pub fn tiles(report: &Report) -> Markup {
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
                    (tile(&format!("g-{group}"), group.as_str(),
                        html! { span.symbol aria-hidden="true" { (symbol(group)) } (group.title()) }, count,
                        parts(group, &totals.decisions, totals.tasks)))
                }
                (tile("", "sessions", html! { "Sessions" }, totals.sessions,
                    html! { (plural(totals.subjects, "subject")) ", " (plural(totals.tasks, "task")) }))
                (health(report))
            }
            (tile(alert(stale), "stale", html! { "Stale jobs" }, stale, html! { "in flight for too long" }))
            (tile(alert(warnings), "warnings", html! { a href="#upkeep" { "Warnings" } }, warnings, html! { (kinds) }))
        }
    }
}

/// The symbol of the first of its standings.
fn symbol(group: Group) -> char {
    group
        .standings()
        .next()
        .map_or(' ', |one| one.look().symbol)
}

fn parts(group: Group, counts: &[Count], tasks: usize) -> Markup {
    let there = group.standings().filter_map(|standing| {
        let count = count_of(counts, standing.as_str());
        (count > 0).then(|| format!("{} {standing}", thousands(count)))
    });
    let there: Vec<String> = there.collect();
    html! {
        @if group == Group::Complete && tasks > 0 {
            (percent(count_of_group(counts, group) as f64 / tasks as f64)) " of " (plural(tasks, "task"))
        } @else if group.standings().nth(1).is_some() {
            (there.join(", "))
        } @else if tasks > 0 && !there.is_empty() && group == Group::Blocked {
            "by a failed step"
        }
    }
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
                @if let Some(mean) = health.mean { "mean share complete " (percent(mean)) }
                @if health.none > 0 { " · " (thousands(health.none)) " not rated" }
            }
        }
    }
}

/// Counts what a person should put in order, in all and by kind.
fn warnings(report: &Report) -> (usize, String) {
    let dicom = report
        .dicom
        .as_ref()
        .map_or(0, |dicom| dicom.findings.len());
    let jobs = report.orphans.jobs.as_ref().map_or(0, Vec::len);
    let kinds = [
        (report.unreadable.len(), "unreadable"),
        (dicom, "DICOM"),
        (report.orphans.rows.len() + jobs, "orphans"),
        (report.scripts.len(), "scripts"),
    ];
    let there = kinds.iter().filter(|(count, _)| *count > 0);
    let there = there.map(|(count, kind)| format!("{kind}: {}", thousands(*count)));
    let count = kinds.iter().map(|(count, _)| count).sum();
    (count, there.collect::<Vec<_>>().join(", "))
}

/// Renders the frame that the page's script fills; without it, `lists` of what does not go on.
pub fn matrix(report: &Report, lists: Markup) -> Markup {
    let matrix = &report.matrix;
    if matrix.sessions.is_empty() || matrix.procedures.is_empty() {
        return html! {};
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
            p.notice { "The heat map needs JavaScript; everything else on this page does not." }
            (lists)
        }
        p #grid-help .hint {
            "Arrow keys move, Enter opens details, column titles sort. A task of subject scope stands in each of its subject's sessions."
        }
        div #grid role="grid" tabindex="0" aria-labelledby="matrix-title" aria-describedby="grid-help" {}
        p #print-more .more hidden {}
        ul.legend aria-label="Symbols" {
            @for word in words {
                li { span class={ "chip g-" (word.look().group) } aria-hidden="true" { (word.look().symbol) } (spaced(word.as_str())) }
            }
        }
    }
}

/// Renders what a person should put in order.
pub fn upkeep(report: &Report) -> Markup {
    let lists = upkeep::LISTS.map(|list| list(report));
    html! {
        @if lists.iter().all(|list| list.rows.is_empty()) { p { "Nothing to put in order." } }
        @for list in &lists { (table(list)) }
        @if report.orphans.jobs.is_none() {
            p.hint { "The queue was not asked for jobs that no row knows (" code { "--queue" } ")." }
        }
    }
}

/// Renders where all this comes from.
pub fn about(report: &Report) -> Markup {
    let study = &report.study;
    let parts: Vec<&str> = study.parts.iter().map(|part| part.as_str()).collect();
    let config = study.config.as_deref().unwrap_or("built-in defaults");
    let logs = study.log_dir.as_deref().unwrap_or("not configured");
    let facts = [
        ("Configuration", config),
        ("DICOM", &study.dicom_root),
        ("BIDS", &study.bids_root),
        ("Derivatives", &study.derivatives_root),
        ("State", &study.state_file),
        ("Audit log", &study.log_file),
        ("Job logs", logs),
    ];
    html! {
        footer #about aria-label="About this report" {
            dl { @for (name, value) in facts { div { dt { (name) } dd { (safe(value)) } } } }
            p { @if let Some(rows) = head(report).1.last() { (rows) ". " } "Looked at: " (parts.join(", ")) "." }
        }
    }
}
