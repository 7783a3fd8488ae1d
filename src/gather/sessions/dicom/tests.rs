//! DICOM directories that hold their session back.

mod late;

use chrono::Duration;

use super::*;
use crate::config::{Overrides, load::interpret};
use crate::model::bids::{SessionLabel, SubjectLabel};
use std::fs;

/// Minutes until a session has settled (0 for no such rule), and its fewest files (0 for no gate).
fn config(settle: u64, min_files: u64) -> Config {
    let (none, cwd) = (Overrides::default(), Path::new("/"));
    let mut config = interpret(b"{}", None, false, &|_| None, &none, cwd).unwrap();
    config.dicom_settle = (settle > 0).then(|| std::time::Duration::from_secs(settle * 60));
    (config.dicom_gate, config.audit.dicom_min_files) = (min_files > 0, min_files);
    config
}

fn hold_below(config: &Config, directory: &Path, now: DateTime<Utc>) -> Option<Hold> {
    let session = Session {
        subject: SubjectLabel::new("sub-01").unwrap(),
        session: SessionLabel::none(),
        dicom: Dicom::At(directory.into()),
    };
    hold_session(config, &Reader::default(), &session, now)
}

#[test]
fn a_session_is_held_back_while_it_arrives_and_while_it_is_too_small() {
    let tmp = tempfile::tempdir().unwrap();
    let file = fs::File::create(tmp.path().join("1.dcm")).unwrap();
    let written = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
    file.set_modified(written.into()).unwrap();
    let hold = |config: Config, minutes| {
        let now = written + Duration::minutes(minutes);
        hold_below(&config, tmp.path(), now)
    };
    assert_eq!(hold(config(0, 0), 0), None);
    let until = written + Duration::minutes(30);
    assert_eq!(hold(config(30, 0), 29), Some(Hold::Settling { until }));
    assert_eq!(hold(config(30, 0), 30), None);
    assert_eq!(hold(config(0, 1), 0), None);
    let few = Hold::TooFewFiles {
        files: 1,
        needed: 2,
    };
    assert_eq!(hold(config(30, 2), 60), Some(few));
}

#[test]
fn attack_a_session_below_bids_root_settles_but_needs_no_minimum() {
    let tmp = tempfile::tempdir().unwrap();
    let session = Session {
        subject: SubjectLabel::new("sub-01").unwrap(),
        session: SessionLabel::new("ses-01").unwrap(),
        dicom: Dicom::NotNeeded,
    };
    let anat = tmp.path().join("sub-01/ses-01/anat");
    fs::create_dir_all(&anat).unwrap();
    let written = DateTime::from_timestamp(1_700_000_000, 0).unwrap();
    let hold = |settle: u64, minutes| {
        let config = Config {
            bids_root: tmp.path().to_owned(),
            ..config(settle, 10)
        };
        let now = written + Duration::minutes(minutes);
        hold_session(&config, &Reader::default(), &session, now)
    };
    let touch = |path: &Path| {
        let file = fs::File::open(path).unwrap();
        file.set_modified(written.into()).unwrap();
    };
    let until = written + Duration::minutes(30);
    let settles = |what: &str| {
        let held = Some(Hold::Settling { until });
        assert_eq!(hold(30, 29), held, "{what}");
        assert_eq!(hold(30, 30), None, "{what}");
    };
    touch(&anat);
    settles("empty");
    // rsync writes to a hidden file first.
    let temporary = anat.join(".sub-01_ses-01_T1w.nii.gz.Xy12ab");
    fs::write(&temporary, "x").unwrap();
    touch(&temporary);
    settles("hidden");
    let image = anat.join("sub-01_ses-01_T1w.nii.gz");
    fs::rename(&temporary, &image).unwrap();
    settles("image");
    fs::File::open(&image)
        .unwrap()
        .set_modified((written - Duration::days(1)).into())
        .unwrap();
    assert_eq!(hold(30, 0), None);
    let next = tmp.path().join("sub-01/ses-01/func");
    fs::create_dir(&next).unwrap();
    touch(&next);
    settles("next directory");
    assert_eq!(hold(0, 0), None, "dicom_settle is not set");
}

use std::os::unix::fs::symlink;

#[test]
fn files_are_counted_at_any_depth() {
    let tmp = tempfile::tempdir().unwrap();
    let at = |name: &str| tmp.path().join("ses-1").join(name);
    let reader = &Reader::default();
    let all = |path: &Path| look(reader, path, u64::MAX, true);
    let count = |path: &Path, enough| count_files(reader, path, enough);
    assert_eq!(all(&at("")), Ok((0, None)), "none is none");
    fs::create_dir_all(at("series/deep")).unwrap();
    for name in [
        "1.dcm",
        "series/2.dcm",
        "series/deep/3.dcm",
        ".hidden",
        "series/.4.dcm.Xy",
        "Thumbs.db",
    ] {
        fs::write(at(name), "x").unwrap();
    }
    symlink("1.dcm", at("5.dcm")).unwrap();
    symlink("..", at("series/loop")).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(4_000_000_000);
    let file = fs::File::options()
        .append(true)
        .open(at("series/2.dcm"))
        .unwrap();
    file.set_modified(time).unwrap();
    assert_eq!(all(&at("")), Ok((4, Some(time.into()))));
    assert_eq!(count(&at(""), 100), Ok(4));
    assert_eq!(count(&at(""), 2), Ok(2));
    assert_eq!(count(&at("none"), 2), Ok(0));
    assert_eq!(count(&at("1.dcm"), 9), Ok(1), "an archive");
    symlink("nowhere", at("6.dcm")).unwrap();
    assert_eq!(count(&at(""), 4), Ok(4), "enough without it");
    assert_eq!(count(&at(""), 5).unwrap_err().path, at("6.dcm"));
    assert_eq!(all(&at("")).unwrap_err().path, at("6.dcm"));
}

#[test]
fn b4_a_directory_without_a_real_file_is_held_without_any_gate() {
    let tmp = tempfile::tempdir().unwrap();
    let hold = || hold_below(&config(0, 0), tmp.path(), DateTime::UNIX_EPOCH);
    let empty = Some(Hold::TooFewFiles {
        files: 0,
        needed: 1,
    });
    assert_eq!(hold(), empty);
    for name in [".DS_Store", "Thumbs.db", ".nfs0001"] {
        fs::write(tmp.path().join(name), "x").unwrap();
    }
    fs::create_dir(tmp.path().join("series")).unwrap();
    assert_eq!(hold(), empty);
    symlink("/nonexistent/1.dcm", tmp.path().join("series/1.dcm")).unwrap();
    assert!(matches!(hold(), Some(Hold::Unreadable(_))));
    fs::write(tmp.path().join("series/2.dcm"), "x").unwrap();
    assert_eq!(hold(), None);
}
