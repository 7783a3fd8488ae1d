//! Completion: judges by what the disk shows whether a task's output is complete.
//!
//! The rules themselves are part of a procedure: [`crate::model::procedure::marker`].
//!
//! Nothing here knows jobs: whether markers may be believed while a job lives is decided in
//! [`crate::decide::manifest`] and [`crate::decide::reconcile`].

pub mod explain;
pub mod find;
pub mod probe;

use chrono::{DateTime, Utc};

use crate::gather::disk::Unreadable;
use crate::gather::disk::reader::Reader;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::procedure::ProcedureId;

/// Says what the disk shows of one task's output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completion {
    Complete,
    Incomplete,
    /// Every marker is excused by its `when`: the session lacks the input.
    NotApplicable,
    /// A directory or file could not be read. This is never an absence.
    Unreadable(Box<Unreadable>),
}

/// Answers questions about outputs, one subject at a time, so that what was read for a subject can
/// be shared between its tasks and forgotten afterwards. May be asked from several threads.
pub trait Completions: Sync {
    /// Returns what reads the trees: DICOM directories are looked at on the same account.
    fn reader(&self) -> Reader {
        Reader::default()
    }

    fn for_subject<'a>(&'a self, subject: &'a SubjectLabel) -> Box<dyn SubjectCompletions + 'a>;

    /// Does the same for a subject that is asked about again later in the pass: what was read is
    /// kept until then.
    fn for_subject_now_and_later<'a>(
        &'a self,
        subject: &'a SubjectLabel,
    ) -> Box<dyn SubjectCompletions + 'a> {
        self.for_subject(subject)
    }
}

/// Answers for one subject. Nothing is read before it is asked for, and nothing twice.
pub trait SubjectCompletions {
    /// Judges one task; `session` is [`SessionLabel::none`] for subject scope.
    fn completion(&self, procedure: ProcedureId, session: &SessionLabel) -> Completion;

    /// Returns the newest modification time among the files that satisfied the task's markers;
    /// none if there is none or it cannot be read.
    fn newest_output(
        &self,
        procedure: ProcedureId,
        session: &SessionLabel,
    ) -> Option<DateTime<Utc>>;

    /// True if a forbidden file makes the task incomplete, whatever outputs may still appear.
    fn is_forbidden(&self, _: ProcedureId, _: &SessionLabel) -> bool {
        false
    }
}
