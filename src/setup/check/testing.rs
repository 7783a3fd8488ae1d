//! Helpers for the tests of several topics.
#![cfg(test)]

use std::path::Path;

use super::{Finding, Findings, Level};
use crate::config::{Overrides, load::interpret};
use crate::model::config::Config;

/// A configuration, read in an empty environment.
pub fn config(text: &str) -> Config {
    // An empty file is an error.
    let text = if text.is_empty() { "{}" } else { text };
    let (file, none) = (Some(Path::new("/c.yaml")), Overrides::default());
    interpret(
        text.as_bytes(),
        file,
        false,
        &|_| None,
        &none,
        Path::new("/"),
    )
    .unwrap()
}

/// A configuration with one procedure, which has further keys (", key: value").
pub fn procedure(top: &str, keys: &str) -> Config {
    config(&format!(
        "{top}procedures:\n  - {{name: prep, output_dir: prep, script: x.sh, completion_marker: x{keys}}}\n"
    ))
}

/// The findings of a judging function.
pub fn judged(judge: impl FnOnce(&mut Findings)) -> Vec<Finding> {
    let mut findings = Findings::default();
    judge(&mut findings);
    findings.list
}

pub fn ok(topic: &'static str, about: &str, text: &str) -> Finding {
    judged(|out| out.about(topic, about).ok(text)).remove(0)
}

pub fn warning(topic: &'static str, about: &str, text: &str, remedy: &str) -> Finding {
    judged(|out| out.about(topic, about).warning(text, remedy)).remove(0)
}

pub fn error(topic: &'static str, about: &str, text: &str, remedy: &str) -> Finding {
    judged(|out| out.about(topic, about).error(text, remedy)).remove(0)
}

/// Warnings and errors.
pub fn trouble(findings: &[Finding]) -> Vec<&Finding> {
    let findings = findings.iter();
    findings
        .filter(|finding| finding.level != Level::Ok)
        .collect()
}

/// Expects exactly one warning or error.
#[track_caller]
pub fn one(findings: &[Finding], level: Level, part: &str) {
    let found = trouble(findings);
    assert_eq!(found.len(), 1, "{findings:#?}");
    assert_eq!(found[0].level, level, "{found:#?}");
    assert!(found[0].text.contains(part), "{part}: {found:#?}");
    assert!(found[0].remedy.is_some(), "{found:#?}");
}
