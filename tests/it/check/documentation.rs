//! What the documentation says of `check` and of error texts is what the program says.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

#[test]
fn topics_of_program_schema_and_documentation_are_the_same() {
    let topics: BTreeSet<&str> = snbb_scheduler::setup::check::TOPICS.split(' ').collect();
    let schema: Value =
        serde_json::from_str(include_str!("../../../docs/schema/check.schema.json")).unwrap();
    let values = schema["items"]["properties"]["topic"]["enum"]
        .as_array()
        .unwrap();
    let listed: BTreeSet<&str> = values.iter().filter_map(Value::as_str).collect();
    assert_eq!(listed, topics);
    let levels = schema["items"]["properties"]["level"]["enum"]
        .as_array()
        .unwrap();
    let levels: Vec<&str> = levels.iter().filter_map(Value::as_str).collect();
    assert_eq!(
        levels,
        snbb_scheduler::setup::check::Level::ALL.map(|level| level.as_str())
    );
    for page in [
        include_str!("../../../docs/output.md"),
        include_str!("../../../docs/troubleshooting.md"),
    ] {
        for topic in &topics {
            assert!(page.contains(&format!("`{topic}`")), "{topic}");
        }
    }
}

/// Each error text that the page quotes occurs in the program.
#[test]
fn error_texts_of_the_documentation_are_the_programs_own() {
    let source: String = walkdir::WalkDir::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"))
        .into_iter()
        .map(Result::unwrap)
        .filter(|entry| entry.path().extension().is_some_and(|end| end == "rs"))
        .map(|entry| fs::read_to_string(entry.path()).unwrap())
        .collect();
    // A literal may go over several lines.
    let source = regex::Regex::new(r"\\\n\s*")
        .unwrap()
        .replace_all(&source, "");
    let page = include_str!("../../../docs/troubleshooting.md");
    let mut count = 0;
    let mut missing = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let text = line.trim_start_matches("| `").split('`').next().unwrap();
        // What is filled in stands as `...`.
        for part in text
            .split("...")
            .map(str::trim)
            .filter(|part| part.len() > 2)
        {
            count += 1;
            if !source.contains(part) {
                missing.push(part.to_owned());
            }
        }
    }
    assert_eq!(missing, [] as [String; 0]);
    assert!(count > 60, "{count}");
}
