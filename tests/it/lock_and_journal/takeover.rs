//! Holders that were killed or fell silent, and who follows them.

use super::*;

#[test]
fn takers_of_dead_locks_never_rob_a_live_one() {
    let (_directory, place) = place();
    let mut others: Vec<_> = (0..3)
        .map(|_| Process::start(&place, "count 150"))
        .collect();
    // Three that die with the lock held, again and again, and the others in between.
    let mortals: Vec<_> = (0..3)
        .map(|_| {
            let place = place.clone();
            std::thread::spawn(move || {
                for _ in 0..15 {
                    assert!(!Process::start(&place, "count-and-die 100").ends_well());
                }
            })
        })
        .collect();
    for mortal in mortals {
        mortal.join().unwrap();
    }
    for process in others.drain(..) {
        assert!(process.ends_well());
    }
    drop(place.acquire(Duration::ZERO).unwrap());
    let counter = fs::read_to_string(place.directory.join("counter")).unwrap();
    let log = fs::read_to_string(place.directory.join("log")).unwrap();
    assert_eq!(counter, log.len().to_string());
    assert_eq!(log.len(), 3 * 150 + 3 * 15 * 7);
    assert_eq!(names(&place.directory), ["counter", "log"]);
}

#[test]
fn killed_holder_is_followed_at_once() {
    let (_directory, place) = place();
    let mut holder = Process::start(&place, "hold");
    assert_eq!(holder.says(), "held");
    match place.acquire(Duration::ZERO) {
        Err(LockError::Held { holder: text }) => {
            assert!(
                text.contains(&format!("pid {}", holder.child.id())),
                "{text}"
            );
        }
        other => panic!("{other:?}"),
    }
    holder.kill();
    // With the program's own times.
    let lock = Lock::acquire(&place.lock(), "test", Duration::ZERO).unwrap();
    lock.check().unwrap();
}

/// Kills a taker of a dead lock before each of its system calls: nobody is ever blocked by what it leaves.
#[test]
fn call_that_is_killed_anywhere_blocks_nobody() {
    let test = "call_that_is_killed_anywhere_blocks_nobody";
    if !works(&["strace", "-o", "/dev/null", "true"]) {
        return skip(test, "strace does not work here");
    }
    let (_directory, place) = place();
    let mut holder = Process::start(&place, "hold");
    assert_eq!(holder.says(), "held");
    holder.kill();
    let dead = fs::read(place.lock()).unwrap();
    for call in ["linkat", "rename", "unlink", "utimensat", "openat", "write"] {
        for when in 1.. {
            fs::write(place.lock(), &dead).unwrap();
            let fault = format!("inject={call}:signal=KILL:when={when}");
            let by = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", &fault];
            let is_clean = Process::start_by(&place, "count 1", &by).ends_well();
            // The first try may have to clear the way only.
            let lock = (0..3).find_map(|_| place.acquire(Duration::ZERO).ok());
            let lock = lock.unwrap_or_else(|| panic!("blocked after {call} {when}"));
            lock.check().unwrap();
            drop(lock);
            let left = names(&place.directory);
            assert!(!left.contains(&"state.lock".to_owned()), "{left:?}");
            for name in left.iter().filter(|name| name.starts_with("state.lock.")) {
                let kinds = [".tmp", ".aside", ".probe", ".takeover"];
                assert!(kinds.iter().any(|kind| name.ends_with(kind)), "{left:?}");
                // A gate stays in the way of the next one.
                if !name.ends_with(".takeover") {
                    fs::remove_file(place.directory.join(name)).unwrap();
                }
            }
            // Killed while it wrote the number itself.
            if fs::read_to_string(place.directory.join("counter"))
                .unwrap()
                .is_empty()
            {
                fs::write(place.directory.join("counter"), "0").unwrap();
            }
            if is_clean {
                assert!(call != "rename" || when > 3, "the sweep saw too little");
                break;
            }
        }
    }
}

#[test]
fn child_of_a_killed_holder_keeps_nothing() {
    let (_directory, place) = place();
    let mut holder = Process::start(&place, "hold-with-child");
    let sleeper: i32 = holder.says().parse().unwrap();
    holder.kill();
    let sleeper = rustix::process::Pid::from_raw(sleeper).unwrap();
    rustix::process::test_kill_process(sleeper).unwrap();
    Lock::acquire(&place.lock(), "test", Duration::ZERO).unwrap();
    rustix::process::kill_process(sleeper, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn silent_lock_of_another_host_goes_to_exactly_one() {
    let (_directory, place) = place();
    let mut foreign = Process::start(&place, "hold");
    assert_eq!(foreign.says(), "held");
    let text = fs::read_to_string(place.lock()).unwrap();
    foreign.go_on();
    assert!(foreign.ends_well());
    let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
    value["host"] = "login2.example".into();
    let text = value.to_string();
    for (age, winners) in [(0, 0), (590, 0), (660, 1), (660, 1), (660, 1), (660, 1)] {
        fs::write(place.lock(), &text).unwrap();
        let time = SystemTime::now() - Duration::from_secs(age);
        File::options()
            .append(true)
            .open(place.lock())
            .unwrap()
            .set_times(FileTimes::new().set_modified(time))
            .unwrap();
        let mut all: Vec<_> = (0..8).map(|_| Process::start(&place, "try")).collect();
        for process in &mut all {
            assert_eq!(process.says(), "ready");
        }
        for process in &mut all {
            process.go_on();
        }
        let outcomes: Vec<_> = all.iter_mut().map(Process::says).collect();
        let won = outcomes.iter().filter(|outcome| *outcome == "won").count();
        // All tried only once: the gate of a taker may have turned every other away, yet one had it.
        assert_eq!(won, winners, "{outcomes:?}");
        if winners == 0 {
            assert_eq!(fs::read_to_string(place.lock()).unwrap(), text);
        }
        for (mut process, outcome) in all.into_iter().zip(outcomes) {
            process.go_on();
            if outcome == "won" {
                assert_eq!(process.says(), "still won");
            }
            assert!(process.ends_well());
        }
    }
}
