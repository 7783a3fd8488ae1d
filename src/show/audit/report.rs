//! The audit report as plain values, the source of all its formats.
//!
//! `audit --format json` prints them as documented in `docs/output.md` and `docs/schema/audit.schema.json`.
//! The other modules of `audit` compute them.

mod findings;
mod markers;

use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize, Serializer};

use super::Part;
use crate::base::words::words;
use crate::model::job::{ExecutorKind, JobId};
use crate::show::graph::Graph;
use crate::show::tables::{Group, TaskState, utc_time};

pub use crate::show::efficiency::{CpuUse, Efficiency, Percentiles, Usage, Verdict};
pub use findings::{
    Dicom, DicomFinding, DicomProblem, FailureGroup, Failures, JobDetail, LiveJob, LogFinding,
    Logs, NodeFailures, OrphanCause, OrphanRow, Orphans, PatternCount, ReasonCount, ScriptFinding,
    ScriptLine, ScriptProblem, StaleJob, TaskDetail, UnreadableItem,
};

pub use crate::show::progress::{Backlog, Day, ProcedureProgress, Progress, Rate};
pub use markers::{MarkerResult, MarkerState, marker_results};

/// Version of the format; raised by incompatible changes.
pub const FORMAT: u32 = 1;

/// The results of an audit. A part that was not requested is `None` or empty.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    pub study: Study,
    pub totals: Totals,
    /// In order of priority, then removed procedures by name.
    pub procedures: Vec<ProcedureCounts>,
    pub health: HealthSummary,
    pub matrix: Matrix,
    /// The JSON has the counts in `procedures`.
    #[serde(skip)]
    pub pipeline: Graph,
    /// Tasks that need attention (see [`TaskDetail`]). Cells of the matrix refer to them by index.
    pub tasks: Vec<TaskDetail>,
    pub dicom: Option<Dicom>,
    pub logs: Option<Logs>,
    pub stale: Vec<StaleJob>,
    pub orphans: Orphans,
    pub scripts: Vec<ScriptFinding>,
    pub failures: Failures,
    /// Without procedures that have no measured attempt.
    pub efficiency: Vec<Efficiency>,
    /// `None` if there is no readable audit log.
    pub progress: Option<Progress>,
    /// `None` if not requested, or without an earlier report.
    pub trend: Option<Trend>,
    /// Sources that could not be read, except DICOM directories. With any of these, the numbers are incomplete.
    pub unreadable: Vec<UnreadableItem>,
}

/// The study, the time and the parts of the report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Study {
    pub project: String,
    #[serde(serialize_with = "time")]
    pub created_at: DateTime<Utc>,
    /// Version of this program.
    pub version: &'static str,
    /// The requested parts.
    pub parts: &'static [Part],
    /// `None` for the built-in configuration.
    pub config: Option<String>,
    pub dicom_root: String,
    pub bids_root: String,
    pub derivatives_root: String,
    pub state_file: String,
    pub log_file: String,
    pub log_dir: Option<String>,
    #[serde(skip)]
    pub executor: ExecutorKind,
    /// The selection as on the command line. `None` for the whole study.
    pub selection: Option<String>,
}

impl Study {
    pub fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// The study's name for people: its `project`, or its directory if `project` is only a hash.
    pub fn name(&self) -> String {
        let is_hash =
            self.project.len() == 8 && self.project.bytes().all(|b| b.is_ascii_hexdigit());
        let file = Path::new(self.config.as_ref().unwrap_or(&self.state_file));
        match file.parent().and_then(Path::file_name) {
            Some(name) if is_hash => name.to_string_lossy().into_owned(),
            _ => self.project.clone(),
        }
    }
}

/// Sums over the whole report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Totals {
    pub subjects: usize,
    pub sessions: usize,
    /// Tasks of all found sessions, the sum of `decisions`.
    pub tasks: usize,
    /// By decision word, in the order of [`TaskState`]; only words that occur.
    pub decisions: Vec<Count>,
    /// The rows of the state, orphans included.
    pub rows: StatusCounts,
}

/// A word and its count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    pub word: Arc<str>,
    pub count: usize,
}

impl Count {
    pub fn new(word: &str, count: usize) -> Self {
        let word = word.into();
        Self { word, count }
    }
}

/// Rows of the state by status; `total` is the sum of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StatusCounts {
    pub pending: usize,
    pub running: usize,
    pub complete: usize,
    pub failed: usize,
    pub total: usize,
}

/// The counts of one procedure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcedureCounts {
    pub name: Arc<str>,
    /// `session` or `subject`. `None` for a removed procedure.
    pub scope: Option<&'static str>,
    /// The sum of `decisions`. A task of subject scope counts once.
    pub tasks: usize,
    pub decisions: Vec<Count>,
    pub rows: StatusCounts,
}

