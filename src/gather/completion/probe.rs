//! Judging tasks by what the disk shows, with as few calls to the file system as possible.
//!
//! A [`Probe`] serves one pass: what it has read it does not read again. Evaluation ([`judge`]) is lazy: the
//! first marker that is surely missing answers, and nothing is read before it is asked for.

pub mod freesurfer;
mod judge;
mod memory;
pub mod qsirecon;
mod rule;
mod size_rule;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use memory::{Answers, Kept, Memory};
pub(super) use rule::{Observer, Outcome, Rule};
use size_rule::Newest;
pub(super) use size_rule::{modified, size, why_not};

use super::{Completion, Completions, SubjectCompletions};
use crate::gather::completion::probe::qsirecon::SpecError;
use crate::gather::disk::cached::{Listings, SharedListings};
use crate::gather::disk::reader::Reader;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::config::Config;
use crate::model::procedure::marker::Base;
use crate::model::procedure::{Check, OutputRoots, Procedure, ProcedureDag, ProcedureId};

/// Answers questions about outputs for one pass. Make a new one for each pass: it remembers.
#[derive(Debug)]
pub struct Probe {
    bids_root: PathBuf,
    derivatives_root: PathBuf,
    procedures: ProcedureDag,
    /// Suffixes of the QSIRecon workflow; none: any workflow's report will do.
    suffixes: Vec<String>,
    reader: Reader,
    shared: SharedListings,
    /// What was read of subjects that are asked about again.
    memory: Memory,
}

/// Answers for one subject; forgets everything when dropped, or leaves it to the probe.
pub(crate) struct SubjectProbe<'a> {
    pub(super) probe: &'a Probe,
    pub(super) subject: &'a SubjectLabel,
    pub(super) listings: Listings<'a>,
    answers: RefCell<Answers>,
    is_asked_again: bool,
}

/// A task whose outputs are judged.
pub(crate) struct Task<'t> {
    pub(super) procedure: &'t Procedure,
    pub(super) session: &'t SessionLabel,
    /// Where they are expected.
    pub(super) output: PathBuf,
}

impl Probe {
    /// Takes roots and procedures from the configuration, and reads the QSIRecon spec if a
    /// procedure is judged by it.
    ///
    /// # Errors
    /// A spec that cannot be read or has another shape.
    pub fn new(config: &Config) -> Result<Self, SpecError> {
        Self::of(
            config.bids_root.clone(),
            config.derivatives_root.clone(),
            config.procedures.clone(),
            config.qsirecon_spec.as_deref(),
        )
        .map(|probe| probe.reading_by(Reader::default().counting(config.annex)))
    }

    /// Does the same without a whole configuration.
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
            memory: Memory::default(),
        })
    }

    /// Reads by this reader, which keeps account.
    pub fn reading_by(self, reader: Reader) -> Self {
        let reader = reader.anew();
        Self { reader, ..self }
    }

    pub(super) fn subject<'a>(
        &'a self,
        subject: &'a SubjectLabel,
        is_asked_again: bool,
    ) -> SubjectProbe<'a> {
        let kept = self.memory.take(subject);
        SubjectProbe {
            probe: self,
            subject,
            listings: Listings::new(&self.reader, kept.dirs),
            answers: RefCell::new(kept.answers),
            is_asked_again,
        }
    }

    fn output_roots(&self) -> OutputRoots<'_> {
        OutputRoots {
            bids: &self.bids_root,
            derivatives: &self.derivatives_root,
        }
    }

    pub(super) fn shared(&self) -> &SharedListings {
        &self.shared
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

impl Drop for SubjectProbe<'_> {
    fn drop(&mut self) {
        if self.is_asked_again {
            let found = Kept {
                dirs: self.listings.take(),
                answers: self.answers.take(),
            };
            self.probe.memory.keep(self.subject, found);
        }
    }
}

impl SubjectCompletions for SubjectProbe<'_> {
    fn completion(&self, procedure: ProcedureId, session: &SessionLabel) -> Completion {
        let key = (procedure, session.clone());
        if let Some(answer) = self.answers.borrow().get(&key) {
            return answer.clone();
        }
        let answer = self.judge(&self.task(procedure, session), &mut ());
        self.answers.borrow_mut().insert(key, answer.clone());
        answer
    }

    fn newest_output(
        &self,
        procedure: ProcedureId,
        session: &SessionLabel,
    ) -> Option<DateTime<Utc>> {
        let mut newest = Newest::default();
        self.judge_required(&self.task(procedure, session), &mut newest);
        newest.time()
    }

    fn is_forbidden(&self, procedure: ProcedureId, session: &SessionLabel) -> bool {
        let task = self.task(procedure, session);
        self.judge_forbidden(&task, &mut ()) == Completion::Incomplete
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

    /// Returns the directory below `bids_root` that a marker's `when` looks into.
    pub(super) fn input(&self, task: &Task<'_>) -> PathBuf {
        let roots = self.probe.output_roots();
        roots.input(task.procedure, self.subject.as_str(), task.session.as_str())
    }

    /// Returns the directory that holds the outputs of all subjects.
    pub(super) fn top(&self, task: &Task<'_>) -> PathBuf {
        self.probe.output_roots().top(task.procedure)
    }

    /// Returns the directory that a marker's pattern begins at, if it is not the task's own.
    pub(super) fn base(&self, task: &Task<'_>, base: Base) -> Option<PathBuf> {
        self.probe.output_roots().base(task.procedure, base)
    }

    pub(super) fn reader(&self) -> &Reader {
        &self.probe.reader
    }

    /// Returns the subject's directory below `bids_root`.
    pub(super) fn bids(&self) -> PathBuf {
        self.probe.bids_root.join(self.subject)
    }
}

#[cfg(test)]
mod tests;
