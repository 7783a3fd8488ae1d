//! The memory of earlier invocations.

use super::*;
use crate::model::state::testing::at;

fn call(command: Command, exit: Exit) -> Invocation {
    Invocation {
        ended_at: at(3),
        exit,
        figures: Some(Figures {
            whole: true,
            submitted: 2,
            refused: vec![("a".to_owned(), 3)],
            ..Figures::default()
        }),
        ..Invocation::begin(command, at(1))
    }
}

#[test]
fn invocations_are_counted_by_command_and_exit_code() {
    let mut memory = Memory::default();
    memory.add(&call(Command::Run, Exit::Done));
    memory.add(&call(Command::Run, Exit::Unreachable));
    memory.add(&call(Command::Monitor, Exit::Unreachable));
    memory.add(&call(Command::Run, Exit::Locked));
    assert_eq!(
        (memory.unreachable_in_a_row, memory.locked_in_a_row),
        (2, 1)
    );
    assert_eq!(memory.sums.runs, BTreeMap::from([(0, 1), (4, 1), (5, 1)]));
    assert_eq!((memory.sums.submitted, memory.sums.refused), (6, 9));
    assert_eq!(memory.last_good_run, Some(at(3)));
    assert_eq!(memory.last_run.as_ref().map(|run| run.seconds), Some(120.0));
    memory.add(&call(Command::Retry, Exit::Error));
    memory.add(&call(Command::Monitor, Exit::Done));
    assert_eq!(
        (memory.unreachable_in_a_row, memory.locked_in_a_row),
        (0, 1)
    );
}

#[test]
fn a_saved_memory_is_read_back_and_a_concurrent_save_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.calls.json");
    let (mut one, warning) = Memory::read(&path);
    assert_eq!(warning, None);
    let (mut other, _) = Memory::read(&path);
    one.add(&call(Command::Run, Exit::Refused));
    one.reported
        .entry("email".to_owned())
        .or_default()
        .insert("failed:x".to_owned());
    one.save(&path).unwrap();
    other.add(&call(Command::Run, Exit::Done));
    let refused = other.save(&path);
    assert!(matches!(refused, Err(ReplaceError::Changed(_))));
    let (read, _) = Memory::read(&path);
    assert_eq!(read.sums, one.sums);
    assert_eq!(read.reported, one.reported);
    assert_eq!(read.last_run, one.last_run);
}

#[test]
fn a_damaged_file_starts_anew_with_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.calls.json");
    for text in ["", r#"{"sums": 3}"#, r#"{"sums": "#] {
        std::fs::write(&path, text).unwrap();
        let (mut memory, warning) = Memory::read(&path);
        assert!(warning.is_some(), "{text}");
        memory.add(&call(Command::Run, Exit::Done));
        memory.save(&path).unwrap();
        assert_eq!(Memory::read(&path).1, None);
    }
    // E9: a file of another program is never replaced.
    std::fs::write(&path, "3").unwrap();
    let (mut memory, warning) = Memory::read(&path);
    assert!(warning.is_some());
    memory.add(&call(Command::Run, Exit::Done));
    let refused = memory.save(&path);
    assert!(matches!(refused, Err(ReplaceError::Changed(_))));
    // Keys of a later version do not count as damage.
    std::fs::write(&path, r#"{"later": 1, "locked_in_a_row": 3}"#).unwrap();
    let (memory, warning) = Memory::read(&path);
    assert_eq!((memory.locked_in_a_row, warning), (3, None));
}
