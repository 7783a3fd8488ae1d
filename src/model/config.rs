//! The configuration as plain, valid data.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::words::words;
use crate::model::annex::Annex;
use crate::model::bids::{CohortSource, SessionSource};
use crate::model::job::ExecutorKind;
use crate::model::procedure::{MemSize, OutputRoots, ProcedureDag, TimeLimit};

/// A validated configuration. All paths are absolute.
#[derive(Debug, Clone)]
pub struct Config {
    /// `None` for the built-in defaults.
    pub file: Option<PathBuf>,
    pub dicom_root: PathBuf,
    pub bids_root: PathBuf,
    pub derivatives_root: PathBuf,
    pub state_file: PathBuf,
    /// If `None`, it comes from the state's metadata or a hash of its path.
    pub project: Option<String>,
    pub log_file: PathBuf,
    pub qsirecon_spec: Option<PathBuf>,
    pub sessions: SessionSource,
    /// Which of the discovered sessions are processed.
    pub cohort: CohortSource,
    pub annex: Annex,
    pub safety: SafetyConfig,
    /// In `dicom_root`, a subject without `ses-*` is one session with the empty label.
    pub sessionless: bool,
    /// Pads ids of a sessions file to the label widths of the Python program.
    pub pad_ids: bool,
    pub executor: ExecutorKind,
    pub script_dir: Option<PathBuf>,
    pub slurm: SlurmConfig,
    /// Maximum number of local jobs that run at the same time.
    pub local_jobs: usize,
    pub max_in_flight: Option<usize>,
    pub max_submit_per_run: Option<usize>,
    /// Counts all jobs of the user in the queue, including those of other programs, and array tasks individually.
    pub max_queued_user_jobs: Option<usize>,
    pub ceiling: Ceiling,
    pub fair: Fairness,
    /// A session waits while its newest DICOM file is younger than this.
    pub dicom_settle: Option<Duration>,
    /// A session with fewer than `audit.dicom_min_files` files waits.
    pub dicom_gate: bool,
    /// How long complete rows are trusted without checking their outputs. Zero means not at all.
    pub recheck: Duration,
    /// Number of threads that read the file system in parallel.
    pub scan_threads: usize,
    /// Submits failed tasks again in every run, like the Python program.
    pub resubmit_failed: bool,
    /// Time between the two clean answers that release a submission in doubt.
    pub settle_time: Duration,
    pub output_grace: Duration,
    pub lost_grace: Duration,
    /// How long a job must be missing from the queue to count as ended if accounting is unavailable.
    pub absence_grace: Duration,
    /// Time limit of a pass.
    pub deadline: Duration,
    pub lock_timeout: Duration,
    pub audit: AuditConfig,
    pub notify: NotifyConfig,
    /// Written at the end of each run, for a watchdog.
    pub heartbeat_file: Option<PathBuf>,
    /// Prometheus metrics.
    pub metrics_file: Option<PathBuf>,
    pub procedures: ProcedureDag,
    /// One line each, with position.
    pub warnings: Vec<String>,
}

/// Slurm settings of the site; procedures contain their own values.
#[derive(Debug, Clone)]
pub struct SlurmConfig {
    /// `None` for no `--partition`.
    pub partition: Option<String>,
    /// `None` for no `--account`.
    pub account: Option<String>,
    pub mem: Option<MemSize>,
    pub cpus_per_task: Option<u32>,
    pub log_dir: Option<PathBuf>,
    /// The directory of Slurm's commands; `None` for `PATH`.
    pub bin_dir: Option<PathBuf>,
    /// Whether to query sacct.
    pub accounting: bool,
}

/// Thresholds of the safety stop.
#[derive(Debug, Clone, PartialEq)]
pub struct SafetyConfig {
    /// In percent; 100 disables the check.
    pub max_drop: f64,
    /// Free bytes that the file systems of state and audit log must have; 0 disables the check.
    pub min_free: u64,
}

/// Upper limits of a job's request; larger requests are reduced, with a note. `None` for no limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ceiling {
    pub mem: Option<MemSize>,
    pub time: Option<TimeLimit>,
    pub cpus: Option<u32>,
}

words! {
    /// The order of a procedure's tasks when a limit applies.
    #[derive(Default)]
    pub enum Fairness {
        /// The first subjects first.
        #[default]
        Order = "order",
        /// One task of each subject in turn.
        Subjects = "subjects",
    }
}

/// The `audit` section.
#[derive(Debug, Clone)]
pub struct AuditConfig {
    pub dicom_min_files: u64,
    pub stale_job_threshold: Duration,
    pub report_dir: Option<PathBuf>,
    pub email_recipients: Vec<String>,
    pub email_from: String,
    pub smtp_host: String,
    pub smtp_port: u16,
    pub smtp_tls: bool,
    pub smtp_username: Option<String>,
    pub smtp_password: Option<Secret>,
    /// Searched before the built-in patterns.
    pub log_patterns: Vec<LogPattern>,
}

/// A site's pattern for errors in logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPattern {
    pub name: String,
    /// A valid regular expression.
    pub regex: String,
    /// The remedy.
    pub hint: Option<String>,
}

/// The `notify` section.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NotifyConfig {
    pub email: bool,
    /// A program that receives the digest on standard input.
    pub command: Option<PathBuf>,
    pub on: BTreeSet<Occasion>,
}

words! {
    /// A kind of event to report, the worst first.
    pub enum Occasion {
        /// The program failed.
        Error = "error",
        /// Slurm did not respond in several consecutive invocations.
        Unreachable = "unreachable",
        SafetyStop = "safety_stop",
        /// The circuit breaker paused a procedure.
        Paused = "paused",
        /// Submissions were refused, or a script is missing.
        Refused = "refused",
        /// A task failed and is not retried automatically.
        Failed = "failed",
        /// Like `Failed`, but the job's result is unknown.
        Lost = "lost",
        /// A job will not start on its own.
        Held = "held",
        /// A submission has been in doubt for a long time.
        InDoubt = "in_doubt",
    }
}

impl NotifyConfig {
    pub fn is_on(&self) -> bool {
        self.email || self.command.is_some()
    }
}

/// A text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

impl Config {
    /// The path that the sessions come from, and its key.
    pub fn sessions_place(&self) -> (&'static str, &Path) {
        match &self.sessions {
            SessionSource::Dicom => ("dicom_root", &self.dicom_root),
            SessionSource::Bids => ("bids_root", &self.bids_root),
            SessionSource::Csv { file, .. } => ("sessions_file", file),
        }
    }

    pub fn output_roots(&self) -> OutputRoots<'_> {
        OutputRoots {
            bids: &self.bids_root,
            derivatives: &self.derivatives_root,
        }
    }

    /// The directories that are searched for scripts before `PATH`.
    pub fn script_dirs(&self) -> Vec<PathBuf> {
        let beside = self.file.as_deref().and_then(Path::parent);
        let dirs = [self.script_dir.as_deref(), beside];
        dirs.into_iter().flatten().map(Path::to_owned).collect()
    }

    /// The three data roots and their keys.
    pub fn roots(&self) -> [(&'static str, &Path); 3] {
        [
            ("dicom_root", &self.dicom_root),
            ("bids_root", &self.bids_root),
            ("derivatives_root", &self.derivatives_root),
        ]
    }
}
