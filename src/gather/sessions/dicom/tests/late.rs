//! Input that is newer than the attempt that used it.

use std::fs;

use super::super::*;
use crate::gather::disk::reader::spy;

fn at(seconds: i64) -> DateTime<Utc> {
    DateTime::from_timestamp(1_700_000_000 + seconds, 0).unwrap()
}

fn touch(path: &Path, seconds: i64) {
    let file = fs::File::open(path).unwrap();
    file.set_modified(at(seconds).into()).unwrap();
}

#[test]
fn only_files_newer_than_the_start_are_late() {
    let tmp = tempfile::tempdir().unwrap();
    let (series, file) = (tmp.path().join("series"), tmp.path().join("series/1.dcm"));
    let reader = Reader::default();
    let is_late = |since| has_newer(&reader, tmp.path(), at(since), at(1000));
    fs::create_dir(&series).unwrap();
    for name in ["1.dcm", ".2.dcm.Xy", "Thumbs.db"] {
        fs::write(series.join(name), "x").unwrap();
    }
    let set = |dir: i64, time: i64| {
        touch(&file, time);
        touch(&series, dir);
        touch(tmp.path(), 0);
    };
    set(50, 50);
    assert!(is_late(49), "below a directory that did not change");
    assert!(!is_late(50));
    set(60, 40);
    assert!(!is_late(50), "hidden files and litter are no input");
    set(40, 60);
    assert!(!is_late(50), "rewritten in place: not seen");
    set(2000, 2000);
    assert!(!is_late(50), "newer than now");
    set(2000, 900);
    assert!(is_late(50), "the directory's time may be wrong");
    fs::remove_file(&file).unwrap();
    assert!(!is_late(50), "a deleted file");
    assert!(!has_newer(&reader, &tmp.path().join("none"), at(0), at(9)));
}

#[test]
fn files_of_an_unchanged_session_are_not_read() {
    let tmp = tempfile::tempdir().unwrap();
    for number in 0..20 {
        fs::write(tmp.path().join(number.to_string()), "x").unwrap();
    }
    touch(tmp.path(), 0);
    spy::calls();
    assert!(!has_newer(&Reader::default(), tmp.path(), at(1), at(9)));
    assert_eq!(spy::calls().len(), 2, "its time, and its names");
}
