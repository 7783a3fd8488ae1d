//! The page shows the report's figures, and no name or log can inject anything into it.

use serde_json::Value;

use super::{plural, render, safe, thousands};
use crate::model::job::JobId;
use crate::show::audit::Report;
use crate::show::audit::summary::Cell;
use crate::show::audit::testing::{bare, report, unpacked};
use crate::show::audit::trend::{Snapshot, trend};
use crate::show::audit::{Part, count_of_group, percent};
use crate::show::tables::{Group, TaskState};

const HOSTILE: &str =
    "</script><script>alert(1)</script>\"' onload=x <b>\u{202e}\u{1b}[0m\u{0}\u{2028}&lt;";

fn grid(page: &str) -> Value {
    unpacked(page, "id=\"data\"")
}

fn details(page: &str) -> Value {
    unpacked(page, "class=\"details-data\"")
}

/// The number of a tile.
fn tile(page: &str, group: &str) -> usize {
    let (before, _) = page
        .split_once(&format!("\" data-group=\"{group}\""))
        .unwrap();
    let (_, count) = before.rsplit_once("data-count=\"").unwrap();
    count.parse().unwrap()
}

#[test]
fn all_numbers_match_the_report() {
    let mut report = report();
    let before = Snapshot::read(&report.to_json().unwrap()).unwrap();
    report.trend = Some(trend(&before, "/study/reports/x.json", &before));
    let page = render(&report);
    let totals = &report.totals;
    let mut sum = 0;
    for group in Group::ALL
        .into_iter()
        .filter(|group| *group < Group::Unreadable)
    {
        let count = tile(&page, group.as_str());
        assert_eq!(count, count_of_group(&totals.decisions, group), "{group}");
        sum += count;
    }
    assert_eq!(sum, totals.tasks);
    assert_eq!(tile(&page, "sessions"), totals.sessions);
    assert_eq!(tile(&page, "stale"), report.stale.len());
    // 1 unreadable, 1 DICOM directory, 1 row, 1 job, 1 script.
    assert_eq!(tile(&page, "warnings"), 5);

    let data = grid(&page);
    assert_eq!(data["matrix"], serde_json::json!(report.matrix));
    for word in TaskState::ALL {
        assert!(data["words"][word.as_str()][0].is_string(), "{word}");
    }
    let details = details(&page);
    for (number, task) in report.tasks.iter().enumerate() {
        let mut shown = details[number].clone();
        let findings = shown.as_object_mut().unwrap().remove("findings").unwrap();
        assert_eq!(shown, serde_json::json!(task));
        let logs = report.logs.iter().flat_map(|logs| &logs.findings);
        let of_task = logs.filter(|f| f.key == task.key);
        assert_eq!(findings, serde_json::json!(of_task.collect::<Vec<_>>()));
    }
    for text in [
        "mem: 7G",
        "needed more memory than requested",
        "#SBATCH --mem=64G",
        "3 files, at least 10 expected",
        "Per day, last 60 days",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

#[test]
fn hostile_texts_never_become_markup() {
    let mut report = report();
    spoil(&mut report);
    let page = render(&report);
    let own_scripts = 3;
    assert_eq!(page.matches("<script").count(), own_scripts);
    assert_eq!(page.matches("</script").count(), own_scripts);
    assert!(!page.contains("<b>"));
    assert!(!page.contains(['\u{202e}', '\u{1b}', '\u{0}', '\u{2028}']));
    let (html, _) = page.split_once("<script id=\"data\"").unwrap();
    assert!(!html.contains("\"' onload"));
    assert!(html.contains("\\u{202e}\\u{1b}[0m\\u{0}\\u{2028}"));
    assert_eq!(details(&page)[0]["log_tail"][0], HOSTILE);
    let data = grid(&page);
    assert_eq!(data["matrix"]["sessions"][0]["subject"], HOSTILE);
}

fn spoil(report: &mut Report) {
    let text = || HOSTILE.to_owned();
    report.study.project = text();
    report.study.selection = Some(text());
    report.matrix.procedures[0] = HOSTILE.into();
    report.matrix.sessions[0].subject = HOSTILE.into();
    report.matrix.sessions[0].cells[0] = Some(Cell {
        decision: TaskState::Failed,
        reason: None,
        job_id: Some(JobId::new(HOSTILE)),
        text: Some(HOSTILE.into()),
        detail: None,
    });
    report.procedures[0].name = HOSTILE.into();
    report.efficiency[0].procedure = HOSTILE.into();
    report.failures.by_node[0].node = HOSTILE.into();
    report.unreadable[0].error = text();
    report.scripts[0].lines[0].text = text();
    report.tasks[0].key.subject = HOSTILE.into();
    report.tasks[0].log_tail = vec![text()];
    for procedure in report.progress.iter_mut().flat_map(|p| &mut p.procedures) {
        procedure.procedure = HOSTILE.into();
    }
    for finding in report.logs.iter_mut().flat_map(|logs| &mut logs.findings) {
        finding.line = text();
    }
}

#[test]
fn nothing_is_loaded_from_elsewhere() {
    let page = render(&report());
    let links = page
        .match_indices("//")
        .map(|(at, _)| &page[at.saturating_sub(6)..at + 2]);
    let links: Vec<&str> = links.filter(|text| text.contains("http")).collect();
    assert_eq!(links, Vec::<&str>::new());
    assert!(page.contains("default-src &#39;none&#39;") || page.contains("default-src 'none'"));
    assert!(!page.contains("style=\""), "the policy forbids it");
    assert!(!page.contains("unsafe"));
}

#[test]
fn an_empty_report_is_a_page_too() {
    let bare = bare(&report());
    let page = render(&bare);
    assert!(page.contains("No maintenance needed."));
    assert!(!page.contains("id=\"grid\""));
    assert_eq!(grid(&page)["matrix"]["sessions"], serde_json::json!([]));
    let mut parts = bare;
    for part in [&[Part::Dicom], &[Part::Logs], &[Part::Efficiency]] {
        parts.study.parts = part;
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
}
