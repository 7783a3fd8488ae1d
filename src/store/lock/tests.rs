//! Tests of the lock within one process; several processes are in `tests/it/lock_and_journal.rs`.

mod takeover;

use std::fs::{self, File, FileTimes};
use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use super::*;

const LONG: Duration = Duration::from_secs(100_000);

/// Takes a silent lock at once, so that no test waits.
fn no_watch() -> Timing {
    Timing {
        watch: Duration::ZERO,
        pause: Duration::from_millis(1),
        ..Timing::default()
    }
}

struct Place {
    directory: tempfile::TempDir,
    lock: PathBuf,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let lock = directory.path().join("state.lock");
        Self { directory, lock }
    }

    fn try_acquire(&self) -> Result<Lock, LockError> {
        Lock::acquire_with(&self.lock, "test", Duration::ZERO, no_watch())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the test lists the remaining files"
    )]
    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn write(&self, name: &str, text: &[u8], age: Age) -> PathBuf {
        let path = self.directory.path().join(name);
        fs::write(&path, text).unwrap();
        set_age(&path, age);
        path
    }
}

#[derive(Clone, Copy)]
enum Age {
    Past(u64),
    Future(u64),
}

#[expect(clippy::disallowed_methods, reason = "ages are set from the present")]
fn set_age(path: &Path, age: Age) {
    let now = SystemTime::now();
    let time = match age {
        Age::Past(seconds) => now - Duration::from_secs(seconds),
        Age::Future(seconds) => now + Duration::from_secs(seconds),
    };
    File::options()
        .append(true)
        .open(path)
        .unwrap()
        .set_times(FileTimes::new().set_modified(time))
        .unwrap();
}

fn other_host() -> Holder {
    Holder {
        host: "login2".into(),
        user: Some("alice".into()),
        pid: 4242,
        ..Holder::this_process("run")
    }
}

/// This process's pid with another start time: the pid was reused.
fn dead_here() -> Holder {
    let mut holder = Holder::this_process("run");
    holder.start_time = holder.start_time.map(|start| start + 1);
    holder
}

fn held_by(result: Result<Lock, LockError>) -> String {
    match result {
        Err(LockError::Held { holder }) => holder,
        other => panic!("not held: {other:?}"),
    }
}

#[test]
fn is_exclusive_and_leaves_nothing() {
    let place = Place::new();
    let lock = place.try_acquire().unwrap();
    assert_eq!(place.names(), ["state.lock"]);
    lock.check().unwrap();
    let holder = held_by(place.try_acquire());
    assert!(holder.starts_with("test by "), "{holder}");
    assert!(
        holder.contains(&format!(", pid {}, since ", std::process::id())),
        "{holder}"
    );
    assert!(holder.contains(" UTC (heartbeat "), "{holder}");
    assert_eq!(place.names(), ["state.lock"]);
    drop(lock);
    assert!(place.names().is_empty());
    place.try_acquire().unwrap().check().unwrap();
}

#[test]
fn a_waiting_process_gets_the_lock_after_release() {
    let place = Place::new();
    let lock = place.try_acquire().unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| Lock::acquire_with(&place.lock, "test", LONG, no_watch()));
        drop(lock);
        waiting.join().unwrap().unwrap().check().unwrap();
    });
}

#[test]
fn one_at_a_time_among_threads() {
    let place = Place::new();
    let counter = place.directory.path().join("counter");
    fs::write(&counter, "0").unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let lock = Lock::acquire_with(&place.lock, "test", LONG, no_watch()).unwrap();
                    let count: u32 = fs::read_to_string(&counter).unwrap().parse().unwrap();
                    std::thread::yield_now();
                    fs::write(&counter, (count + 1).to_string()).unwrap();
                    lock.check().unwrap();
                }
            });
        }
    });
    assert_eq!(fs::read_to_string(&counter).unwrap(), "200");
    assert_eq!(place.names(), ["counter"]);
}

#[test]
fn dead_holder_here_is_replaced_at_once() {
    let place = Place::new();
    for age in [Age::Past(0), Age::Past(10_000), Age::Future(10_000)] {
        place.write("state.lock", &dead_here().to_line(), age);
        // With the default times: no waiting.
        let lock = Lock::acquire(&place.lock, "test", Duration::ZERO).unwrap();
        lock.check().unwrap();
        assert_eq!(place.names(), ["state.lock"]);
    }
}

#[test]
fn live_holder_here_keeps_it_however_old_its_heartbeat() {
    let place = Place::new();
    let me = Holder::this_process("run");
    place.write("state.lock", &me.to_line(), Age::Past(1_000_000));
    held_by(place.try_acquire());
}

#[test]
fn only_the_heartbeat_counts_where_the_process_is_invisible() {
    let mut rebooted = dead_here();
    rebooted.boot_id = Some("00000000-0000-0000-0000-000000000000".into());
    let mut container = dead_here();
    container.namespaces = Some("pid:[1] time:[1]".into());
    let mut whole = other_host().to_line();
    let cut = whole[..whole.len() / 2].to_vec();
    whole.extend_from_slice(b"more");
    let texts: [(&str, Vec<u8>); 7] = [
        ("other host", other_host().to_line()),
        ("rebooted host", rebooted.to_line()),
        ("other namespace", container.to_line()),
        ("cut", cut),
        ("empty", Vec::new()),
        ("zeros", vec![0; 300]),
        ("overwritten", whole),
    ];
    let place = Place::new();
    for (name, text) in texts {
        for fresh in [Age::Past(0), Age::Past(590), Age::Future(590)] {
            let path = place.write("state.lock", &text, fresh);
            held_by(place.try_acquire());
            assert_eq!(fs::read(path).unwrap(), text, "{name}");
            assert_eq!(place.names(), ["state.lock"], "{name}");
        }
        for old in [Age::Past(660), Age::Past(100_000_000), Age::Future(660)] {
            place.write("state.lock", &text, old);
            place.try_acquire().unwrap().check().unwrap();
            assert!(place.names().is_empty(), "{name}");
        }
    }
}

