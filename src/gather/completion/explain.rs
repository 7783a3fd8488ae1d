//! Why an output counts as complete, or why not: what each rule found, one by one, for people.
//!
//! Looks at every rule, where the probe stops at the first one that is not met, and so costs more: for
//! `explain`, and for the tasks that a report goes into. Its verdict is the probe's.

mod checks;
mod nearest;

use std::path::Path;

use chrono::{DateTime, Utc};
use rustix::fs::Stat;
use serde::Serialize;

use super::find;
use super::probe::{Probe, SubjectProbe, weigh};
use crate::gather::disk::Unreadable;
use crate::gather::disk::listing::Dir;
use crate::gather::disk::reader::{Reader, is_directory, is_regular};
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::procedure::marker::{Marker, Pattern, Required};
use crate::model::procedure::{Check, Procedure, ProcedureId};

pub use nearest::Nearest;

/// Stands for the rule that the output directory is not empty.
pub const ANYTHING: &str = "<not empty>";

/// So many matches of one rule are looked for, if all are asked for.
const MOST: usize = 100;
/// So many of them are kept.
const KEPT: usize = 5;

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
}

impl Probe {
    /// Returns what explains a subject's tasks to somebody who looks at one of them.
    pub fn explainer<'a>(&'a self, subject: &'a SubjectLabel) -> Explainer<'a> {
        Explainer {
            subject: self.subject(subject, false),
            most: MOST,
        }
    }

    /// Returns what explains a subject's tasks for a report on many: one match of a rule will do.
    pub fn brief_explainer<'a>(&'a self, subject: &'a SubjectLabel) -> Explainer<'a> {
        Explainer {
            subject: self.subject(subject, false),
            most: 1,
        }
    }
}

impl Explainer<'_> {
    /// Judges each rule of a task; `session` is [`SessionLabel::none`] for subject scope.
    pub fn findings(&self, procedure: ProcedureId, session: &SessionLabel) -> Findings {
        let Self { subject, most } = self;
        let procedure = subject.probe.procedures().get(procedure);
        let output = subject.output(procedure, session);
        let required = match procedure.check {
            Check::Freesurfer => checks::freesurfer(subject, procedure),
            Check::Qsirecon => checks::qsirecon(subject, procedure, session),
            Check::Markers => match &procedure.completion.required {
                Required::NonEmptyDirectory => vec![directory(subject, *most, &output)],
                Required::Markers(markers) => markers
                    .iter()
                    .map(|marker| required((subject, *most), marker, procedure, session, &output))
                    .collect(),
            },
        };
        let patterns = procedure.completion.forbid.iter();
        let forbidden: Vec<Finding> = patterns
            .map(|pattern| forbidden(subject, *most, pattern, &output))
            .collect();
        Findings {
            verdict: verdict(&required, &forbidden),
            directory: lossy(&output),
            required,
            forbidden,
        }
    }
}

/// Judges as the probe does: the first rule that is surely not met, or that cannot be judged, decides.
fn verdict(required: &[Finding], forbidden: &[Finding]) -> Verdict {
    let decides = |findings: &[Finding]| {
        findings.iter().find_map(|finding| match finding.state {
            FindingState::Missing | FindingState::Forbidden => Some(Verdict::Incomplete),
            FindingState::Unreadable => Some(Verdict::Unreadable),
            FindingState::Found | FindingState::NotNeeded | FindingState::Absent => None,
        })
    };
    let is_excused = |finding: &Finding| finding.state == FindingState::NotNeeded;
    if let Some(verdict) = decides(required) {
        verdict
    } else if required.iter().all(is_excused) {
        Verdict::NotApplicable
    } else {
        decides(forbidden).unwrap_or(Verdict::Complete)
    }
}

fn directory(subject: &SubjectProbe<'_>, most: usize, output: &Path) -> Finding {
    let mut finding = Finding::new(ANYTHING);
    match subject.is_not_empty(output) {
        Err(unreadable) => finding.unread(&unreadable),
        Ok(false) => {
            finding.state = FindingState::Missing;
            finding.nearest = nearest::of_directory(&subject.listings, output);
        }
        Ok(true) => {
            finding.state = FindingState::Found;
            if let Dir::There(listing) = &*subject.listings.get(output) {
                for entry in listing.iter().take(most) {
                    finding.add(subject.reader(), &output.join(entry.name), None);
                }
                finding.count = listing.len();
            }
        }
    }
    finding
}

