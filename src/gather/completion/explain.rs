//! Why an output counts as complete, or why not: what each rule found, one by one, for people.
//!
//! Listens to the probe's own evaluator, and has it look at every rule where it would stop at the first one that is not
//! met. This costs more: it is for `explain`, and for the tasks that a report goes into.

mod nearest;
mod notes;

use std::path::Path;

use chrono::{DateTime, Utc};
use rustix::fs::Stat;
use serde::Serialize;

use super::Completion;
use super::probe::{
    Observer, Outcome, Probe, Rule, SubjectProbe, Task, freesurfer, modified, qsirecon, size,
    why_not,
};
use crate::gather::disk::Unreadable;
use crate::gather::disk::reader::Reader;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::procedure::ProcedureId;
use crate::model::procedure::marker::{Marker, Pattern};

pub use nearest::Nearest;

/// Stands for the rule that the output directory is not empty.
pub const ANYTHING: &str = "<not empty>";

/// So many matches of one rule are looked for, if all are asked for.
const MOST: usize = 100;
/// So many of them are kept.
const KEPT: usize = 5;
/// So many names of a directory are shown.
const NAMES: usize = 4;

/// Holds what the rules of one task found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Findings {
    pub verdict: Verdict,
    /// Where outputs are expected.
    pub directory: String,
    /// In the order in which they are judged.
    pub required: Vec<Finding>,
    /// What must not be there.
    pub forbidden: Vec<Finding>,
}

/// Is the answer of all rules together, the probe's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Complete,
    Incomplete,
    NotApplicable,
    Unreadable,
}

/// Holds what one rule found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The pattern as configured, `<not empty>` for the directory itself, or the file of a built-in check.
    pub rule: String,
    /// What a match must be beside its name: `not empty`, `holds 'done'`.
    pub conditions: Vec<String>,
    pub state: FindingState,
    /// Some of the matches.
    pub matches: Vec<Match>,
    /// How many there are, as far as they were looked for.
    pub count: usize,
    /// Of a rule that found nothing: how far it came.
    pub nearest: Option<Nearest>,
    pub note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingState {
    Found,
    Missing,
    /// Nothing matches the rule's `when`.
    NotNeeded,
    /// A file that must not be there is there.
    Forbidden,
    /// A file that must not be there is not.
    Absent,
    Unreadable,
}

/// Describes a file or directory that matches a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Match {
    pub path: String,
    /// Bytes; none for directories.
    pub size: Option<u64>,
    pub modified: Option<DateTime<Utc>>,
    /// Why it does not count.
    pub problem: Option<String>,
}

/// Explains one subject's tasks; reads nothing twice.
pub struct Explainer<'a> {
    subject: SubjectProbe<'a>,
    /// So many matches of one rule are looked for.
    most: usize,
    /// So many names in the directory of one that is not met are.
    names: usize,
}

impl Probe {
    /// Returns what explains a subject's tasks to somebody who looks at one of them.
    pub fn explainer<'a>(&'a self, subject: &'a SubjectLabel) -> Explainer<'a> {
        Explainer {
            subject: self.subject(subject, false),
            most: MOST,
            names: NAMES,
        }
    }

    /// Returns what explains a subject's tasks for a report on many: one match of a rule will do, and no names.
    pub fn brief_explainer<'a>(&'a self, subject: &'a SubjectLabel) -> Explainer<'a> {
        Explainer {
            subject: self.subject(subject, false),
            most: 1,
            names: 0,
        }
    }
}

impl Explainer<'_> {
    /// Judges each rule of a task; `session` is [`SessionLabel::none`] for subject scope.
    pub fn findings(&self, procedure: ProcedureId, session: &SessionLabel) -> Findings {
        let task = self.subject.task(procedure, session);
        let mut collector = Collector {
            most: self.most,
            names: self.names,
            required: Vec::new(),
            forbidden: Vec::new(),
            finding: Finding::new(String::new()),
            misses: Vec::new(),
        };
        let verdict = match self.subject.judge(&task, &mut collector) {
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

/// Writes down what each rule finds.
struct Collector {
    most: usize,
    names: usize,
    required: Vec<Finding>,
    forbidden: Vec<Finding>,
    /// Of the rule that is being looked at.
    finding: Finding,
    /// What matches it and does not count.
    misses: Vec<Match>,
}

impl Observer for Collector {
    fn begin(&mut self, _: &Rule<'_>) {
        self.finding = Finding::new(String::new());
        self.misses.clear();
    }

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
        Ok(self.finding.count >= self.most)
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
            ..std::mem::replace(&mut self.finding, Finding::new(String::new()))
        };
        let is_forbidden = matches!(rule, Rule::Forbidden(_));
        finding.state = match outcome {
            Err(_) => FindingState::Unreadable,
            Ok(Outcome::Excused) => FindingState::NotNeeded,
            Ok(Outcome::Found) if is_forbidden => FindingState::Forbidden,
            Ok(Outcome::Found) => FindingState::Found,
            Ok(Outcome::Missing) if is_forbidden => FindingState::Absent,
            Ok(Outcome::Missing) => FindingState::Missing,
        };
        finding.note = notes::note(subject, task, rule, outcome);
        if finding.state == FindingState::Missing {
            finding.matches.append(&mut self.misses);
            finding.matches.truncate(KEPT);
            if finding.matches.is_empty() {
                finding.nearest = nearest(subject, task, rule, &finding.rule, self.names);
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

/// The rule in words: a pattern as configured, or the files of a built-in check.
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

/// Says how far the way to what is missing leads.
fn nearest(
    subject: &SubjectProbe<'_>,
    task: &Task<'_>,
    rule: &Rule<'_>,
    name: &str,
    names: usize,
) -> Option<Nearest> {
    match rule {
        Rule::Anything => nearest::of_directory(subject, &task.output, names),
        Rule::Marker(marker) => {
            let session = task.session.as_str();
            let pattern = marker.pattern.filled(subject.subject.as_str(), session);
            let base = subject.base(task, marker.base);
            nearest::of(
                subject,
                base.as_deref().unwrap_or(&task.output),
                &pattern,
                names,
            )
        }
        Rule::Images(_) | Rule::Forbidden(_) => None,
        Rule::Run(_) | Rule::TimePoints { .. } | Rule::Report(_) => {
            let pattern = Pattern::parse(name).ok()?;
            nearest::of(subject, &subject.top(task), &pattern, names)
        }
    }
}

impl Finding {
    fn new(rule: String) -> Self {
        Self {
            rule,
            conditions: Vec::new(),
            state: FindingState::Missing,
            matches: Vec::new(),
            count: 0,
            nearest: None,
            note: None,
        }
    }
}

/// Describes a match. `marker`: the one for which it does not count.
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
