//! What a probe remembers of subjects that are asked about again later in the pass.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::gather::completion::Completion;
use crate::gather::disk::listing::Dirs;
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::procedure::ProcedureId;

/// So many subjects are remembered at most, some 100 MB; the others are read again.
const MOST: usize = 20_000;

/// Holds the answers about a subject's tasks.
pub(super) type Answers = HashMap<(ProcedureId, SessionLabel), Completion>;

/// Holds what was found out about a subject.
#[derive(Debug, Default)]
pub(super) struct Kept {
    pub dirs: Dirs,
    pub answers: Answers,
}

/// Keeps what was found out, for all threads.
#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<HashMap<SubjectLabel, Kept>>);

impl Memory {
    /// Takes what is known of a subject out of the memory.
    pub fn take(&self, subject: &SubjectLabel) -> Kept {
        let mut subjects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        subjects.remove(subject).unwrap_or_default()
    }

    /// Remembers a subject, unless there are too many.
    pub fn keep(&self, subject: &SubjectLabel, found: Kept) {
        let mut subjects = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if subjects.len() < MOST {
            subjects.insert(subject.clone(), found);
        }
    }
}