fn required(
    (subject, most): (&SubjectProbe<'_>, usize),
    marker: &Marker,
    procedure: &Procedure,
    session: &SessionLabel,
    output: &Path,
) -> Finding {
    let mut finding = Finding {
        conditions: conditions(marker),
        ..Finding::new(marker.pattern.as_str())
    };
    match subject.is_excused(marker, procedure, session) {
        Ok(false) => {}
        Ok(true) => {
            finding.state = FindingState::NotNeeded;
            let when = marker.when.as_ref().map_or("", Pattern::as_str);
            let input = subject.input(procedure, session);
            finding.note = Some(format!("nothing matches '{when}' in {}", input.display()));
            return finding;
        }
        Err(unreadable) => {
            finding.unread(&unreadable);
            return finding;
        }
    }
    let reader = subject.reader();
    let mut misses: Vec<Match> = Vec::new();
    let mut visit = |path: &Path, kind| {
        if weigh(reader, marker, path, kind)?.counts() {
            finding.add(reader, path, None);
        } else if misses.len() < KEPT {
            misses.push(describe(reader, path, Some(marker)));
        }
        Ok(finding.count >= most)
    };
    let searched = find::find(&subject.listings, output, &marker.pattern, &mut visit);
    match searched {
        _ if finding.count > 0 => finding.state = FindingState::Found,
        Err(unreadable) => finding.unread(&unreadable),
        Ok(_) => {
            finding.state = FindingState::Missing;
            finding.matches = misses;
            if finding.matches.is_empty() {
                finding.nearest = nearest::of(&subject.listings, output, &marker.pattern);
            }
        }
    }
    finding
}

fn forbidden(subject: &SubjectProbe<'_>, most: usize, pattern: &Pattern, output: &Path) -> Finding {
    let mut finding = Finding::new(pattern.as_str());
    let reader = subject.reader();
    let mut visit = |path: &Path, kind| {
        if find::is_there(reader, path, kind)? {
            finding.add(reader, path, None);
        }
        Ok(finding.count >= most)
    };
    let searched = find::find(&subject.listings, output, pattern, &mut visit);
    match searched {
        _ if finding.count > 0 => finding.state = FindingState::Forbidden,
        Err(unreadable) => finding.unread(&unreadable),
        Ok(_) => finding.state = FindingState::Absent,
    }
    finding
}

impl Finding {
    fn new(rule: &str) -> Self {
        Self {
            rule: rule.to_owned(),
            conditions: Vec::new(),
            state: FindingState::Missing,
            matches: Vec::new(),
            count: 0,
            nearest: None,
            note: None,
        }
    }

    fn add(&mut self, reader: &Reader, path: &Path, marker: Option<&Marker>) {
        self.count += 1;
        if self.matches.len() < KEPT {
            self.matches.push(describe(reader, path, marker));
        }
    }

    fn unread(&mut self, unreadable: &Unreadable) {
        self.state = FindingState::Unreadable;
        self.matches.clear();
        let path = unreadable.path.display();
        self.note = Some(format!("{path}: {}", unreadable.error));
    }
}

/// Says what a match must be. `min_size` 1 is what a glob asks for by itself.
fn conditions(marker: &Marker) -> Vec<String> {
    let size = match marker.min_size {
        0 => None,
        1 => Some("not empty".to_owned()),
        size => Some(format!("{size} bytes at least")),
    };
    let text = |word: &str, text: &Option<String>| {
        let text = text.as_deref()?;
        Some(format!("{word} '{text}'"))
    };
    [
        size,
        text("holds", &marker.contains),
        text("does not hold", &marker.not_contains),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Describes a match. `marker`: the one for which it does not count.
fn describe(reader: &Reader, path: &Path, marker: Option<&Marker>) -> Match {
    let stat = reader.stat(path).ok().flatten();
    let size = stat
        .as_ref()
        .filter(|stat| !is_directory(stat))
        .and_then(|stat| u64::try_from(stat.st_size).ok());
    Match {
        path: lossy(path),
        size,
        modified: stat.as_ref().and_then(modified),
        problem: marker.map(|marker| problem(marker, stat.as_ref(), size)),
    }
}

fn problem(marker: &Marker, stat: Option<&Stat>, size: Option<u64>) -> String {
    if stat.is_none() {
        return "is a link that leads nowhere".to_owned();
    }
    let Some(size) = size else {
        return "is a directory".to_owned();
    };
    if !stat.is_some_and(is_regular) {
        return "is no regular file".to_owned();
    }
    if size < marker.min_size {
        return match (size, marker.min_size) {
            (0, _) => "is empty".to_owned(),
            (_, least) => format!("has {size} bytes, {least} are needed"),
        };
    }
    match (&marker.contains, &marker.not_contains) {
        (Some(wanted), None) => format!("does not hold '{wanted}'"),
        (None, Some(unwanted)) => format!("holds '{unwanted}'"),
        (Some(wanted), Some(unwanted)) => {
            format!("does not hold '{wanted}', or holds '{unwanted}'")
        }
        (None, None) => "does not count".to_owned(),
    }
}

fn modified(stat: &Stat) -> Option<DateTime<Utc>> {
    let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    DateTime::from_timestamp(stat.st_mtime, nanoseconds)
}

fn lossy(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
