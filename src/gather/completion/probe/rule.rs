//! What a task's completeness consists of, and who listens while it is judged.

use std::path::Path;

use rustix::fs::Stat;

use super::{SubjectProbe, Task};
use crate::gather::disk::Unreadable;
use crate::gather::disk::reader::Reader;
use crate::model::procedure::marker::{Marker, Pattern};

/// One thing that must be there, or must not.
pub(crate) enum Rule<'r> {
    /// The output directory is not empty.
    Anything,
    Marker(&'r Marker),
    /// FreeSurfer: the subject has T1w images. Looked at if it has none, or they cannot be read.
    Images(Option<Unreadable>),
    /// FreeSurfer: the run of this name ended well.
    Run(&'r str),
    /// FreeSurfer: the template was made from all of these runs.
    TimePoints {
        template: &'r str,
        runs: &'r [String],
    },
    /// QSIRecon: the report of the workflow with this suffix; none: of any workflow.
    Report(Option<&'r str>),
    /// Nothing matches this.
    Forbidden(&'r Pattern),
}

/// What became of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Something matches.
    Found,
    Missing,
    /// Its input is missing.
    Excused,
}

/// Listens while a task is judged. Whoever wants to know more pays for it: by itself, the first match of a rule and the
/// first rule that decides are the last ones.
pub(crate) trait Observer {
    /// A rule is looked at.
    fn begin(&mut self, _: &Rule<'_>) {}

    /// Something matches and counts; true: no other match is wanted.
    fn matched(&mut self, _: &Reader, _: &Path, _: Option<&Stat>) -> Result<bool, Unreadable> {
        Ok(true)
    }

    /// Something matches and does not count.
    fn missed(&mut self, _: &Reader, _: &Rule<'_>, _: &Path) {}

    /// Something could not be read, whether it decides or not.
    fn unread(&mut self, _: &Unreadable) {}

    /// The rule is judged.
    fn end(
        &mut self,
        _: &SubjectProbe<'_>,
        _: &Task<'_>,
        _: &Rule<'_>,
        _: &Result<Outcome, Unreadable>,
    ) {
    }

    /// True if all rules are looked at.
    fn is_thorough(&self) -> bool {
        false
    }
}

/// Whoever needs the answer only.
impl Observer for () {}

/// Looks at a rule; false: no other rule is wanted.
pub(super) type Look<'l> = dyn FnMut(Rule<'_>) -> bool + 'l;

/// What the search for matches of a rule has come to.
pub(super) struct Search<'s> {
    observer: &'s mut dyn Observer,
    reader: &'s Reader,
    /// How many matches are asked for, and how many there are.
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

    /// Notes a match that counts; true: the search is over.
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

    /// Notes what could not be read: it does not matter if something else is found.
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
