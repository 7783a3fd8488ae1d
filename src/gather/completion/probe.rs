//! Judging tasks by what the disk shows, with as few calls to the file system as possible.
//!
//! A [`Probe`] serves one pass: what it has read it does not read again. Evaluation is lazy: the
//! first marker that is surely missing answers, and nothing is read before it is asked for.

pub mod freesurfer;
mod memory;
pub mod qsirecon;
mod weigh;

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};

use memory::{Answers, Kept, Memory};
pub(super) use weigh::{Newest, Weight, weigh};

use super::{Completion, Completions, SubjectCompletions, find};
use crate::gather::completion::probe::qsirecon::SpecError;
use crate::gather::disk::Unreadable;
use crate::gather::disk::cached::{Listings, SharedListings};
use crate::gather::disk::listing::Dir;
use crate::gather::disk::reader::Reader;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::config::Config;
use crate::model::procedure::marker::{CompletionRule, Marker, Required};
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

    pub(super) fn procedures(&self) -> &ProcedureDag {
        &self.procedures
    }

    pub(super) fn suffixes(&self) -> &[String] {
        &self.suffixes
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
        let answer = self
            .judge(self.probe.procedures.get(procedure), session)
            .unwrap_or_else(|unreadable| Completion::Unreadable(Box::new(unreadable)));
        self.answers.borrow_mut().insert(key, answer.clone());
        answer
    }

    fn newest_output(
        &self,
        procedure: ProcedureId,
        session: &SessionLabel,
    ) -> Option<DateTime<Utc>> {
        let procedure = self.probe.procedures.get(procedure);
        let mut newest = Newest::default();
        match procedure.check {
            Check::Freesurfer => freesurfer::complete(self, procedure, Some(&mut newest)).map(drop),
            Check::Qsirecon => {
                qsirecon::complete(self, procedure, session, Some(&mut newest)).map(drop)
            }
            Check::Markers => self.newest_of_markers(procedure, session, &mut newest),
        }
        .ok()?;
        newest.time()
    }

    fn is_forbidden(&self, procedure: ProcedureId, session: &SessionLabel) -> bool {
        let procedure = self.probe.procedures.get(procedure);
        self.holds_forbidden(procedure, session).unwrap_or(false)
    }
}

impl SubjectProbe<'_> {
    fn judge(
        &self,
        procedure: &Procedure,
        session: &SessionLabel,
    ) -> Result<Completion, Unreadable> {
        let complete = match procedure.check {
            Check::Freesurfer => freesurfer::complete(self, procedure, None)?,
            Check::Qsirecon => qsirecon::complete(self, procedure, session, None)?,
            Check::Markers => return self.judge_markers(procedure, session),
        };
        Ok(if complete && !self.holds_forbidden(procedure, session)? {
            Completion::Complete
        } else {
            Completion::Incomplete
        })
    }

    fn judge_markers(
        &self,
        procedure: &Procedure,
        session: &SessionLabel,
    ) -> Result<Completion, Unreadable> {
        let output = self.output(procedure, session);
        let rule: &CompletionRule = &procedure.completion;
        match &rule.required {
            Required::NonEmptyDirectory => {
                if !self.is_not_empty(&output)? {
                    return Ok(Completion::Incomplete);
                }
            }
            Required::Markers(markers) => {
                let mut all_excused = true;
                for marker in markers {
                    if self.is_excused(marker, procedure, session)? {
                        continue;
                    }
                    all_excused = false;
                    let mut satisfies =
                        |path: &Path, kind| Ok(weigh(self.reader(), marker, path, kind)?.counts());
                    if !find::find(&self.listings, &output, &marker.pattern, &mut satisfies)? {
                        return Ok(Completion::Incomplete);
                    }
                }
                if all_excused {
                    return Ok(Completion::NotApplicable);
                }
            }
        }
        Ok(if self.holds_forbidden(procedure, session)? {
            Completion::Incomplete
        } else {
            Completion::Complete
        })
    }

    /// True if the output holds something that a complete one never has (crash files).
    fn holds_forbidden(
        &self,
        procedure: &Procedure,
        session: &SessionLabel,
    ) -> Result<bool, Unreadable> {
        let output = self.output(procedure, session);
        for pattern in &procedure.completion.forbid {
            if find::any(&self.listings, &output, pattern)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if nothing matches the marker's `when`. While the input's directory itself is not
    /// there or is empty, as a mount point without its file system, nothing can be said of what
    /// it will lack: then the marker is required.
    pub(super) fn is_excused(
        &self,
        marker: &Marker,
        procedure: &Procedure,
        session: &SessionLabel,
    ) -> Result<bool, Unreadable> {
        let Some(when) = &marker.when else {
            return Ok(false);
        };
        let input = self.input(procedure, session);
        if find::any(&self.listings, &input, when)? {
            return Ok(false);
        }
        match &*self.listings.get(&input) {
            Dir::There(listing) => Ok(listing.iter().next().is_some()),
            Dir::Absent => Ok(false),
            Dir::Failed(unreadable) => Err(unreadable.clone()),
        }
    }

    pub(super) fn is_not_empty(&self, output: &Path) -> Result<bool, Unreadable> {
        match &*self.listings.get(output) {
            Dir::There(listing) => {
                let mut error = None;
                for entry in listing.iter() {
                    match find::is_there(self.reader(), &output.join(entry.name), entry.kind) {
                        Ok(true) => return Ok(true),
                        Ok(false) => {}
                        Err(unreadable) => error = error.or(Some(unreadable)),
                    }
                }
                error.map_or(Ok(false), Err)
            }
            Dir::Absent => Ok(false),
            Dir::Failed(unreadable) => Err(unreadable.clone()),
        }
    }

    fn newest_of_markers(
        &self,
        procedure: &Procedure,
        session: &SessionLabel,
        newest: &mut Newest,
    ) -> Result<(), Unreadable> {
        let output = self.output(procedure, session);
        match &procedure.completion.required {
            Required::NonEmptyDirectory => {
                if let Dir::There(listing) = &*self.listings.get(&output) {
                    for entry in listing.iter() {
                        newest.add_file(self.reader(), &output.join(entry.name))?;
                    }
                }
            }
            Required::Markers(markers) => {
                for marker in markers {
                    if self.is_excused(marker, procedure, session)? {
                        continue;
                    }
                    let mut note = |path: &Path, kind| {
                        match weigh(self.reader(), marker, path, kind)? {
                            Weight::Counts(Some(stat)) => newest.add(&stat),
                            Weight::Counts(None) => newest.add_file(self.reader(), path)?,
                            Weight::CountsNot => {}
                        }
                        Ok(false)
                    };
                    find::find(&self.listings, &output, &marker.pattern, &mut note)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn output(&self, procedure: &Procedure, session: &SessionLabel) -> PathBuf {
        self.probe
            .output_roots()
            .output(procedure, self.subject.as_str(), session.as_str())
    }

    /// Returns the directory below `bids_root` that a marker's `when` looks into.
    pub(super) fn input(&self, procedure: &Procedure, session: &SessionLabel) -> PathBuf {
        self.probe
            .output_roots()
            .input(procedure, self.subject.as_str(), session.as_str())
    }

    /// Returns the directory that holds the outputs of all subjects.
    pub(super) fn top(&self, procedure: &Procedure) -> PathBuf {
        self.probe.output_roots().top(procedure)
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
