//! A directory that is good, one that is not, and each step that fails.

use super::super::Level;
use super::*;

#[test]
fn a_good_directory_passes_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("own"), "x").unwrap();
    let old = dir.path().join(".snbb-check-dead");
    fs::create_dir(&old).unwrap();
    fs::write(old.join("first"), "x").unwrap();
    let young = dir.path().join(".snbb-check-busy");
    fs::create_dir(&young).unwrap();
    let long_ago = std::time::UNIX_EPOCH + Duration::from_secs(1_000_000);
    File::open(&old).unwrap().set_modified(long_ago).unwrap();
    let trial = run(dir.path());
    assert!(trial.failed.is_none(), "{trial:?}");
    let finding = &judge("lock", &trial)[0];
    assert_eq!(finding.level, Level::Ok);
    let clock = judge_clock(dir.path(), &trial.written.unwrap());
    assert_eq!(clock.level, Level::Ok, "{clock:?}");
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, [".snbb-check-busy", "own"]);
}

#[test]
fn a_directory_that_is_not_there_or_not_writable_fails() {
    let dir = tempfile::tempdir().unwrap();
    let trial = run(&dir.path().join("none"));
    assert_eq!(trial.failed.as_ref().unwrap().0, Step::MakeDirectory);
    // proc is read-only for everybody.
    let trial = run(Path::new("/proc/self"));
    let finding = &judge("lock", &trial)[0];
    assert_eq!(finding.level, Level::Error);
    assert!(
        finding.text.starts_with("nothing can be made in it: "),
        "{finding:?}"
    );
    assert!(!finding.text.contains("os error"), "{finding:?}");
}

#[test]
fn each_step_that_fails_is_an_error_with_a_way_out() {
    for step in Step::ALL {
        for kind in [
            io::ErrorKind::Unsupported,
            io::ErrorKind::PermissionDenied,
            io::ErrorKind::StorageFull,
            io::ErrorKind::ReadOnlyFilesystem,
        ] {
            let trial = Trial {
                dir: "/d".into(),
                failed: Some((step, kind.into())),
                written: None,
                sync: Duration::ZERO,
            };
            let finding = &judge("lock", &trial)[0];
            assert_eq!(finding.level, Level::Error);
            assert!(finding.text.starts_with(step.words()));
            assert!(finding.advice.is_some());
        }
    }
}

#[test]
fn slow_syncs_are_told() {
    let trial = Trial {
        dir: "/d".into(),
        failed: None,
        written: None,
        sync: Duration::from_millis(4500),
    };
    let finding = &judge("lock", &trial)[0];
    assert_eq!(finding.level, Level::Warning);
    assert!(finding.text.contains("4.5 s"));
}

#[test]
fn clocks_that_differ_are_told() {
    let at = |seconds: i64| DateTime::from_timestamp(1_800_000_000 + seconds, 0).unwrap();
    for (server, level, part) in [
        (0, Level::Ok, "agree"),
        (1, Level::Ok, "agree"),
        (-4, Level::Ok, "agree"),
        (6, Level::Ok, "agree"),
        (7, Level::Warning, "5 s ahead of"),
        (-90, Level::Warning, "90 s behind"),
        (3600, Level::Error, "3598 s ahead of"),
        (-3600, Level::Error, "3600 s behind"),
    ] {
        let written = Written {
            before: at(0),
            after: at(2),
            server: at(server),
        };
        let finding = judge_clock(Path::new("/d"), &written);
        assert_eq!(finding.level, level, "{server}");
        assert!(finding.text.contains(part), "{server}: {}", finding.text);
    }
}