#[test]
fn e9_a_file_that_is_not_a_lock_is_never_taken_over() {
    let place = Place::new();
    for text in [
        &b"[1, 2]"[..],
        b"dependencies:\n  - numpy\n",
        b"{\"name\": 1}",
    ] {
        let path = place.write("state.lock", text, Age::Past(100_000_000));
        assert!(matches!(place.try_acquire(), Err(LockError::Io(_))));
        assert_eq!(fs::read(path).unwrap(), text);
    }
}

#[test]
fn every_cut_of_a_lock_file_is_respected_while_fresh() {
    let place = Place::new();
    let line = other_host().to_line();
    for end in 0..line.len() {
        place.write("state.lock", &line[..end], Age::Past(0));
        held_by(place.try_acquire());
    }
    let holder = held_by(place.try_acquire());
    assert!(holder.starts_with("run by alice on login2, pid 4242, since "));
    place.write("state.lock", b"", Age::Past(60));
    let holder = held_by(place.try_acquire());
    assert!(
        holder.starts_with("a process of ") && holder.contains("uid "),
        "{holder}"
    );
}

#[test]
fn loss_is_found_by_check_and_the_new_holder_is_left_alone() {
    let place = Place::new();
    let lock = place.try_acquire().unwrap();
    fs::remove_file(&place.lock).unwrap();
    match lock.check() {
        Err(LockError::Lost { holder }) => assert!(holder.contains("was removed"), "{holder}"),
        other => panic!("{other:?}"),
    }
    let thief = other_host().to_line();
    place.write("state.lock", &thief, Age::Past(0));
    match lock.check() {
        Err(LockError::Lost { holder }) => {
            assert!(holder.starts_with("run by alice on login2"), "{holder}");
        }
        other => panic!("{other:?}"),
    }
    drop(lock);
    assert_eq!(fs::read(&place.lock).unwrap(), thief);
}

#[test]
fn the_holder_touches_the_lock_file() {
    let place = Place::new();
    let quick = Timing {
        heartbeat: Duration::from_millis(1),
        ..no_watch()
    };
    let mtime = || file::observe(&place.lock).unwrap().unwrap().mtime;
    let lock = Lock::acquire_with(&place.lock, "test", Duration::ZERO, quick).unwrap();
    set_age(&place.lock, Age::Past(5000));
    let old = mtime();
    let is_touched = |_| {
        std::thread::sleep(Duration::from_millis(10));
        mtime().duration_since(old).unwrap_or_default() > Duration::from_secs(4000)
    };
    assert!((0..2000).any(is_touched));
    drop(lock);
    // The thread touches it only every 30 s, but each check does too.
    let lock = place.try_acquire().unwrap();
    set_age(&place.lock, Age::Past(5000));
    let old = mtime();
    lock.check().unwrap();
    assert!(mtime().duration_since(old).unwrap_or_default() > Duration::from_secs(4000));
}

#[test]
fn anything_but_a_regular_file_is_an_error() {
    let place = Place::new();
    let check = |what: &str| {
        let error = place.try_acquire().unwrap_err();
        assert!(matches!(error, LockError::Io(_)), "{what}: {error}");
        assert!(error.to_string().contains("state.lock"), "{what}: {error}");
        assert!(!error.hint().is_empty());
    };
    fs::create_dir(&place.lock).unwrap();
    check("directory");
    fs::remove_dir(&place.lock).unwrap();
    std::os::unix::fs::symlink("nowhere", &place.lock).unwrap();
    check("dangling link");
    fs::remove_file(&place.lock).unwrap();
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        &place.lock,
        rustix::fs::Mode::from_raw_mode(0o600),
    )
    .unwrap();
    check("pipe");
}

#[test]
fn a_missing_directory_is_an_error_with_a_hint() {
    let place = Place::new();
    let path = place.directory.path().join("gone/state.lock");
    let error = Lock::acquire(&path, "test", LONG).unwrap_err();
    assert!(error.to_string().starts_with("cannot make the lock "));
    assert!(error.to_string().contains("gone/state.lock"), "{error}");
    assert!(error.hint().contains("directory"));
}

#[test]
fn unlocked_locks_nothing() {
    let first = Lock::unlocked();
    let second = Lock::unlocked();
    first.check().unwrap();
    second.check().unwrap();
}

/// Measures the lock: `cargo test --lib lock::tests::cost -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn cost() {
    let place = Place::new();
    let start = Instant::now();
    for _ in 0..1000 {
        drop(place.try_acquire().unwrap());
    }
    println!("acquire and release: {:?}", start.elapsed() / 1000);
    let lock = place.try_acquire().unwrap();
    let start = Instant::now();
    for _ in 0..1000 {
        lock.check().unwrap();
    }
    println!("check: {:?}", start.elapsed() / 1000);
}
