//! The evaluator: applies rules in order until one decides.

use std::collections::HashSet;
use std::path::Path;

use regex::bytes::Regex;

use super::{Outcome, Rule, Search, SubjectProbe, Task, Watch, apps};
use crate::gather::completion::{Completion, find};
use crate::gather::disk::reader::{Reader, is_directory, is_regular};
use crate::gather::disk::{Dir, EntryKind, SharedListings, Unreadable};
use crate::model::procedure::Check;
use crate::model::procedure::marker::{Count, Marker, Pattern, Required};

impl SubjectProbe<'_> {
    pub(crate) fn evaluate(&self, task: &Task<'_>, watch: &mut Watch<'_>) -> Completion {
        let required = self.evaluate_required(task, watch);
        if required != Completion::Complete && !watch.effort.is_thorough {
            return required;
        }
        let forbidden = self.evaluate_forbidden(task, watch);
        match required {
            Completion::Complete => forbidden,
            decided => decided,
        }
    }

    /// Applies the rules for files that must exist.
    pub(super) fn evaluate_required(&self, task: &Task<'_>, watch: &mut Watch<'_>) -> Completion {
        let mut decided = None;
        let mut all_excused = true;
        let mut apply = |rule: Rule<'_>| {
            let outcome = self.apply(task, &rule, watch);
            all_excused &= outcome == Ok(Outcome::Excused);
            decided = decided.take().or_else(|| match outcome {
                Ok(Outcome::Found | Outcome::Excused) => None,
                Ok(Outcome::Missing) => Some(Completion::Incomplete),
                Err(unreadable) => Some(Completion::Unreadable(Box::new(unreadable))),
            });
            decided.is_none() || watch.effort.is_thorough
        };
        match (task.procedure.check, &task.procedure.completion.required) {
            (Check::Freesurfer, _) => apps::freesurfer(self, &mut apply),
            (Check::Qsirecon, _) => {
                let (without, with) = &self.probe.reports;
                let reports = if task.session.is_none() {
                    without
                } else {
                    with
                };
                reports.iter().all(|marker| apply(Rule::Marker(marker)));
            }
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
    pub(super) fn evaluate_forbidden(&self, task: &Task<'_>, watch: &mut Watch<'_>) -> Completion {
        let mut decided = None;
        for pattern in &task.procedure.completion.forbid {
            let outcome = self.apply(task, &Rule::Forbidden(pattern), watch);
            decided = decided.or(match outcome {
                Ok(Outcome::Found) => Some(Completion::Incomplete),
                Ok(Outcome::Missing | Outcome::Excused) => None,
                Err(unreadable) => Some(Completion::Unreadable(Box::new(unreadable))),
            });
            if decided.is_some() && !watch.effort.is_thorough {
                break;
            }
        }
        decided.unwrap_or(Completion::Complete)
    }

    fn apply(
        &self,
        task: &Task<'_>,
        rule: &Rule<'_>,
        watch: &mut Watch<'_>,
    ) -> Result<Outcome, Unreadable> {
        let mut search = Search::new(self.reader(), watch.effort);
        let applied = match rule {
            Rule::Anything => {
                self.anything(&task.output, &mut search);
                Ok(())
            }
            Rule::Marker(marker) => self.marker(task, marker, &mut search),
            Rule::Forbidden(pattern) => {
                let pattern = pattern.filled(self.subject.as_str(), task.session.as_str());
                self.search((&task.output, None), &pattern, &mut search, |path, kind| {
                    find::is_there(self.reader(), path, kind)
                });
                Ok(())
            }
            Rule::Images(None) => Ok(()),
            Rule::Images(Some(unreadable)) => Err(unreadable.clone()),
            Rule::Run(run) => apps::run(self, task, run, &mut search),
            Rule::TimePoints { template, runs } => {
                apps::time_points(self, task, template, runs, &mut search)
            }
        };
        let outcome = applied.and_then(|()| search.outcome());
        if let Some(report) = &mut watch.report {
            report(rule, &outcome, search);
        }
        outcome
    }

    fn anything(&self, output: &Path, search: &mut Search<'_>) {
        match &*self.listings.get(output) {
            Dir::There(listing) => {
                for entry in listing.iter() {
                    let path = output.join(entry.name);
                    match find::is_there(self.reader(), &path, entry.kind) {
                        Ok(true) if search.matched(&path) => break,
                        Ok(_) => {}
                        Err(unreadable) => search.unread(unreadable),
                    }
                }
            }
            Dir::Absent => {}
            Dir::Failed(unreadable) => search.unread(unreadable.clone()),
        }
    }

    fn marker(
        &self,
        task: &Task<'_>,
        marker: &Marker,
        search: &mut Search<'_>,
    ) -> Result<(), Unreadable> {
        let inputs = self.inputs(marker, task)?;
        search.is_excused = inputs == 0 && !marker.when.is_empty() && self.has_input(task)?;
        if search.is_excused {
            return Ok(());
        }
        search.wanted = marker.min_count.max(match marker.count {
            Some(Count::Input) => inputs,
            None => 0,
        });
        // A report is a file, whatever its marker would take.
        let takes_directories = task.procedure.check == Check::Markers;
        let check = |path: &Path, kind| match kind {
            EntryKind::Directory if !takes_directories => Ok(false),
            _ => check_file(self.reader(), marker, path, kind),
        };
        let (subject, session) = (self.subject.as_str(), task.session.as_str());
        let pattern = marker.pattern.filled(subject, session);
        let base = self.base(task, marker.base);
        let shared = base.as_ref().map(|_| &self.probe.shared);
        let base = base.as_ref().unwrap_or(&task.output);
        self.search((base, shared), &pattern, search, check);
        Ok(())
    }

    /// The number of input files that match a marker's `when`; at most 1 if they are not counted.
    fn inputs(&self, marker: &Marker, task: &Task<'_>) -> Result<usize, Unreadable> {
        let mut found = HashSet::new();
        if marker.when.is_empty() {
            return Ok(0);
        }
        let input = self.input(task);
        let mut visit = |path: &Path, kind| {
            if find::is_there(self.reader(), path, kind)? {
                found.insert(path.to_owned());
            }
            Ok(marker.count.is_none() && !found.is_empty())
        };
        for when in &marker.when {
            let when = when.filled(self.subject.as_str(), task.session.as_str());
            if find::find((&self.listings, None), &input, &when, &mut visit)? {
                break;
            }
        }
        Ok(found.len())
    }

    /// False if the input directory does not exist or is empty, like a mount point without its file system: then its
    /// future content is unknown.
    fn has_input(&self, task: &Task<'_>) -> Result<bool, Unreadable> {
        match &*self.listings.get(&self.input(task)) {
            Dir::There(listing) => Ok(!listing.is_empty()),
            Dir::Absent => Ok(false),
            Dir::Failed(unreadable) => Err(unreadable.clone()),
        }
    }

    /// `counts` decides about each match.
    fn search(
        &self,
        (base, shared): (&Path, Option<&SharedListings>),
        pattern: &Pattern,
        search: &mut Search<'_>,
        counts: impl Fn(&Path, EntryKind) -> Result<bool, Unreadable>,
    ) {
        let mut visit = |path: &Path, kind| {
            let counts = counts(path, kind)?;
            if !counts {
                search.missed(path);
            }
            Ok(counts && search.matched(path))
        };
        let found = find::find((&self.listings, shared), base, pattern, &mut visit);
        if let Err(unreadable) = found {
            search.unread(unreadable);
        }
    }
}

