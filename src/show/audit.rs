//! The audit: one report about a whole study.
//!
//! [`collect`] gathers the sources, the small modules compute figures (pure), [`Report`] is the result, and
//! [`text`] and [`html`] show it. Only [`trend`] writes files, on request. `audit --format json` prints the types as
//! documented in `docs/output.md` and `docs/schema/audit.schema.json`.

pub mod attention;
pub mod collect;
pub mod details;
pub mod html;
pub mod inputs;
pub mod logs;
mod sections;
pub mod summary;
pub(crate) mod testing;
pub mod text;
pub mod trend;

use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize, Serializer};

use crate::base::words::words;
use crate::model::job::ExecutorKind;
use crate::show::efficiency::Efficiency;
use crate::show::graph::Graph;
use crate::show::progress::Progress;
use crate::show::tables::{Group, utc_time};
use attention::{Failures, Orphans, StaleJob};
use details::TaskDetail;
use inputs::{Dicom, DicomProblem, ScriptFinding};
use logs::Logs;
use summary::{HealthSummary, Matrix, ProcedureCounts, Totals};
use trend::Trend;

words! {
    /// The parts of a report.
    pub enum Part {
        Tasks = "tasks",
        Dicom = "dicom",
        Logs = "logs",
        Efficiency = "efficiency",
    }
}

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

impl Report {
    /// True if something could not be read, so that the numbers are incomplete.
    pub fn is_partial(&self) -> bool {
        let mut findings = self.dicom.iter().flat_map(|dicom| &dicom.findings);
        !self.unreadable.is_empty() || findings.any(|one| one.problem == DicomProblem::Unreadable)
    }

    /// The documented JSON, as one line.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let mut bytes = serde_json::to_vec(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}

/// A source that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct UnreadableItem {
    /// `outputs`, `sessions`, `log`, `audit_log`, `attempts`, `queue` or `reports`.
    pub part: &'static str,
    pub path: String,
    /// The system's message.
    pub error: String,
}

impl UnreadableItem {
    pub fn new(part: &'static str, path: &Path, error: impl ToString) -> Self {
        Self {
            part,
            path: path.to_string_lossy().into_owned(),
            error: error.to_string(),
        }
    }
}

/// Version of the format; raised by incompatible changes.
pub const FORMAT: u32 = 1;

/// A word and its count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    pub word: Arc<str>,
    pub count: usize,
}

impl Count {
    pub fn list<'a>(counts: impl IntoIterator<Item = (&'a str, usize)>) -> Vec<Self> {
        let counts = counts.into_iter();
        let counts = counts.map(|(word, count)| (word.into(), count));
        counts.map(|(word, count)| Self { word, count }).collect()
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

fn time<S: Serializer>(at: &DateTime<Utc>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&utc_time(*at))
}

/// A share in percent, rounded down, so that 100 % always means all.
pub fn percent(share: f64) -> String {
    format!("{} %", (share * 100.0 + 1e-9).floor())
}

#[cfg(test)]
mod tests {
    use crate::show::audit::testing::report;
    use crate::show::audit::trend::{Snapshot, trend};

    #[test]
    fn the_json_follows_the_documented_schema() {
        let schema = include_str!("../../docs/schema/audit.schema.json");
        let schema = serde_json::from_str(schema).unwrap();
        let validator = jsonschema::draft202012::new(&schema).unwrap();
        let mut full = report();
        let snapshot = Snapshot::read(&full.to_json().unwrap()).unwrap();
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
