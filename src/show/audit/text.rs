//! The report as text: a plain table for the terminal, Markdown for mail and wikis. Pure.
//!
//! Both show the same sections, in the same order: [`sections`]. Long lists are cut and say so; the JSON
//! has everything.

mod mail;
mod sections;

use std::fmt::Write as _;

use comfy_table::{Cell, CellAlignment, ContentArrangement, Row, Table, TableStyle};

use super::report::Report;
pub use mail::{mail_html, subject};
use sections::{Block, sections};

/// So many rows of a list are shown.
const ROWS: usize = 20;
const MARKDOWN_ROWS: usize = 50;

/// Blanks between two columns.
const GAP: u16 = 2;

/// Renders plain text. `width`: the terminal's; none: nothing is wrapped.
pub fn table(report: &Report, width: Option<u16>) -> String {
    let mut out = String::new();
    for block in sections(report, ROWS) {
        match block {
            Block::Title(text) => writeln!(out, "{}", clean(&text)),
            Block::Heading(text) => writeln!(out, "\n{}", clean(&text).to_uppercase()),
            Block::Line(text) => writeln!(out, "{}", clean(&text)),
            Block::Table(header, rows) => {
                out.push_str(&aligned(&header, &rows, width));
                Ok(())
            }
            Block::More(count) => writeln!(out, "... and {count} more (--format json has all)"),
        }
        // Writing to a text cannot fail.
        .unwrap_or_default();
    }
    out
}

/// Renders Markdown (GitHub's tables).
pub fn markdown(report: &Report) -> String {
    let mut out = String::new();
    for block in sections(report, MARKDOWN_ROWS) {
        match block {
            Block::Title(text) => writeln!(out, "# {}\n", escaped(&text)),
            Block::Heading(text) => writeln!(out, "\n## {}\n", escaped(&capital(&text))),
            Block::Line(text) => writeln!(out, "{}  ", escaped(&text)),
            Block::Table(header, rows) => {
                let titles: Vec<String> = header.iter().map(|(title, _)| escaped(title)).collect();
                let rules: Vec<&str> = header
                    .iter()
                    .map(|(_, align)| match align {
                        Align::Left => "---",
                        Align::Right => "---:",
                    })
                    .collect();
                let mut text = format!("| {} |\n| {} |\n", titles.join(" | "), rules.join(" | "));
                for row in rows {
                    let cells: Vec<String> = row.iter().map(|cell| escaped(cell)).collect();
                    text.push_str(&format!("| {} |\n", cells.join(" | ")));
                }
                out.push_str(&text);
                Ok(())
            }
            Block::More(count) => writeln!(out, "\n... and {count} more"),
        }
        .unwrap_or_default();
    }
    out
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

fn aligned(header: &[(&str, Align)], rows: &[Vec<String>], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.force_no_tty().load_style(TableStyle::new());
    match width {
        None => table.set_content_arrangement(ContentArrangement::Disabled),
        Some(width) => table
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width.max(1)),
    };
    let cell = |text: &str, align: Align| {
        Cell::new(clean(text)).set_alignment(match align {
            Align::Left => CellAlignment::Left,
            Align::Right => CellAlignment::Right,
        })
    };
    table.set_header(header.iter().map(|(title, align)| cell(title, *align)));
    for row in rows {
        let cells = row.iter().zip(header);
        table.add_row(Row::from(
            cells.map(|(text, (_, align))| cell(text, *align)),
        ));
    }
    let last = header.len().saturating_sub(1);
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if at == last { 0 } else { GAP }));
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Writes control characters out; an empty text is `-`, so that every field is there.
fn clean(text: &str) -> String {
    if text.is_empty() {
        return "-".to_owned();
    }
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() {
            safe.extend(c.escape_default());
        } else {
            safe.push(c);
        }
    }
    safe
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

/// Keeps what Markdown would read as its own.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '<' => safe.push_str("&lt;"),
            '&' => safe.push_str("&amp;"),
            '\\' | '|' | '*' | '`' | '[' | ']' => {
                safe.push('\\');
                safe.push(c);
            }
            _ => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_cannot_change_the_page() {
        assert_eq!(clean("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
        assert_eq!(clean(""), "-");
        assert_eq!(
            escaped("a|b <i>*x*</i> `c`"),
            "a\\|b &lt;i>\\*x\\*&lt;/i> \\`c\\`"
        );
    }

    #[test]
    fn the_text_in_each_form() {
        let mut report = crate::show::audit::testing::report();
        let mut before = crate::show::audit::trend::Snapshot::of(&report);
        before.created_at -= chrono::Duration::days(1);
        report.totals.decisions[2].count += 1;
        report.totals.tasks += 1;
        let now = crate::show::audit::trend::Snapshot::of(&report);
        report.trend = Some(crate::show::audit::trend::trend(&before, "x", &now));
        insta::assert_snapshot!("table", table(&report, None));
        insta::assert_snapshot!("table_100", table(&report, Some(100)));
        insta::assert_snapshot!("markdown", markdown(&report));
        report.study.parts = crate::show::audit::Parts {
            efficiency: true,
            ..crate::show::audit::Parts::NONE
        }
        .words();
        insta::assert_snapshot!("efficiency", table(&only_efficiency(report), None));
    }

    fn only_efficiency(report: Report) -> Report {
        let bare = crate::show::audit::testing::bare(&report);
        Report {
            study: report.study,
            totals: report.totals,
            efficiency: report.efficiency,
            ..bare
        }
    }

    #[test]
    fn a_report_of_nothing_has_its_head() {
        let report = crate::show::audit::testing::bare(&crate::show::audit::testing::report());
        for text in [table(&report, None), markdown(&report)] {
            assert!(text.contains("Audit of demo"), "{text}");
        }
    }

    #[test]
    fn a_study_without_a_name_is_called_by_its_directory() {
        let mut report = crate::show::audit::testing::bare(&crate::show::audit::testing::report());
        report.study.project = "1a32b9eb".to_owned();
        report.study.config = Some("/data/ageing/config.yaml".to_owned());
        let text = table(&report, None);
        assert!(text.contains("Audit of ageing at"), "{text}");
        assert!(
            text.contains("configuration: /data/ageing/config.yaml"),
            "{text}"
        );
    }

    #[test]
    fn a_narrow_terminal_is_not_exceeded() {
        let text = table(&crate::show::audit::testing::report(), Some(60));
        let tables = text.lines().filter(|line| line.contains("  "));
        for line in tables {
            assert!(line.chars().count() <= 90, "{line}");
        }
    }
}
