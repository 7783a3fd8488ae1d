//! Directories that work, directories that do not, and each failing step.

use super::super::{Level, clock, testing};
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
    assert_eq!(
        testing::judged(|out| report(dir.path(), &trial, out))[0].level,
        Level::Ok
    );
    let clock = testing::judged(|out| clock::compare("", "its", trial.written.unwrap(), "", out));
    assert_eq!(clock[0].level, Level::Ok, "{clock:?}");
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.sort();
    assert_eq!(names, [".snbb-check-busy", "own"]);
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
        let trial = Trial {
            failed: Some((step, kind.into())),
            ..Trial::default()
        };
        let findings = testing::judged(|out| report(Path::new("/d"), &trial, out));
        testing::one(&findings, Level::Error, step);
        let remedy = findings[0].remedy.as_ref().unwrap();
        assert!(remedy.contains(part), "{remedy}");
    }
}
