//! Where outputs lie. Whoever wants to know asks here. Pure.

use std::path::{Path, PathBuf};

use super::{Procedure, Scope};

/// The roots that outputs lie below.
#[derive(Debug, Clone, Copy)]
pub struct OutputRoots<'a> {
    pub bids: &'a Path,
    pub derivatives: &'a Path,
}

impl Procedure {
    /// True if its outputs lie in the BIDS dataset itself.
    pub fn is_below_bids(&self) -> bool {
        self.output_dir.as_os_str().is_empty()
    }
}

impl<'a> OutputRoots<'a> {
    /// Returns the root that a procedure's outputs lie below.
    pub fn root(self, procedure: &Procedure) -> &'a Path {
        match procedure.is_below_bids() {
            true => self.bids,
            false => self.derivatives,
        }
    }

    /// Returns the directory that holds the outputs of all subjects.
    pub fn top(self, procedure: &Procedure) -> PathBuf {
        match procedure.is_below_bids() {
            true => self.bids.to_owned(),
            false => self.derivatives.join(&procedure.output_dir),
        }
    }

    /// Returns where a task's outputs are expected.
    pub fn output(self, procedure: &Procedure, subject: &str, session: &str) -> PathBuf {
        of_task(self.top(procedure), procedure, subject, session)
    }

    /// Returns the directory below `bids_root` that a task's input lies in.
    pub fn input(self, procedure: &Procedure, subject: &str, session: &str) -> PathBuf {
        of_task(self.bids.to_owned(), procedure, subject, session)
    }
}

/// Returns `<top>/<sub>[/<ses>]`, with the session part for session scope only.
fn of_task(top: PathBuf, procedure: &Procedure, subject: &str, session: &str) -> PathBuf {
    let dir = top.join(subject);
    if procedure.scope == Scope::Subject || session.is_empty() {
        dir
    } else {
        dir.join(session)
    }
}
