//! Reading directories and files for completion: what is there, what is not, what cannot be read.
//!
//! A directory costs four calls (open, two reads, close), a listing is one buffer of names sorted
//! for look-up. Only absences are absences: no such file, a file where a directory was expected,
//! a loop of links. Everything else is [`Unreadable`]. Nothing here knows rules or labels.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat, openat, statat};
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

fn bytes<'a>(names: &'a [u8], slot: &Slot) -> &'a [u8] {
    let start = slot.start as usize;
    names
        .get(start..start + usize::from(slot.len))
        .unwrap_or_default()
}

/// Remembers the directories that were read for one subject. For one thread.
#[derive(Debug, Default)]
pub struct Listings {
    dirs: RefCell<HashMap<PathBuf, Rc<Dir>>>,
}

impl Listings {
    /// Reads a directory, or returns what an earlier call found.
    pub fn get(&self, path: &Path) -> Rc<Dir> {
        if let Some(dir) = self.dirs.borrow().get(path) {
            return Rc::clone(dir);
        }
        let dir = Rc::new(read(path));
        self.dirs
            .borrow_mut()
            .insert(path.to_owned(), Rc::clone(&dir));
        dir
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
    pub fn get(&self, path: &Path) -> Arc<Dir> {
        let cell = {
            let mut dirs = self.dirs.lock().unwrap_or_else(PoisonError::into_inner);
            match dirs.get(path) {
                Some(cell) => Arc::clone(cell),
                None => Arc::clone(dirs.entry(path.to_owned()).or_default()),
            }
        };
        Arc::clone(cell.get_or_init(|| Arc::new(read(path))))
    }
}

/// Reads a directory.
pub fn read(path: &Path) -> Dir {
    match classify(path, attempt(path, || list(path))) {
        Ok(Some(listing)) => Dir::There(listing),
        Ok(None) => Dir::Absent,
        Err(unreadable) => Dir::Failed(unreadable),
    }
}

/// Asks for a file's size, type and times, through links; none if it is not there or the link
/// leads nowhere.
pub fn stat(path: &Path) -> Result<Option<Stat>, Unreadable> {
    let call = || statat(CWD, path, AtFlags::empty());
    classify(path, attempt(path, call))
}

/// Reads at most `limit` bytes of a file; none if it is not there or is a directory. Never waits
/// for the other end of a pipe.
pub fn head(path: &Path, limit: usize) -> Result<Option<Vec<u8>>, Unreadable> {
    let call = || {
        let file = open(path, OFlags::NONBLOCK)?;
        let mut text = Vec::new();
        while text.len() < limit && read_more(&file, &mut text, limit.min(4096))? {}
        text.truncate(limit);
        Ok(text)
    };
    match attempt(path, call) {
        Err(Errno::ISDIR) => Ok(None),
        other => classify(path, other),
    }
}

/// Shows a file's text part by part, each with the last `overlap` bytes of the part before it;
/// false if there is no such file.
pub fn windows(
    path: &Path,
    overlap: usize,
    see: &mut dyn FnMut(&[u8]),
) -> Result<bool, Unreadable> {
    let call = || {
        let file = open(path, OFlags::NONBLOCK)?;
        let mut text = Vec::new();
        while read_more(&file, &mut text, 64 * 1024)? {
            see(&text);
            text.drain(..text.len().saturating_sub(overlap));
        }
        Ok(())
    };
    match attempt(path, call) {
        Err(Errno::ISDIR) => Ok(false),
        other => Ok(classify(path, other)?.is_some()),
    }
}

/// Appends at most `most` bytes; false at the end of the file.
fn read_more(file: &OwnedFd, text: &mut Vec<u8>, most: usize) -> Result<bool, Errno> {
    let old = text.len();
    text.resize(old + most, 0);
    let part = text.get_mut(old..).unwrap_or_default();
    let result = rustix::io::retry_on_intr(|| rustix::io::read(file, &mut *part));
    text.truncate(old + result.unwrap_or(0));
    Ok(result? > 0)
}

/// Puts an error into the system's words: `Permission denied`.
pub fn words(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.rfind(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

fn classify<T>(path: &Path, result: Result<T, Errno>) -> Result<Option<T>, Unreadable> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(Unreadable {
            path: path.to_owned(),
            error: words(&errno.into()),
        }),
    }
}

/// Makes a call; tries once more after a stale handle, with the parent opened anew so that an NFS
/// client asks its server what stands there now.
fn attempt<T>(path: &Path, mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    match once(path, &mut call) {
        Err(Errno::STALE) => {
            if let Some(parent) = path.parent() {
                drop(open(parent, OFlags::DIRECTORY));
            }
            once(path, &mut call)
        }
        result => result,
    }
}

#[cfg(not(test))]
fn once<T>(_path: &Path, call: &mut impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    call()
}

#[cfg(test)]
fn once<T>(path: &Path, call: &mut impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    match spy::note(path) {
        Some(errno) => Err(errno),
        None => call(),
    }
}

fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | flags;
    rustix::io::retry_on_intr(|| openat(CWD, path, flags, Mode::empty()))
}

