//! What each form of a report says adds up to the same: the table, Markdown, JSON, tiles and data of the page.

use std::collections::HashMap;

use proptest::prelude::*;
use regex::Regex;
use serde_json::Value;

use crate::show::audit::html::render;
use crate::show::audit::report::Report;
use crate::show::audit::text;

type Checked = Result<(), TestCaseError>;

/// Checks all forms of a report.
pub fn check(report: &Report) -> Checked {
    let json: Value = serde_json::from_slice(&report.to_json().unwrap()).unwrap();
    let words = in_json(&json)?;
    in_text(&text::table(report, None), "\n", report, &words)?;
    in_text(&text::markdown(report), "  \n", report, &words)?;
    in_page(&render(report), report, &words)
}

fn number(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

/// Counts a list of `{word, count}`.
fn sum(counts: &Value) -> usize {
    list(counts)
        .iter()
        .map(|count| number(&count["count"]))
        .sum()
}

/// Returns how many tasks the JSON has of each word.
fn in_json(json: &Value) -> Result<HashMap<String, usize>, TestCaseError> {
    let totals = &json["totals"];
    prop_assert_eq!(number(&totals["tasks"]), sum(&totals["decisions"]));
    let procedures = list(&json["procedures"]);
    let tasks = procedures
        .iter()
        .map(|procedure| number(&procedure["tasks"]));
    prop_assert_eq!(number(&totals["tasks"]), tasks.sum::<usize>());
    for rows in procedures.iter().chain([totals]).map(|part| &part["rows"]) {
        let parts = ["pending", "running", "complete", "failed"].map(|word| number(&rows[word]));
        prop_assert_eq!(number(&rows["total"]), parts.iter().sum::<usize>());
    }
    // The matrix has each task of session scope in a cell of its own.
    let matrix = &json["matrix"];
    prop_assert_eq!(list(&matrix["sessions"]).len(), number(&totals["sessions"]));
    for (column, name) in list(&matrix["procedures"]).iter().enumerate() {
        let of = procedures
            .iter()
            .find(|procedure| procedure["name"] == *name)
            .unwrap();
        let cells = list(&matrix["sessions"])
            .iter()
            .map(|row| &row["cells"][column])
            .filter(|cell| !cell.is_null());
        if of["scope"] == "session" {
            prop_assert_eq!(cells.count(), number(&of["tasks"]));
        }
    }
    let health = &json["health"];
    let bands = ["good", "fair", "poor", "none"].map(|band| number(&health[band]));
    prop_assert_eq!(bands.iter().sum::<usize>(), number(&totals["sessions"]));
    let words = list(&totals["decisions"]).iter();
    let words = words.map(|count| {
        (
            count["word"].as_str().unwrap().to_owned(),
            number(&count["count"]),
        )
    });
    Ok(words.collect())
}

/// Reads numbers that stand before words: `3 complete, 1 failed`.
fn counts(text: &str) -> HashMap<String, usize> {
    let pair = Regex::new(r"(\d+) ([a-z-]+)").unwrap();
    let pairs = pair.captures_iter(text);
    pairs
        .map(|found| (found[2].to_owned(), found[1].parse().unwrap()))
        .collect()
}

fn in_text(text: &str, end: &str, report: &Report, words: &HashMap<String, usize>) -> Checked {
    let line = |part: &str| {
        text.split(end)
            .find(|line| line.contains(part))
            .unwrap_or_default()
    };
    let (head, decisions) = line(" tasks: ").split_once(" tasks: ").unwrap_or_default();
    let totals = &report.totals;
    if totals.tasks > 1 {
        prop_assert_eq!(&counts(decisions), words, "{}", text);
        prop_assert!(head.ends_with(&format!(", {}", totals.tasks)), "{}", head);
    }
    if totals.rows.total > 1 {
        let (all, parts) = line(" on record: ")
            .split_once(" tasks on record: ")
            .unwrap();
        let parts: usize = counts(parts).values().sum();
        prop_assert_eq!(all.trim().parse::<usize>().unwrap(), parts, "{}", text);
        prop_assert_eq!(parts, totals.rows.total);
    }
    // Each procedure's line: its tasks, what they are, its rows.
    for procedure in &report.procedures {
        let name = &*procedure.name;
        let blanks = |line: &str| {
            line.replace('|', " ")
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
        };
        let lines = text.lines().map(blanks);
        let wanted = format!("{name} {} ", procedure.scope.unwrap_or("not configured"));
        let line = lines
            .into_iter()
            .find_map(|line| line.strip_prefix(&wanted).map(str::to_owned));
        let line = line.ok_or_else(|| TestCaseError::fail(format!("no {wanted}\n{text}")))?;
        let (tasks, rest) = line.split_once(' ').unwrap();
        let (decisions, rows) = rest.rsplit_once(' ').unwrap();
        prop_assert_eq!(tasks.parse::<usize>().unwrap(), procedure.tasks, "{}", line);
        prop_assert_eq!(
            counts(decisions).values().sum::<usize>(),
            procedure.tasks,
            "{}",
            line
        );
        prop_assert_eq!(
            rows.parse::<usize>().unwrap(),
            procedure.rows.total,
            "{}",
            line
        );
    }
    Ok(())
}

fn in_page(page: &str, report: &Report, words: &HashMap<String, usize>) -> Checked {
    let attributes = |pattern: &str| -> HashMap<String, usize> {
        let pattern = Regex::new(pattern).unwrap();
        let found = pattern.captures_iter(page);
        found
            .map(|found| (found[2].to_owned(), found[1].parse().unwrap()))
            .collect()
    };
    let tiles = attributes(r#"data-count="(\d+)" data-group="([a-z]+)""#);
    let bands = attributes(r#"data-count="(\d+)" data-band="([a-z]+)""#);
    let start = page
        .split_once(r#"<script id="data" type="application/json">"#)
        .unwrap()
        .1;
    let data: Value = serde_json::from_str(start.split_once("</script>").unwrap().0).unwrap();

    // The tiles of tasks are all tasks, each what its words are.
    let mut tasks = 0;
    for (group, named) in list(&data["groups"]).iter().enumerate() {
        let of_group = list(&data["words"]).iter().filter(|word| word[2] == group);
        let expected: usize = of_group
            .filter_map(|word| words.get(word[0].as_str().unwrap()))
            .sum();
        let tile = tiles.get(named[0].as_str().unwrap());
        prop_assert_eq!(tile.copied().unwrap_or(0), expected, "{}", named);
        tasks += expected;
    }
    let totals = &report.totals;
    prop_assert_eq!(tasks, totals.tasks);
    prop_assert_eq!(tiles["sessions"], totals.sessions);
    prop_assert_eq!(
        bands.values().sum::<usize>() + report.health.none,
        totals.sessions
    );

    // Behind the heat map lies the matrix.
    let rows = list(&data["rows"]);
    prop_assert_eq!(rows.len(), report.matrix.sessions.len());
    for (drawn, row) in rows.iter().zip(&report.matrix.sessions) {
        prop_assert_eq!(&drawn[0], &*row.subject);
        for (cell, known) in list(&drawn[4]).iter().zip(&row.cells) {
            let word = cell.get(0).unwrap_or(cell);
            let word = word
                .as_u64()
                .map(|at| &data["words"][usize::try_from(at).unwrap()][0]);
            let known = known.as_ref().map(|cell| Value::from(cell.decision));
            prop_assert_eq!(word, known.as_ref());
        }
    }
    Ok(())
}
