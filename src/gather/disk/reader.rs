//! Reading directories and files: present, absent or unreadable.
//!
//! All access to the trees for discovery and completion goes through here. A directory costs four calls (open, two
//! reads, close). Absent means that the path does not exist, or is a file where a directory was expected. Every other
//! failure is [`Unreadable`], including a dangling link.

mod hidden;

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat, openat, statat};
use rustix::io::Errno;

use super::{Dir, Dirs, EntryKind, Listing, Unreadable, is_absence};
use crate::model::annex::Annex;
use hidden::Hidden;

/// At most this many bytes of a file are searched for a text: the logs of whole pipelines have some megabytes, and
/// an endless file must not block an invocation that holds the lock.
const MAX_TEXT: u64 = 256 << 20;

/// Reads directories and files, for all threads.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    /// Directories that discovery has read and rules may need; each is taken once.
    handed: Option<Arc<Mutex<Dirs>>>,
    annex: Annex,
    hidden: Arc<Hidden>,
}

impl Reader {
    /// Forgets what an earlier pass has found out about absent paths.
    pub fn without_memory(self) -> Self {
        Self {
            hidden: Arc::default(),
            ..self
        }
    }

    /// Keeps the directories that discovery reads for the rules: for studies whose sessions are found below the root
    /// that the rules read.
    pub fn with_shared_listings(self) -> Self {
        Self {
            handed: Some(Arc::default()),
            ..self
        }
    }

    /// Reads a directory, and keeps it for [`Self::take_dir`] where listings are shared.
    pub fn dir_for_later(&self, path: &Path) -> Arc<Dir> {
        let dir = Arc::new(self.dir(path));
        if let Some(handed) = &self.handed {
            let mut handed = handed.lock().unwrap_or_else(PoisonError::into_inner);
            handed.insert(path.into(), Arc::clone(&dir));
        }
        dir
    }

    /// Takes a directory that was kept, or reads it.
    pub fn take_dir(&self, path: &Path) -> Arc<Dir> {
        let handed = self.handed.as_ref().and_then(|handed| {
            let mut handed = handed.lock().unwrap_or_else(PoisonError::into_inner);
            handed.remove(path.as_os_str())
        });
        handed.unwrap_or_else(|| Arc::new(self.dir(path)))
    }

    /// Sets how files of git-annex count whose content is elsewhere.
    pub fn with_annex(self, annex: Annex) -> Self {
        Self { annex, ..self }
    }

    pub fn dir(&self, path: &Path) -> Dir {
        let result = attempt(path, || list(path));
        let found = match result {
            Ok(listing) if listing.is_empty() => {
                self.check_empty(path).map(|()| Dir::There(listing))
            }
            Ok(listing) => Ok(Dir::There(listing)),
            Err(errno) if is_absence(errno) => {
                self.confirm_absent(path, false).map(|_| Dir::Absent)
            }
            Err(errno) => Err(unreadable(path, errno)),
        };
        found.unwrap_or_else(Dir::Failed)
    }

    /// A file's size, type and times, following links; `None` if it does not exist. Unless it counts as absent, a file
    /// of git-annex whose content is elsewhere is a regular file with the link's times and the size that git-annex
    /// has recorded (or the greatest possible size).
    pub fn stat(&self, path: &Path) -> Result<Option<Stat>, Unreadable> {
        match self.raw_stat(path) {
            Err(errno) if is_absence(errno) => match self.confirm_absent(path, false)? {
                Some(file) if self.annex == Annex::Present => self.elsewhere(path, file),
                _ => Ok(None),
            },
            found => classify(path, found),
        }
    }

    /// [`Self::stat`] without git-annex, and with the error for an absent file.
    pub fn raw_stat(&self, path: &Path) -> Result<Stat, Errno> {
        attempt(path, || statat(CWD, path, AtFlags::empty()))
    }

    /// Reads at most `limit` bytes of a file; `None` if it does not exist or is a directory. May stop after the
    /// first line if only that is needed. Never waits for the other end of a pipe.
    pub fn head(
        &self,
        path: &Path,
        limit: usize,
        first_line: bool,
    ) -> Result<Option<Vec<u8>>, Unreadable> {
        let mut head = Vec::new();
        let is_there = self.windows(path, usize::MAX, &mut |text| {
            head = text.get(..limit).unwrap_or(text).to_vec();
            text.len() < limit && !(first_line && text.contains(&b'\n'))
        })?;
        Ok(is_there.then_some(head))
    }

