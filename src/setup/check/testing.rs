//! What the tests of several topics need.
#![cfg(test)]

use std::path::Path;

use super::{Finding, Findings, Level};
use crate::config::{Overrides, load::interpret};
use crate::model::config::Config;

/// Reads a configuration in an empty environment.
pub fn config(text: &str) -> Config {
    // Nothing at all is an error.
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

/// Returns what a judge finds.
pub fn judged(judge: impl FnOnce(&mut Findings)) -> Vec<Finding> {
    let mut findings = Findings::default();
    judge(&mut findings);
    findings.list
}

pub fn ok(topic: &'static str, about: &str, text: &str) -> Finding {
    judged(|out| out.about(topic, about).ok(text)).remove(0)
}

pub fn warning(topic: &'static str, about: &str, text: &str, advice: &str) -> Finding {
    judged(|out| out.about(topic, about).warning(text, advice)).remove(0)
}

pub fn error(topic: &'static str, about: &str, text: &str, advice: &str) -> Finding {
    judged(|out| out.about(topic, about).error(text, advice)).remove(0)
}

/// Returns what is not in order.
pub fn trouble(findings: &[Finding]) -> Vec<&Finding> {
    let told = findings.iter();
    told.filter(|finding| finding.level != Level::Ok).collect()
}

/// Expects one trouble and nothing else of its kind.
#[track_caller]
pub fn one(findings: &[Finding], level: Level, part: &str) {
    let told = trouble(findings);
    assert_eq!(told.len(), 1, "{findings:#?}");
    assert_eq!(told[0].level, level, "{told:#?}");
    assert!(told[0].text.contains(part), "{part}: {told:#?}");
    assert!(told[0].advice.is_some(), "{told:#?}");
}
