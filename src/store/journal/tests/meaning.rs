//! Tests of the replay of entries.

mod properties;

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::model::state::table::Metadata;
use crate::model::state::{Reason, State, TaskRow, TaskStatus};

use super::*;

fn row(task: usize, status: TaskStatus, attempt: Option<i32>) -> TaskRow {
    TaskRow {
        submitted_at: Some(time(-1000)),
        job_id: Some(JobId::new("7")),
        reason: (status == TaskStatus::Failed).then_some(Reason::Timeout),
        attempt,
        submission_id: attempt.map(|n| format!("old{task}-{n}").into()),
        ..TaskRow::new(intent(task, "", 1, 0).key, status)
    }
}

fn state_of(rows: &[TaskRow]) -> State {
    State::from_rows(rows.to_vec(), None, Metadata::default())
}

fn by_key(rows: &[TaskRow]) -> BTreeMap<TaskKey, TaskRow> {
    rows.iter()
        .map(|row| (row.key.clone(), row.clone()))
        .collect()
}

/// A substitute for the state file and the attempts file.
#[derive(Clone)]
struct Saved {
    rows: Vec<TaskRow>,
    attempts: Vec<TaskRow>,
}

impl Saved {
    fn of(rows: &[TaskRow]) -> Self {
        Self {
            rows: rows.to_vec(),
            attempts: Vec::new(),
        }
    }

    /// Loads, replays and saves, as each command does at its start.
    fn fold(&self, entries: &[Entry]) -> Self {
        let mut state = state_of(&self.rows);
        replay(entries, &mut state);
        // The previous row of a submission that was refused after its row had been saved.
        let withdrawn = self.rows.iter().map(|row| &row.key);
        for key in withdrawn
            .filter(|key| state.get(key).is_none())
            .collect::<Vec<_>>()
        {
            let before = self.attempts.iter().rev().find(|row| row.key == *key);
            if let Some(before) = before {
                state.put(before.clone());
            }
        }
        let mut attempts = self.attempts.clone();
        for row in state.superseded() {
            if !attempts.contains(row) {
                attempts.push(row.clone());
            }
        }
        Self {
            rows: state.rows().to_vec(),
            attempts,
        }
    }

    /// The rows, and the attempts that are not rows.
    fn view(&self) -> (BTreeMap<TaskKey, TaskRow>, Vec<String>) {
        let rows = by_key(&self.rows);
        let mut attempts: Vec<_> = self
            .attempts
            .iter()
            .filter(|attempt| rows.get(&attempt.key) != Some(attempt))
            .map(|attempt| format!("{attempt:?}"))
            .collect();
        attempts.sort();
        (rows, attempts)
    }
}

#[test]
fn each_submission_has_the_right_outcome() {
    let first = || Entry::Intent(intent(1, "a", 3, 10));
    /// `None` if it left no trace; otherwise the job, if known.
    type Expected = Option<Option<&'static str>>;
    let cases: Vec<(&str, Vec<Entry>, Expected)> = vec![
        ("intent only", vec![first()], None),
        ("sending", vec![first(), sending("a", 11)], Some(None)),
        (
            "refused",
            vec![first(), sending("a", 11), refused("a", 12)],
            None,
        ),
        (
            "in doubt",
            vec![first(), sending("a", 11), in_doubt("a", 12)],
            Some(None),
        ),
        (
            "in doubt, the sending is missing",
            vec![first(), in_doubt("a", 12), refused("a", 13)],
            Some(None),
        ),
        (
            "accepted",
            vec![first(), sending("a", 11), accepted("a", "5", 12)],
            Some(Some("5")),
        ),
        (
            "accepted after doubt",
            vec![
                first(),
                sending("a", 11),
                in_doubt("a", 12),
                accepted("a", "5", 13),
            ],
            Some(Some("5")),
        ),
        (
            "the first job wins",
            vec![
                first(),
                sending("a", 11),
                accepted("a", "5", 12),
                accepted("a", "6", 13),
                refused("a", 14),
            ],
            Some(Some("5")),
        ),
        (
            "a second sending is open again",
            vec![
                first(),
                sending("a", 11),
                refused("a", 12),
                sending("a", 13),
            ],
            Some(None),
        ),
        (
            "a refusal answers one sending only",
            vec![
                first(),
                sending("a", 11),
                sending("a", 12),
                refused("a", 13),
            ],
            Some(None),
        ),
        (
            "a doubt outlives a later refusal",
            vec![
                first(),
                sending("a", 11),
                in_doubt("a", 12),
                sending("a", 13),
                refused("a", 14),
            ],
            Some(None),
        ),
    ];
    for (name, entries, expected) in cases {
        for before in [None, Some(row(1, TaskStatus::Failed, Some(2)))] {
            let rows: Vec<_> = before.iter().cloned().collect();
            let mut state = state_of(&rows);
            let replayed = replay(&entries, &mut state);
            let found = state.get(&intent(1, "", 1, 0).key);
            let Some(job) = expected else {
                assert_eq!(found, before.as_ref(), "{name}");
                assert!(!state.is_changed() && replayed.is_empty(), "{name}");
                continue;
            };
            let found = found.unwrap();
            assert_eq!(found.status, TaskStatus::Pending, "{name}");
            assert_eq!(found.job_id, job.map(JobId::new), "{name}");
            assert_eq!(found.is_in_doubt(), job.is_none(), "{name}");
            let reason = job.map_or(Reason::Submitting, |_| Reason::Queued);
            assert_eq!(found.reason, Some(reason), "{name}");
            assert_eq!(found.submission_id.as_deref(), Some("a"), "{name}");
            assert_eq!(found.attempt, Some(3), "{name}");
            assert_eq!(found.submitted_at, Some(time(10)), "{name}");
            assert_eq!(found.facts.req_mem_mb, Some(1000), "{name}");
            assert_eq!(state.superseded(), rows, "{name}");
            assert_eq!(replayed, std::slice::from_ref(&found.key), "{name}");
        }
    }
}

