//! The report as an e-mail: the text in plain HTML, because mail programs remove scripts and style sheets.

use maud::{DOCTYPE, html};

use super::sections::counts;
use super::{clean, table};
use crate::show::audit::report::Report;
use crate::show::tables::TaskState;

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

/// The text as preformatted HTML, which keeps its columns.
pub fn mail_html(report: &Report) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head { meta charset="utf-8"; title { "Audit" } }
            body { pre { (table(report, None)) } }
        }
    };
    page.into_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::audit::testing::report;

    #[test]
    fn data_never_becomes_markup() {
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
