//! Directories that work, directories that do not, and each failing step.

use super::super::{Level, testing};
use super::*;

#[test]
fn a_good_directory_passes_and_nothing_is_left() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("own"), "x").unwrap();
    let trial = run(dir.path());
    assert_eq!(
        testing::judged(|out| report(dir.path(), &trial, out))[0].level,
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
        let findings = testing::judged(|out| report(dir, &run(dir), out));
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
        let findings = testing::judged(|out| report(Path::new("/d"), &trial, out));
        testing::one(&findings, Level::Error, step);
        let remedy = findings[0].remedy.as_ref().unwrap();
        assert!(remedy.contains(part), "{remedy}");
    }
}
