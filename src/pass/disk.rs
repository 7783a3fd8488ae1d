//! The disk as those see it who judge rows.

use chrono::Duration;

use super::chrono_duration;
use crate::bids::{SessionLabel, SubjectLabel};
use crate::completion::{Completion, Completions};
use crate::config::Config;
use crate::reconcile::{OutputSource, Outputs};
use crate::state::TaskKey;

/// Shows the outputs of today's procedures to those who judge rows.
pub struct Disk<'a> {
    pub config: &'a Config,
    pub completions: &'a dyn Completions,
}

impl OutputSource for Disk<'_> {
    fn outputs(&self, key: &TaskKey) -> Outputs {
        let Some(procedure) = self.config.procedures.find(&key.procedure) else {
            return Outputs::NoRule;
        };
        let Ok(subject) = SubjectLabel::new(&key.subject) else {
            return Outputs::NoRule;
        };
        let session = if key.session.is_empty() {
            SessionLabel::none()
        } else {
            match SessionLabel::new(&key.session) {
                Ok(session) => session,
                Err(_) => return Outputs::NoRule,
            }
        };
        let disk = self.completions.for_subject(&subject);
        match disk.completion(procedure, &session) {
            Completion::Complete | Completion::NotApplicable => Outputs::Complete {
                newest: disk.newest_output(procedure, &session),
            },
            Completion::Incomplete => Outputs::Missing,
            Completion::Unreadable(_) => Outputs::Unreadable,
        }
    }

    fn output_grace(&self, key: &TaskKey) -> Duration {
        let own = self
            .config
            .procedures
            .find(&key.procedure)
            .and_then(|procedure| self.config.procedures.get(procedure).output_grace);
        chrono_duration(own.unwrap_or(self.config.output_grace))
    }
}
