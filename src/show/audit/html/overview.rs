//! The upper part of the page: title, tiles, procedures, and the frame of the heat map.

use maud::{Markup, html};

use super::looks::GROUPS;
use super::safe::{plural, safe, spaced, thousands};
use super::table::{Kind, table};
use crate::base::sys::local_time;
use crate::show::audit::health::percent;
use crate::show::audit::report::{Count, Report, count_of};
use crate::show::tables::utc_time;
use crate::show::tables::words::WORDS;

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

/// Renders the tiles.
pub fn tiles(report: &Report) -> Markup {
    let totals = &report.totals;
    let has_tasks = report.study.parts.contains(&"tasks");
    html! {
        section #summary aria-labelledby="summary-title" {
            h2 #summary-title { "Summary" }
            ul.tiles {
                @if has_tasks {
                    @for group in &GROUPS {
                        @let count = group.count(&totals.decisions);
                        @if group.always || count > 0 {
                            li class={ "tile g-" (group.name) } data-count=(count) data-group=(group.name) {
                                span.label { span.symbol aria-hidden="true" { (group.symbol) } (group.title) }
                                span.value { (thousands(count)) }
                                span.sub { (parts(group.words, &totals.decisions, group.name, totals.tasks)) }
                            }
                        }
                    }
                }
                @if has_tasks {
                    li.tile data-count=(totals.sessions) data-group="sessions" {
                        span.label { "Sessions" }
                        span.value { (thousands(totals.sessions)) }
                        span.sub { (plural(totals.subjects, "subject")) ", " (plural(totals.tasks, "task")) }
                    }
                    (health(report))
                }
                li class={ "tile" @if !report.stale.is_empty() { " alert" } }
                    data-count=(report.stale.len()) data-group="stale" {
                    span.label { "Stale jobs" }
                    span.value { (thousands(report.stale.len())) }
                    span.sub { "in flight for too long" }
                }
                (warnings(report))
            }
        }
    }
}

/// Says what a group is made of.
fn parts(words: &[&str], counts: &[Count], name: &str, tasks: usize) -> Markup {
    let there = words.iter().filter_map(|word| {
        let count = count_of(counts, word);
        (count > 0).then(|| format!("{} {word}", thousands(count)))
    });
    let there: Vec<String> = there.collect();
    html! {
        @if name == "complete" && tasks > 0 {
            (percent(count_of(counts, "complete") as f64 / tasks as f64)) " of " (plural(tasks, "task"))
        } @else if words.len() > 1 {
            (there.join(", "))
        } @else if tasks > 0 && !there.is_empty() && name == "blocked" {
            "by a failed step"
        }
    }
}

fn health(report: &Report) -> Markup {
    let health = &report.health;
    let bands = [
        ("good", "●", "good", health.good, "from 80 %"),
        ("fair", "◐", "fair", health.fair, "from 40 %"),
        ("poor", "○", "poor", health.poor, "below 40 %"),
    ];
    let total = health.good + health.fair + health.poor;
    html! {
        li.tile.wide data-group="health" {
            span.label { "Health of sessions" }
            span.bands {
                @for (band, symbol, word, count, share) in bands {
                    span class={ "band b-" (band) } data-count=(count) data-band=(band) title=(share) {
                        span.symbol aria-hidden="true" { (symbol) } strong { (thousands(count)) } " " (word)
                    }
                }
            }
            (stack(total, bands.map(|(band, _, _, count, _)| (format!("b-{band}"), count))))
            span.sub {
                @if let Some(mean) = health.mean { "mean share complete " (percent(mean)) }
                @if health.none > 0 { " · " (thousands(health.none)) " not rated" }
            }
        }
    }
}

fn warnings(report: &Report) -> Markup {
    let dicom = report
        .dicom
        .as_ref()
        .map_or(0, |dicom| dicom.findings.len());
    let orphans = report.orphans.rows.len() + report.orphans.jobs.as_ref().map_or(0, Vec::len);
    let kinds = [
        (report.unreadable.len(), "unreadable"),
        (dicom, "DICOM"),
        (orphans, "orphans"),
        (report.scripts.len(), "scripts"),
    ];
    let count: usize = kinds.iter().map(|(count, _)| count).sum();
    let there = kinds.iter().filter(|(count, _)| *count > 0);
    let there: Vec<String> = there
        .map(|(count, kind)| format!("{kind}: {}", thousands(*count)))
        .collect();
    html! {
        li class={ "tile" @if count > 0 { " alert" } } data-count=(count) data-group="warnings" {
            span.label { "Warnings" }
            span.value { @if count > 0 { a href="#upkeep" { (thousands(count)) } } @else { "0" } }
            span.sub { (there.join(", ")) }
        }
    }
}

