//! Procedures: the steps of a site's pipeline.

pub mod dag;
pub mod marker;
pub mod options;
pub mod resources;
pub mod template;
pub(crate) mod testing;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::base::words::words;
use crate::model::procedure::marker::{Base, CompletionRule};
use crate::model::procedure::template::{fill, has_any};
use crate::model::state::Reason;
pub use dag::{DagError, ProcedureDag, ProcedureId};
pub use resources::{MemSize, Resources, TimeLimit};

/// One processing step (`bids`, `qsiprep`, ...), as declared in the configuration.
#[derive(Debug, Clone)]
pub struct Procedure {
    /// Unique in a configuration; part of job names and log paths. Letters, digits, `_`, `-`, `.`, `+`.
    pub name: Arc<str>,
    /// Relative to `derivatives_root`; empty for `bids_root` itself. May contain `{subject}` and `{session}`.
    pub output_dir: PathBuf,
    /// As written in the configuration; the executor searches for it.
    pub script: String,
    pub scope: Scope,
    pub depends_on: Vec<Dependency>,
    pub check: Check,
    pub completion: CompletionRule,
    pub resources: Resources,
    /// Environment variables for the job, in addition to `SNBB_*`.
    pub env: BTreeMap<String, String>,
    /// How long outputs may take to appear after the job's end; `None` for the site's `output_grace`.
    pub output_grace: Option<Duration>,
    pub rules: SubmitRules,
}

words! {
    /// Whether a procedure runs once per session or once per subject.
    #[derive(Default)]
    pub enum Scope {
        #[default]
        Session = "session",
        Subject = "subject",
    }
}

/// A procedure that must be complete first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dependency {
    pub procedure: Arc<str>,
    pub sessions: SessionsRule,
}

words! {
    /// Which sessions of a session-scoped dependency must be complete.
    #[derive(Default)]
    pub enum SessionsRule {
        /// The default for the scope of the dependent procedure: `Same` per session, `All` per
        /// subject. Never used in a configuration or by a [`ProcedureDag`].
        #[default]
        ByScope = "by scope",
        /// Every session of the subject that has DICOM files (and at least one).
        All = "all",
        /// At least one session of the subject.
        Any = "any",
        /// The task's own session; only for session scope.
        Same = "same",
    }
}

impl SessionsRule {
    /// The effective rule for a dependent procedure of this scope.
    pub fn resolve(self, scope: Scope) -> Self {
        match (self, scope) {
            (Self::ByScope, Scope::Session) => Self::Same,
            (Self::ByScope, Scope::Subject) => Self::All,
            (rule, _) => rule,
        }
    }
}

words! {
    /// How completeness is judged.
    #[derive(Default)]
    pub enum Check {
        /// By the procedure's own completion rule.
        #[default]
        Markers = "markers",
        /// By FreeSurfer's `recon-all.done` files of all sessions, the template, and the longitudinal runs.
        Freesurfer = "freesurfer",
        /// By QSIRecon's HTML reports per workflow suffix.
        Qsirecon = "qsirecon",
    }
}

/// Submission rules of one procedure.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SubmitRules {
    /// Maximum number of tasks in flight.
    pub max_in_flight: Option<usize>,
    /// `None` if failed tasks wait for `retry`.
    pub retry: Option<RetryRules>,
    /// Number of consecutive failures that pause the procedure; `None` for never.
    pub pause_after_failures: Option<u32>,
    /// Number of jobs that must succeed before more are submitted; 0 for no warm-up.
    pub warmup: usize,
    pub array: ArrayMode,
    /// Maximum number of tasks of one array that run at the same time (`%K` of sbatch's `--array`).
    pub array_throttle: Option<u32>,
    /// For subject scope: the number of ready sessions that a subject needs. At least 1.
    pub min_sessions: usize,
    /// A complete task is due again after new sessions (for subject scope) or new input files.
    pub rerun_when_stale: bool,
    /// A failed job counts as complete if its outputs are complete.
    pub accept_outputs: bool,
}