fn list(path: &Path) -> Result<Listing, Errno> {
    const BUFFER: usize = 32 * 1024;
    let fd = open(path, OFlags::DIRECTORY)?;
    let mut buffer = [MaybeUninit::<u8>::uninit(); BUFFER];
    let mut dir = RawDir::new(fd.as_fd(), &mut buffer);
    let mut names = Vec::new();
    let mut slots = Vec::new();
    while let Some(entry) = dir.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno),
        };
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        let Some(kind) = kind(entry.file_type(), &fd, name)? else {
            continue;
        };
        let start = u32::try_from(names.len()).map_err(|_| Errno::OVERFLOW)?;
        let len = u16::try_from(name.len()).map_err(|_| Errno::OVERFLOW)?;
        names.extend_from_slice(name);
        slots.push(Slot { start, len, kind });
    }
    slots.sort_unstable_by(|a, b| bytes(&names, a).cmp(bytes(&names, b)));
    Ok(Listing {
        names: names.into(),
        slots: slots.into(),
    })
}

/// Takes the type from the entry. File systems that do not tell it are asked, by the open
/// directory; an entry that has vanished meanwhile is none.
fn kind(file_type: FileType, dir: &OwnedFd, name: &[u8]) -> Result<Option<Kind>, Errno> {
    Ok(Some(match file_type {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Directory,
        FileType::Symlink => Kind::Link,
        FileType::Unknown => {
            match statat(dir, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => match FileType::from_raw_mode(stat.st_mode) {
                    FileType::RegularFile => Kind::File,
                    FileType::Directory => Kind::Directory,
                    FileType::Symlink => Kind::Link,
                    _ => Kind::Other,
                },
                Err(Errno::NOENT) => return Ok(None),
                Err(errno) => return Err(errno),
            }
        }
        _ => Kind::Other,
    }))
}

/// Records which paths this thread's tests touch, and makes chosen ones fail.
#[cfg(test)]
pub(crate) mod spy {
    use super::*;

    thread_local! {
        static CALLS: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
        static FAULTS: RefCell<Vec<(PathBuf, Errno, usize)>> = const { RefCell::new(Vec::new()) };
    }

    /// Makes the next `times` calls on `path` fail.
    pub fn fail(path: impl Into<PathBuf>, errno: Errno, times: usize) {
        FAULTS.with_borrow_mut(|faults| faults.push((path.into(), errno, times)));
    }

    /// Returns the paths that were touched since the last call, in order.
    pub fn calls() -> Vec<PathBuf> {
        CALLS.take()
    }

    pub(super) fn note(path: &Path) -> Option<Errno> {
        CALLS.with_borrow_mut(|calls| calls.push(path.to_owned()));
        FAULTS.with_borrow_mut(|faults| {
            let (_, errno, times) = faults
                .iter_mut()
                .find(|(at, _, times)| at == path && *times > 0)?;
            *times -= 1;
            Some(*errno)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let dir = read(tmp.path());
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
    fn only_absences_are_absences() {
        let tmp = tempfile::tempdir().unwrap();
        let at = |name: &str| tmp.path().join(name);
        std::fs::write(at("file"), "text").unwrap();
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        for absent in ["nothing", "file", "file/below", "loop", "loop/below"] {
            assert!(matches!(read(&at(absent)), Dir::Absent), "{absent}");
        }
        assert!(stat(&at("loop")).unwrap().is_none());
        assert_eq!(head(tmp.path(), 10), Ok(None), "a directory has no text");
        assert_eq!(head(&at("file"), 2), Ok(Some(b"te".to_vec())));
        for errno in [Errno::ACCESS, Errno::IO, Errno::MFILE] {
            spy::fail(at("x"), errno, 1);
            let Dir::Failed(unreadable) = read(&at("x")) else {
                panic!("{errno:?}")
            };
            assert_eq!(unreadable.path, at("x"));
            assert!(!unreadable.error.contains("os error"));
        }
    }

    #[test]
    fn a_pipe_does_not_block() {
        let tmp = tempfile::tempdir().unwrap();
        let pipe = tmp.path().join("pipe");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::from_raw_mode(0o600), 0).unwrap();
        assert_eq!(head(&pipe, 10), Ok(Some(Vec::new())));
        assert!(matches!(read(&pipe), Dir::Absent));
    }

    #[test]
    fn a_stale_handle_is_tried_once_more() {
        let tmp = tempfile::tempdir().unwrap();
        spy::fail(tmp.path(), Errno::STALE, 1);
        assert!(matches!(read(tmp.path()), Dir::There(_)));
        spy::fail(tmp.path(), Errno::STALE, 2);
        let Dir::Failed(unreadable) = read(tmp.path()) else {
            panic!()
        };
        assert_eq!(unreadable.error, "Stale file handle");
        spy::fail(tmp.path(), Errno::STALE, 2);
        assert!(stat(tmp.path()).is_err());
    }

    #[test]
    fn nothing_is_read_twice() {
        let tmp = tempfile::tempdir().unwrap();
        let listings = Listings::default();
        let shared = SharedListings::default();
        spy::calls();
        for _ in 0..3 {
            listings.get(tmp.path());
            listings.get(&tmp.path().join("nothing"));
            shared.get(tmp.path());
        }
        assert_eq!(spy::calls().len(), 3);
    }
}