/// True if a match satisfies its marker's conditions on size and text. Reads no more of a file than these require.
fn check_file(
    reader: &Reader,
    marker: &Marker,
    path: &Path,
    kind: EntryKind,
) -> Result<bool, Unreadable> {
    let wants_text = marker.contains.is_some() || marker.not_contains.is_some();
    // A directory has no size of its own, and the default size does not ask for one.
    let default = u64::from(!marker.pattern.is_literal());
    let takes_directories = !wants_text && marker.min_size <= default;
    if kind == EntryKind::Directory {
        return Ok(takes_directories);
    }
    if kind == EntryKind::File && marker.min_size == 0 && !wants_text {
        return Ok(true);
    }
    let Some(stat) = reader.stat(path)? else {
        return Ok(false);
    };
    if is_directory(&stat) {
        return Ok(takes_directories);
    }
    Ok((is_regular(&stat) || !wants_text)
        && u64::try_from(stat.st_size).is_ok_and(|size| size >= marker.min_size)
        && (!wants_text || text_fits(reader, marker, path)?))
}

fn text_fits(reader: &Reader, marker: &Marker, path: &Path) -> Result<bool, Unreadable> {
    let search = |part: &Option<String>| {
        let part = part.as_deref()?;
        Some((Regex::new(&regex::escape(part)).ok()?, part.len()))
    };
    let (wanted, unwanted) = (search(&marker.contains), search(&marker.not_contains));
    let longest = [&wanted, &unwanted].into_iter().flatten();
    let longest = longest.map(|(_, len)| *len).max().unwrap_or(0);
    let (mut has_wanted, mut has_unwanted) = (wanted.is_none(), false);
    let is_file = reader.windows(path, longest, &mut |text| {
        let finds = |(expression, _): &(Regex, usize)| expression.is_match(text);
        has_wanted |= wanted.as_ref().is_some_and(finds);
        has_unwanted |= unwanted.as_ref().is_some_and(finds);
        !has_unwanted && (!has_wanted || unwanted.is_some())
    })?;
    Ok(is_file && has_wanted && !has_unwanted)
}