#[test]
fn a_row_that_changed_since_is_left_alone() {
    let entries = [
        Entry::Intent(intent(1, "a", 1, 10)),
        sending("a", 11),
        accepted("a", "5", 12),
    ];
    let mut state = state_of(&[]);
    replay(&entries, &mut state);
    let fresh = state.rows()[0].clone();
    let mut running = fresh.clone();
    running.status = TaskStatus::Running;
    running.reason = Some(Reason::Running);
    let mut failed = running.clone();
    failed.status = TaskStatus::Failed;
    failed.reason = Some(Reason::OutOfMemory);
    failed.facts.req_mem_mb = Some(2000);
    let mut later = fresh.clone();
    later.submission_id = Some("b".into());
    later.attempt = Some(2);
    // Two login nodes: the later attempt's clock is behind.
    later.submitted_at = Some(time(5));
    let mut foreign = later.clone();
    foreign.submission_id = None;
    foreign.job_id = Some(JobId::new("9"));
    foreign.attempt = None;
    foreign.submitted_at = Some(time(20));
    for row in [fresh, running, failed, later, foreign] {
        let mut state = state_of(std::slice::from_ref(&row));
        assert_eq!(replay(&entries, &mut state), []);
        assert_eq!(state.rows(), std::slice::from_ref(&row));
        assert!(!state.is_changed());
        let unknown_later = row.submission_id.as_deref() != Some("a");
        assert_eq!(!state.overtaken.is_empty(), unknown_later);
    }
}

#[test]
fn attempt_decides_where_clocks_differ() {
    let mut before = row(1, TaskStatus::Failed, Some(2));
    before.submitted_at = Some(time(100));
    let mut state = state_of(&[before]);
    let entries = [
        Entry::Intent(intent(1, "a", 3, 10)),
        sending("a", 11),
        accepted("a", "5", 12),
    ];
    replay(&entries, &mut state);
    assert_eq!(state.rows()[0].job_id, Some(JobId::new("5")));
    assert_eq!(state.superseded().len(), 1);
}

#[test]
fn a_row_from_the_queue_is_the_same_job() {
    let mut adopted = row(1, TaskStatus::Running, None);
    adopted.job_id = Some(JobId::new("5"));
    adopted.reason = Some(Reason::Running);
    adopted.submitted_at = Some(time(50));
    let mut state = state_of(&[adopted]);
    let entries = [
        Entry::Intent(intent(1, "a", 3, 10)),
        sending("a", 11),
        accepted("a", "5", 12),
    ];
    replay(&entries, &mut state);
    let found = &state.rows()[0];
    assert_eq!(found.submission_id.as_deref(), Some("a"));
    assert_eq!(found.status, TaskStatus::Running);
    assert_eq!(found.attempt, Some(3));
    assert!(state.superseded().is_empty());
}

#[test]
fn a_job_found_after_a_saved_doubt_is_filled_in() {
    let doubt = [Entry::Intent(intent(1, "a", 1, 10)), sending("a", 11)];
    let mut state = state_of(&[]);
    replay(&doubt, &mut state);
    let key = state.rows()[0].key.clone();
    let mut waiting = state.rows()[0].clone();
    waiting.missing_since = Some(time(30));
    waiting.updated_at = Some(time(31));
    // With its intent, and after the intent was folded.
    let all = [doubt[0].clone(), doubt[1].clone(), accepted("a", "5", 12)];
    for entries in [&all[..], &all[2..]] {
        let mut state = state_of(std::slice::from_ref(&waiting));
        let replayed = replay(entries, &mut state);
        assert_eq!(replayed, std::slice::from_ref(&key));
        let found = &state.rows()[0];
        assert_eq!(found.job_id, Some(JobId::new("5")));
        assert_eq!(found.reason, Some(Reason::Queued));
        assert_eq!(found.missing_since, None);
        assert_eq!(found.updated_at, Some(time(31)));
        let once = state.rows().to_vec();
        assert!(replay(entries, &mut state).is_empty());
        assert_eq!(state.rows(), once);
    }
}

#[test]
fn a_result_without_submission_changes_nothing() {
    let mut state = state_of(&[row(1, TaskStatus::Failed, Some(1))]);
    let replayed = replay(&[accepted("x", "5", 1), refused("y", 1)], &mut state);
    assert_eq!(replayed, []);
    assert!(!state.is_changed());
}

#[test]
fn refusal_after_a_saved_doubt_frees_the_task() {
    let before = row(1, TaskStatus::Failed, Some(2));
    let all = [
        Entry::Intent(intent(1, "a", 3, 10)),
        sending("a", 11),
        refused("a", 12),
    ];
    let mut state = state_of(std::slice::from_ref(&before));
    replay(&all[..2], &mut state);
    let mut unsaved = state.clone();
    assert_eq!(replay(&all, &mut unsaved), []);
    assert_eq!(unsaved.rows(), [before]);
    assert!(unsaved.superseded().is_empty());
    let mut saved = state_of(state.rows());
    assert_eq!(replay(&all, &mut saved), []);
    assert!(saved.is_empty() && saved.superseded().is_empty() && saved.is_changed());
    assert!(replay(&all, &mut saved).is_empty());
}
