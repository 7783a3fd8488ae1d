//! The comparison with an earlier report, and saved reports: `audit_YYYYMMDD_HHMMSS.json` (UTC) below
//! `audit.report_dir`.
#![expect(
    clippy::disallowed_methods,
    reason = "lists the directory of earlier reports"
)]

use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono::{DateTime, NaiveDateTime, Utc};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::summary::{HealthSummary, Totals};
use super::{Count, FORMAT, UnreadableItem, count_of, time};
use crate::base::durable;
use crate::base::regular::FileError;
use crate::base::regular::error_text;

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

/// The compared part of a report, current or saved. Everything else is ignored.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Snapshot {
    format: u32,
    pub study: Study,
    totals: Totals,
    procedures: Vec<Procedure>,
    health: HealthSummary,
    dicom: Value,
    stale: Vec<IgnoredAny>,
    orphans: Value,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Study {
    pub created_at: DateTime<Utc>,
    pub selection: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct Procedure {
    name: String,
    decisions: Vec<Count>,
}

/// Compares two reports. `file` is the path of the earlier one.
pub fn trend(before: &Snapshot, file: &str, now: &Snapshot) -> Trend {
    // Both have the same figures in the same order.
    let figures = before.figures().into_iter().zip(now.figures());
    let figures = figures.map(|((_, before, _), (name, now, bad))| FigureTrend {
        name,
        before,
        now,
        bad,
    });
    let figures: Vec<FigureTrend> = figures.collect();
    let removed = before.procedures.iter();
    let removed = removed.filter(|p| now.procedures.iter().all(|other| other.name != p.name));
    let procedures = now.procedures.iter().chain(removed).map(|procedure| {
        let count = |snapshot: &Snapshot, word| {
            let mut all = snapshot.procedures.iter();
            let found = all.find(|other| other.name == procedure.name);
            found.map_or(0, |found| count_of(&found.decisions, word))
        };
        ProcedureTrend {
            procedure: procedure.name.as_str().into(),
            complete_before: count(before, "complete"),
            complete_now: count(now, "complete"),
            failed_before: count(before, "failed"),
            failed_now: count(now, "failed"),
        }
    });
    let procedures = procedures.collect();
    Trend {
        file: file.to_owned(),
        created_at: before.study.created_at,
        worse: figures.iter().any(|f| f.bad && f.now > f.before),
        figures,
        procedures,
    }
}

impl Snapshot {
    /// Reads a saved report. `None` if it has another format (the Python program used the same file names).
    pub fn read(json: &[u8]) -> Option<Self> {
        let saved: Self = serde_json::from_slice(json).ok()?;
        (saved.format == FORMAT).then_some(saved)
    }

    /// Name, value, and whether less is better, in the order of the report.
    fn figures(&self) -> [(&'static str, usize, bool); 12] {
        let word = |word| count_of(&self.totals.decisions, word);
        let dicom = |word: &str| {
            let findings = listed(&self.dicom, "findings").iter();
            let problems = findings.filter_map(|finding| finding.get("problem"));
            problems.filter(|problem| *problem == word).count()
        };
        [
            ("sessions", self.totals.sessions, false),
            ("tasks", self.totals.tasks, false),
            ("complete", word("complete"), false),
            ("failed", word("failed"), true),
            ("blocked", word("blocked"), true),
            ("unreadable", word("unreadable"), true),
            ("good", self.health.good, false),
            ("poor", self.health.poor, false),
            ("dicom_missing", dicom("missing"), true),
            ("dicom_few_files", dicom("few_files"), true),
            ("stale", self.stale.len(), true),
            ("orphans", listed(&self.orphans, "rows").len(), true),
        ]
    }
}

fn listed<'a>(part: &'a Value, name: &str) -> &'a [Value] {
    let list = part.get(name).and_then(Value::as_array);
    list.map_or(&[], Vec::as_slice)
}

const NAME: &str = "audit_%Y%m%d_%H%M%S.json";

/// Earlier reports that are tried for the comparison.
const TRIES: usize = 50;

/// The newest report of the same selection from an earlier day, with its path, and the unreadable files.
/// Reports of other formats are ignored.
pub fn earlier(
    dir: &Path,
    selection: Option<&str>,
    now: DateTime<Utc>,
) -> (Option<(PathBuf, Snapshot)>, Vec<UnreadableItem>) {
    let mut unreadable = Vec::new();
    let mut add_unreadable = |path: &Path, error: &io::Error| {
        unreadable.push(UnreadableItem::new("reports", path, error_text(error)));
    };
    let mut reports = list(dir).unwrap_or_else(|error| {
        if error.kind() != ErrorKind::NotFound {
            add_unreadable(dir, &error);
        }
        Vec::new()
    });
    reports.retain(|(time, _)| time.date() < now.date_naive());
    reports.sort();
    for (_, path) in reports.into_iter().rev().take(TRIES) {
        match std::fs::read(&path) {
            Ok(bytes) => {
                let snapshot = Snapshot::read(&bytes);
                let fits = snapshot.filter(|s| s.study.selection.as_deref() == selection);
                if let Some(snapshot) = fits {
                    return (Some((path, snapshot)), unreadable);
                }
            }
            Err(error) => add_unreadable(&path, &error),
        }
    }
    (None, unreadable)
}

