//! The report as a mail: the sections of the text in plain HTML, which every mail program shows.
//!
//! No scripts, no style sheets, nothing to load: mail programs take all of that out.

use std::fmt::Write as _;

use super::sections::{Block, sections};
use super::{Align, capital, clean};
use crate::show::audit::report::{Report, count_of};

/// So many rows of a list are shown.
const ROWS: usize = 50;
const CELL: &str = "padding:2px 8px;border-bottom:1px solid #ccc;vertical-align:top";

/// Returns one line for the subject of a mail.
pub fn subject(report: &Report) -> String {
    let totals = &report.totals;
    let words = ["complete", "failed", "blocked", "unreadable"];
    let counts: Vec<String> = words
        .iter()
        .map(|word| (word, count_of(&totals.decisions, word)))
        .filter(|(_, count)| *count > 0)
        .map(|(word, count)| format!("{count} {word}"))
        .collect();
    let study = report.study.config.as_deref();
    let study = study.unwrap_or(&report.study.state_file);
    clean(&format!(
        "[snbb-scheduler] audit of {study}: {} tasks, {}",
        totals.tasks,
        counts.join(", ")
    ))
}

/// Renders the HTML part of a mail.
pub fn mail_html(report: &Report) -> String {
    let mut out = String::from(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Audit</title></head>\n\
         <body style=\"font-family:sans-serif\">\n",
    );
    for block in sections(report, ROWS) {
        // Writing to a text cannot fail.
        let _ = match block {
            Block::Title(text) => writeln!(out, "<h1>{}</h1>", escaped(&text)),
            Block::Heading(text) => writeln!(out, "<h2>{}</h2>", escaped(&capital(&text))),
            Block::Line(text) => writeln!(out, "<div>{}</div>", escaped(&text)),
            Block::Table(header, rows) => {
                out.push_str("<table style=\"border-collapse:collapse\">\n<tr>");
                for (title, align) in &header {
                    cell(&mut out, "th", title, *align);
                }
                out.push_str("</tr>\n");
                for row in &rows {
                    out.push_str("<tr>");
                    for (text, (_, align)) in row.iter().zip(&header) {
                        cell(&mut out, "td", text, *align);
                    }
                    out.push_str("</tr>\n");
                }
                writeln!(out, "</table>")
            }
            Block::More(count) => writeln!(out, "<div>... and {count} more</div>"),
        };
    }
    out.push_str("</body></html>\n");
    out
}

fn cell(out: &mut String, tag: &str, text: &str, align: Align) {
    let side = match align {
        Align::Left => "left",
        Align::Right => "right",
    };
    let text = escaped(text);
    let _ = write!(
        out,
        "<{tag} style=\"{CELL};text-align:{side}\">{text}</{tag}>"
    );
}

fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in clean(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::audit::testing::report;

    #[test]
    fn nothing_of_the_data_becomes_markup() {
        let mut report = report();
        report.study.project = "<script>alert(1)</script> & \"co\"\n".to_owned();
        let html = mail_html(&report);
        assert!(!html.contains("<script"), "{html}");
        assert!(html.contains("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &quot;co&quot;"));
        for tag in ["table", "tr", "td", "th", "h1", "h2", "div", "body", "html"] {
            let open = html.matches(&format!("<{tag} ")).count()
                + html.matches(&format!("<{tag}>")).count();
            assert_eq!(open, html.matches(&format!("</{tag}>")).count(), "{tag}");
        }
    }

    #[test]
    fn the_subject_is_one_line_of_counts() {
        let mut report = report();
        report.study.config = Some("/data/a\r\nBcc: x@y".to_owned());
        let subject = subject(&report);
        assert!(!subject.chars().any(char::is_control), "{subject:?}");
        assert!(subject.contains("tasks, "), "{subject}");
    }
}
