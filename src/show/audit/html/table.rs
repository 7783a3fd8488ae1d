//! A plain HTML table with a caption, in a region of its own that scrolls.

use maud::{Markup, html};

use super::safe::{plural, safe};

/// So many rows of a list are in the page; the JSON report has all.
pub const ROWS: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Number,
    /// A path, a line of a log: fixed width, may break anywhere.
    Code,
}

/// Renders a table. The first column names the row. At most [`ROWS`] rows; what is left out is told.
pub fn table(caption: &str, columns: &[(&str, Kind)], rows: &[Vec<Markup>]) -> Markup {
    let class = |kind: Kind| match kind {
        Kind::Text => "t",
        Kind::Number => "n",
        Kind::Code => "c",
    };
    html! {
        div.scroll role="region" tabindex="0" aria-label=(caption) {
            table {
                caption { (caption) }
                thead { tr {
                    @for (title, kind) in columns {
                        th scope="col" class=(class(*kind)) { (title) }
                    }
                } }
                tbody {
                    @for row in rows.iter().take(ROWS) {
                        tr {
                            @for (at, (cell, (_, kind))) in row.iter().zip(columns).enumerate() {
                                @if at == 0 {
                                    th scope="row" class=(class(*kind)) { (cell) }
                                } @else {
                                    td class=(class(*kind)) { (cell) }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if rows.len() > ROWS {
            p.more {
                (plural(rows.len() - ROWS, "more row")) " not shown; " code { "--format json" } " has all."
            }
        }
    }
}

/// Makes a cell of a text of others.
pub fn cell(text: &str) -> Markup {
    html! { (safe(text)) }
}

/// Makes a cell of a text that may not be known.
pub fn maybe(text: Option<&str>) -> Markup {
    html! { (text.map(safe).unwrap_or_default()) }
}
