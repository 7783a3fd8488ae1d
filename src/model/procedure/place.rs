//! The directories of inputs and outputs.

use std::path::{Path, PathBuf};

use super::marker::Base;
use super::{Procedure, Scope, template};

/// The roots of all outputs.
#[derive(Debug, Clone, Copy)]
pub struct OutputRoots<'a> {
    pub bids: &'a Path,
    pub derivatives: &'a Path,
}

impl Procedure {
    /// True if its outputs are in the BIDS dataset itself.
    pub fn is_below_bids(&self) -> bool {
        self.output_dir.as_os_str().is_empty()
    }

    /// True if its `output_dir` contains placeholders.
    pub fn has_template(&self) -> bool {
        self.output_dir.to_str().is_some_and(template::has_any)
    }

    /// The part of `output_dir` before its first placeholder, shared by all subjects.
    pub fn shared_dir(&self) -> PathBuf {
        let parts = self.output_dir.components();
        parts
            .take_while(|part| !part.as_os_str().to_str().is_some_and(template::has_any))
            .collect()
    }
}

impl<'a> OutputRoots<'a> {
    /// The root of a procedure's outputs.
    pub fn root(self, procedure: &Procedure) -> &'a Path {
        match procedure.is_below_bids() {
            true => self.bids,
            false => self.derivatives,
        }
    }

    /// The directory with the outputs of all subjects.
    pub fn top(self, procedure: &Procedure) -> PathBuf {
        match procedure.is_below_bids() {
            true => self.bids.to_owned(),
            false => self.derivatives.join(procedure.shared_dir()),
        }
    }

    /// The directory that a marker's pattern is relative to, unless it is the task's own.
    pub fn base(self, procedure: &Procedure, base: Base) -> Option<PathBuf> {
        match base {
            Base::Task => None,
            Base::Procedure => Some(self.top(procedure)),
            Base::Derivatives => Some(self.derivatives.to_owned()),
            Base::Bids => Some(self.bids.to_owned()),
        }
    }

    /// The directory of a task's outputs.
    pub fn output(self, procedure: &Procedure, subject: &str, session: &str) -> PathBuf {
        match procedure
            .output_dir
            .to_str()
            .filter(|_| procedure.has_template())
        {
            Some(dir) => self
                .derivatives
                .join(&*template::fill(dir, subject, session)),
            None => of_task(self.top(procedure), procedure, subject, session),
        }
    }

    /// The directory of a task's input in `bids_root`.
    pub fn input(self, procedure: &Procedure, subject: &str, session: &str) -> PathBuf {
        of_task(self.bids.to_owned(), procedure, subject, session)
    }
}

/// `<top>/<sub>[/<ses>]`, with the session only for session scope.
fn of_task(top: PathBuf, procedure: &Procedure, subject: &str, session: &str) -> PathBuf {
    let dir = top.join(subject);
    if procedure.scope == Scope::Subject || session.is_empty() {
        dir
    } else {
        dir.join(session)
    }
}
