//! Whether a task's outputs on disk are complete, by the rules of its procedure ([`crate::model::procedure::marker`]).
//!
//! Independent of jobs: [`crate::decide::manifest`] and [`crate::decide::reconcile`] decide whether outputs are
//! trusted while a job is alive.

pub mod explain;
pub mod find;
pub mod probe;

use chrono::{DateTime, Utc};
use serde::Serialize;

use crate::gather::disk::Unreadable;
use crate::gather::disk::reader::Reader;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::procedure::ProcedureId;

/// The state of one task's outputs on disk.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Completion {
    Complete,
    Incomplete,
    /// Every marker is excused by its `when`, because the session lacks the input.
    #[default]
    NotApplicable,
    /// A directory or file could not be read. Never means an absence.
    Unreadable(#[serde(skip)] Box<Unreadable>),
}

/// A source of completions, one subject at a time: what was read for a subject is shared between its tasks and freed
/// afterwards. Can be used by several threads.
pub trait Completions: Sync {
    /// Also used for DICOM directories, so that results are shared.
    fn reader(&self) -> Reader {
        Reader::default()
    }

    fn for_subject<'a>(&'a self, subject: &'a SubjectLabel) -> Box<dyn SubjectCompletions + 'a>;

    /// [`Self::for_subject`] for a subject that is needed again later in the pass: what was read is kept until then.
    fn for_subject_now_and_later<'a>(
        &'a self,
        subject: &'a SubjectLabel,
    ) -> Box<dyn SubjectCompletions + 'a> {
        self.for_subject(subject)
    }
}

/// The completions of one subject. Files are only read when needed, and only once.
pub trait SubjectCompletions {
    /// `session` is [`SessionLabel::none`] for subject scope.
    fn completion(&self, procedure: ProcedureId, session: &SessionLabel) -> Completion;

    /// The newest modification time among the files that satisfy the task's markers; `None` if there are none or one
    /// cannot be read.
    fn newest_output(&self, _: ProcedureId, _: &SessionLabel) -> Option<DateTime<Utc>> {
        None
    }

    /// True if a forbidden file makes the task incomplete, regardless of further outputs.
    fn is_forbidden(&self, _: ProcedureId, _: &SessionLabel) -> bool {
        false
    }
}
