//! What stands in directories, as plain data.
//!
//! A listing is one buffer of names sorted for look-up. Nothing here knows rules or labels, and
//! nothing here makes a system call: that is [`super::reader`]'s work.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;

use super::Unreadable;

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

    /// The entries whose names begin so: in a directory with the results of all subjects, those of one.
    pub fn beginning_with(&self, prefix: &str) -> impl Iterator<Item = Entry<'_>> {
        let prefix = prefix.as_bytes();
        let first = self
            .slots
            .partition_point(|slot| bytes(&self.names, slot) < prefix);
        let rest = self.slots.get(first..).unwrap_or_default().iter();
        rest.map(|slot| Entry {
            name: OsStr::from_bytes(bytes(&self.names, slot)),
            kind: slot.kind,
        })
        .take_while(move |entry| entry.name.as_bytes().starts_with(prefix))
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

/// Holds directories by their paths.
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
}