fn list(dir: &Path) -> io::Result<Vec<(NaiveDateTime, PathBuf)>> {
    let entries = std::fs::read_dir(dir)?.collect::<io::Result<Vec<_>>>()?;
    let reports = entries.iter().filter_map(|entry| {
        let name = entry.file_name();
        let time = NaiveDateTime::parse_from_str(name.to_str()?, NAME).ok()?;
        Some((time, entry.path()))
    });
    Ok(reports.collect())
}

/// Saves a report in JSON under its time. Replaces an earlier one of the same second.
pub fn save(dir: &Path, at: DateTime<Utc>, json: &[u8]) -> Result<PathBuf, FileError> {
    std::fs::create_dir_all(dir).map_err(FileError::of("write", dir))?;
    let path = dir.join(at.format(NAME).to_string());
    replace(&path, json)?;
    Ok(path)
}

/// Texts that identify an earlier report: the title of a text or page, or the first key of JSON.
const MARKS: [&str; 2] = ["Audit of ", "{\"format\":"];

/// Replaces a file atomically. A link stays a link, and a device or pipe (/dev/stdout) is written to.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let write = || match std::fs::metadata(&target) {
        Ok(metadata) if !metadata.is_file() => {
            let mut options = std::fs::File::options();
            options.write(true).open(&target)?.write_all(bytes)
        }
        _ => {
            // A misspelt directory is not made.
            let dir = target.parent().filter(|dir| !dir.as_os_str().is_empty());
            std::fs::metadata(dir.unwrap_or(Path::new(".")))?;
            let [text, json] = MARKS;
            let is_json = durable::refuse_foreign(&target, json).is_ok();
            let mark = if is_json { json } else { text };
            Ok(durable::overwrite(&target, bytes, mark)?)
        }
    };
    write().map_err(FileError::of("write", path))
}

#[cfg(test)]
mod tests {
    use chrono::Duration;

    use super::*;
    use crate::show::audit::Report;
    use crate::show::audit::testing::report;

    #[test]
    fn reports_of_other_formats_are_ignored() {
        let mut other = report();
        other.format = FORMAT + 1;
        for bytes in [
            b"".as_slice(),
            b"{}",
            b"\xff\xfe",
            br#"{"summary": {"sessions": 3}}"#,
            &other.to_json().unwrap(),
        ] {
            assert_eq!(Snapshot::read(bytes), None);
        }
    }

    #[test]
    fn growth_of_a_bad_figure_is_worse() {
        let snapshot = |report: &Report| Snapshot::read(&report.to_json().unwrap()).unwrap();
        let now = report();
        let mut before = now.clone();
        let same = trend(&snapshot(&before), "f", &snapshot(&now));
        assert!(!same.worse);
        let failed = before
            .totals
            .decisions
            .iter_mut()
            .find(|count| &*count.word == "failed")
            .unwrap();
        failed.count -= 1;
        before.procedures.remove(0);
        let found = trend(&snapshot(&before), "f", &snapshot(&now));
        assert!(found.worse);
        let failed = found.figures.iter().find(|f| f.name == "failed").unwrap();
        assert_eq!(failed.now, failed.before + 1);
        assert_eq!(found.procedures.len(), now.procedures.len());
        assert_eq!(found.procedures[0].complete_before, 0);
        let lost = trend(&snapshot(&now), "f", &snapshot(&before));
        assert_eq!(lost.procedures.len(), now.procedures.len());
    }

    #[test]
    fn the_newest_report_of_an_earlier_day_and_the_same_selection_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let now = report().study.created_at + Duration::days(9);
        let save_at = |days: i64, selection: Option<&str>| {
            let mut report = report();
            report.study.created_at = now - Duration::days(days);
            report.study.selection = selection.map(str::to_owned);
            save(
                dir.path(),
                report.study.created_at,
                &report.to_json().unwrap(),
            )
            .unwrap()
        };
        assert_eq!(earlier(dir.path(), None, now).0, None);
        save_at(0, None);
        assert_eq!(
            earlier(dir.path(), None, now).0,
            None,
            "today does not count"
        );
        save_at(5, None);
        let newest = save_at(3, None);
        save_at(2, Some("--subject x"));
        let other = "audit_20260101_000000.json.tmp";
        std::fs::write(dir.path().join(other), "x").unwrap();
        // The Python program used the same file names.
        let python = (now - Duration::days(1)).format(NAME).to_string();
        std::fs::write(dir.path().join(python), r#"{"timestamp": "x"}"#).unwrap();
        let (found, unreadable) = earlier(dir.path(), None, now);
        assert_eq!(found.map(|(path, _)| path), Some(newest));
        assert_eq!(unreadable, []);
        let (found, _) = earlier(dir.path(), Some("--subject x"), now);
        assert!(found.is_some());
        assert_eq!(
            earlier(&dir.path().join("none"), None, now),
            (None, Vec::new())
        );
    }

    #[test]
    fn a_file_is_replaced_atomically_and_keeps_its_mode_and_link() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("real.json");
        let link = dir.path().join("link.json");
        std::fs::write(&file, "Audit of x").unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink("real.json", &link).unwrap();
        replace(&link, b"new").unwrap();
        assert_eq!(std::fs::read(&file).unwrap(), b"new");
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(dir.path().read_dir().unwrap().count(), 2, "nothing is left");
        std::fs::write(&file, "my thesis").unwrap();
        replace(&link, b"new").unwrap_err();
        assert_eq!(std::fs::read(&file).unwrap(), b"my thesis");
        let FileError { path, .. } = replace(&dir.path().join("none/x"), b"").unwrap_err();
        assert!(path.ends_with("none/x"));
        replace(Path::new("/dev/null"), b"x").unwrap();
    }
}
