//! The audit report as plain values: what `audit --format json` prints, and all that the text and the
//! HTML page are made of.
//!
//! Serializes to exactly the documented JSON (`docs/output.md`, `docs/schema/audit.schema.json`).
//! Holds no logic beyond looking things up; how the values come about stands in the modules beside it.

mod findings;
mod markers;
mod trend;

use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize, Serializer};

use super::Part;
use crate::base::words::words;
use crate::show::graph::Graph;
use crate::show::tables::{Group, TaskState, utc_time};

pub use crate::show::efficiency::{CpuUse, Efficiency, Percentiles, Usage, Verdict};
pub use findings::{
    Dicom, DicomFinding, DicomProblem, FailureGroup, Failures, JobDetail, LiveJob, LogFinding,
    Logs, NodeFailures, OrphanCause, OrphanRow, Orphans, PatternCount, ReasonCount, ScriptFinding,
    ScriptLine, ScriptProblem, StaleJob, TaskDetail, UnreadableItem,
};

pub use crate::show::progress::{Backlog, Day, ProcedureProgress, Progress, Rate};
pub use trend::{MatterTrend, ProcedureTrend, Trend};

pub use markers::{MarkerResult, MarkerState, marker_results};

/// Counts the changes of the format that break readers.
pub const FORMAT: u32 = 1;

/// Holds everything that an audit found. A part that was not asked for is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    pub study: Study,
    pub totals: Totals,
    /// In order of priority; then procedures that only the state knows, by name.
    pub procedures: Vec<ProcedureCounts>,
    pub health: HealthSummary,
    pub matrix: Matrix,
    /// The JSON has the counts in `procedures`.
    #[serde(skip)]
    pub pipeline: Graph,
    /// Tasks that deserve a look, see [`TaskDetail`]. Cells of the matrix point to them by number.
    pub tasks: Vec<TaskDetail>,
    pub dicom: Option<Dicom>,
    pub logs: Option<Logs>,
    pub stale: Vec<StaleJob>,
    pub orphans: Orphans,
    pub scripts: Vec<ScriptFinding>,
    pub failures: Failures,
    /// A procedure of which no attempt has been measured is missing.
    pub efficiency: Vec<Efficiency>,
    /// None: the audit log could not be read, or there is none.
    pub progress: Option<Progress>,
    /// None: not asked for, or there is no earlier report.
    pub trend: Option<Trend>,
    /// What could not be read, apart from DICOM directories. With any of these the numbers are not the
    /// whole truth.
    pub unreadable: Vec<UnreadableItem>,
}

/// Names what was looked at, and when.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Study {
    pub project: String,
    #[serde(serialize_with = "time")]
    pub created_at: DateTime<Utc>,
    /// Of this program.
    pub version: &'static str,
    /// Which parts were asked for. The others are empty.
    pub parts: &'static [Part],
    /// None: built-in defaults.
    pub config: Option<String>,
    pub dicom_root: String,
    pub bids_root: String,
    pub derivatives_root: String,
    pub state_file: String,
    pub log_file: String,
    pub log_dir: Option<String>,
    /// The selection in words, as on the command line; none: the whole study.
    pub selection: Option<String>,
}

impl Study {
    /// True if this part was asked for.
    pub fn has(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    /// Names the study for people: its `project`, or if that is but a hash the directory that it lies in.
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

/// Holds the sums over the whole report.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Totals {
    pub subjects: usize,
    pub sessions: usize,
    /// Tasks of the sessions that were found: the sum of `decisions`.
    pub tasks: usize,
    /// By word of the decision, in the order of [`TaskState`]; only words that occur.
    pub decisions: Vec<Count>,
    /// The rows of the state, orphans included.
    pub rows: StatusCounts,
}

/// Counts one word.
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

/// Counts rows of the state by status; `total` is the sum of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct StatusCounts {
    pub pending: usize,
    pub running: usize,
    pub complete: usize,
    pub failed: usize,
    pub total: usize,
}

/// Holds the counts of one procedure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcedureCounts {
    pub name: Arc<str>,
    /// `session` or `subject`; none: it is not in the configuration, only rows are left.
    pub scope: Option<&'static str>,
    /// The sum of `decisions`. A task of subject scope counts once.
    pub tasks: usize,
    pub decisions: Vec<Count>,
    pub rows: StatusCounts,
}

words! {
    /// How healthy a session is.
    pub enum Band {
        Good = "good",
        Fair = "fair",
        Poor = "poor",
    }
}

/// Says how much of one session is done.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Health {
    pub complete: usize,
    /// Procedures that apply to the session, at least 1.
    pub of: usize,
    /// `complete / of`, 0 to 1.
    pub share: f64,
    pub band: Band,
}

/// Counts sessions by band; the four are all sessions.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct HealthSummary {
    pub good: usize,
    pub fair: usize,
    pub poor: usize,
    /// Sessions to which no procedure applies (or none was selected).
    pub none: usize,
    /// Mean share of the sessions that have one.
    pub mean: Option<f64>,
}

/// Holds a row per session and a cell per procedure.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Matrix {
    /// The columns, in order of priority.
    pub procedures: Vec<Arc<str>>,
    /// Sorted by subject and session.
    pub sessions: Vec<MatrixRow>,
}

/// Is one session.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MatrixRow {
    pub subject: Arc<str>,
    /// Empty in a dataset without sessions.
    pub session: Arc<str>,
    pub health: Option<Health>,
    /// One per column. A task of subject scope stands in each session of its subject. None: there is no
    /// such task, or it was not selected.
    pub cells: Vec<Option<Cell>>,
}

/// Is one task in one session's row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cell {
    pub decision: TaskState,
    /// Why it failed, or where its job stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<Arc<str>>,
    /// A sentence about a task that is not complete and has no details.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Arc<str>>,
    /// Number in [`Report::tasks`], from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<usize>,
}

impl Report {
    /// True if something could not be read, so that the numbers are not the whole truth.
    pub fn is_partial(&self) -> bool {
        !self.unreadable.is_empty()
            || self.dicom.as_ref().is_some_and(|dicom| {
                let mut findings = dicom.findings.iter();
                findings.any(|finding| finding.problem == DicomProblem::Unreadable)
            })
    }

    /// Writes the documented JSON, as one line.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// Returns the count of a word; 0 if it is not listed.
pub fn count_of(counts: &[Count], word: &str) -> usize {
    let found = counts.iter().find(|count| &*count.word == word);
    found.map_or(0, |count| count.count)
}

/// How many tasks a group of standings has.
pub fn count_of_group(counts: &[Count], group: Group) -> usize {
    let standings = group.standings();
    standings
        .map(|standing| count_of(counts, standing.as_str()))
        .sum()
}

/// Prints a change: `+3`, `-3`, `0`.
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
        let snapshot = Snapshot::of(&full).unwrap();
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
