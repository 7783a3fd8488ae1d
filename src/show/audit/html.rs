//! The report as one HTML page that opens from disk, without network.
//!
//! Style, script, data and charts are all in one file. A content security policy forbids the browser to load
//! or send anything. Only the heat map requires the script. Pure.

mod parts;

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use itertools::Itertools as _;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::Report;
use super::details::TaskDetail;
use super::logs::LogFinding;
use super::sections::{Kind, List, efficiency, tasks, trend, trend_by_procedure};
use super::summary::Matrix;
use crate::base::parallel;
use crate::base::text::{capital, plural_as};
use crate::show::tables::TaskState;

/// Rows per list in the page. The JSON report has all.
const ROWS: usize = 200;

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

pub fn render(report: &Report) -> String {
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; img-src data:; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                meta name="generator" content={ "snbb-scheduler " (report.study.version) };
                title { "Audit of " (safe(&report.study.name())) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) }
            }
            body { (body(report)) }
        }
    };
    page.into_string()
}

fn body(report: &Report) -> Markup {
    let sections = [
        ("summary", "Summary", parts::tiles(report)),
        (
            "trend",
            "Since the last report",
            html! { (table(&trend(report))) (table(&trend_by_procedure(report))) },
        ),
        ("pipeline", "Pipeline", parts::pipeline(report)),
        ("failures", "Failures", parts::failures(report)),
        (
            "matrix",
            "Sessions and procedures",
            parts::matrix(
                report,
                html! { (table(&tasks::stuck(report))) (table(&tasks::incomplete(report))) },
            ),
        ),
        ("progress", "Progress", parts::progress(report)),
        (
            "efficiency",
            "Requested and used resources",
            table(&efficiency(report)),
        ),
        ("upkeep", "Maintenance", parts::upkeep(report)),
    ];
    let present = || sections.iter().filter(|(.., markup)| !markup.0.is_empty());
    html! {
        a.skip href="#summary" { "Skip to the summary" }
        (parts::header(report))
        nav aria-label="Sections" {
            ul { @for (id, title, _) in present() { li { a href={ "#" (id) } { (title) } } } }
        }
        main {
            @if report.is_partial() {
                p.notice role="note" {
                    strong { "⚠ Some data could not be read. " }
                    "The figures below are incomplete; see " a href="#upkeep" { "Maintenance" } "."
                }
            }
            @for (id, title, markup) in present() {
                section id=(id) aria-labelledby={ (id) "-title" } {
                    h2 id={ (id) "-title" } { (title) }
                    (markup)
                }
            }
        }
        dialog #details aria-labelledby="details-title" {
            div.head {
                h2 #details-title tabindex="-1" {}
                a #link href="#summary" { "Link" }
                button #close type="button" aria-label="Close details" { "✕" }
            }
            div #details-body {}
        }
        script #data type="application/gzip" { (grid(report)) }
        @for part in details(report) {
            script .details-data type="application/gzip" { (part) }
        }
        script { (PreEscaped(SCRIPT)) }
    }
}

/// A list with its notes. Shows at most [`ROWS`] rows and the number of omitted ones.
fn table(list: &List) -> Markup {
    // Short texts are not wrapped.
    let class = |text: &str, kind: Kind| match kind {
        Kind::Number => "n",
        Kind::Code => "c",
        _ if text.len() < 25 => "s",
        _ => "t",
    };
    let cell = |text: &str, kind: Kind| match text.parse() {
        Ok(number) if kind == Kind::Number && !text.starts_with('+') => {
            html! { (thousands(number)) }
        }
        _ if kind == Kind::Verdict => html! { span class=(text) { (text) } },
        _ => html! { (safe(text)) },
    };
    let caption = format!("{} ({})", capital(&list.title), thousands(list.rows.len()));
    html! {
        @if !list.rows.is_empty() {
            div.scroll role="region" tabindex="0" aria-label=(caption) {
                table {
                    caption { (caption) }
                    thead { tr {
                        @for (title, kind) in &list.columns { th scope="col" class=(class(title, *kind)) { (title) } }
                    } }
                    tbody { @for (at, row) in list.rows.iter().take(ROWS).enumerate() {
                        @let detail = list.details.get(at);
                        tr data-detail=[detail.map(|(number, _)| number)] id=[detail.map(|(_, id)| safe(id))] {
                            @for (column, (text, (_, kind))) in row.iter().zip(&list.columns).enumerate() {
                                @if column == 0 {
                                    th scope="row" class=(class(text, *kind)) { (cell(text, *kind)) }
                                } @else {
                                    td class=(class(text, *kind)) { (cell(text, *kind)) }
                                }
                            }
                        }
                    } }
                }
            }
        }
        @if list.rows.len() > ROWS {
            p.more {
                (plural(list.rows.len() - ROWS, "more row")) " not shown; see " code { "--format json" } "."
            }
        }
        @for note in &list.notes { p.hint { (safe(note)) } }
    }
}

/// The hash by which the policy allows a script or style.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

/// Escapes invisible characters: control characters, direction marks, zero-width characters.
fn safe(text: &str) -> String {
    let shown = text.chars().map(|c| match is_hidden(c) {
        true => c.escape_unicode().to_string(),
        false => c.to_string(),
    });
    shown.collect()
}

/// Must equal `HIDDEN` in `page.js`.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn plural(count: usize, word: &str) -> String {
    plural_as(count, thousands(count), word)
}

/// `12 345` with narrow no-break spaces.
fn thousands(count: usize) -> String {
    let digits = count.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join("\u{202f}")
}

/// A readable word: `out_of_memory` becomes `out of memory`.
fn spaced(word: &str) -> String {
    safe(&word.replace('_', " "))
}

const THREADS: usize = 4;

/// Tasks per compressed part, which the page unpacks as a whole. Must equal `TOGETHER` in `page.js`.
const TOGETHER: usize = 1000;

#[derive(Serialize)]
struct Grid<'a> {
    /// The symbol and the group of each decision word.
    words: Map<String, Value>,
    matrix: &'a Matrix,
}

#[derive(Serialize)]
struct Detail<'a> {
    #[serde(flatten)]
    task: &'a TaskDetail,
    findings: &'a [&'a LogFinding],
}

/// The data of the heat map.
fn grid(report: &Report) -> String {
    let words = TaskState::ALL.into_iter().map(|state| {
        let style = state.style();
        (state.to_string(), json!([style.symbol, style.group]))
    });
    packed(&Grid {
        words: words.collect(),
        matrix: &report.matrix,
    })
}

/// The details of single tasks, in the order of [`Report::tasks`].
fn details(report: &Report) -> Vec<String> {
    let findings = report.logs.iter().flat_map(|logs| &logs.findings);
    let findings = findings.into_group_map_by(|finding| &finding.key);
    let parts: Vec<&[TaskDetail]> = report.tasks.chunks(TOGETHER).collect();
    parallel::map(&parts, THREADS, |tasks| {
        let details = tasks.iter().map(|task| {
            let findings = findings.get(&task.key).map_or(&[][..], Vec::as_slice);
            Detail { task, findings }
        });
        packed(&details.collect::<Vec<_>>())
    })
}

/// Cannot fail, because all keys are texts and the output is in memory.
fn packed(data: &impl Serialize) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(&serde_json::to_vec(data).unwrap_or_default());
    let bytes = written.and_then(|()| encoder.finish());
    STANDARD.encode(bytes.unwrap_or_default())
}

#[cfg(test)]
mod tests;