words! {
    /// When due tasks of a procedure are submitted as one job array.
    #[derive(Default)]
    pub enum ArrayMode {
        #[default]
        Never = "never",
        /// If at least ten with the same resources are due.
        Auto = "auto",
        /// Even for a single one.
        Always = "always",
    }
}

/// Automatic retry policy.
#[derive(Debug, Clone, PartialEq)]
pub struct RetryRules {
    /// Maximum number of attempts, including the first, since the task's row was created or cleared. Infrastructure
    /// failures do not count.
    pub max_attempts: u32,
    /// Maximum number of additional attempts after infrastructure failures.
    pub max_infrastructure: u32,
    /// Failures with other reasons wait for `retry`.
    pub on: BTreeMap<Reason, RetryRule>,
}

/// Changes of the next attempt after one kind of failure.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RetryRule {
    /// Multiplies the last attempt's memory request.
    pub mem_factor: Option<f64>,
    pub mem_max: Option<MemSize>,
    /// Multiplies the last attempt's time limit.
    pub time_factor: Option<f64>,
    pub time_max: Option<TimeLimit>,
    /// The next attempts do not run on this attempt's nodes.
    pub exclude_node: bool,
    /// Exit codes to retry; empty for all. A signal is 128 plus its number.
    pub codes: Vec<u8>,
    /// Time between the failure and the next attempt. `None` means immediately, or for infrastructure failures one
    /// minute, doubled each time.
    pub delay: Option<Duration>,
}

words! {
    /// A variable that is set for every job.
    pub enum Variable {
        Subject = "SNBB_SUBJECT",
        Session = "SNBB_SESSION",
        Procedure = "SNBB_PROCEDURE",
        Attempt = "SNBB_ATTEMPT",
        /// The reason of the previous attempt's failure.
        LastReason = "SNBB_LAST_REASON",
        DicomPath = "SNBB_DICOM_PATH",
        BidsRoot = "SNBB_BIDS_ROOT",
        DerivativesRoot = "SNBB_DERIVATIVES_ROOT",
        OutputDir = "SNBB_OUTPUT_DIR",
    }
}

impl Variable {
    /// The names that a procedure's `env` may not set, because they identify the task and its outputs. The roots may be
    /// set, for nodes that see a root under another path.
    pub fn reserved() -> Vec<&'static str> {
        let may_be_set = [Self::BidsRoot, Self::DerivativesRoot];
        let reserved = Self::ALL
            .iter()
            .filter(|variable| !may_be_set.contains(variable));
        reserved.map(|variable| variable.as_str()).collect()
    }
}

/// True if tasks that differ in this variable may be one job array. All other variables are equal within an array.
pub fn may_differ(name: &str) -> bool {
    Variable::reserved().contains(&name) && name != Variable::Procedure.as_str()
}

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
        self.output_dir.to_str().is_some_and(has_any)
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
        if procedure.is_below_bids() {
            return self.bids.to_owned();
        }
        let mut above = procedure.output_dir.ancestors();
        let shared = above.find(|dir| !dir.to_str().is_some_and(has_any));
        self.derivatives.join(shared.unwrap_or(Path::new("")))
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
        let dir = procedure.output_dir.to_str();
        match dir.filter(|dir| has_any(dir)) {
            Some(dir) => self.derivatives.join(&*fill(dir, subject, session)),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Tasks of one array share the other variables, which are passed to sbatch only once.
    #[test]
    fn only_variables_of_a_task_may_differ_in_an_array() {
        for name in [
            "SNBB_SUBJECT",
            "SNBB_SESSION",
            "SNBB_ATTEMPT",
            "SNBB_LAST_REASON",
            "SNBB_DICOM_PATH",
            "SNBB_OUTPUT_DIR",
        ] {
            assert!(may_differ(name), "{name}");
        }
        for name in [
            "SNBB_PROCEDURE",
            "SNBB_BIDS_ROOT",
            "SNBB_DERIVATIVES_ROOT",
            "PATH",
            "",
        ] {
            assert!(!may_differ(name), "{name}");
        }
    }
}
