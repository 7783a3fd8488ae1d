//! What configuration and command line say about the decision.

use super::context::Context;
use super::error::Failure;
use crate::base::sys;
use crate::decide::manifest::{Policy, Selection};
use crate::gather::sessions::lists;

/// What a decision is asked for. `recheck`: complete rows are looked at, however long the configuration trusts them.
#[derive(Debug, Clone, Copy)]
pub enum Purpose {
    /// To be shown, with late input in all procedures.
    Show {
        recheck: bool,
    },
    Run {
        force: bool,
        recheck: bool,
    },
}

impl Context {
    /// Puts together what configuration and command line say about the decision.
    pub fn policy(&self, selection: Selection, purpose: Purpose) -> Result<Policy, Failure> {
        let (force, rechecks_all) = match purpose {
            Purpose::Show { recheck } => (false, recheck),
            Purpose::Run { force, recheck } => (force, recheck),
        };
        Ok(Policy {
            selection,
            force,
            resubmit_failed: self.config.resubmit_failed,
            cohort: lists::load(&self.config.cohort)?,
            reports_late_input: matches!(purpose, Purpose::Show { .. }),
            host: sys::host_name(),
            recheck: self.config.recheck,
            rechecks_all,
            away: None,
        })
    }
}
