//! What stands in directories, as plain data, and the memory of what was read already.
//!
//! A listing is one buffer of names sorted for look-up. Nothing here knows rules or labels, and
//! nothing here makes a system call: that is [`super::reader`]'s work.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::io::Errno;

use super::Unreadable;
use super::reader::Reader;

/// Says what an attempt to read a directory showed.
#[derive(Debug)]
pub enum Dir {
    There(Listing),
    /// It does not exist or is no directory.
    Absent,
    Failed(Unreadable),
}

/// Holds the names in a directory, sorted by bytes, with their types; without `.` and `..`.
#[derive(Debug, Default)]
pub struct Listing {
    names: Box<[u8]>,
    slots: Box<[Slot]>,
}

/// Describes one entry of a [`Listing`].
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    pub name: &'a OsStr,
    pub kind: Kind,
}

/// Says what an entry is by itself; links are not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
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
    kind: Kind,
}

impl Listing {
    /// Takes the names as they come.
    pub(super) fn build() -> Builder {
        Builder::default()
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = Entry<'_>> {
        self.slots.iter().map(|slot| Entry {
            name: OsStr::from_bytes(bytes(&self.names, slot)),
            kind: slot.kind,
        })
    }

    /// Finds an entry by its exact name.
    pub fn get(&self, name: &OsStr) -> Option<Entry<'_>> {
        let at = self
            .slots
            .binary_search_by(|slot| bytes(&self.names, slot).cmp(name.as_bytes()))
            .ok()?;
        self.slots.get(at).map(|slot| Entry {
            name: OsStr::from_bytes(bytes(&self.names, slot)),
            kind: slot.kind,
        })
    }
}

/// Makes a [`Listing`].
#[derive(Default)]
pub(super) struct Builder {
    names: Vec<u8>,
    slots: Vec<Slot>,
}

impl Builder {
    pub fn add(&mut self, name: &[u8], kind: Kind) -> Result<(), Errno> {
        let start = u32::try_from(self.names.len()).map_err(|_| Errno::OVERFLOW)?;
        let len = u16::try_from(name.len()).map_err(|_| Errno::OVERFLOW)?;
        self.names.extend_from_slice(name);
        self.slots.push(Slot { start, len, kind });
        Ok(())
    }

    pub fn finish(mut self) -> Listing {
        let names = &self.names;
        self.slots
            .sort_unstable_by(|a, b| bytes(names, a).cmp(bytes(names, b)));
        Listing {
            names: self.names.into(),
            slots: self.slots.into(),
        }
    }
}

fn bytes<'a>(names: &'a [u8], slot: &Slot) -> &'a [u8] {
    let start = slot.start as usize;
    names
        .get(start..start + usize::from(slot.len))
        .unwrap_or_default()
}

/// Remembers the directories that were read for one subject. For one thread at a time.
#[derive(Debug)]
pub struct Listings<'a> {
    pub reader: &'a Reader,
    dirs: RefCell<Dirs>,
}

/// Holds directories by their paths.
pub type Dirs = HashMap<PathBuf, Arc<Dir>>;

impl<'a> Listings<'a> {
    /// Begins with what is known already.
    pub fn new(reader: &'a Reader, known: Dirs) -> Self {
        Self {
            reader,
            dirs: RefCell::new(known),
        }
    }

    /// Reads a directory, or returns what an earlier call found.
    pub fn get(&self, path: &Path) -> Arc<Dir> {
        if let Some(dir) = self.dirs.borrow().get(path) {
            return Arc::clone(dir);
        }
        let dir = self.reader.dir_once(path);
        self.dirs
            .borrow_mut()
            .insert(path.to_owned(), Arc::clone(&dir));
        dir
    }

    /// Gives away what was read.
    pub fn take(&self) -> Dirs {
        self.dirs.take()
    }
}

/// Remembers the directories above the subjects, for a whole pass and all threads.
#[derive(Debug, Default)]
pub struct SharedListings {
    dirs: Mutex<HashMap<PathBuf, Arc<OnceLock<Arc<Dir>>>>>,
}

impl SharedListings {
    /// Reads a directory, or returns what an earlier call found. Threads that want the same
    /// directory wait for the one that reads it; others do not.
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
    use crate::disk::reader::spy;

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
    fn a_listing_is_sorted_and_finds_names() {
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
            ("dir", Kind::Directory),
            ("link", Kind::Link),
            ("file-with-a-long-name-00777", Kind::File),
        ] {
            assert_eq!(listing.get(OsStr::new(name)).unwrap().kind, kind);
        }
        assert!(listing.get(OsStr::new("file")).is_none());
    }

    #[test]
    fn nothing_is_read_twice() {
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
