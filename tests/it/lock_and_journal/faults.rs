//! The journal under faults, signals, a full disk and a reader beside it.

use super::*;

/// Fails chosen system calls. No other process is followed, no file but the journal's is touched.
fn with_fault<'a>(path: &'a str, fault: &'a str) -> Vec<&'a str> {
    let quiet = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", path, "-e"];
    [&quiet[..], &[fault]].concat()
}

#[test]
fn journal_that_fails_once_takes_nothing_more() {
    if !works(&["strace", "-o", "/dev/null", "true"]) {
        return skip(
            "journal_that_fails_once_takes_nothing_more",
            "strace does not work here",
        );
    }
    let faults = [
        ("fdatasync", "EIO", 2, "cannot sync", "Input/output error"),
        ("fdatasync", "EDQUOT", 1, "cannot sync", "quota"),
        ("write", "ENOSPC", 3, "cannot write to", "No space left"),
        ("write", "EROFS", 1, "cannot write to", "Read-only"),
        ("write", "ESTALE", 2, "cannot write to", "Stale"),
    ];
    for (call, error, when, action, system) in faults {
        let (_directory, place) = place();
        // It has to exist: strace finds files by their path when it starts.
        drop(Journal::open(&place.journal()).unwrap());
        let path = place.journal().into_os_string().into_string().unwrap();
        let fault = format!("inject={call}:error={error}:when={when}");
        let mut process = Process::start_by(&place, "journal 5", &with_fault(&path, &fault));
        let text = process.says();
        assert!(
            text.starts_with(&format!("append {when}: {action} {path}: ")),
            "{text}"
        );
        assert!(text.contains(system), "{text}");
        assert!(
            text.contains("; nothing was submitted after this | "),
            "{text}"
        );
        assert!(process.ends_well());
        // What was recorded before is there.
        let entries = journal::read(&place.journal()).unwrap();
        assert!(entries.len() >= when - 1, "{}", entries.len());
    }
}

#[test]
fn interrupted_writes_are_finished() {
    if !works(&["strace", "-o", "/dev/null", "true"]) {
        return skip(
            "interrupted_writes_are_finished",
            "strace does not work here",
        );
    }
    let (_directory, place) = place();
    drop(Journal::open(&place.journal()).unwrap());
    let path = place.journal().into_os_string().into_string().unwrap();
    let fault = "inject=write:error=EINTR:when=1+2";
    let mut process = Process::start_by(&place, "journal 3", &with_fault(&path, fault));
    assert_eq!(process.says(), "no error");
    assert!(process.ends_well());
    assert_eq!(journal::read(&place.journal()).unwrap().len(), 3);
}

#[test]
fn full_disk_keeps_what_was_recorded() {
    let script = "mount -t tmpfs -o size=32k none \"$SNBB_TEST_CHILD_DIRECTORY\" && \"$0\" \"$@\" \
                  && cp \"$SNBB_TEST_CHILD_DIRECTORY\"/state.journal.jsonl \"$SNBB_TEST_CHILD_DIRECTORY\".copy";
    let mounted = ["unshare", "--mount", "sh", "-c", script];
    if !works(&["unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"]) {
        return skip("full_disk_keeps_what_was_recorded", "unshare needs root");
    }
    let (_directory, outer) = place();
    let place = Place {
        directory: outer.directory.join("full"),
    };
    fs::create_dir(&place.directory).unwrap();
    let mut process = Process::start_by(&place, "journal 1000", &mounted);
    let text = process.says();
    assert!(text.contains("No space left on device"), "{text}");
    assert!(text.contains("| free space"), "{text}");
    let appends: usize = text
        .strip_prefix("append ")
        .and_then(|rest| rest.split(':').next()?.parse().ok())
        .unwrap();
    assert!(process.ends_well());
    let copy = outer.directory.join("full.copy");
    assert_eq!(journal::read(&copy).unwrap().len(), appends - 1);
    assert!(
        !std::fs::read(&copy).unwrap().ends_with(b"\n"),
        "the append that failed was cut in the middle"
    );
}

#[test]
fn ten_thousand_intents_are_one_write_and_one_sync() {
    if !works(&["strace", "-o", "/dev/null", "true"]) {
        return skip(
            "ten_thousand_intents_are_one_write_and_one_sync",
            "strace does not work here",
        );
    }
    let (_directory, place) = place();
    drop(Journal::open(&place.journal()).unwrap());
    let trace = place
        .directory
        .join("trace")
        .into_os_string()
        .into_string()
        .unwrap();
    let path = place.journal().into_os_string().into_string().unwrap();
    let calls = "trace=write,fdatasync";
    let by = [
        "strace", "-f", "-qq", "-o", &trace, "-P", &path, "-e", calls,
    ];
    let process = Process::start_by(&place, "append 10000", &by);
    assert!(process.ends_well());
    let trace = fs::read_to_string(&trace).unwrap();
    let count = |call: &str| trace.lines().filter(|line| line.contains(call)).count();
    assert_eq!((count("write("), count("fdatasync(")), (1, 1), "{trace}");
    assert_eq!(journal::read(&place.journal()).unwrap().len(), 10_000);
}

#[test]
fn reader_beside_a_writer_sees_a_prefix() {
    let (_directory, place) = place();
    let mut written = Vec::new();
    let mut journal = Journal::open(&place.journal()).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut lengths = Vec::new();
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                lengths.push(journal::read(&place.journal()).unwrap().len());
            }
            lengths
        });
        for n in 0..200 {
            let entry = Entry::Accepted {
                submission_id: format!("id{n}").into(),
                job_id: JobId::new(&n.to_string()),
                cluster: None,
                at: Default::default(),
            };
            journal.append(std::slice::from_ref(&entry)).unwrap();
            written.push(entry);
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(reader.join().unwrap().is_sorted());
    });
    assert_eq!(journal::read(&place.journal()).unwrap(), written);
}
