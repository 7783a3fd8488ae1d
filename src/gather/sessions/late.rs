//! Input files that are newer than the attempt that used them.

use std::path::Path;

use chrono::{DateTime, Utc};

use super::dicom::is_litter;
use crate::gather::disk::reader::{Reader, modified};
use crate::gather::disk::{Dir, EntryKind};

/// True if a file below a directory (or the file itself, for an archive) is newer than `since`. Does not follow links
/// to directories.
///
/// A new file changes its directory's time, so only newer directories are searched. Files newer than `now` have a wrong
/// time and do not count, nor do unreadable ones.
pub fn has_newer(reader: &Reader, top: &Path, since: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    let time = |path: &Path| {
        let stat = reader.stat(path).ok().flatten();
        stat.as_ref().and_then(modified)
    };
    let mut open = vec![top.to_owned()];
    while let Some(directory) = open.pop() {
        let Some(changed) = time(&directory) else {
            continue;
        };
        let has_changed = changed > since;
        let listing = match reader.dir(&directory) {
            Dir::There(listing) => listing,
            Dir::Absent if has_changed && changed <= now => return true,
            Dir::Absent | Dir::Failed(_) => continue,
        };
        for entry in listing.iter() {
            if is_litter(entry.name) || entry.name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = directory.join(entry.name);
            match entry.kind {
                EntryKind::Directory => open.push(path),
                EntryKind::File | EntryKind::Link if has_changed => {
                    if time(&path).is_some_and(|time| time > since && time <= now) {
                        return true;
                    }
                }
                EntryKind::File | EntryKind::Link | EntryKind::Other => {}
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
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
}
