//! The page says what the report says, and nothing that a name or a log can make it say.

use serde_json::Value;

use super::looks::GROUPS;
use super::render;
use super::safe::{json_in_html, plural, safe, thousands};
use crate::show::audit::health::percent;
use crate::show::audit::report::{Cell, Report, count_of};
use crate::show::audit::testing::{bare, report};
use crate::show::audit::trend::{Snapshot, trend};
use crate::show::tables::words::WORDS;

const HOSTILE: &str =
    "</script><script>alert(1)</script>\"' onload=x <b>\u{202e}\u{1b}[0m\u{0}\u{2028}&lt;";

/// Returns the JSON of an element.
fn embedded(page: &str, id: &str) -> Value {
    let start = format!("<script id=\"{id}\" type=\"application/json\">");
    let (_, rest) = page.split_once(&start).unwrap();
    let (json, _) = rest.split_once("</script>").unwrap();
    assert!(!json.contains(['<', '>', '\u{2028}']));
    serde_json::from_str(json).unwrap()
}

/// Returns a text of a task, with its names as the script puts them in.
fn text_of(details: &Value, task: usize, number: &Value) -> String {
    let task = &details["tasks"][task];
    let text = details["texts"][number.as_u64().unwrap() as usize].as_str();
    let mut letters = text.unwrap().chars();
    let mut whole = String::new();
    while let Some(letter) = letters.next() {
        let name = match (letter, letter == '%') {
            (_, true) => match letters.next() {
                Some('s') => &task["subject"],
                Some('e') => &task["session"],
                Some('j') => &task["job"]["job_id"],
                _ => &Value::Null,
            },
            (letter, false) => {
                whole.push(letter);
                continue;
            }
        };
        whole.push_str(name.as_str().unwrap_or("%"));
    }
    whole
}

/// Returns the number of a tile.
fn tile(page: &str, group: &str) -> usize {
    let (before, _) = page
        .split_once(&format!("\" data-group=\"{group}\""))
        .unwrap();
    let (_, count) = before.rsplit_once("data-count=\"").unwrap();
    count.parse().unwrap()
}

#[test]
fn all_numbers_are_the_reports() {
    let mut report = report();
    let before = Snapshot::of(&report);
    report.trend = Some(trend(&before, "/study/reports/x.json", &before));
    let page = render(&report);
    let totals = &report.totals;
    let mut sum = 0;
    for group in GROUPS.iter().filter(|g| g.always) {
        let count = tile(&page, group.name);
        assert_eq!(count, group.count(&totals.decisions), "{}", group.name);
        sum += count;
    }
    assert_eq!(sum, totals.tasks);
    assert_eq!(tile(&page, "sessions"), totals.sessions);
    assert_eq!(tile(&page, "stale"), report.stale.len());
    // 1 unreadable, 1 DICOM directory, 1 row, 1 job, 1 script.
    assert_eq!(tile(&page, "warnings"), 5);

    let data = embedded(&page, "data");
    let rows = data["rows"].as_array().unwrap();
    assert_eq!(rows.len(), report.matrix.sessions.len());
    let mut words = vec![0; WORDS.len()];
    for (row, session) in rows.iter().zip(&report.matrix.sessions) {
        assert_eq!(row[0], *session.subject);
        assert_eq!(row[1], *session.session);
        assert_eq!(row[2], session.health.unwrap().complete);
        assert_eq!(row[3], session.health.unwrap().of);
        let cells = row[4].as_array().unwrap();
        for (shown, cell) in cells.iter().zip(&session.cells) {
            let word = shown.as_u64().or(shown[0].as_u64()).unwrap() as usize;
            assert_eq!(data["words"][word][0], cell.as_ref().unwrap().decision);
            words[word] += 1;
        }
    }
    for (word, count) in WORDS.iter().zip(words) {
        assert_eq!(count, count_of(&totals.decisions, word), "{word}");
    }
    let failed = &rows[1][4][0];
    assert_eq!(
        data["reasons"][failed[1].as_u64().unwrap() as usize],
        "out_of_memory"
    );
    assert_eq!((&failed[2], &failed[4]), (&"4812".into(), &0.into()));

    let details = embedded(&page, "details-data");
    let task = &details["tasks"][0];
    assert_eq!(task["job"]["max_rss_mb"], 8100);
    assert_eq!(task["job"]["exit_code"], "0:125");
    assert_eq!(text_of(&details, 0, &task["dir"]), "1:/sub-0002/ses-01");
    for (number, task) in report.tasks.iter().enumerate() {
        let shown = &details["tasks"][number];
        let text = |text: &Value| text_of(&details, number, text);
        assert_eq!(text(&shown["procedure"]), *task.procedure);
        assert_eq!(text(&shown["text"]), task.text);
        for (at, marker) in task.markers.iter().enumerate() {
            let shown = &details["markers"][shown["markers"].as_u64().unwrap() as usize][at];
            assert_eq!(text(&shown[0]), marker.marker);
            assert_eq!(shown[1], serde_json::json!(marker.state));
            assert_eq!(shown[3].is_null(), marker.note.is_none());
        }
    }
    assert_eq!(
        task["tail"],
        serde_json::json!(["converting <3 files>", "Killed"])
    );
    assert_eq!(task["findings"][0][1], "Killed");
    for text in [
        "mem: 7G",
        "needed more memory than it asked for",
        "#SBATCH --mem=64G",
        "only 3 files",
        "nothing",
    ] {
        assert_eq!(page.contains(text), text != "nothing", "{text}");
    }
}

