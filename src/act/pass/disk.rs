//! The outputs on disk, as the reconciliation of rows asks for them.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use chrono::Duration;

use super::chrono_duration;
use crate::base::parallel;
use crate::decide::reconcile::{OutputSource, Outputs};
use crate::gather::completion::{Completion, Completions};
use crate::model::bids::{SessionLabel, SubjectLabel};
use crate::model::config::Config;
use crate::model::procedure::{ProcedureId, SubmitRules};
use crate::model::state::TaskKey;

/// The outputs of the configured procedures.
pub struct Disk<'a> {
    pub config: &'a Config,
    completions: &'a dyn Completions,
    /// Outputs that were read in advance.
    known: HashMap<(TaskKey, bool), Outputs>,
}

/// A recorder of the outputs that are asked for, and whether their age matters; reports all as missing.
#[derive(Debug, Default)]
pub(super) struct Asked(RefCell<BTreeSet<(TaskKey, bool)>>);

impl<'a> Disk<'a> {
    pub fn new(config: &'a Config, completions: &'a dyn Completions) -> Self {
        Self {
            config,
            completions,
            known: HashMap::new(),
        }
    }

    /// Reads all outputs that were asked for, several subjects in parallel.
    pub(super) fn read_ahead(&mut self, asked: Asked) {
        let asked: Vec<(TaskKey, bool)> = asked.0.into_inner().into_iter().collect();
        // Tasks of one subject share what is read.
        let subjects: Vec<&[(TaskKey, bool)]> = asked
            .chunk_by(|(a, _), (b, _)| a.subject == b.subject)
            .collect();
        let found = parallel::map(&subjects, self.config.scan_threads, |tasks| {
            let look = |(key, wants_age): &(TaskKey, bool)| self.outputs(key, *wants_age);
            tasks.iter().map(look).collect::<Vec<_>>()
        });
        self.known = asked.into_iter().zip(found.into_iter().flatten()).collect();
    }

    /// `None` if the key names nothing in the current configuration.
    fn task(&self, key: &TaskKey) -> Option<(ProcedureId, SubjectLabel, SessionLabel)> {
        let (subject, session) = key.labels()?;
        let procedure = self.config.procedures.find(&key.procedure)?;
        Some((procedure, subject, session))
    }
}

impl OutputSource for Disk<'_> {
    fn outputs(&self, key: &TaskKey, wants_age: bool) -> Outputs {
        if let Some(outputs) = self.known.get(&(key.clone(), wants_age)) {
            return *outputs;
        }
        let Some((procedure, subject, session)) = self.task(key) else {
            return Outputs::NoRule;
        };
        let disk = self.completions.for_subject_now_and_later(&subject);
        match disk.completion(procedure, &session) {
            Completion::Complete | Completion::NotApplicable => Outputs::Complete {
                newest: wants_age
                    .then(|| disk.newest_output(procedure, &session))
                    .flatten(),
            },
            Completion::Incomplete => Outputs::Missing,
            Completion::Unreadable(_) => Outputs::Unreadable,
        }
    }

    fn output_grace(&self, key: &TaskKey) -> Duration {
        let mut grace = self.config.output_grace;
        if let Some((procedure, subject, session)) = self.task(key) {
            let own = self.config.procedures.get(procedure).output_grace;
            grace = own.unwrap_or(grace);
            let disk = self.completions.for_subject_now_and_later(&subject);
            if !grace.is_zero() && disk.is_forbidden(procedure, &session) {
                return Duration::zero();
            }
        }
        chrono_duration(grace)
    }

    fn rules(&self, key: &TaskKey) -> Option<&SubmitRules> {
        let procedures = &self.config.procedures;
        let own = procedures.find(&key.procedure)?;
        Some(&procedures.get(own).rules)
    }
}

impl OutputSource for Asked {
    fn outputs(&self, key: &TaskKey, wants_age: bool) -> Outputs {
        self.0.borrow_mut().insert((key.clone(), wants_age));
        Outputs::Missing
    }

    fn output_grace(&self, _: &TaskKey) -> Duration {
        Duration::zero()
    }
}
