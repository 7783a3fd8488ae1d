//! The completions on disk, with as few calls to the file system as possible.
//!
//! A [`Probe`] serves one pass and reads each file only once. Evaluation ([`evaluate`]) is lazy: it stops at the first
//! marker that is certainly missing.

pub mod apps;
mod evaluate;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};

use apps::SpecError;

use super::{Completion, Completions, SubjectCompletions};
use crate::base::text::FastMap;
use crate::gather::disk::reader::{Reader, modified};
use crate::gather::disk::{Dirs, Listings, SharedListings, Unreadable};
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::config::Config;
use crate::model::procedure::marker::{Base, Marker, Pattern};
use crate::model::procedure::{Check, OutputRoots, Procedure, ProcedureDag, ProcedureId};

/// At most this many subjects are kept in memory (some 200 MB); the others are read again.
const MOST_KEPT: usize = 20_000;

/// The completions on disk, for one pass. Each pass needs a new one, because it caches.
#[derive(Debug)]
pub struct Probe {
    bids_root: PathBuf,
    derivatives_root: PathBuf,
    procedures: ProcedureDag,
    /// The reports that QSIRecon's check requires.
    reports: apps::Reports,
    reader: Reader,
    pub(super) shared: SharedListings,
    /// What was read of subjects that are needed again.
    kept: Mutex<HashMap<SubjectLabel, Kept>>,
}

/// The completions of one subject; when dropped, it frees what it has read, or leaves it to the probe.
pub(crate) struct SubjectProbe<'a> {
    pub(super) probe: &'a Probe,
    pub(super) subject: &'a SubjectLabel,
    pub(super) listings: Listings<'a>,
    answers: RefCell<Answers>,
    is_needed_again: bool,
}

/// A task whose outputs are evaluated.
pub(crate) struct Task<'t> {
    pub(super) procedure: &'t Procedure,
    pub(super) session: &'t SessionLabel,
    /// Where outputs are expected.
    pub(super) output: PathBuf,
}

impl Probe {
    /// Reads the QSIRecon spec if a procedure uses it.
    ///
    /// # Errors
    /// A spec that cannot be read or is malformed.
    pub fn new(config: &Config) -> Result<Self, SpecError> {
        Self::of(
            config.bids_root.clone(),
            config.derivatives_root.clone(),
            config.procedures.clone(),
            config.qsirecon_spec.as_deref(),
        )
        .map(|probe| probe.with_reader(Reader::default().with_annex(config.annex)))
    }

    /// [`Self::new`] without a whole configuration.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of(
        bids_root: PathBuf,
        derivatives_root: PathBuf,
        procedures: ProcedureDag,
        qsirecon_spec: Option<&Path>,
    ) -> Result<Self, SpecError> {
        let needed = procedures
            .iter()
            .any(|(_, procedure)| procedure.check == Check::Qsirecon);
        let suffixes = match qsirecon_spec {
            Some(file) if needed => apps::suffixes(file)?,
            _ => Vec::new(),
        };
        Ok(Self {
            bids_root,
            derivatives_root,
            procedures,
            reports: apps::reports(&suffixes),
            reader: Reader::default(),
            shared: SharedListings::default(),
            kept: Mutex::default(),
        })
    }

    pub fn with_reader(self, reader: Reader) -> Self {
        let reader = reader.without_memory();
        Self { reader, ..self }
    }

    pub(super) fn subject<'a>(
        &'a self,
        subject: &'a SubjectLabel,
        is_needed_again: bool,
    ) -> SubjectProbe<'a> {
        let kept = self.lock_kept().remove(subject).unwrap_or_default();
        SubjectProbe {
            probe: self,
            subject,
            listings: Listings::new(&self.reader, kept.dirs),
            answers: RefCell::new(kept.answers),
            is_needed_again,
        }
    }

    fn output_roots(&self) -> OutputRoots<'_> {
        OutputRoots {
            bids: &self.bids_root,
            derivatives: &self.derivatives_root,
        }
    }

    fn lock_kept(&self) -> MutexGuard<'_, HashMap<SubjectLabel, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Completions for Probe {
    fn reader(&self) -> Reader {
        self.reader.clone()
    }

    fn for_subject<'a>(&'a self, subject: &'a SubjectLabel) -> Box<dyn SubjectCompletions + 'a> {
        Box::new(self.subject(subject, false))
    }

    fn for_subject_now_and_later<'a>(
        &'a self,
        subject: &'a SubjectLabel,
    ) -> Box<dyn SubjectCompletions + 'a> {
        Box::new(self.subject(subject, true))
    }
}

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

/// How far an evaluation goes. By default, it ends at the first match of a rule and at the first rule that decides.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Effort {
    /// A search goes on until it has this many matches, even if fewer are required.
    pub(super) most: usize,
    /// The number of paths that are kept of the matches, and of those that do not count.
    pub(super) kept: usize,
    pub(super) wants_age: bool,
    /// All rules are applied.
    pub(super) is_thorough: bool,
}

/// A search for the matches of a rule.
pub(crate) struct Search<'s> {
    reader: &'s Reader,
    effort: Effort,
    /// The number of matches that are required.
    pub(super) wanted: usize,
    is_excused: bool,
    pub(super) count: usize,
    pub(super) matches: Vec<PathBuf>,
    /// Matches that do not count.
    pub(super) misses: Vec<PathBuf>,
    /// The newest modification time of the matches.
    newest: Option<DateTime<Utc>>,
    /// The first path that could not be read; it does not matter if there are enough other matches.
    error: Option<Unreadable>,
    /// The relevant content of a file that is not a match.
    pub(super) note: Option<String>,
}

