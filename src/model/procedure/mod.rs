//! Procedures: the steps of a site's pipeline.

pub mod dag;
pub mod marker;
pub mod options;
pub mod place;
pub mod resources;
pub mod rules;
pub mod template;
pub(crate) mod testing;
pub mod variable;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::base::words::words;
use crate::model::procedure::marker::CompletionRule;
pub use dag::{DagError, ProcedureDag, ProcedureId};
pub use place::OutputRoots;
pub use resources::{MemSize, Resources, TimeLimit};
pub use rules::{ArrayMode, RetryRule, RetryRules, SubmitRules};
pub use variable::Variable;

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