/// Draws shares of a whole as one bar; what they are stands beside it.
fn stack(total: usize, shares: impl IntoIterator<Item = (String, usize)>) -> Markup {
    let mut at = 0;
    let shapes = shares.into_iter().filter(|(_, count)| *count > 0);
    let shapes = shapes.map(|(class, count)| {
        let from = at;
        at += count;
        (class, from, count)
    });
    html! {
        svg.stack viewBox={ "0 0 " (total.max(1)) " 1" } preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            @for (class, from, count) in shapes {
                rect class=(class) x=(from) y="0" width=(count) height="1" {}
            }
        }
    }
}

/// Renders the counts of each procedure.
pub fn procedures(report: &Report) -> Markup {
    if report.procedures.is_empty() {
        return html! {};
    }
    let shown = GROUPS
        .iter()
        .filter(|group| group.always || group.count(&report.totals.decisions) > 0);
    let shown: Vec<_> = shown.collect();
    let mut columns = vec![
        ("Procedure", Kind::Text),
        ("Scope", Kind::Text),
        ("Tasks", Kind::Number),
        ("Share", Kind::Text),
    ];
    columns.extend(shown.iter().map(|group| (group.title, Kind::Number)));
    columns.push(("Rows on record", Kind::Number));
    let rows: Vec<Vec<Markup>> = report
        .procedures
        .iter()
        .map(|procedure| {
            let counts = &procedure.decisions;
            let shares = GROUPS.iter();
            let shares = shares.map(|g| (format!("g-{}", g.name), g.count(counts)));
            let mut row = vec![
                html! { (safe(&procedure.name)) },
                html! { (procedure.scope.unwrap_or("not configured")) },
                html! { (thousands(procedure.tasks)) },
                stack(procedure.tasks, shares),
            ];
            row.extend(shown.iter().map(|group| match group.count(counts) {
                0 => html! { span.zero { "0" } },
                count => html! { (thousands(count)) },
            }));
            row.push(html! { (thousands(procedure.rows.total)) });
            row
        })
        .collect();
    html! {
        section #procedures aria-labelledby="procedures-title" {
            h2 #procedures-title { "Procedures" }
            (table("Tasks by procedure and decision", &columns, &rows))
        }
    }
}

/// Renders the frame that the page's script fills.
pub fn matrix(report: &Report) -> Markup {
    let matrix = &report.matrix;
    if matrix.sessions.is_empty() || matrix.procedures.is_empty() {
        return html! {};
    }
    let words = WORDS.iter().filter_map(|word| {
        let count = count_of(&report.totals.decisions, word);
        (count > 0).then_some(*word)
    });
    html! {
        section #matrix aria-labelledby="matrix-title" {
            h2 #matrix-title { "Sessions and procedures" }
            form #filters role="search" aria-label="Filter sessions" {
                label { "Text " input #text type="search" autocomplete="off" spellcheck="false"
                    placeholder="sub-0001, job, reason"; }
                label { "Status " select #status {
                    option value="" { "any" }
                    @for word in words { option value=(word) { (spaced(word)) } }
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
            noscript { p.notice { "The heat map needs JavaScript; everything else on this page does not." } }
            p #grid-help .hint {
                "Arrow keys move, Enter opens details, column titles sort. A task of subject scope stands in each of its subject's sessions."
            }
            div #grid role="grid" tabindex="0" aria-labelledby="matrix-title" aria-describedby="grid-help" {}
            p #print-more .more hidden {}
            ul.legend aria-label="Symbols" {
                @for word in WORDS {
                    @if count_of(&report.totals.decisions, word) > 0 {
                        @if let Some(group) = GROUPS.get(super::looks::group_of(word)) { li { span class={ "chip g-" (group.name) } aria-hidden="true" { (super::looks::symbol(word)) } (spaced(word)) } }
                    }
                }
            }
        }
        dialog #details aria-labelledby="details-title" {
            div.head {
                h2 #details-title tabindex="-1" {}
                button #close type="button" aria-label="Close details" { "✕" }
            }
            div #details-body {}
        }
    }
}
