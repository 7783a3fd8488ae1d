//! The report as plain text for the terminal and e-mails, and as Markdown. Pure.
//!
//! Both show the lists of [`super::sections`]. Long lists are truncated; only the JSON format is complete.

use std::borrow::Cow;

use super::Report;
use super::sections::{Kind, LISTS, List, counts, head};
use crate::base::text::{capital, printable};
use crate::show::layout::{Column, Layout, render_columns};
use crate::show::tables::TaskState;

/// Rows that are shown per list.
const ROWS: usize = 20;
const MARKDOWN_ROWS: usize = 50;

/// The lists that are not empty.
fn lists(report: &Report) -> impl Iterator<Item = List> {
    let lists = LISTS.iter().map(move |list| list(report));
    lists.filter(|list| !list.is_empty())
}

/// Renders plain text, wrapped to the terminal's `width` if there is one.
pub fn table(report: &Report, width: Option<u16>) -> String {
    let (title, lines) = head(report);
    let mut out = vec![clean(&title)];
    out.extend(lines.iter().map(|line| clean(line)));
    let layout = Layout {
        width,
        ..Layout::default()
    };
    for list in lists(report) {
        out.push(format!("\n{}", clean(&list.title).to_uppercase()));
        if !list.rows.is_empty() {
            let columns = list.columns.iter().enumerate();
            let columns = columns.map(|(at, (name, kind))| {
                let cells = list.rows.iter().take(ROWS).filter_map(|row| row.get(at));
                Column {
                    name,
                    is_number: *kind == Kind::Number,
                    cells: cells.map(|cell| Cow::Owned(clean(cell))).collect(),
                }
            });
            let table = render_columns(&columns.collect::<Vec<_>>(), layout);
            out.push(table.trim_end().to_owned());
        }
        if let Some(more) = list.rows.len().checked_sub(ROWS + 1) {
            out.push(format!("... and {} more (all in --format json)", more + 1));
        }
        out.extend(list.notes.iter().map(|note| clean(note)));
    }
    out.join("\n") + "\n"
}

/// Renders GitHub-flavoured Markdown.
pub fn markdown(report: &Report) -> String {
    let (title, lines) = head(report);
    let mut out = format!("# {}\n\n", escaped(&title));
    out.extend(lines.iter().map(|line| escaped(line) + "  \n"));
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let rule = |kind| if kind == Kind::Number { "---:" } else { "---" };
    for list in lists(report) {
        out.push_str(&format!("\n## {}\n\n", escaped(&capital(&list.title))));
        if !list.rows.is_empty() {
            let columns = || list.columns.iter();
            let titles = columns().map(|(title, _)| escaped(title)).collect();
            let rules = columns().map(|(_, kind)| rule(*kind).to_owned()).collect();
            out.push_str(&(line(titles) + &line(rules)));
        }
        for row in list.rows.iter().take(MARKDOWN_ROWS) {
            out.push_str(&line(row.iter().map(|cell| escaped(cell)).collect()));
        }
        if let Some(more) = list.rows.len().checked_sub(MARKDOWN_ROWS + 1) {
            out.push_str(&format!("\n... and {} more\n", more + 1));
        }
        let notes = list.notes.iter();
        out.extend(notes.map(|note| format!("\n{}\n", escaped(note))));
    }
    out
}

/// Escapes control characters. An empty text becomes `-`, so that no field is empty.
fn clean(text: &str) -> String {
    match text {
        "" => "-".to_owned(),
        _ => printable(text).into_owned(),
    }
}

/// Escapes Markdown's own characters.
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

/// The subject of the e-mail.
pub fn subject(report: &Report) -> String {
    let totals = &report.totals;
    let is_shown = |state: TaskState| state == TaskState::Complete || state.is_stuck();
    let mut decisions = totals.decisions.clone();
    decisions.retain(|count| count.word.parse().is_ok_and(is_shown));
    let study = report.study.config.as_deref();
    let study = study.unwrap_or(&report.study.state_file);
    clean(&format!(
        "[snbb-scheduler] audit of {study}: {} tasks, {}",
        totals.tasks,
        counts(&decisions)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_texts_are_escaped() {
        assert_eq!(clean("a\u{1b}[31m\nb"), "a\\u{1b}[31m\\nb");
        assert_eq!(clean(""), "-");
        assert_eq!(
            escaped("a|b <i>*x*</i> `c`"),
            "a\\|b &lt;i>\\*x\\*&lt;/i> \\`c\\`"
        );
    }

    #[test]
    fn each_text_format() {
        let mut report = crate::show::audit::testing::report();
        let mut before =
            crate::show::audit::trend::Snapshot::read(&report.to_json().unwrap()).unwrap();
        before.study.created_at -= chrono::Duration::days(1);
        report.totals.decisions[2].count += 1;
        report.totals.tasks += 1;
        let now = crate::show::audit::trend::Snapshot::read(&report.to_json().unwrap()).unwrap();
        report.trend = Some(crate::show::audit::trend::trend(&before, "x", &now));
        insta::assert_snapshot!("table", table(&report, None));
        insta::assert_snapshot!("table_100", table(&report, Some(100)));
        insta::assert_snapshot!("markdown", markdown(&report));
        report.study.parts = &[crate::show::audit::Part::Efficiency];
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
    fn an_empty_report_has_a_title() {
        let report = crate::show::audit::testing::bare(&crate::show::audit::testing::report());
        for text in [table(&report, None), markdown(&report)] {
            assert!(text.lines().next().unwrap().contains("demo"), "{text}");
        }
    }

    #[test]
    fn a_study_without_a_name_is_named_after_its_directory() {
        let mut report = crate::show::audit::testing::bare(&crate::show::audit::testing::report());
        report.study.project = "1a32b9eb".to_owned();
        report.study.config = Some("/data/ageing/config.yaml".to_owned());
        let text = table(&report, None);
        assert!(text.lines().next().unwrap().contains(" ageing "), "{text}");
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

    #[test]
    fn the_subject_is_one_line_of_counts() {
        let mut report = crate::show::audit::testing::report();
        report.study.config = Some("/data/a\r\nBcc: x@y".to_owned());
        let subject = subject(&report);
        assert!(!subject.chars().any(char::is_control), "{subject:?}");
        assert!(subject.contains("tasks, "), "{subject}");
    }
}
