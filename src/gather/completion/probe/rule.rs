//! The rules for complete outputs, and the observers of their evaluation.

use std::path::Path;

use rustix::fs::Stat;

use super::{SubjectProbe, Task};
use crate::gather::disk::Unreadable;
use crate::gather::disk::reader::Reader;
use crate::model::procedure::marker::{Marker, Pattern};

/// A rule about files that must exist, or must not.
pub(crate) enum Rule<'r> {
    /// The output directory is not empty.
    Anything,
    Marker(&'r Marker),
    /// FreeSurfer: the subject has T1w images. Only used if it has none, or they cannot be read.
    Images(Option<Unreadable>),
    /// FreeSurfer: the run of this name ended successfully.
    Run(&'r str),
    /// FreeSurfer: the template was made from all of these runs.
    TimePoints {
        template: &'r str,
        runs: &'r [String],
    },
    /// QSIRecon: the report of the workflow with this suffix, or of any workflow.
    Report(Option<&'r str>),
    /// Nothing matches this pattern.
    Forbidden(&'r Pattern),
}

/// The result of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Something matches.
    Found,
    Missing,
    /// Its input is missing.
    Excused,
}

/// An observer of an evaluation. By default, the evaluation ends at the first match of a rule and at the first rule
/// that decides; an observer can ask for more.
pub(crate) trait Observer {
    /// Called for a match that counts; true if no further match is needed.
    fn matched(&mut self, _: &Reader, _: &Path, _: Option<&Stat>) -> Result<bool, Unreadable> {
        Ok(true)
    }

    /// Called for a match that does not count.
    fn missed(&mut self, _: &Reader, _: &Rule<'_>, _: &Path) {}

    /// Called for a path that could not be read, whether it decides or not.
    fn unread(&mut self, _: &Unreadable) {}

    /// Called after a rule was applied.
    fn end(
        &mut self,
        _: &SubjectProbe<'_>,
        _: &Task<'_>,
        _: &Rule<'_>,
        _: &Result<Outcome, Unreadable>,
    ) {
    }

    /// True to apply all rules.
    fn is_thorough(&self) -> bool {
        false
    }
}

/// For callers that only need the result.
impl Observer for () {}

/// Applies a rule; false if no further rule is needed.
pub(super) type Apply<'l> = dyn FnMut(Rule<'_>) -> bool + 'l;

/// A search for the matches of a rule.
pub(super) struct Search<'s> {
    observer: &'s mut dyn Observer,
    reader: &'s Reader,
    /// The number of matches that are required.
    wanted: usize,
    found: usize,
    error: Option<Unreadable>,
}

impl<'s> Search<'s> {
    pub(super) fn new(observer: &'s mut dyn Observer, reader: &'s Reader) -> Self {
        Self {
            observer,
            reader,
            wanted: 1,
            found: 0,
            error: None,
        }
    }

    pub(super) fn wants(&mut self, wanted: usize) {
        self.wanted = wanted;
    }

    /// Counts a match; true if the search is over.
    pub(super) fn matched(&mut self, path: &Path, stat: Option<&Stat>) -> bool {
        self.found += 1;
        let enough = self.observer.matched(self.reader, path, stat);
        let enough = enough.unwrap_or_else(|unreadable| {
            self.unread(unreadable);
            false
        });
        enough && self.found >= self.wanted
    }

    pub(super) fn missed(&mut self, rule: &Rule<'_>, path: &Path) {
        self.observer.missed(self.reader, rule, path);
    }

    /// Keeps the error for a path that could not be read; it is ignored if enough other matches are found.
    pub(super) fn unread(&mut self, unreadable: Unreadable) {
        self.observer.unread(&unreadable);
        self.error.get_or_insert(unreadable);
    }

    pub(super) fn outcome(self) -> Result<Outcome, Unreadable> {
        match self.error {
            _ if self.found >= self.wanted => Ok(Outcome::Found),
            Some(unreadable) => Err(unreadable),
            None => Ok(Outcome::Missing),
        }
    }
}
