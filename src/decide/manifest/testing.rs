//! A disk of fixed answers for tests.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::{DateTime, Utc};

use crate::gather::completion::{Completion, Completions, SubjectCompletions};
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::procedure::{ProcedureDag, ProcedureId};
use crate::model::state::TaskKey;

/// Incomplete without an answer. Counts its reads.
#[derive(Default)]
pub struct Disk {
    pub answers: BTreeMap<(String, String, u16), Completion>,
    /// The age of all outputs.
    pub newest: Option<DateTime<Utc>>,
    pub reads: AtomicUsize,
}

impl Disk {
    pub fn set(&mut self, subject: &str, session: &str, procedure: u16, completion: Completion) {
        self.answers
            .insert((subject.into(), session.into(), procedure), completion);
    }

    pub fn set_task(&mut self, dag: &ProcedureDag, key: &TaskKey, completion: Completion) {
        let procedure = dag.find(&key.procedure).unwrap().0;
        self.set(&key.subject, &key.session, procedure, completion);
    }
}

struct OneSubject<'a>(&'a Disk, &'a SubjectLabel);

impl Completions for Disk {
    fn for_subject<'a>(&'a self, subject: &'a SubjectLabel) -> Box<dyn SubjectCompletions + 'a> {
        Box::new(OneSubject(self, subject))
    }
}

impl SubjectCompletions for OneSubject<'_> {
    fn completion(&self, procedure: ProcedureId, session: &SessionLabel) -> Completion {
        self.0.reads.fetch_add(1, Ordering::Relaxed);
        let key = (self.1.to_string(), session.to_string(), procedure.0);
        let answer = self.0.answers.get(&key).cloned();
        answer.unwrap_or(Completion::Incomplete)
    }

    fn newest_output(&self, _: ProcedureId, _: &SessionLabel) -> Option<DateTime<Utc>> {
        self.0.newest
    }
}
