//! The audit report as plain values, the source of all its formats. The other modules of `audit` compute them.

use std::path::Path;

use chrono::{DateTime, Utc};
use serde::Serialize;

use super::attention::{Failures, Orphans, StaleJob};
use super::details::TaskDetail;
use super::inputs::{Dicom, DicomProblem, ScriptFinding};
use super::logs::Logs;
use super::summary::{HealthSummary, Matrix, ProcedureCounts, Totals};
use super::trend::Trend;
use super::{Part, UnreadableItem, time};
use crate::model::job::ExecutorKind;
use crate::show::efficiency::Efficiency;
use crate::show::graph::Graph;
use crate::show::progress::Progress;

/// The results of an audit. A part that was not requested is `None` or empty.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`super::FORMAT`].
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
