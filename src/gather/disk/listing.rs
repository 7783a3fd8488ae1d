//! The entries of directories, as plain data. System calls are made in [`super::reader`].

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use super::Unreadable;

/// The result of reading a directory.
#[derive(Debug)]
pub enum Dir {
    There(Listing),
    /// It does not exist, or is not a directory.
    Absent,
    Failed(Unreadable),
}

/// The names in a directory, sorted by bytes, with their types; without `.` and `..`.
#[derive(Debug, Default)]
pub struct Listing(Box<[(Box<OsStr>, EntryKind)]>);

/// One entry of a [`Listing`].
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    pub name: &'a OsStr,
    pub kind: EntryKind,
}

/// The type of an entry; links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Directory,
    Link,
    /// A pipe, socket or device.
    Other,
}

impl Listing {
    pub(super) fn new(mut entries: Vec<(Box<OsStr>, EntryKind)>) -> Self {
        entries.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        Self(entries.into())
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.entries_from(0)
    }

    fn entries_from(&self, first: usize) -> impl Iterator<Item = Entry<'_>> {
        let entries = self.0.iter().skip(first);
        entries.map(|(name, kind)| Entry { name, kind: *kind })
    }

    /// The entries whose names begin with `prefix`: one subject's results in a directory shared by all subjects.
    pub fn beginning_with(&self, prefix: &str) -> impl Iterator<Item = Entry<'_>> {
        let prefix = prefix.as_bytes();
        let first = self.0.partition_point(|(name, _)| name.as_bytes() < prefix);
        self.entries_from(first)
            .take_while(move |entry| entry.name.as_bytes().starts_with(prefix))
    }

    /// Finds an entry by its exact name.
    pub fn get(&self, name: &OsStr) -> Option<Entry<'_>> {
        let at = self.0.binary_search_by(|(own, _)| (**own).cmp(name));
        self.entries_from(at.ok()?).next()
    }
}

/// Directories by path.
pub type Dirs = HashMap<PathBuf, Arc<Dir>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::disk::reader::Reader;

    fn names(dir: &Dir) -> Vec<String> {
        match dir {
            Dir::There(listing) => listing
                .iter()
                .map(|entry| entry.name.to_string_lossy().into_owned())
                .collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_listing_is_sorted_and_searchable() {
        let tmp = tempfile::tempdir().unwrap();
        // More names than one buffer of the kernel holds.
        for i in 0..1500 {
            std::fs::write(tmp.path().join(format!("file-with-a-long-name-{i:05}")), "").unwrap();
        }
        std::fs::create_dir(tmp.path().join("dir")).unwrap();
        std::os::unix::fs::symlink("nowhere", tmp.path().join("link")).unwrap();
        let dir = Reader::default().dir(tmp.path());
        let names = names(&dir);
        assert_eq!(names.len(), 1502);
        assert!(names.is_sorted());
        let Dir::There(listing) = &dir else { panic!() };
        for (name, kind) in [
            ("dir", EntryKind::Directory),
            ("link", EntryKind::Link),
            ("file-with-a-long-name-00777", EntryKind::File),
        ] {
            assert_eq!(listing.get(OsStr::new(name)).unwrap().kind, kind);
        }
        assert!(listing.get(OsStr::new("file")).is_none());
    }
}
