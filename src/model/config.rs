//! The configuration as plain, valid data.

pub mod notify;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base::words::words;
use crate::model::annex::Annex;
use crate::model::bids::{CohortSource, Gate, Search, SessionSource};
use crate::model::config::notify::NotifyConfig;
use crate::model::job::ExecutorKind;
use crate::model::procedure::{MemSize, OutputRoots, ProcedureDag, TimeLimit};

/// Holds a whole configuration. All paths are absolute; a `Config` in hand has been validated.
#[derive(Debug, Clone)]
pub struct Config {
    /// The file that this came from; none: built-in defaults.
    pub file: Option<PathBuf>,
    pub dicom_root: PathBuf,
    pub bids_root: PathBuf,
    pub derivatives_root: PathBuf,
    pub state_file: PathBuf,
    /// None: the state's metadata or a hash of its path decides.
    pub project: Option<String>,
    pub log_file: PathBuf,
    pub qsirecon_spec: Option<PathBuf>,
    pub sessions: SessionSource,
    /// Which of the sessions found are worked on.
    pub cohort: CohortSource,
    /// How git-annex links whose content is not here count.
    pub annex: Annex,
    pub safety: SafetyConfig,
    /// Below `dicom_root`, a subject without `ses-*` is one session with the empty label.
    pub sessionless: bool,
    /// Ids of a sessions file become labels of the Python program's widths.
    pub pad_ids: bool,
    pub executor: ExecutorKind,
    pub script_dir: Option<PathBuf>,
    pub slurm: SlurmConfig,
    /// How many local jobs run at a time.
    pub local_jobs: usize,
    pub max_in_flight: Option<usize>,
    pub max_submit_per_run: Option<usize>,
    /// Counts all of the user's jobs in the queue, of whatever program, array tasks one by one.
    pub max_queued_user_jobs: Option<usize>,
    /// What no job may ask more of.
    pub ceiling: Ceiling,
    /// When a limit bites, subjects take turns within a procedure.
    pub fair: Fairness,
    /// A session waits while its newest DICOM file is younger than this.
    pub dicom_settle: Option<Duration>,
    /// A session with fewer than `audit.dicom_min_files` files waits.
    pub dicom_gate: bool,
    /// How long complete rows are trusted without a look at their outputs. Zero: not at all.
    pub recheck: Duration,
    /// Threads that wait for the file system at the same time.
    pub scan_threads: usize,
    /// The Python program's habit: failed tasks are submitted again at each run.
    pub resubmit_failed: bool,
    /// Between the two clean answers that release a submission in doubt.
    pub settle_time: Duration,
    pub output_grace: Duration,
    pub lost_grace: Duration,
    /// How long a job must be missing from the queue before that means anything, where accounting cannot say.
    pub absence_grace: Duration,
    /// Limit on a whole pass.
    pub deadline: Duration,
    pub lock_timeout: Duration,
    pub audit: AuditConfig,
    /// Who is told when something changes for the worse.
    pub notify: NotifyConfig,
    /// Written at the end of each run, for a watchdog.
    pub heartbeat_file: Option<PathBuf>,
    /// Figures for Prometheus.
    pub metrics_file: Option<PathBuf>,
    pub procedures: ProcedureDag,
    /// Things that are valid but deserve a word (one line each, with position).
    pub warnings: Vec<String>,
}

/// Holds what the site's Slurm needs; per-procedure values stand in the procedures.
#[derive(Debug, Clone)]
pub struct SlurmConfig {
    /// None: no `--partition`.
    pub partition: Option<String>,
    /// None: no `--account`.
    pub account: Option<String>,
    pub mem: Option<MemSize>,
    pub cpus_per_task: Option<u32>,
    pub log_dir: Option<PathBuf>,
    /// Where sbatch and its kin are; none: `PATH`.
    pub bin_dir: Option<PathBuf>,
    /// False: never ask sacct.
    pub accounting: bool,
}

/// Holds when a run stops because it does not trust what it sees.
#[derive(Debug, Clone, PartialEq)]
pub struct SafetyConfig {
    /// In percent; 100: never.
    pub max_drop: f64,
    /// Bytes that the file systems of state and audit log must have free; 0: any.
    pub min_free: u64,
}

/// Holds the most that a job may ask for; more is reduced, with a note. None: no bound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ceiling {
    pub mem: Option<MemSize>,
    pub time: Option<TimeLimit>,
    pub cpus: Option<u32>,
}

words! {
    /// Whose tasks come first when a limit bites, within a procedure.
    #[derive(Default)]
    pub enum Fairness {
        /// Those of the first subjects.
        #[default]
        Order = "order",
        /// One of each subject, in turn.
        Subjects = "subjects",
    }
}

/// Holds the `audit` section.
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
    /// Looked for in logs, before the built-in ones.
    pub log_patterns: Vec<LogPattern>,
}

/// Describes an error that the site knows from its logs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPattern {
    pub name: String,
    /// A valid regular expression.
    pub regex: String,
    /// What to do.
    pub hint: Option<String>,
}

/// Holds a text that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(secret)")
    }
}

impl Config {
    /// Says where the study's sessions are looked for.
    pub fn search(&self) -> Search<'_> {
        Search {
            source: &self.sessions,
            dicom_root: &self.dicom_root,
            bids_root: &self.bids_root,
            sessionless: self.sessionless,
            pad_ids: self.pad_ids,
            threads: self.scan_threads,
        }
    }

    /// Says where outputs lie.
    pub fn output_roots(&self) -> OutputRoots<'_> {
        OutputRoots {
            bids: &self.bids_root,
            derivatives: &self.derivatives_root,
        }
    }

    /// Returns the gate for sessions whose DICOM files are not all there.
    pub fn gate(&self) -> Gate {
        Gate {
            settle: self
                .dicom_settle
                .map(|settle| chrono::Duration::from_std(settle).unwrap_or(chrono::Duration::MAX)),
            min_files: if self.dicom_gate {
                self.audit.dicom_min_files
            } else {
                0
            },
        }
    }

    /// The directories in which scripts are looked for before `PATH`.
    pub fn script_dirs(&self) -> Vec<PathBuf> {
        let dirs = [self.script_dir.as_deref(), self.base_dir()];
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

    /// Returns the directory that relative paths and scripts of the configuration refer to.
    pub fn base_dir(&self) -> Option<&Path> {
        self.file.as_deref().and_then(Path::parent)
    }
}
