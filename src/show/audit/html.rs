//! The report as one HTML page that opens from disk, without network.
//!
//! Everything is in the one file: style, script, data, charts. A policy forbids the browser to load or
//! send anything. All but the heat map is there without the script. Pure.

mod charts;
mod data;
mod figures;
mod lists;
mod looks;
mod overview;
mod safe;
mod table;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest, Sha256};

use super::report::Report;

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// Renders the page.
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
                title { "Audit of " (safe::safe(&report.study.name())) }
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
        ("summary", "Summary", overview::tiles(report)),
        ("trend", "Changes", lists::trend(report)),
        ("procedures", "Procedures", overview::procedures(report)),
        ("matrix", "Sessions", overview::matrix(report)),
        ("failures", "Failures", figures::failures(report)),
        ("progress", "Progress", figures::progress(report)),
        ("efficiency", "Efficiency", figures::efficiency(report)),
        ("upkeep", "Upkeep", lists::upkeep(report)),
    ];
    let there = sections.iter().filter(|(.., markup)| !markup.0.is_empty());
    html! {
        a.skip href="#summary" { "Skip to the summary" }
        (overview::header(report))
        nav aria-label="Sections" {
            ul { @for (id, title, _) in there { li { a href={ "#" (id) } { (title) } } } }
        }
        main {
            (overview::partial(report))
            @for (.., markup) in &sections { (markup) }
        }
        (lists::about(report))
        script #data type="application/json" { (PreEscaped(data::grid(report))) }
        script #details-data type="application/json" { (PreEscaped(data::details(report))) }
        script { (PreEscaped(SCRIPT)) }
    }
}

/// Returns the hash by which a policy allows a script or style.
fn hash(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests;
