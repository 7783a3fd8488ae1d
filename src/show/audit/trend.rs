//! The comparison with an earlier report. Pure.

use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::report::{
    Count, DicomProblem, FORMAT, MatterTrend, ProcedureTrend, Report, Trend, count_of,
};

/// Holds what is compared of a report; the same from a report in memory and from a saved one.
#[derive(Debug, Clone, PartialEq)]
pub struct Snapshot {
    pub created_at: DateTime<Utc>,
    pub selection: Option<String>,
    /// Name, value, and whether less is better; in the order in which they are shown.
    matters: Vec<(&'static str, usize, bool)>,
    procedures: Vec<(String, Vec<Count>)>,
}

/// Compares two reports. `file` is the earlier one's.
pub fn trend(before: &Snapshot, file: &str, now: &Snapshot) -> Trend {
    let matters: Vec<MatterTrend> = now
        .matters
        .iter()
        .map(|&(matter, value, bad)| MatterTrend {
            matter,
            before: {
                let mut all = before.matters.iter();
                all.find(|(name, ..)| *name == matter)
                    .map_or(0, |(_, value, _)| *value)
            },
            now: value,
            bad,
        })
        .collect();
    let gone = before.procedures.iter().map(|(name, _)| name);
    let gone = gone.filter(|name| now.procedures.iter().all(|(other, _)| other != *name));
    let names: Vec<&String> = now
        .procedures
        .iter()
        .map(|(name, _)| name)
        .chain(gone)
        .collect();
    let procedures = names
        .into_iter()
        .map(|name| {
            let count = |snapshot: &Snapshot, word| {
                let mut all = snapshot.procedures.iter();
                all.find(|(other, _)| other == name)
                    .map_or(0, |(_, counts)| count_of(counts, word))
            };
            ProcedureTrend {
                procedure: name.as_str().into(),
                complete_before: count(before, "complete"),
                complete_now: count(now, "complete"),
                failed_before: count(before, "failed"),
                failed_now: count(now, "failed"),
            }
        })
        .collect();
    Trend {
        file: file.to_owned(),
        created_at: before.created_at,
        worse: matters.iter().any(|m| m.bad && m.now > m.before),
        matters,
        procedures,
    }
}

impl Snapshot {
    pub fn of(report: &Report) -> Self {
        let dicom = |problem| {
            report.dicom.as_ref().map_or(0, |dicom| {
                let findings = dicom.findings.iter();
                findings.filter(|f| f.problem == problem).count()
            })
        };
        Self::new(
            report.study.created_at,
            report.study.selection.clone(),
            &Figures {
                sessions: report.totals.sessions,
                tasks: report.totals.tasks,
                decisions: report.totals.decisions.clone(),
                good: report.health.good,
                poor: report.health.poor,
                dicom_missing: dicom(DicomProblem::Missing),
                dicom_few: dicom(DicomProblem::FewFiles),
                stale: report.stale.len(),
                orphans: report.orphans.rows.len(),
            },
            report
                .procedures
                .iter()
                .map(|procedure| (procedure.name.to_string(), procedure.decisions.clone()))
                .collect(),
        )
    }

    /// Reads a saved report. None: it is not one, or of another format (the Python program's have the
    /// same names).
    pub fn read(json: &[u8]) -> Option<Self> {
        let saved: Saved = serde_json::from_slice(json).ok()?;
        if saved.format != FORMAT {
            return None;
        }
        let dicom = |word: &str| {
            saved.dicom.as_ref().map_or(0, |dicom| {
                let findings = dicom.findings.iter();
                findings.filter(|finding| finding.problem == word).count()
            })
        };
        Some(Self::new(
            saved.study.created_at,
            saved.study.selection,
            &Figures {
                sessions: saved.totals.sessions,
                tasks: saved.totals.tasks,
                decisions: counts(saved.totals.decisions),
                good: saved.health.good,
                poor: saved.health.poor,
                dicom_missing: dicom("missing"),
                dicom_few: dicom("few_files"),
                stale: saved.stale.len(),
                orphans: saved.orphans.rows.len(),
            },
            saved
                .procedures
                .into_iter()
                .map(|procedure| (procedure.name, counts(procedure.decisions)))
                .collect(),
        ))
    }