impl<'s> Search<'s> {
    fn new(reader: &'s Reader, effort: Effort) -> Self {
        Self {
            reader,
            effort,
            wanted: 1,
            is_excused: false,
            count: 0,
            matches: Vec::new(),
            misses: Vec::new(),
            newest: None,
            error: None,
            note: None,
        }
    }

    /// Counts a match; true if the search is over.
    fn matched(&mut self, path: &Path) -> bool {
        self.count += 1;
        if self.matches.len() < self.effort.kept {
            self.matches.push(path.to_owned());
        }
        if self.effort.wants_age {
            match self.reader.stat(path) {
                Ok(stat) => self.newest = self.newest.max(stat.as_ref().and_then(modified)),
                Err(unreadable) => self.unread(unreadable),
            }
        }
        self.count >= self.wanted.max(self.effort.most)
    }

    fn missed(&mut self, path: &Path) {
        if self.misses.len() < self.effort.kept {
            self.misses.push(path.to_owned());
        }
    }

    fn unread(&mut self, unreadable: Unreadable) {
        self.error.get_or_insert(unreadable);
    }

    fn outcome(&self) -> Result<Outcome, Unreadable> {
        match &self.error {
            _ if self.is_excused => Ok(Outcome::Excused),
            _ if self.count >= self.wanted => Ok(Outcome::Found),
            Some(unreadable) => Err(unreadable.clone()),
            None => Ok(Outcome::Missing),
        }
    }
}

/// Applies a rule; false if no further rule is needed.
type Apply<'l> = dyn FnMut(Rule<'_>) -> bool + 'l;

/// Called after each rule.
type Report<'w> = &'w mut dyn FnMut(&Rule<'_>, &Result<Outcome, Unreadable>, Search<'_>);

/// An evaluation's effort, and its report to those who need more than the result.
#[derive(Default)]
pub(crate) struct Watch<'w> {
    pub(crate) effort: Effort,
    pub(crate) report: Option<Report<'w>>,
}

/// The completions of a subject's tasks.
type Answers = FastMap<(ProcedureId, SessionLabel), Completion>;

/// What was read of a subject.
#[derive(Debug, Default)]
struct Kept {
    dirs: Dirs,
    answers: Answers,
}

impl Drop for SubjectProbe<'_> {
    fn drop(&mut self) {
        if self.is_needed_again {
            let mut kept = self.probe.lock_kept();
            if kept.len() < MOST_KEPT {
                let found = Kept {
                    dirs: self.listings.take(),
                    answers: self.answers.take(),
                };
                kept.insert(self.subject.clone(), found);
            }
        }
    }
}

impl SubjectCompletions for SubjectProbe<'_> {
    fn completion(&self, procedure: ProcedureId, session: &SessionLabel) -> Completion {
        let key = (procedure, session.clone());
        if let Some(answer) = self.answers.borrow().get(&key) {
            return answer.clone();
        }
        let task = self.task(procedure, session);
        let answer = self.evaluate(&task, &mut Watch::default());
        self.answers.borrow_mut().insert(key, answer.clone());
        answer
    }

    fn newest_output(
        &self,
        procedure: ProcedureId,
        session: &SessionLabel,
    ) -> Option<DateTime<Utc>> {
        let effort = Effort {
            most: usize::MAX,
            wants_age: true,
            is_thorough: true,
            ..Effort::default()
        };
        let (mut newest, mut is_unreadable) = (None, false);
        let task = self.task(procedure, session);
        let mut watch = Watch {
            effort,
            report: Some(&mut |_, outcome, search| {
                is_unreadable |= outcome.is_err() || search.error.is_some();
                newest = newest.max(search.newest);
            }),
        };
        self.evaluate_required(&task, &mut watch);
        newest.filter(|_| !is_unreadable)
    }

    fn is_forbidden(&self, procedure: ProcedureId, session: &SessionLabel) -> bool {
        let task = self.task(procedure, session);
        self.evaluate_forbidden(&task, &mut Watch::default()) == Completion::Incomplete
    }
}

impl SubjectProbe<'_> {
    pub(super) fn task<'t>(
        &'t self,
        procedure: ProcedureId,
        session: &'t SessionLabel,
    ) -> Task<'t> {
        let procedure = self.probe.procedures.get(procedure);
        let roots = self.probe.output_roots();
        Task {
            procedure,
            session,
            output: roots.output(procedure, self.subject.as_str(), session.as_str()),
        }
    }

    /// The directory below `bids_root` to which a marker's `when` applies.
    pub(super) fn input(&self, task: &Task<'_>) -> PathBuf {
        let roots = self.probe.output_roots();
        roots.input(task.procedure, self.subject.as_str(), task.session.as_str())
    }

    /// The directory with the outputs of all subjects.
    pub(super) fn top(&self, task: &Task<'_>) -> PathBuf {
        self.probe.output_roots().top(task.procedure)
    }

    /// The directory where a marker's pattern begins, if it is not the task's own.
    pub(super) fn base(&self, task: &Task<'_>, base: Base) -> Option<PathBuf> {
        self.probe.output_roots().base(task.procedure, base)
    }

    pub(super) fn reader(&self) -> &Reader {
        &self.probe.reader
    }

    /// The subject's directory below `bids_root`.
    pub(super) fn bids(&self) -> PathBuf {
        self.probe.bids_root.join(self.subject)
    }
}

#[cfg(test)]
mod tests;
