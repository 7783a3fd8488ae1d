//! Why an output is complete or not: what each rule found, for people.
//!
//! Observes the probe's own evaluator, and makes it apply every rule instead of stopping at the first one that is not
//! met. This costs more, and is used for `explain` and for single tasks in reports.

mod nearest;

use std::path::Path;

use chrono::{DateTime, Utc};
use rustix::fs::Stat;
use serde::Serialize;

use super::Completion;
use super::probe::{
    Observer, Outcome, Probe, Rule, SubjectProbe, Task, freesurfer, qsirecon, size, why_not,
};
use crate::gather::disk::Unreadable;
use crate::gather::disk::reader::{Reader, modified};
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::procedure::ProcedureId;
use crate::model::procedure::marker::{Marker, Pattern};

pub use nearest::Nearest;

/// The name of the rule that the output directory is not empty.
pub const ANYTHING: &str = "<not empty>";

/// At most this many matches of one rule are counted.
const MOST: usize = 100;
/// At most this many of them are kept.
const KEPT: usize = 5;
/// The number of names of a directory that are shown.
const NAMES: usize = 4;

/// The results of one task's rules.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Findings {
    pub verdict: Verdict,
    /// Where outputs are expected.
    pub directory: String,
    /// In the order of evaluation.
    pub required: Vec<Finding>,
    /// Files that must not exist.
    pub forbidden: Vec<Finding>,
}

/// The result of all rules together, equal to the probe's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Complete,
    Incomplete,
    NotApplicable,
    Unreadable,
}

/// The result of one rule.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The pattern as configured, `<not empty>` for the directory itself, or the file of a built-in check.
    pub rule: String,
    /// Further conditions on a match: `not empty`, `holds 'done'`.
    pub conditions: Vec<String>,
    pub state: FindingState,
    /// Some of the matches.
    pub matches: Vec<Match>,
    /// The number of matches, as far as they were counted.
    pub count: usize,
    /// For a rule without any match.
    pub nearest: Option<Nearest>,
    pub note: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingState {
    Found,
    #[default]
    Missing,
    /// Nothing matches the rule's `when`.
    NotNeeded,
    /// A forbidden file exists.
    Forbidden,
    /// No forbidden file exists.
    Absent,
    Unreadable,
}

/// A file or directory that matches a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Match {
    pub path: String,
    /// In bytes; `None` for directories.
    pub size: Option<u64>,
    pub modified: Option<DateTime<Utc>>,
    /// Why it does not count.
    pub problem: Option<String>,
}

/// Explains one subject's tasks; reads each file only once.
pub struct Explainer<'a> {
    subject: SubjectProbe<'a>,
    /// At most this many matches of one rule are counted.
    most: usize,
    /// The number of similar names that are listed for a missing match.
    names: usize,
}

impl Probe {
    /// For a person who examines a single task.
    pub fn explainer<'a>(&'a self, subject: &'a SubjectLabel) -> Explainer<'a> {
        Explainer {
            subject: self.subject(subject, false),
            most: MOST,
            names: NAMES,
        }
    }

    /// For a report on many tasks: only one match of each rule, and no similar names.
    pub fn brief_explainer<'a>(&'a self, subject: &'a SubjectLabel) -> Explainer<'a> {
        Explainer {
            subject: self.subject(subject, false),
            most: 1,
            names: 0,
        }
    }
}

impl Explainer<'_> {
    /// Applies each rule of a task; `session` is [`SessionLabel::none`] for subject scope.
    pub fn findings(&self, procedure: ProcedureId, session: &SessionLabel) -> Findings {
        let task = self.subject.task(procedure, session);
        let mut collector = Collector {
            explainer: self,
            required: Vec::new(),
            forbidden: Vec::new(),
            finding: Finding::default(),
            misses: Vec::new(),
        };
        let verdict = match self.subject.evaluate(&task, &mut collector) {
            Completion::Complete => Verdict::Complete,
            Completion::Incomplete => Verdict::Incomplete,
            Completion::NotApplicable => Verdict::NotApplicable,
            Completion::Unreadable(_) => Verdict::Unreadable,
        };
        Findings {
            verdict,
            directory: lossy(&task.output),
            required: collector.required,
            forbidden: collector.forbidden,
        }
    }
}

/// Collects what each rule finds.
struct Collector<'a> {
    explainer: &'a Explainer<'a>,
    required: Vec<Finding>,
    forbidden: Vec<Finding>,
    /// The finding of the current rule.
    finding: Finding,
    /// The current rule's matches that do not count.
    misses: Vec<Match>,
}

