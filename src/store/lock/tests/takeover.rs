//! When a lock is taken over, and when it must not be.

use super::*;
use crate::base::durable;

#[test]
fn a_heartbeat_restarts_the_watch() {
    let place = Place::new();
    let watching = Timing {
        watch: LONG,
        ..no_watch()
    };
    let mut attempt = Attempt {
        path: &place.lock,
        me: Holder::this_process("test"),
        timing: watching,
        watched: None,
    };
    let mut look = |age| {
        if let Some(age) = age {
            place.write("state.lock", &other_host().to_line(), age);
        }
        let seen = file::observe(&place.lock).unwrap().unwrap();
        let verdict = attempt.judge(&seen).unwrap();
        (
            matches!(verdict, Verdict::Suspect(_)),
            attempt.watched.clone().unwrap().1,
        )
    };
    let (suspect, first) = look(Some(Age::Past(700)));
    assert!(suspect);
    let (suspect, second) = look(None);
    assert!(suspect && first == second);
    // With a wrong clock the heartbeat still looks old, but there was one.
    let (suspect, third) = look(Some(Age::Past(690)));
    assert!(suspect && third > second);
    let (suspect, _) = look(Some(Age::Past(0)));
    assert!(!suspect);
}

#[test]
fn a_heartbeat_after_the_verdict_keeps_the_lock() {
    let place = Place::new();
    let path = place.write("state.lock", &other_host().to_line(), Age::Past(700));
    let attempt = Attempt {
        path: &place.lock,
        me: Holder::this_process("test"),
        timing: no_watch(),
        watched: None,
    };
    let judged = file::observe(&path).unwrap().unwrap();
    set_age(&path, Age::Past(650));
    assert!(!attempt.take_over(&judged).unwrap());
    assert_eq!(place.names(), ["state.lock"]);
    // Also if it comes between the last check and the rename: the lock is linked back.
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let before = inode(&path);
    assert!(!file::remove_if(&path, "t", |moved| judged.is_unchanged(moved)).unwrap());
    assert_eq!(inode(&path), before);
    assert_eq!(place.names(), ["state.lock"]);
}

#[test]
fn a_wrongly_moved_lock_does_not_replace_a_newer_one() {
    let place = Place::new();
    let path = place.write("state.lock", b"{\"token\":\"1", Age::Past(0));
    let removed = file::remove_if(&path, "t", |_| {
        fs::write(&path, "{\"token\":\"2").unwrap();
        false
    });
    assert!(!removed.unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"{\"token\":\"2");
    assert_eq!(place.names(), ["state.lock"]);
}

#[test]
fn the_gate_of_a_dead_taker_is_removed() {
    let place = Place::new();
    place.write("state.lock", &dead_here().to_line(), Age::Past(0));
    place.write("state.lock.takeover", &dead_here().to_line(), Age::Past(0));
    place.try_acquire().unwrap();
    assert_eq!(place.names(), [""; 0]);

    // Also by a process that does not need the gate: other hosts cannot see that the taker is dead.
    place.write("state.lock.takeover", &dead_here().to_line(), Age::Past(0));
    drop(place.try_acquire().unwrap());
    assert_eq!(place.names(), [""; 0]);
    place.write("state.lock", &other_host().to_line(), Age::Past(0));
    place.write("state.lock.takeover", &dead_here().to_line(), Age::Past(0));
    held_by(place.try_acquire());
    assert_eq!(place.names(), ["state.lock"]);
    std::fs::remove_file(&place.lock).unwrap();

    place.write("state.lock", &dead_here().to_line(), Age::Past(0));
    place.write(
        "state.lock.takeover",
        &other_host().to_line(),
        Age::Past(660),
    );
    Lock::acquire_with(&place.lock, "test", LONG, no_watch()).unwrap();

    // The gate of a running taker is kept.
    place.write("state.lock", &dead_here().to_line(), Age::Past(0));
    place.write("state.lock.takeover", &other_host().to_line(), Age::Past(0));
    held_by(place.try_acquire());
    assert_eq!(place.names(), ["state.lock", "state.lock.takeover"]);
}

#[test]
fn a_save_removes_only_the_temporary_files_of_killed_processes() {
    let place = Place::new();
    place.write("state.lock", b"", Age::Past(0));
    for kind in ["tmp", "aside", "probe"] {
        fs::write(file::temporary(&place.lock, "a", kind), b"").unwrap();
    }
    let kept = [
        "other.lock.tmp-a.tmp",
        "state.lock",
        "state.lock.takeover",
        "state.lockx.tmp-a.tmp",
        "state.parquet",
    ];
    for name in kept {
        fs::write(place.directory.path().join(name), b"").unwrap();
    }
    durable::remove_leftovers(&[&place.lock], Duration::from_secs(10_000));
    assert_eq!(place.names().len(), kept.len() + 3, "they are young");
    set_age(&place.lock, Age::Future(20_000));
    durable::remove_leftovers(&[&place.lock], Duration::from_secs(10_000));
    assert_eq!(place.names(), kept);
}