words! {
    /// The health of a session.
    pub enum Band {
        Good = "good",
        Fair = "fair",
        Poor = "poor",
    }
}

/// The complete share of one session.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Health {
    pub complete: usize,
    /// Procedures that apply to the session, at least 1.
    pub of: usize,
    /// `complete / of`, 0 to 1.
    pub share: f64,
    pub band: Band,
}

/// Sessions by band. The four counts add up to all sessions.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct HealthSummary {
    pub good: usize,
    pub fair: usize,
    pub poor: usize,
    /// Sessions without an applicable, selected procedure.
    pub none: usize,
    /// Mean share of the rated sessions.
    pub mean: Option<f64>,
}

/// The matrix of sessions (rows) and procedures (columns).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Matrix {
    /// The columns, in order of priority.
    pub procedures: Vec<Arc<str>>,
    /// Sorted by subject and session.
    pub sessions: Vec<MatrixRow>,
}

/// One session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatrixRow {
    pub subject: Arc<str>,
    /// Empty in a dataset without sessions.
    pub session: Arc<str>,
    pub health: Option<Health>,
    /// One per column. A task of subject scope appears in each session of its subject. `None` if there is no
    /// such task, or it was not selected.
    pub cells: Vec<Option<Cell>>,
}

/// One task in a session's row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    pub decision: TaskState,
    /// Why it failed, or the state of its job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<JobId>,
    /// A sentence about a task that is not complete and has no details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Arc<str>>,
    /// Index in [`Report::tasks`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<usize>,
}

/// Comparison with an earlier report of the same selection.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trend {
    /// The earlier report's file and time.
    pub file: String,
    #[serde(serialize_with = "time")]
    pub created_at: DateTime<Utc>,
    /// Sums of the whole study.
    #[serde(rename = "matters")]
    pub figures: Vec<FigureTrend>,
    pub procedures: Vec<ProcedureTrend>,
    /// True if any `bad` figure has grown.
    pub worse: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FigureTrend {
    /// `sessions`, `complete`, `failed`, `poor`, ...
    #[serde(rename = "matter")]
    pub name: &'static str,
    pub before: usize,
    pub now: usize,
    /// True if less is better.
    pub bad: bool,
}

/// Task counts by decision. A procedure that is missing in one of the reports counts 0 there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcedureTrend {
    pub procedure: Arc<str>,
    pub complete_before: usize,
    pub complete_now: usize,
    pub failed_before: usize,
    pub failed_now: usize,
}

impl Report {
    /// True if something could not be read, so that the numbers are incomplete.
    pub fn is_partial(&self) -> bool {
        !self.unreadable.is_empty()
            || self.dicom.as_ref().is_some_and(|dicom| {
                let mut findings = dicom.findings.iter();
                findings.any(|finding| finding.problem == DicomProblem::Unreadable)
            })
    }

    /// The documented JSON, as one line.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// The count of a word, 0 if it is not listed.
pub fn count_of(counts: &[Count], word: &str) -> usize {
    let found = counts.iter().find(|count| &*count.word == word);
    found.map_or(0, |count| count.count)
}

/// The number of tasks in a group of states.
pub fn count_of_group(counts: &[Count], group: Group) -> usize {
    let counts = group.states().map(|state| count_of(counts, state.as_str()));
    counts.sum()
}

/// A change with its sign: `+3`, `-3`, `0`.
pub fn signed(change: i128) -> String {
    match change {
        0 => "0".to_owned(),
        _ => format!("{change:+}"),
    }
}

fn time<S: Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&utc_time(*at))
}

#[cfg(test)]
mod tests {
    use crate::show::audit::testing::report;
    use crate::show::audit::trend::{Snapshot, trend};

    #[test]
    fn the_json_follows_the_documented_schema() {
        let schema = include_str!("../../../docs/schema/audit.schema.json");
        let schema = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let mut full = report();
        let snapshot = Snapshot::from_report(&full).unwrap();
        full.trend = Some(trend(&snapshot, "/study/reports/x.json", &snapshot));
        let mut bare = report();
        (bare.dicom, bare.logs, bare.progress) = (None, None, None);
        bare.orphans.jobs = None;
        for report in [full, bare] {
            let json = serde_json::from_slice(&report.to_json().unwrap()).unwrap();
            let problems: Vec<String> = validator
                .iter_errors(&json)
                .map(|error| format!("{error} at {}", error.instance_path()))
                .collect();
            assert_eq!(problems, Vec::<String>::new());
            let mut wrong: serde_json::Value = json;
            wrong["totals"]["surprise"] = 1.into();
            assert!(!validator.is_valid(&wrong));
        }
    }
}
