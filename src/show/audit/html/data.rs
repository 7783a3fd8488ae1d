//! The data of the heat map and of the details: parts of the JSON report, compressed for the page's script.

use std::collections::HashMap;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::base::parallel;
use crate::model::state::TaskKey;
use crate::show::audit::report::{LogFinding, Matrix, Report, TaskDetail};
use crate::show::tables::TaskState;

const THREADS: usize = 4;

/// Tasks per compressed part, which the page unpacks as a whole. Must equal `TOGETHER` in `page.js`.
const TOGETHER: usize = 1000;

#[derive(Serialize)]
struct Grid<'a> {
    /// The symbol and the group of each decision word.
    words: Map<String, Value>,
    matrix: &'a Matrix,
}

#[derive(Serialize)]
struct Detail<'a> {
    #[serde(flatten)]
    task: &'a TaskDetail,
    findings: &'a [&'a LogFinding],
}

/// The data of the heat map.
pub(super) fn grid(report: &Report) -> String {
    let words = TaskState::ALL.into_iter().map(|state| {
        let style = state.style();
        (state.to_string(), json!([style.symbol, style.group]))
    });
    packed(&Grid {
        words: words.collect(),
        matrix: &report.matrix,
    })
}

/// The details of single tasks, in the order of [`Report::tasks`].
pub(super) fn details(report: &Report) -> Vec<String> {
    let mut findings: HashMap<&TaskKey, Vec<&LogFinding>> = HashMap::new();
    for finding in report.logs.iter().flat_map(|logs| &logs.findings) {
        findings.entry(&finding.key).or_default().push(finding);
    }
    let parts: Vec<&[TaskDetail]> = report.tasks.chunks(TOGETHER).collect();
    parallel::map(&parts, THREADS, |tasks| {
        let details = tasks.iter().map(|task| {
            let findings = findings.get(&task.key).map_or(&[][..], Vec::as_slice);
            Detail { task, findings }
        });
        packed(&details.collect::<Vec<_>>())
    })
}

/// Cannot fail, because all keys are texts and the output is in memory.
fn packed(data: &impl Serialize) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(&serde_json::to_vec(data).unwrap_or_default());
    let bytes = written.and_then(|()| encoder.finish());
    STANDARD.encode(bytes.unwrap_or_default())
}
