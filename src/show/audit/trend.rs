//! The comparison with an earlier report. Pure.

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::report::{
    Count, FORMAT, FigureTrend, HealthSummary, ProcedureTrend, Report, Totals, Trend, count_of,
};

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
    pub fn from_report(report: &Report) -> Option<Self> {
        Self::read(&report.to_json().ok()?)
    }

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

#[cfg(test)]
mod tests {
    use super::*;
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
        let snapshot = |report: &Report| Snapshot::from_report(report).unwrap();
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
}
