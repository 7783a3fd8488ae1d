//! The order of reading, with a journal that another process folds meanwhile.

use super::*;
use crate::state::{JobFacts, TaskKey, TaskStatus};

fn row(subject: &str) -> TaskRow {
    TaskRow {
        key: TaskKey::new(subject, "", "bids"),
        status: TaskStatus::Pending,
        submitted_at: None,
        job_id: None,
        reason: None,
        attempt: Some(1),
        facts: JobFacts::default(),
        updated_at: None,
        missing_since: None,
        job_name: None,
        submission_id: None,
        replaces_outputs: None,
        foreign: None,
    }
}

fn study(directory: &Path) -> (LockedStore, State) {
    let store = Store::at(&directory.join("state.parquet")).unwrap();
    let locked = store.lock("test", Duration::from_secs(5)).unwrap();
    let mut state = locked.store.read_with(|| Ok(Vec::new())).unwrap();
    state.put(row("sub-0001"));
    locked.save(&mut state).unwrap();
    (locked, state)
}

/// Plays the process that folds its journal: the state file first, the journal goes then.
fn fold(locked: &LockedStore, state: &mut State, subject: &str) {
    state.put(row(subject));
    state.origin.journal = locked.store.journal_mark().unwrap();
    locked.save(state).unwrap();
    assert_eq!(locked.store.journal_mark().unwrap(), None);
}

#[test]
fn a_journal_that_is_folded_while_it_is_read_is_found_in_the_rows() {
    let directory = tempfile::tempdir().unwrap();
    let (locked, mut state) = study(directory.path());
    std::fs::write(&locked.store.paths.journal, "x\n").unwrap();
    let reader = locked.store.clone();
    let mut calls = 0;
    let read = reader.read_with(|| {
        calls += 1;
        fold(&locked, &mut state, "sub-0002");
        Ok(Vec::new())
    });
    assert_eq!((read.unwrap().len(), calls), (2, 1));
}

#[test]
fn a_reader_that_is_always_overtaken_ends_all_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let (locked, mut state) = study(directory.path());
    let journal = locked.store.paths.journal.clone();
    std::fs::write(&journal, "x\n").unwrap();
    let reader = locked.store.clone();
    let mut calls = 0;
    let read = reader.read_with(|| {
        calls += 1;
        fold(&locked, &mut state, &format!("sub-{calls:04}x"));
        // The next run has begun.
        std::fs::write(&journal, "x\n").unwrap();
        Ok(Vec::new())
    });
    assert_eq!((read.unwrap().len(), calls), (4, TRIES));
}

#[test]
fn a_journal_that_only_grows_is_read_once() {
    let directory = tempfile::tempdir().unwrap();
    let (locked, _) = study(directory.path());
    let journal = locked.store.paths.journal.clone();
    std::fs::write(&journal, "x\n").unwrap();
    let mut calls = 0;
    let read = locked.store.read_with(|| {
        calls += 1;
        std::fs::write(&journal, "x\nx\n").unwrap();
        Ok(Vec::new())
    });
    assert_eq!((read.unwrap().len(), calls), (1, 1));
}

#[test]
fn a_journal_that_cannot_be_read_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let (locked, _) = study(directory.path());
    std::fs::create_dir(&locked.store.paths.journal).unwrap();
    let outcome = locked
        .store
        .read_with(|| Ok(journal::read(&locked.store.paths.journal)?));
    assert!(outcome.is_err());
}

/// The journal that was read goes with the save; one that has grown since stays.
#[test]
fn only_the_journal_that_was_read_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let (locked, _) = study(directory.path());
    let journal = locked.store.paths.journal.clone();
    std::fs::write(&journal, "x\n").unwrap();
    let mut state = locked.store.read_with(|| Ok(Vec::new())).unwrap();
    std::fs::write(&journal, "x\nx\n").unwrap();
    let error = locked.save(&mut state).unwrap_err();
    assert!(matches!(error, StateError::Conflict { .. }), "{error}");
    assert!(locked.store.journal_mark().unwrap().is_some());

    let mut state = locked.store.read_with(|| Ok(Vec::new())).unwrap();
    assert!(
        locked.save(&mut state).unwrap(),
        "a journal alone is a reason to save"
    );
    assert!(locked.store.journal_mark().unwrap().is_none());
    assert!(!locked.save(&mut state).unwrap());
}
