//! Reading directories and files of the data trees with few system calls.
//!
//! Independent of labels and rules. A failure to read is a value of its own, [`Unreadable`], and never counts as an
//! absence. The entries of a directory are plain data: one buffer of sorted names. System calls are made in [`reader`].

pub mod reader;

use std::cell::RefCell;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::io::Errno;

use reader::Reader;

use crate::base::text::FastMap;

/// A path that could not be read, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {}: {error}", .path.display())]
pub struct Unreadable {
    pub path: PathBuf,
    /// The system's message: `Permission denied`.
    pub error: String,
}

/// True if the error means that the path does not exist.
fn is_absence(errno: Errno) -> bool {
    matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)
}

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
pub struct Listing {
    names: Vec<u8>,
    slots: Vec<Slot>,
}

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

#[derive(Debug, Clone, Copy)]
struct Slot {
    start: u32,
    len: u16,
    kind: EntryKind,
}

impl Listing {
    /// Adds an entry, in any order.
    fn add(&mut self, name: &[u8], kind: EntryKind) -> Result<(), Errno> {
        let start = u32::try_from(self.names.len()).map_err(|_| Errno::OVERFLOW)?;
        let len = u16::try_from(name.len()).map_err(|_| Errno::OVERFLOW)?;
        self.names.extend_from_slice(name);
        self.slots.push(Slot { start, len, kind });
        Ok(())
    }

    /// Sorts the entries, after all were added.
    fn finish(&mut self) {
        let names = &self.names;
        (self.slots).sort_unstable_by(|a, b| bytes(names, a).cmp(bytes(names, b)));
        self.slots.shrink_to_fit();
        self.names.shrink_to_fit();
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.slots.iter().map(|slot| self.entry(slot))
    }

    fn entry(&self, slot: &Slot) -> Entry<'_> {
        Entry {
            name: OsStr::from_bytes(bytes(&self.names, slot)),
            kind: slot.kind,
        }
    }

    /// The entries whose names begin with `prefix`: one subject's results in a directory shared by all subjects.
    pub fn beginning_with(&self, prefix: &str) -> impl Iterator<Item = Entry<'_>> {
        let prefix = prefix.as_bytes();
        let first = self
            .slots
            .partition_point(|slot| bytes(&self.names, slot) < prefix);
        let rest = self.slots.get(first..).unwrap_or_default().iter();
        rest.map(|slot| self.entry(slot))
            .take_while(move |entry| prefix.is_empty() || entry.name.as_bytes().starts_with(prefix))
    }

    /// Finds an entry by its exact name.
    pub fn get(&self, name: &OsStr) -> Option<Entry<'_>> {
        let at = self
            .slots
            .binary_search_by(|slot| bytes(&self.names, slot).cmp(name.as_bytes()))
            .ok()?;
        self.slots.get(at).map(|slot| self.entry(slot))
    }
}

fn bytes<'a>(names: &'a [u8], slot: &Slot) -> &'a [u8] {
    let start = slot.start as usize;
    names
        .get(start..start + usize::from(slot.len))
        .unwrap_or_default()
}

/// Directories by path. The text of a path is hashed much faster than its components.
pub type Dirs = FastMap<OsString, Arc<Dir>>;

/// The directories that were read for one subject, for one thread at a time.
#[derive(Debug)]
pub struct Listings<'a> {
    pub reader: &'a Reader,
    dirs: RefCell<Dirs>,
}

impl<'a> Listings<'a> {
    pub fn new(reader: &'a Reader, known: Dirs) -> Self {
        Self {
            reader,
            dirs: RefCell::new(known),
        }
    }

    /// Reads a directory unless it is cached.
    pub fn get(&self, path: &Path) -> Arc<Dir> {
        if let Some(dir) = self.dirs.borrow().get(path.as_os_str()) {
            return Arc::clone(dir);
        }
        let dir = self.reader.take_dir(path);
        self.dirs.borrow_mut().insert(path.into(), Arc::clone(&dir));
        dir
    }

    pub fn take(&self) -> Dirs {
        self.dirs.take()
    }
}

/// The directories above the subjects, for a whole pass and all threads.
#[derive(Debug, Default)]
pub struct SharedListings {
    dirs: Mutex<FastMap<PathBuf, Arc<OnceLock<Arc<Dir>>>>>,
}

impl SharedListings {
    /// Reads a directory unless it is cached. A thread waits only if another one is reading the same directory.
    pub fn get(&self, reader: &Reader, path: &Path) -> Arc<Dir> {
        let cell = {
            let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
            match dirs.get(path) {
                Some(cell) => Arc::clone(cell),
                None => Arc::clone(dirs.entry(path.to_owned()).or_default()),
            }
        };
        Arc::clone(cell.get_or_init(|| Arc::new(reader.dir(path))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gather::disk::reader::spy;

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

    #[test]
    fn each_directory_is_read_once() {
        let tmp = tempfile::tempdir().unwrap();
        let reader = Reader::default();
        let listings = Listings::new(&reader, Dirs::default());
        let shared = SharedListings::default();
        spy::calls();
        for _ in 0..3 {
            listings.get(tmp.path());
            listings.get(&tmp.path().join("nothing"));
            shared.get(&reader, tmp.path());
        }
        assert_eq!(spy::calls().len(), 3);
    }
}
