//! The order of reading while another process folds the journal.

use super::*;
use crate::model::state::{TaskKey, TaskStatus};
use crate::store::journal::Journal;

fn row(subject: &str) -> TaskRow {
    TaskRow {
        attempt: Some(1),
        ..TaskRow::new(TaskKey::new(subject, "", "bids"), TaskStatus::Pending)
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

/// Acts as the process that folds its journal: writes the state file first, then removes the journal.
fn fold(locked: &LockedStore, state: &mut State, subject: &str) {
    state.put(row(subject));
    state.origin.journal = locked.store.journal_mark().unwrap();
    locked.save(state).unwrap();
    assert_eq!(locked.store.journal_mark().unwrap(), None);
}

#[test]
fn a_journal_folded_while_it_is_read_is_found_in_the_rows() {
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
fn a_reader_gives_up_after_a_few_tries() {
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

/// A save removes the journal that was read; one that has grown since is kept.
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

fn sending(id: &str) -> Entry {
    Entry::Sending {
        submission_id: id.into(),
        at: crate::model::state::testing::at(1),
    }
}

/// Without a working lock: the rows are saved, and entries that are not in them stay in the journal.
#[test]
fn entries_of_another_process_stay_in_the_journal() {
    let directory = tempfile::tempdir().unwrap();
    let (locked, mut state) = study(directory.path());
    let path = locked.store.paths.journal.clone();
    let mut own = locked.journal().unwrap();
    own.append(&[sending("own")]).unwrap();
    let mut other = Journal::open(&path).unwrap();
    other.append_facts(&[sending("other")]).unwrap();
    state.put(row("sub-0002"));
    let error = locked.save(&mut state).unwrap_err();
    assert!(matches!(error, StateError::Shared { .. }), "{error}");
    assert_eq!(journal::read(&path).unwrap().len(), 2);
    let read = locked.store.read_with(|| Ok(Vec::new())).unwrap();
    assert_eq!(read.len(), 2);

    // The other one has read the rows before that: it overwrites nothing.
    let mut late = read;
    late.origin.state = None;
    late.origin.journal = None;
    late.put(row("sub-0003"));
    let error = locked.save(&mut late).unwrap_err();
    assert!(matches!(error, StateError::Conflict { .. }), "{error}");
    assert_eq!(journal::read(&path).unwrap().len(), 2);
}

#[test]
fn changed_files_are_noticed_before_a_submission() {
    let directory = tempfile::tempdir().unwrap();
    let (locked, mut state) = study(directory.path());
    let paths = locked.store.paths.clone();
    let conflict = |state: &State| match locked.check_unchanged(state) {
        Err(StateError::Conflict(path)) => path,
        other => panic!("{other:?}"),
    };
    locked.check_unchanged(&state).unwrap();
    let before = state.clone();
    state.put(row("sub-0002"));
    locked.save(&mut state).unwrap();
    locked.check_unchanged(&state).unwrap();
    assert_eq!(conflict(&before), paths.state);
    drop(Journal::open(&paths.journal).unwrap());
    assert_eq!(conflict(&state), paths.journal);
    std::fs::remove_file(&paths.journal).unwrap();
    std::fs::remove_file(&paths.state).unwrap();
    assert_eq!(conflict(&state), paths.state);
    let none = State::default();
    locked.check_unchanged(&none).unwrap();
    std::fs::write(&paths.state, "of another program").unwrap();
    assert_eq!(conflict(&none), paths.state);
}

/// Two processes submitted the same task: the job that is not in the row is in the attempts file, once.
#[test]
fn a_second_job_of_one_attempt_is_kept_beside_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let (locked, mut state) = study(directory.path());
    let path = locked.store.paths.journal.clone();
    let intent = |id: &str, at: i64| {
        Entry::Intent(journal::Intent {
            key: TaskKey::new("sub-0009", "", "bids"),
            submission_id: id.into(),
            job_name: "bids_sub-0009".into(),
            attempt: 1,
            submitted_at: crate::model::state::testing::at(at),
            replaces_outputs: false,
            retry: Default::default(),
            input_sessions: None,
            project: None,
            state_file: None,
            req_mem_mb: None,
            time_limit_s: None,
        })
    };
    let accepted = |id: &str, job: &str| Entry::Accepted {
        submission_id: id.into(),
        job_id: crate::model::job::JobId::new(job),
        cluster: None,
        at: crate::model::state::testing::at(9),
    };
    // The winner's rows are saved; the loser's entries are in the journal, in either order.
    let winner = [intent("w", 2), sending("w"), accepted("w", "1")];
    journal::replay(&winner, &mut state);
    locked.save(&mut state).unwrap();
    for (first, second) in [("before", 1), ("after", 3)] {
        let loser = [
            intent(first, second),
            sending(first),
            accepted(first, first),
        ];
        for entries in [
            [&loser[..], &winner[..]].concat(),
            [&winner[..], &loser[..]].concat(),
        ] {
            Journal::open(&path).unwrap().append(&entries).unwrap();
            let mut state = locked.read().unwrap();
            locked.save(&mut state).unwrap();
            let attempts = locked.store.read_attempts().unwrap();
            let all: Vec<String> = attempts
                .iter()
                .chain(state.get(&TaskKey::new("sub-0009", "", "bids")))
                .filter_map(|row| row.job_id.as_ref().map(ToString::to_string))
                .collect();
            for job in ["1", first] {
                assert!(all.iter().any(|id| id == job), "{job} is not in {all:?}");
            }
        }
    }
}