    fn new(
        created_at: DateTime<Utc>,
        selection: Option<String>,
        figures: &Figures,
        procedures: Vec<(String, Vec<Count>)>,
    ) -> Self {
        let word = |word| count_of(&figures.decisions, word);
        Self {
            created_at,
            selection,
            matters: vec![
                ("sessions", figures.sessions, false),
                ("tasks", figures.tasks, false),
                ("complete", word("complete"), false),
                ("failed", word("failed"), true),
                ("blocked", word("blocked"), true),
                ("unreadable", word("unreadable"), true),
                ("good", figures.good, false),
                ("poor", figures.poor, false),
                ("dicom_missing", figures.dicom_missing, true),
                ("dicom_few_files", figures.dicom_few, true),
                ("stale", figures.stale, true),
                ("orphans", figures.orphans, true),
            ],
            procedures,
        }
    }
}

struct Figures {
    sessions: usize,
    tasks: usize,
    decisions: Vec<Count>,
    good: usize,
    poor: usize,
    dicom_missing: usize,
    dicom_few: usize,
    stale: usize,
    orphans: usize,
}

fn counts(saved: Vec<SavedCount>) -> Vec<Count> {
    let counts = saved.into_iter();
    counts
        .map(|count| Count {
            word: count.word.into(),
            count: count.count,
        })
        .collect()
}

// The part of a saved report that is compared; everything else is passed over.

#[derive(Deserialize)]
struct Saved {
    format: u32,
    study: SavedStudy,
    totals: SavedTotals,
    procedures: Vec<SavedProcedure>,
    health: SavedHealth,
    dicom: Option<SavedDicom>,
    stale: Vec<serde::de::IgnoredAny>,
    orphans: SavedOrphans,
}

#[derive(Deserialize)]
struct SavedStudy {
    created_at: DateTime<Utc>,
    selection: Option<String>,
}

#[derive(Deserialize)]
struct SavedTotals {
    sessions: usize,
    tasks: usize,
    decisions: Vec<SavedCount>,
}

#[derive(Deserialize)]
struct SavedCount {
    word: String,
    count: usize,
}

#[derive(Deserialize)]
struct SavedProcedure {
    name: String,
    decisions: Vec<SavedCount>,
}

#[derive(Deserialize)]
struct SavedHealth {
    good: usize,
    poor: usize,
}

#[derive(Deserialize)]
struct SavedDicom {
    findings: Vec<SavedFinding>,
}

#[derive(Deserialize)]
struct SavedFinding {
    problem: String,
}

#[derive(Deserialize)]
struct SavedOrphans {
    rows: Vec<serde::de::IgnoredAny>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::show::audit::testing::report;

    #[test]
    fn a_saved_report_says_the_same_as_the_one_in_memory() {
        let report = report();
        let saved = Snapshot::read(&report.to_json().unwrap()).unwrap();
        assert_eq!(saved, Snapshot::of(&report));
    }

    #[test]
    fn what_is_no_report_of_this_format_is_passed_over() {
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
    fn growth_of_what_is_bad_is_worse() {
        let now = report();
        let mut before = now.clone();
        let same = trend(&Snapshot::of(&before), "f", &Snapshot::of(&now));
        assert!(!same.worse);
        let failed = before
            .totals
            .decisions
            .iter_mut()
            .find(|count| &*count.word == "failed")
            .unwrap();
        failed.count -= 1;
        before.procedures.remove(0);
        let found = trend(&Snapshot::of(&before), "f", &Snapshot::of(&now));
        assert!(found.worse);
        let failed = found.matters.iter().find(|m| m.matter == "failed").unwrap();
        assert_eq!(failed.now, failed.before + 1);
        assert_eq!(found.procedures.len(), now.procedures.len());
        assert_eq!(found.procedures[0].complete_before, 0);
        let lost = trend(&Snapshot::of(&now), "f", &Snapshot::of(&before));
        assert_eq!(lost.procedures.len(), now.procedures.len());
    }
}