    /// Passes a file's text to `see` part by part, each with the last `overlap` bytes of the previous part, until `see`
    /// returns false. Returns false if the file does not exist.
    ///
    /// # Errors
    /// A file that cannot be read, or would need more than [`MAX_TEXT`] to be read.
    pub fn windows(
        &self,
        path: &Path,
        overlap: usize,
        see: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<bool, Unreadable> {
        let seen = attempt(path, || {
            let file = File::open(path)?;
            let mut text = Vec::new();
            let mut shown = 0;
            while file.read_more(&mut text, 64 * 1024)? {
                if !see(&text) {
                    break;
                }
                let kept = text.len().min(overlap);
                shown += (text.len() - kept) as u64;
                if shown > MAX_TEXT {
                    return Err(Errno::FBIG);
                }
                text.drain(..text.len() - kept);
            }
            Ok(())
        });
        match seen {
            Err(Errno::ISDIR) => Ok(false),
            Err(Errno::FBIG) => Err(Unreadable {
                path: path.to_owned(),
                error: format!("too large to search for text (over {} MB)", MAX_TEXT >> 20),
            }),
            other => Ok(self.classify_text(path, other)?.is_some()),
        }
    }
}

/// A file that is open for reading.
struct File(OwnedFd);

impl File {
    fn open(path: &Path) -> Result<Self, Errno> {
        Ok(Self(open(path, OFlags::NONBLOCK)?))
    }

    /// Appends the next part, for which it makes room for at least `room` bytes; false at the end of the file.
    fn read_more(&self, text: &mut Vec<u8>, room: usize) -> Result<bool, Errno> {
        text.reserve(room);
        let read = || rustix::io::read(&self.0, rustix::buffer::spare_capacity(text));
        Ok(rustix::io::retry_on_intr(read)? > 0)
    }
}

pub fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

pub fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

pub fn modified(stat: &Stat) -> Option<DateTime<Utc>> {
    let nanoseconds = u32::try_from(stat.st_mtime_nsec).unwrap_or(0);
    DateTime::from_timestamp(stat.st_mtime, nanoseconds)
}

fn classify<T>(path: &Path, result: Result<T, Errno>) -> Result<Option<T>, Unreadable> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(errno) if is_absence(errno) => Ok(None),
        Err(errno) => Err(unreadable(path, errno)),
    }
}

fn unreadable(path: &Path, errno: Errno) -> Unreadable {
    Unreadable {
        path: path.to_owned(),
        error: crate::base::regular::error_text(&errno.into()),
    }
}

/// Repeats a call once after a stale handle. Opening the parent makes an NFS client ask its server for
/// the current state.
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
    let mut listing = Listing::default();
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
        if let Some(kind) = kind(entry.file_type(), &fd, name)? {
            listing.add(name, kind)?;
        }
    }
    listing.finish();
    Ok(listing)
}

/// The entry's type, by a call of its own on file systems that do not include it. `None` if the entry was removed
/// meanwhile.
fn kind(file_type: FileType, dir: &OwnedFd, name: &[u8]) -> Result<Option<EntryKind>, Errno> {
    let mut file_type = file_type;
    if file_type == FileType::Unknown {
        match statat(dir, OsStr::from_bytes(name), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => file_type = FileType::from_raw_mode(stat.st_mode),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno),
        }
    }
    Ok(Some(match file_type {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }))
}

/// Records which paths this thread's tests touch, and makes chosen ones fail.
#[cfg(test)]
pub(crate) mod spy {
    use std::cell::RefCell;
    use std::path::PathBuf;

    use super::*;

    thread_local! {
        static CALLS: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
        static FAULTS: RefCell<Vec<(PathBuf, Errno, usize)>> = const { RefCell::new(Vec::new()) };
    }

    /// Lets the next `times` calls on `path` fail.
    pub fn fail(path: impl Into<PathBuf>, errno: Errno, times: usize) {
        FAULTS.with_borrow_mut(|faults| faults.push((path.into(), errno, times)));
    }

    /// Removes all faults.
    pub fn forget() {
        FAULTS.take();
    }

    /// The paths that were touched since the last call, in order.
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
mod tests;