impl Observer for Collector<'_> {
    fn matched(
        &mut self,
        reader: &Reader,
        path: &Path,
        _: Option<&Stat>,
    ) -> Result<bool, Unreadable> {
        self.finding.count += 1;
        if self.finding.matches.len() < KEPT {
            self.finding.matches.push(describe(reader, path, None));
        }
        Ok(self.finding.count >= self.explainer.most)
    }

    fn missed(&mut self, reader: &Reader, rule: &Rule<'_>, path: &Path) {
        if let Rule::Marker(marker) = rule
            && self.misses.len() < KEPT
        {
            self.misses.push(describe(reader, path, Some(marker)));
        }
    }

    fn end(
        &mut self,
        subject: &SubjectProbe<'_>,
        task: &Task<'_>,
        rule: &Rule<'_>,
        outcome: &Result<Outcome, Unreadable>,
    ) {
        let mut finding = Finding {
            rule: name(rule, subject, task),
            conditions: match rule {
                Rule::Marker(marker) => marker.conditions(),
                _ => Vec::new(),
            },
            ..std::mem::take(&mut self.finding)
        };
        let mut misses = std::mem::take(&mut self.misses);
        let is_forbidden = matches!(rule, Rule::Forbidden(_));
        finding.state = match outcome {
            Err(_) => FindingState::Unreadable,
            Ok(Outcome::Excused) => FindingState::NotNeeded,
            Ok(Outcome::Found) if is_forbidden => FindingState::Forbidden,
            Ok(Outcome::Found) => FindingState::Found,
            Ok(Outcome::Missing) if is_forbidden => FindingState::Absent,
            Ok(Outcome::Missing) => FindingState::Missing,
        };
        finding.note = note(subject, task, rule, outcome);
        if finding.state == FindingState::Missing {
            finding.matches.append(&mut misses);
            finding.matches.truncate(KEPT);
            if finding.matches.is_empty() {
                finding.nearest = nearest(subject, task, rule, &finding.rule, self.explainer.names);
            }
        }
        match is_forbidden {
            true => self.forbidden.push(finding),
            false => self.required.push(finding),
        }
    }

    fn is_thorough(&self) -> bool {
        true
    }
}

/// The rule's text: a pattern as configured, or the files of a built-in check.
fn name(rule: &Rule<'_>, subject: &SubjectProbe<'_>, task: &Task<'_>) -> String {
    match rule {
        Rule::Anything => ANYTHING.to_owned(),
        Rule::Marker(marker) => marker.pattern.as_str().to_owned(),
        Rule::Forbidden(pattern) => pattern.as_str().to_owned(),
        Rule::Images(_) => "anat/*_T1w.nii.gz".to_owned(),
        Rule::Run(run) => format!("{run}/{}", freesurfer::DONE),
        Rule::TimePoints { template, .. } => format!("{template}/{}", freesurfer::TIME_POINTS),
        Rule::Report(suffix) => {
            let html = qsirecon::html_name(subject, task.session);
            match suffix {
                Some(suffix) => format!("derivatives/qsirecon-{suffix}/{html}"),
                None => format!("derivatives/*/{html}"),
            }
        }
    }
}

/// Why a rule is not met, or the relevant content of its file.
fn note(
    subject: &SubjectProbe<'_>,
    task: &Task<'_>,
    rule: &Rule<'_>,
    outcome: &Result<Outcome, Unreadable>,
) -> Option<String> {
    match (outcome, rule) {
        (Err(unreadable), _) => {
            let path = unreadable.path.display();
            Some(format!("{path}: {}", unreadable.error))
        }
        (Ok(Outcome::Excused), Rule::Marker(marker)) => {
            let when: Vec<&str> = marker.when.iter().map(Pattern::as_str).collect();
            let when = when.join("' or '");
            let input = subject.input(task);
            Some(format!("nothing matches '{when}' in {}", input.display()))
        }
        (Ok(Outcome::Missing), Rule::Marker(marker)) => {
            let needed = subject.needed(marker, task).ok()?;
            (needed > 1).then(|| format!("{needed} matches are required"))
        }
        (Ok(Outcome::Missing), Rule::Images(_)) => {
            Some(format!("no T1w image below {}", subject.bids().display()))
        }
        (Ok(Outcome::Missing), Rule::Run(run)) => {
            let path = subject.top(task).join(run).join(freesurfer::DONE);
            let text = subject.reader().head(&path, freesurfer::HEAD, true);
            let text = text.ok()??;
            let text = String::from_utf8_lossy(&text);
            Some(match text.lines().next().unwrap_or_default().trim() {
                "" => "it is empty".to_owned(),
                line => format!("recon-all ended with exit code {line}"),
            })
        }
        (Ok(Outcome::Missing), Rule::TimePoints { template, runs }) => {
            let path = subject.top(task).join(template);
            let path = path.join(freesurfer::TIME_POINTS);
            let text = subject
                .reader()
                .head(&path, freesurfer::HEAD, false)
                .ok()??;
            let text = String::from_utf8_lossy(&text);
            let named: Vec<&str> = text.split_whitespace().collect();
            let missing = runs.iter().filter(|run| !named.contains(&run.as_str()));
            let missing: Vec<&str> = missing.map(String::as_str).collect();
            let missing = missing.join(", ");
            Some(format!("the template was made without {missing}"))
        }
        _ => None,
    }
}

fn nearest(
    subject: &SubjectProbe<'_>,
    task: &Task<'_>,
    rule: &Rule<'_>,
    name: &str,
    names: usize,
) -> Option<Nearest> {
    match rule {
        Rule::Anything => nearest::nearest(subject, &task.output, None, names),
        Rule::Marker(marker) => {
            let session = task.session.as_str();
            let pattern = marker.pattern.filled(subject.subject.as_str(), session);
            let base = subject.base(task, marker.base);
            let base = base.as_ref().unwrap_or(&task.output);
            nearest::nearest(subject, base, Some(&pattern), names)
        }
        Rule::Images(_) | Rule::Forbidden(_) => None,
        Rule::Run(_) | Rule::TimePoints { .. } | Rule::Report(_) => {
            let pattern = Pattern::parse(name).ok()?;
            nearest::nearest(subject, &subject.top(task), Some(&pattern), names)
        }
    }
}

/// `marker` is given for a match that does not count for it.
fn describe(reader: &Reader, path: &Path, marker: Option<&Marker>) -> Match {
    let stat = reader.stat(path).ok().flatten();
    let size = stat.as_ref().and_then(size);
    Match {
        path: lossy(path),
        size,
        modified: stat.as_ref().and_then(modified),
        problem: marker.map(|marker| why_not(marker, stat.as_ref())),
    }
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
