//! Reading directories and files: what is there, what is not, what cannot be read.
//!
//! The one place where the trees are touched for discovery and completion. A directory costs four calls (open,
//! two reads, close). Only absences are absences: no such file, a file where a directory was
//! expected. Everything else is [`Unreadable`], a link that leads nowhere too.

mod hidden;

use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RawDir, Stat, openat, statat};
use rustix::io::Errno;

use super::listing::{Dir, Dirs, Kind, Listing};
use super::{Unreadable, is_absence};
use crate::model::annex::Annex;
use hidden::Hidden;

/// How much of a file is searched for a text at most, bytes: the logs of whole pipelines have some megabytes, and
/// a file without end must not hold up a call that holds the lock.
const MAX_TEXT: u64 = 256 << 20;

/// Reads directories and files, for all threads.
#[derive(Debug, Clone, Default)]
pub struct Reader {
    /// What discovery has read and rules may need; each is taken once.
    handed: Option<Arc<Mutex<Dirs>>>,
    annex: Annex,
    hidden: Arc<Hidden>,
}

impl Reader {
    /// Forgets what an earlier pass has learnt of paths that are not there.
    pub fn anew(self) -> Self {
        Self {
            hidden: Arc::default(),
            ..self
        }
    }

    /// Hands over what discovery reads to those who judge outputs: for studies whose sessions are
    /// found below the root that the rules look at.
    pub fn handing_over(self) -> Self {
        Self {
            handed: Some(Arc::default()),
            ..self
        }
    }

    /// Reads a directory that [`Self::dir_once`] may be asked for later.
    pub fn dir_for_later(&self, path: &Path) -> Arc<Dir> {
        let dir = Arc::new(self.dir(path));
        if let Some(handed) = &self.handed {
            let mut handed = handed.lock().unwrap_or_else(PoisonError::into_inner);
            handed.insert(path.to_owned(), Arc::clone(&dir));
        }
        dir
    }

    /// Reads a directory, or takes what was handed over.
    pub fn dir_once(&self, path: &Path) -> Arc<Dir> {
        let handed = self.handed.as_ref().and_then(|handed| {
            let mut handed = handed.lock().unwrap_or_else(PoisonError::into_inner);
            handed.remove(path)
        });
        handed.unwrap_or_else(|| Arc::new(self.dir(path)))
    }

    /// Counts files of git-annex whose content is elsewhere as this says.
    pub fn counting(self, annex: Annex) -> Self {
        Self { annex, ..self }
    }

    /// Reads a directory.
    pub fn dir(&self, path: &Path) -> Dir {
        let result = attempt(path, || list(path));
        let found = match result {
            Ok(listing) if listing.is_empty() => {
                self.check_empty(path).map(|()| Dir::There(listing))
            }
            Ok(listing) => Ok(Dir::There(listing)),
            Err(errno) if is_absence(errno) => self.behind(path).map(|_| Dir::Absent),
            Err(errno) => Err(unreadable(path, errno)),
        };
        found.unwrap_or_else(Dir::Failed)
    }

    /// Asks for a file's size, type and times, through links; `None` if it is not there. A file of git-annex whose
    /// content is elsewhere is a regular one with the link's times and the size that git-annex notes (the greatest, if
    /// it does not know it), unless it is to count as absent.
    pub fn stat(&self, path: &Path) -> Result<Option<Stat>, Unreadable> {
        match self.raw_stat(path) {
            Err(errno) if is_absence(errno) => match self.behind(path)? {
                Some(file) if self.annex == Annex::Present => self.elsewhere(path, file),
                _ => Ok(None),
            },
            found => classify(path, found),
        }
    }

    /// Does the same, and tells apart the ways of not being there.
    pub fn raw_stat(&self, path: &Path) -> Result<Stat, Errno> {
        attempt(path, || statat(CWD, path, AtFlags::empty()))
    }

    /// Reads at most `limit` bytes of a file; none if it is not there or is a directory. Never
    /// waits for the other end of a pipe.
    pub fn head(&self, path: &Path, limit: usize) -> Result<Option<Vec<u8>>, Unreadable> {
        self.beginning(path, limit, &|_| false)
    }

    /// Does the same for the first line, and may return more than that.
    pub fn first_line(&self, path: &Path, limit: usize) -> Result<Option<Vec<u8>>, Unreadable> {
        self.beginning(path, limit, &|text| text.contains(&b'\n'))
    }

    fn beginning(
        &self,
        path: &Path,
        limit: usize,
        is_enough: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>, Unreadable> {
        let text = attempt(path, || {
            let file = File::open(path)?;
            let mut text = Vec::new();
            while text.len() < limit
                && !is_enough(&text)
                && file.read_more(&mut text, limit.min(4096))?
            {}
            text.truncate(limit);
            Ok(text)
        });
        match text {
            Err(Errno::ISDIR) => Ok(None),
            other => self.classify_text(path, other),
        }
    }

    /// Shows a file's text part by part, each with the last `overlap` bytes of the part before it, until `see`
    /// returns false; false if there is no such file.
    ///
    /// # Errors
    /// Also if more than [`MAX_TEXT`] would have to be read.
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
                error: format!(
                    "too large to be searched for a text (over {} MB)",
                    MAX_TEXT >> 20
                ),
            }),
            other => Ok(self.classify_text(path, other)?.is_some()),
        }
    }
}

/// Is a file that is open for reading.
struct File(OwnedFd);

impl File {
    fn open(path: &Path) -> Result<Self, Errno> {
        Ok(Self(open(path, OFlags::NONBLOCK)?))
    }

    /// Appends at most `most` bytes; false at the end of the file.
    fn read_more(&self, text: &mut Vec<u8>, most: usize) -> Result<bool, Errno> {
        let old = text.len();
        text.resize(old + most, 0);
        let part = text.get_mut(old..).unwrap_or_default();
        let result = rustix::io::retry_on_intr(|| rustix::io::read(&self.0, &mut *part));
        text.truncate(old + result.unwrap_or(0));
        Ok(result? > 0)
    }
}

pub fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

pub fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
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
        error: crate::base::regular::words(&errno.into()),
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
    let mut listing = Listing::build();
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
    Ok(listing.finish())
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

#[cfg(test)]
pub(crate) mod spy;

#[cfg(test)]
mod tests;
