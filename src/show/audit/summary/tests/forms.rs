//! All formats of a report show the same numbers: table, Markdown, JSON, and the page's tiles and data.

use std::collections::HashMap;

use proptest::prelude::*;
use regex::Regex;
use serde_json::Value;

use crate::show::audit::Report;
use crate::show::audit::html::render;
use crate::show::audit::testing::unpacked;
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

/// The number of tasks by decision word in the JSON.
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

/// Reads numbers in front of words: `3 complete, 1 failed`.
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
    let data = unpacked(page, "id=\"data\"");

    // The tiles of tasks are all tasks, each what its words are.
    let mut expected: HashMap<String, usize> = HashMap::new();
    for (word, count) in words {
        let group = data["words"][word][1].as_str().unwrap();
        *expected.entry(group.to_owned()).or_default() += count;
    }
    let tasks = expected.values().sum::<usize>();
    for (group, count) in expected {
        prop_assert_eq!(tiles.get(&group).copied().unwrap_or(0), count, "{}", group);
    }
    let totals = &report.totals;
    prop_assert_eq!(tasks, totals.tasks);
    prop_assert_eq!(tiles["sessions"], totals.sessions);
    prop_assert_eq!(
        bands.values().sum::<usize>() + report.health.none,
        totals.sessions
    );

    // Behind the heat map lies the matrix.
    prop_assert_eq!(&data["matrix"], &serde_json::json!(report.matrix));
    Ok(())
}