/// Paths and sentences of thousands of tasks differ by their names alone.
#[test]
fn what_tasks_have_in_common_stands_there_once() {
    let small = render(&report()).len();
    let mut report = report();
    let first = report.tasks[0].clone();
    for number in 0..1000 {
        let subject = format!("sub-x{number:04}");
        let renamed = |text: &str| text.replace(&*first.subject, &subject);
        let mut task = first.clone();
        task.output_dir = renamed(&task.output_dir);
        for marker in &mut task.markers {
            marker.path = marker.path.as_deref().map(renamed);
        }
        task.job = None;
        task.log_tail.clear();
        task.subject = subject.as_str().into();
        report.tasks.push(task);
    }
    let page = render(&report);
    let details = embedded(&page, "details-data");
    let kinds = details["markers"].as_array().unwrap().len();
    assert!(kinds <= 2, "{kinds}");
    let last = report.tasks.len() - 1;
    assert_eq!(
        text_of(&details, last, &details["tasks"][last]["dir"]),
        "1:/sub-x0999/ses-01"
    );
    let each = (page.len() - small) / 1000;
    assert!(each < 200, "{each} bytes per task");
}

#[test]
fn hostile_texts_stay_texts() {
    let mut report = report();
    spoil(&mut report);
    let page = render(&report);
    let own_scripts = 3;
    assert_eq!(page.matches("<script").count(), own_scripts);
    assert_eq!(page.matches("</script").count(), own_scripts);
    assert!(!page.contains("<b>"));
    let rest = page
        .chars()
        .filter(|c| matches!(c, '\u{202e}' | '\u{1b}' | '\u{0}' | '\u{2028}'));
    // The data keep the mark of direction as it is: the script writes it out.
    assert_eq!(rest.clone().filter(|c| *c != '\u{202e}').count(), 0);
    let (html, _) = page.split_once("<script id=\"data\"").unwrap();
    assert!(!html.contains("\"' onload"));
    assert!(!html.contains('\u{202e}') && html.contains("\\u{202e}\\u{1b}[0m\\u{0}\\u{2028}"));
    let details = embedded(&page, "details-data");
    assert_eq!(details["tasks"][0]["tail"][0], HOSTILE);
    assert_eq!(embedded(&page, "data")["rows"][0][0], HOSTILE);
}

fn spoil(report: &mut Report) {
    let text = || HOSTILE.to_owned();
    report.study.project = text();
    report.study.selection = Some(text());
    report.matrix.procedures[0] = HOSTILE.into();
    report.matrix.sessions[0].subject = HOSTILE.into();
    report.matrix.sessions[0].cells[0] = Some(Cell {
        decision: "failed",
        reason: None,
        job_id: Some(HOSTILE.into()),
        text: Some(HOSTILE.into()),
        detail: None,
    });
    report.procedures[0].name = HOSTILE.into();
    report.efficiency[0].procedure = HOSTILE.into();
    report.failures.by_node[0].node = HOSTILE.into();
    report.unreadable[0].error = text();
    report.scripts[0].lines[0].text = text();
    report.tasks[0].subject = HOSTILE.into();
    report.tasks[0].log_tail = vec![text()];
    for procedure in report.progress.iter_mut().flat_map(|p| &mut p.procedures) {
        procedure.procedure = HOSTILE.into();
    }
    for finding in report.logs.iter_mut().flat_map(|logs| &mut logs.findings) {
        finding.line = text();
    }
}

#[test]
fn nothing_comes_from_elsewhere() {
    let page = render(&report());
    let links = page
        .match_indices("//")
        .map(|(at, _)| &page[at.saturating_sub(6)..at + 2]);
    let links: Vec<&str> = links.filter(|text| text.contains("http")).collect();
    let names = page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count();
    assert_eq!(links.len(), names);
    assert!(page.contains("default-src &#39;none&#39;") || page.contains("default-src 'none'"));
    assert!(!page.contains("style=\""), "the policy forbids it");
    assert!(!page.contains("unsafe"));
    // All colours of charts follow the page.
    assert!(!page.contains("#0100"));
    assert!(page.contains("var(--used)") && page.contains("var(--good)"));
}

#[test]
fn a_report_with_nothing_in_it_is_a_page_too() {
    let bare = bare(&report());
    let page = render(&bare);
    assert!(page.contains("Nothing to put in order."));
    assert!(!page.contains("id=\"grid\""));
    assert_eq!(embedded(&page, "data")["rows"], serde_json::json!([]));
    let mut parts = bare;
    for part in ["dicom", "logs", "efficiency"] {
        parts.study.parts = vec![part];
        assert!(!render(&parts).contains("id=\"failures\""));
    }
}

#[test]
fn small_texts() {
    assert_eq!(safe("a\tb\u{200f}"), "a\\u{9}b\\u{200f}");
    assert_eq!(safe("שלום"), "שלום");
    assert_eq!(thousands(1_234_567), "1\u{202f}234\u{202f}567");
    assert_eq!(thousands(999), "999");
    assert_eq!(plural(1, "task"), "1 task");
    assert_eq!(percent(0.29), "29 %");
    assert_eq!(percent(0.999), "99 %");
    let json = "{\"a\":\"</script>\u{2028}&\"}";
    let safe = json_in_html(json);
    assert!(!safe.contains('<') && !safe.contains('\u{2028}'));
    let same = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    assert_eq!(same(&safe), same(json));
}
