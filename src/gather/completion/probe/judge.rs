//! The one evaluator: rule by rule, in their order, until one decides.

use std::collections::HashSet;
use std::path::Path;

use super::rule::{Observer, Outcome, Rule, Search};
use super::size_rule::{Weight, size_rule};
use super::{SubjectProbe, Task, freesurfer, qsirecon};
use crate::gather::completion::{Completion, find};
use crate::gather::disk::Unreadable;
use crate::gather::disk::cached::SharedListings;
use crate::gather::disk::listing::{Dir, Kind};
use crate::model::procedure::Check;
use crate::model::procedure::marker::{Count, Marker, Pattern, Required};

impl SubjectProbe<'_> {
    pub(crate) fn judge(&self, task: &Task<'_>, observer: &mut dyn Observer) -> Completion {
        let required = self.judge_required(task, observer);
        if required != Completion::Complete && !observer.is_thorough() {
            return required;
        }
        let forbidden = self.judge_forbidden(task, observer);
        match required {
            Completion::Complete => forbidden,
            decided => decided,
        }
    }

    /// Judges what must be there.
    pub(super) fn judge_required(
        &self,
        task: &Task<'_>,
        observer: &mut dyn Observer,
    ) -> Completion {
        let mut decided = None;
        let mut all_excused = true;
        let mut look = |rule: Rule<'_>| {
            let outcome = self.look(task, &rule, observer);
            all_excused &= outcome == Ok(Outcome::Excused);
            decided = decided.take().or_else(|| match outcome {
                Ok(Outcome::Found | Outcome::Excused) => None,
                Ok(Outcome::Missing) => Some(Completion::Incomplete),
                Err(unreadable) => Some(Completion::Unreadable(Box::new(unreadable))),
            });
            decided.is_none() || observer.is_thorough()
        };
        match (task.procedure.check, &task.procedure.completion.required) {
            (Check::Freesurfer, _) => freesurfer::rules(self, &mut look),
            (Check::Qsirecon, _) => qsirecon::rules(self, &mut look),
            (Check::Markers, Required::NonEmptyDirectory) => {
                look(Rule::Anything);
            }
            (Check::Markers, Required::Markers(markers)) => {
                markers.iter().all(|marker| look(Rule::Marker(marker)));
            }
        }
        decided.unwrap_or(match all_excused {
            true => Completion::NotApplicable,
            false => Completion::Complete,
        })
    }

    /// Judges what must not be there (crash files).
    pub(super) fn judge_forbidden(
        &self,
        task: &Task<'_>,
        observer: &mut dyn Observer,
    ) -> Completion {
        let mut decided = None;
        for pattern in &task.procedure.completion.forbid {
            let outcome = self.look(task, &Rule::Forbidden(pattern), observer);
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

    fn look(
        &self,
        task: &Task<'_>,
        rule: &Rule<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Outcome, Unreadable> {
        observer.begin(rule);
        let search = Search::new(observer, self.reader());
        let outcome = match rule {
            Rule::Anything => self.anything(&task.output, search),
            Rule::Marker(marker) => self.marker(task, rule, marker, search),
            Rule::Forbidden(pattern) => {
                let size_rule = |path: &Path, kind| {
                    Ok(match find::is_there(self.reader(), path, kind)? {
                        true => Weight::Counts(None),
                        false => Weight::CountsNot,
                    })
                };
                let pattern = pattern.filled(self.subject.as_str(), task.session.as_str());
                self.search((&task.output, None), &pattern, rule, search, size_rule)
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
        let size_rule = |path: &Path, kind| size_rule(self.reader(), marker, path, kind);
        let (subject, session) = (self.subject.as_str(), task.session.as_str());
        let pattern = marker.pattern.filled(subject, session);
        match self.base(task, marker.base) {
            None => self.search((&task.output, None), &pattern, rule, search, size_rule),
            Some(base) => {
                let shared = Some(&self.probe.shared);
                self.search((&base, shared), &pattern, rule, search, size_rule)
            }
        }
    }

    /// How many matches a marker asks for.
    pub(crate) fn needed(&self, marker: &Marker, task: &Task<'_>) -> Result<usize, Unreadable> {
        let mut inputs = HashSet::new();
        for when in marker
            .when
            .iter()
            .filter(|_| marker.count == Some(Count::Input))
        {
            let when = when.filled(self.subject.as_str(), task.session.as_str());
            let mut count = |path: &Path, kind| {
                if find::is_there(self.reader(), path, kind)? {
                    inputs.insert(path.to_owned());
                }
                Ok(false)
            };
            find::find(&self.listings, &self.input(task), &when, &mut count)?;
        }
        Ok(marker.min_count.max(inputs.len()))
    }

    fn search(
        &self,
        (base, shared): (&Path, Option<&SharedListings>),
        pattern: &Pattern,
        rule: &Rule<'_>,
        mut search: Search<'_>,
        size_rule: impl Fn(&Path, Kind) -> Result<Weight, Unreadable>,
    ) -> Result<Outcome, Unreadable> {
        let mut visit = |path: &Path, kind| {
            Ok(match size_rule(path, kind)? {
                Weight::Counts(stat) => search.matched(path, stat.as_ref()),
                Weight::CountsNot => {
                    search.missed(rule, path);
                    false
                }
            })
        };
        let listings = (&self.listings, shared);
        if let Err(unreadable) = find::find_in(listings, base, pattern, &mut visit) {
            search.unread(unreadable);
        }
        search.outcome()
    }

    /// True if nothing matches the marker's `when`. While the input's directory itself is not
    /// there or is empty, as a mount point without its file system, nothing can be said of what
    /// it will lack: then the marker is required.
    fn is_excused(&self, marker: &Marker, task: &Task<'_>) -> Result<bool, Unreadable> {
        if marker.when.is_empty() {
            return Ok(false);
        }
        let input = self.input(task);
        for when in &marker.when {
            let when = when.filled(self.subject.as_str(), task.session.as_str());
            if find::any(&self.listings, &input, &when)? {
                return Ok(false);
            }
        }
        match &*self.listings.get(&input) {
            Dir::There(listing) => Ok(listing.iter().next().is_some()),
            Dir::Absent => Ok(false),
            Dir::Failed(unreadable) => Err(unreadable.clone()),
        }
    }
}
