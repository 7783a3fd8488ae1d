//! The completions on disk, with as few calls to the file system as possible.
//!
//! A [`Probe`] serves one pass and reads each file only once. Evaluation ([`evaluate`]) is lazy: it stops at the first
//! marker that is certainly missing.

mod evaluate;
pub mod freesurfer;
pub mod qsirecon;
mod rule;
mod size_rule;

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};

use qsirecon::SpecError;
pub(super) use rule::{Observer, Outcome, Rule};
use size_rule::Newest;
pub(super) use size_rule::{size, why_not};

use super::{Completion, Completions, SubjectCompletions};
use crate::gather::disk::cached::{Listings, SharedListings};
use crate::gather::disk::listing::Dirs;
use crate::gather::disk::reader::Reader;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::config::Config;
use crate::model::procedure::marker::Base;
use crate::model::procedure::{Check, OutputRoots, Procedure, ProcedureDag, ProcedureId};

/// At most this many subjects are kept in memory (some 200 MB); the others are read again.
const MOST_KEPT: usize = 20_000;

/// The completions on disk, for one pass. Each pass needs a new one, because it caches.
#[derive(Debug)]
pub struct Probe {
    bids_root: PathBuf,
    derivatives_root: PathBuf,
    procedures: ProcedureDag,
    /// Suffixes of the QSIRecon workflow; if empty, any workflow's report counts.
    suffixes: Vec<String>,
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
            Some(file) if needed => qsirecon::suffixes(file)?,
            _ => Vec::new(),
        };
        Ok(Self {
            bids_root,
            derivatives_root,
            procedures,
            suffixes,
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

/// The completions of a subject's tasks.
type Answers = HashMap<(ProcedureId, SessionLabel), Completion>;

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
        let answer = self.evaluate(&self.task(procedure, session), &mut ());
        self.answers.borrow_mut().insert(key, answer.clone());
        answer
    }

    fn newest_output(
        &self,
        procedure: ProcedureId,
        session: &SessionLabel,
    ) -> Option<DateTime<Utc>> {
        let mut newest = Newest::default();
        self.evaluate_required(&self.task(procedure, session), &mut newest);
        newest.time()
    }

    fn is_forbidden(&self, procedure: ProcedureId, session: &SessionLabel) -> bool {
        let task = self.task(procedure, session);
        self.evaluate_forbidden(&task, &mut ()) == Completion::Incomplete
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
