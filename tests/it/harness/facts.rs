//! What the program reports to scripts, in short: tests assert on this, snapshots hold the wording.

use regex::Regex;
use serde_json::Value;

use super::{Said, Study};

impl Said {
    /// A number of the summary of `run`, by its word: `due`, `submitted`, `in doubt`.
    pub fn count(&self, word: &str) -> usize {
        let pattern = format!(r"\btasks?: .*?\b(\d+) {word}\b");
        let pattern = Regex::new(&pattern).unwrap();
        let last = pattern.captures_iter(&self.err).last();
        last.map_or(0, |found| found[1].parse().unwrap())
    }
}

impl Study {
    /// Calls the program, whatever its exit code, and returns the JSON that it prints.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let said = self.call(&[arguments, &["--format", "json"]].concat());
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {}", said.err))
    }

    /// Status and reason of a task (`convert sub-01 ses-01`), as [`Self::statuses`] has them; empty without a row.
    pub fn status(&self, task: &str) -> String {
        let rows = self.statuses();
        let found = rows.iter().find_map(|row| row.strip_prefix(task));
        found.map_or_else(String::new, |rest| rest[2..].to_owned())
    }

    /// Each task's decision in `session-status`, sorted: `convert sub-01 ses-01: due`.
    pub fn decisions(&self) -> Vec<String> {
        let mut list = Vec::new();
        for row in self.json(&["session-status"]).as_array().unwrap() {
            let session = [&row["subject"], &row["session"]].map(|part| part.as_str().unwrap());
            for (procedure, task) in row["procedures"].as_object().unwrap() {
                let decision = task["decision"].as_str().unwrap();
                list.push(format!("{procedure} {}: {decision}", session.join(" ")));
            }
        }
        list.sort();
        list
    }

    /// The events of one kind in the audit log.
    pub fn events(&self, kind: &str) -> Vec<Value> {
        let log = self.read("scheduler_audit.jsonl");
        let events = log
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap());
        events.filter(|event| event["event"] == kind).collect()
    }

    /// What `check` or `state verify` finds wrong: `error journal`, `warning script`.
    pub fn findings(&self, command: &[&str]) -> Vec<String> {
        let found = self.json(command);
        let found = found.as_array().unwrap().iter();
        found
            .filter(|finding| finding["level"] != "ok")
            .map(|finding| {
                let topic = finding.get("topic").unwrap_or(&finding["part"]);
                let word = |value: &Value| value.as_str().unwrap().to_owned();
                format!("{} {}", word(&finding["level"]), word(topic))
            })
            .collect()
    }
}
