use super::super::{Level, testing};
use super::*;

#[test]
fn a_full_file_system_is_an_error() {
    for (free, has_inodes, expected) in [
        (Some(0), true, Some(Level::Error)),
        (Some(1 << 40), false, Some(Level::Error)),
        (Some(100 << 20), true, Some(Level::Warning)),
        (Some(1 << 40), true, Some(Level::Ok)),
        (None, true, None),
    ] {
        let room = Room {
            device: 1,
            free,
            has_inodes,
        };
        let findings = testing::judged(|out| judge_room(Some(room), 16 << 20, "x", out));
        let level = findings.first().map(|finding| finding.level);
        assert_eq!(level, expected, "{free:?} {has_inodes}");
    }
    assert!(testing::judged(|out| judge_room(None, 1, "x", out)).is_empty());
}

#[test]
fn each_condition_of_a_directory_has_its_level() {
    let unreadable = Place::Unreadable("Input/output error".into());
    for (place, is_writable, expected) in [
        (Place::Directory, true, Level::Ok),
        (Place::Directory, false, Level::Error),
        (Place::Missing, true, Level::Ok),
        (Place::Missing, false, Level::Error),
        (Place::Other, false, Level::Error),
        (unreadable, false, Level::Error),
    ] {
        let findings = testing::judged(|out| {
            directory(
                Level::Error,
                ("state_file", ""),
                place.clone(),
                is_writable,
                out,
            )
        });
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].level, expected, "{place:?}");
    }
}

#[test]
fn a_directory_open_to_everyone_is_a_warning() {
    for (mode, count) in [(0o777, 1), (0o1777, 0), (0o775, 0)] {
        let findings = testing::judged(|out| out.writable_by_all(Path::new("/s"), Some(mode), "x"));
        assert_eq!(findings.len(), count, "{mode:o}");
    }
}

#[test]
fn a_good_directory_passes_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("own"), "x").unwrap();
    let trial = trial(dir.path());
    assert_eq!(
        testing::judged(|out| report_trial(dir.path(), &trial, out))[0].level,
        Level::Ok
    );
    let written = trial.unwrap().unwrap();
    let clock = testing::judged(|out| out.clock("", "its", written, ""));
    assert_eq!(clock[0].level, Level::Ok, "{clock:?}");
    let names: Vec<_> = walkdir::WalkDir::new(dir.path())
        .min_depth(1)
        .into_iter()
        .map(|entry| entry.unwrap().file_name().to_owned())
        .collect();
    assert_eq!(names, ["own"]);
}

#[test]
fn a_missing_or_read_only_directory_fails() {
    let dir = tempfile::tempdir().unwrap();
    // proc is read-only for everyone.
    for dir in [&*dir.path().join("none"), Path::new("/proc/self")] {
        let findings = testing::judged(|out| report_trial(dir, &trial(dir), out));
        testing::one(&findings, Level::Error, "cannot create files in it: ");
        assert!(!findings[0].text.contains("os error"), "{findings:?}");
    }
}

#[test]
fn each_failure_is_an_error_with_its_own_remedy() {
    for (step, kind, part) in [
        (LINK, io::ErrorKind::Unsupported, "hard link"),
        (LINK, io::ErrorKind::PermissionDenied, "hard link"),
        (LOCK, io::ErrorKind::Other, "hard link"),
        (WRITE, io::ErrorKind::PermissionDenied, "write permission"),
        (WRITE, io::ErrorKind::StorageFull, "free space"),
        (SYNC, io::ErrorKind::ReadOnlyFilesystem, "write access"),
        (SYNC, io::ErrorKind::Other, "another file system"),
    ] {
        let trial: Result<(), _> = Err((step, kind.into()));
        let findings = testing::judged(|out| report_trial(Path::new("/d"), &trial, out));
        testing::one(&findings, Level::Error, step);
        let remedy = findings[0].remedy.as_ref().unwrap();
        assert!(remedy.contains(part), "{remedy}");
    }
}
