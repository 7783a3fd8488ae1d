//! The audit: one report about a whole study.
//!
//! [`collect`] gathers the sources, the small modules compute figures (pure), [`report`] has the result, and
//! [`text`] and [`html`] show it. Only [`trend`] writes files, on request. `audit --format json` prints the types as
//! documented in `docs/output.md` and `docs/schema/audit.schema.json`.

pub mod attention;
pub mod collect;
pub mod details;
pub mod html;
pub mod inputs;
pub mod logs;
pub mod report;
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
use crate::show::tables::{Group, utc_time};

words! {
    /// The parts of a report.
    pub enum Part {
        Tasks = "tasks",
        Dicom = "dicom",
        Logs = "logs",
        Efficiency = "efficiency",
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
