//! The evaluator: applies rules in order until one decides.

use std::collections::HashSet;
use std::path::Path;

use super::rule::{Observer, Outcome, Rule, Search};
use super::size_rule::{Checked, check_file};
use super::{SubjectProbe, Task, freesurfer, qsirecon};
use crate::gather::completion::{Completion, find};
use crate::gather::disk::Unreadable;
use crate::gather::disk::cached::SharedListings;
use crate::gather::disk::listing::{Dir, EntryKind};
use crate::model::procedure::Check;
use crate::model::procedure::marker::{Count, Marker, Pattern, Required};

impl SubjectProbe<'_> {
    pub(crate) fn evaluate(&self, task: &Task<'_>, observer: &mut dyn Observer) -> Completion {
        let required = self.evaluate_required(task, observer);
        if required != Completion::Complete && !observer.is_thorough() {
            return required;
        }
        let forbidden = self.evaluate_forbidden(task, observer);
        match required {
            Completion::Complete => forbidden,
            decided => decided,
        }
    }

    /// Applies the rules for files that must exist.
    pub(super) fn evaluate_required(
        &self,
        task: &Task<'_>,
        observer: &mut dyn Observer,
    ) -> Completion {
        let mut decided = None;
        let mut all_excused = true;
        let mut apply = |rule: Rule<'_>| {
            let outcome = self.apply(task, &rule, observer);
            all_excused &= outcome == Ok(Outcome::Excused);
            decided = decided.take().or_else(|| match outcome {
                Ok(Outcome::Found | Outcome::Excused) => None,
                Ok(Outcome::Missing) => Some(Completion::Incomplete),
                Err(unreadable) => Some(Completion::Unreadable(Box::new(unreadable))),
            });
            decided.is_none() || observer.is_thorough()
        };
        match (task.procedure.check, &task.procedure.completion.required) {
            (Check::Freesurfer, _) => freesurfer::rules(self, &mut apply),
            (Check::Qsirecon, _) => qsirecon::rules(self, &mut apply),
            (Check::Markers, Required::NonEmptyDirectory) => {
                apply(Rule::Anything);
            }
            (Check::Markers, Required::Markers(markers)) => {
                markers.iter().all(|marker| apply(Rule::Marker(marker)));
            }
        }
        decided.unwrap_or(match all_excused {
            true => Completion::NotApplicable,
            false => Completion::Complete,
        })
    }

    /// Applies the rules for files that must not exist (crash files).
    pub(super) fn evaluate_forbidden(
        &self,
        task: &Task<'_>,
        observer: &mut dyn Observer,
    ) -> Completion {
        let mut decided = None;
        for pattern in &task.procedure.completion.forbid {
            let outcome = self.apply(task, &Rule::Forbidden(pattern), observer);
            decided = decided.or(match outcome {
                Ok(Outcome::Found) => Some(Completion::Incomplete),
                Ok(Outcome::Missing | Outcome::Excused) => None,
                Err(unreadable) => Some(Completion::Unreadable(Box::new(unreadable))),
            });
            if decided.is_some() && !observer.is_thorough() {
                break;
            }
        }
        decided.unwrap_or(Completion::Complete)
    }

    fn apply(
        &self,
        task: &Task<'_>,
        rule: &Rule<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Unreadable> {
        let search = Search::new(observer, self.reader());
        let outcome = match rule {
            Rule::Anything => self.anything(&task.output, search),
            Rule::Marker(marker) => self.marker(task, rule, marker, search),
            Rule::Forbidden(pattern) => {
                let check = |path: &Path, kind| {
                    Ok(match find::is_there(self.reader(), path, kind)? {
                        true => Checked::Counts(None),
                        false => Checked::Rejected,
                    })
                };
                let pattern = pattern.filled(self.subject.as_str(), task.session.as_str());
                self.search((&task.output, None), &pattern, rule, search, check)
            }
            Rule::Images(None) => Ok(Outcome::Missing),
            Rule::Images(Some(unreadable)) => Err(unreadable.clone()),
            Rule::Run(run) => freesurfer::run(self, task, run, search),
            Rule::TimePoints { template, runs } => {
                freesurfer::time_points(self, task, template, runs, search)
            }
            Rule::Report(suffix) => qsirecon::report(self, task, *suffix, search),
        };
        if let Err(unreadable) = &outcome {
            observer.unread(unreadable);
        }
        observer.end(self, task, rule, &outcome);
        outcome
    }

    fn anything(&self, output: &Path, mut search: Search<'_>) -> Result<Outcome, Unreadable> {
        match &*self.listings.get(output) {
            Dir::There(listing) => {
                for entry in listing.iter() {
                    let path = output.join(entry.name);
                    match find::is_there(self.reader(), &path, entry.kind) {
                        Ok(true) if search.matched(&path, None) => break,
                        Ok(_) => {}
                        Err(unreadable) => search.unread(unreadable),
                    }
                }
            }
            Dir::Absent => {}
            Dir::Failed(unreadable) => search.unread(unreadable.clone()),
        }
        search.outcome()
    }

    fn marker(
        &self,
        task: &Task<'_>,
        rule: &Rule<'_>,
        marker: &Marker,
        mut search: Search<'_>,
    ) -> Result<Outcome, Unreadable> {
        if self.is_excused(marker, task)? {
            return Ok(Outcome::Excused);
        }
        search.wants(self.needed(marker, task)?);
        let check = |path: &Path, kind| check_file(self.reader(), marker, path, kind);
        let (subject, session) = (self.subject.as_str(), task.session.as_str());
        let pattern = marker.pattern.filled(subject, session);
        let base = self.base(task, marker.base);
        let shared = base.as_ref().map(|_| &self.probe.shared);
        let base = base.as_ref().unwrap_or(&task.output);
        self.search((base, shared), &pattern, rule, search, check)
    }

    /// The number of matches that a marker requires.
    pub(crate) fn needed(&self, marker: &Marker, task: &Task<'_>) -> Result<usize, Unreadable> {
        let mut inputs = HashSet::new();
        let counted = marker.when.iter();
        for when in counted.filter(|_| marker.count == Some(Count::Input)) {
            let when = when.filled(self.subject.as_str(), task.session.as_str());
            let mut count = |path: &Path, kind| {
                if find::is_there(self.reader(), path, kind)? {
                    inputs.insert(path.to_owned());
                }
                Ok(false)
            };
            find::find((&self.listings, None), &self.input(task), &when, &mut count)?;
        }
        Ok(marker.min_count.max(inputs.len()))
    }

    fn search(
        &self,
        (base, shared): (&Path, Option<&SharedListings>),
        pattern: &Pattern,
        rule: &Rule<'_>,
        mut search: Search<'_>,
        check: impl Fn(&Path, EntryKind) -> Result<Checked, Unreadable>,
    ) -> Result<Outcome, Unreadable> {
        let mut visit = |path: &Path, kind| {
            Ok(match check(path, kind)? {
                Checked::Counts(stat) => search.matched(path, stat.as_ref()),
                Checked::Rejected => {
                    search.missed(rule, path);
                    false
                }
            })
        };
        let listings = (&self.listings, shared);
        if let Err(unreadable) = find::find(listings, base, pattern, &mut visit) {
            search.unread(unreadable);
        }
        search.outcome()
    }

    /// True if nothing matches the marker's `when`. If the input directory does not exist or is empty, like a mount
    /// point without its file system, its future content is unknown, so the marker is required.
    fn is_excused(&self, marker: &Marker, task: &Task<'_>) -> Result<bool, Unreadable> {
        if marker.when.is_empty() {
            return Ok(false);
        }
        let input = self.input(task);
        let mut visit = |path: &Path, kind| find::is_there(self.reader(), path, kind);
        for when in &marker.when {
            let when = when.filled(self.subject.as_str(), task.session.as_str());
            if find::find((&self.listings, None), &input, &when, &mut visit)? {
                return Ok(false);
            }
        }
        match &*self.listings.get(&input) {
            Dir::There(listing) => Ok(!listing.is_empty()),
            Dir::Absent => Ok(false),
            Dir::Failed(unreadable) => Err(unreadable.clone()),
        }
    }
}
