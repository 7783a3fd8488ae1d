//! Why an output is complete or not: what each rule found, for people.
//!
//! Uses the probe's own evaluator, and makes it apply every rule instead of stopping at the first one that is not met. This costs more, and is used for `explain` and for single tasks in reports.

mod nearest;

use std::path::Path;

use chrono::{DateTime, Utc};
use rustix::fs::Stat;
use serde::Serialize;

use super::Completion;
use super::probe::{Effort, Outcome, Probe, Rule, Search, SubjectProbe, Task, Watch, apps};
use crate::base::text::plural;
use crate::gather::disk::Unreadable;
use crate::gather::disk::reader::{is_directory, is_regular, modified};
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::procedure::marker::{Marker, Pattern};
use crate::model::procedure::{Check, ProcedureId};

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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    /// The probe's result.
    pub verdict: Completion,
    /// Where outputs are expected.
    pub directory: String,
    /// In the order of evaluation.
    pub required: Vec<Finding>,
    /// Files that must not exist.
    pub forbidden: Vec<Finding>,
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
            most: 1,
            names: 0,
            ..self.explainer(subject)
        }
    }
}

impl Explainer<'_> {
    /// Applies each rule of a task; `session` is [`SessionLabel::none`] for subject scope.
    pub fn findings(&self, procedure: ProcedureId, session: &SessionLabel) -> Findings {
        let task = self.subject.task(procedure, session);
        let effort = Effort {
            most: self.most,
            kept: KEPT,
            wants_age: false,
            is_thorough: true,
        };
        let (mut required, mut forbidden) = (Vec::new(), Vec::new());
        let mut watch = Watch {
            effort,
            report: Some(&mut |rule, outcome, search| {
                let list = match rule {
                    Rule::Forbidden(_) => &mut forbidden,
                    _ => &mut required,
                };
                list.push(self.finding(&task, rule, outcome, search));
            }),
        };
        let verdict = self.subject.evaluate(&task, &mut watch);
        Findings {
            verdict,
            directory: lossy(&task.output),
            required,
            forbidden,
        }
    }

    fn finding(
        &self,
        task: &Task<'_>,
        rule: &Rule<'_>,
        outcome: &Result<Outcome, Unreadable>,
        search: Search<'_>,
    ) -> Finding {
        let is_forbidden = matches!(rule, Rule::Forbidden(_));
        let state = match outcome {
            Err(_) => FindingState::Unreadable,
            Ok(Outcome::Excused) => FindingState::NotNeeded,
            Ok(Outcome::Found) if is_forbidden => FindingState::Forbidden,
            Ok(Outcome::Found) => FindingState::Found,
            Ok(Outcome::Missing) if is_forbidden => FindingState::Absent,
            Ok(Outcome::Missing) => FindingState::Missing,
        };
        let (subject, is_missing) = (&self.subject, state == FindingState::Missing);
        let describe = |path: &Path, marker: Option<&Marker>| {
            let stat = subject.reader().stat(path).ok().flatten();
            Match {
                path: lossy(path),
                size: stat.as_ref().and_then(size),
                modified: stat.as_ref().and_then(modified),
                problem: marker.map(|marker| why_not(marker, stat.as_ref())),
            }
        };
        let matches = search.matches.iter().map(|path| describe(path, None));
        let mut matches: Vec<Match> = matches.collect();
        let mut conditions = Vec::new();
        if let Rule::Marker(marker) = rule {
            conditions = marker.conditions();
            let misses = search.misses.iter().filter(|_| is_missing);
            matches.extend(misses.map(|path| describe(path, Some(marker))));
            matches.truncate(KEPT);
        }
        let rule_name = name(rule, subject, task);
        let nearest = match is_missing && matches.is_empty() {
            true => nearest(subject, task, rule, &rule_name, self.names),
            false => None,
        };
        Finding {
            rule: rule_name,
            conditions,
            state,
            matches,
            count: search.count,
            nearest,
            note: search
                .note
                .or_else(|| note(subject, task, rule, (outcome, search.wanted))),
        }
    }
}

/// The rule's text: a pattern as configured, or the files of a built-in check.
fn name(rule: &Rule<'_>, subject: &SubjectProbe<'_>, task: &Task<'_>) -> String {
    match rule {
        Rule::Anything => ANYTHING.to_owned(),
        Rule::Marker(marker) if task.procedure.check == Check::Qsirecon => {
            let (subject, session) = (subject.subject.as_str(), task.session.as_str());
            marker.pattern.filled(subject, session).as_str().to_owned()
        }
        Rule::Marker(marker) => marker.pattern.as_str().to_owned(),
        Rule::Forbidden(pattern) => pattern.as_str().to_owned(),
        Rule::Images(_) => "anat/*_T1w.nii.gz".to_owned(),
        Rule::Run(run) => format!("{run}/{}", apps::DONE),
        Rule::TimePoints { template, .. } => format!("{template}/{}", apps::TIME_POINTS),
    }
}

/// Why a rule is not met, or the relevant content of its file.
fn note(
    subject: &SubjectProbe<'_>,
    task: &Task<'_>,
    rule: &Rule<'_>,
    (outcome, wanted): (&Result<Outcome, Unreadable>, usize),
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
        (Ok(Outcome::Missing), Rule::Marker(_)) => {
            (wanted > 1).then(|| format!("{wanted} matches are required"))
        }
        (Ok(Outcome::Missing), Rule::Images(_)) => {
            Some(format!("no T1w image below {}", subject.bids().display()))
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
        Rule::Run(_) | Rule::TimePoints { .. } => {
            let pattern = Pattern::parse(name).ok()?;
            nearest::nearest(subject, &subject.top(task), Some(&pattern), names)
        }
    }
}

/// Why a match does not satisfy its marker.
fn why_not(marker: &Marker, stat: Option<&Stat>) -> String {
    let Some(stat) = stat else {
        return "is a dangling link".to_owned();
    };
    let Some(size) = size(stat) else {
        return "is a directory".to_owned();
    };
    if !is_regular(stat) {
        return "is not a regular file".to_owned();
    }
    if size < marker.min_size {
        let least = marker.min_size;
        return match size {
            0 => "is empty".to_owned(),
            _ => format!(
                "has {}, at least {least} are required",
                plural(size as usize, "byte")
            ),
        };
    }
    match (&marker.contains, &marker.not_contains) {
        (Some(wanted), None) => format!("does not contain '{wanted}'"),
        (None, Some(unwanted)) => format!("contains '{unwanted}'"),
        (Some(wanted), Some(unwanted)) => {
            format!("does not contain '{wanted}', or contains '{unwanted}'")
        }
        (None, None) => "does not count".to_owned(),
    }
}

/// `None` for a directory.
fn size(stat: &Stat) -> Option<u64> {
    let size = u64::try_from(stat.st_size).ok();
    size.filter(|_| !is_directory(stat))
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
