//! Atomic replacement of files: a crash at any moment leaves either the old or the new file, complete.
//!
//! A temporary file beside it is written, synced and renamed, then the directory is synced. Right before
//! the rename, the file is compared with what was read earlier: a change that someone else has made
//! meanwhile is never overwritten.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::regular::{FileError, identity, if_exists, open_regular, require_regular};

mod temporary;

pub use temporary::{LEFTOVER_AGE, Temporary, keep, list_leftovers, remove_leftovers};

/// A replacement. `I` identifies a content of the file.
pub struct Replacement<'a, I> {
    pub target: &'a Path,
    /// Where the old file is kept.
    pub backup: Option<&'a Path>,
    pub bytes: &'a [u8],
    /// The content that the caller has read. `None` if there was no file.
    pub before: Option<&'a I>,
    /// Identifies `bytes`.
    pub after: &'a I,
    pub identify: &'a dyn Fn(&File) -> io::Result<I>,
}

/// Why a file was not replaced, or may not have been.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// Nothing was changed.
    #[error("{} was changed by someone else", .0.display())]
    Changed(PathBuf),
    #[error("{error}")]
    Io {
        error: FileError,
        /// True if the new file is already in place, but may not survive a crash.
        replaced: bool,
    },
}

impl From<FileError> for ReplaceError {
    fn from(error: FileError) -> Self {
        Self::Io {
            error,
            replaced: false,
        }
    }
}

const TRIES: usize = 3;

/// Follows the file's name in the name of a temporary file beside it.
const TEMPORARY: &str = ".tmp-";

/// For `EFBIG`, where neither space nor permission is missing.
const TOO_LARGE_HINT: &str = "a limit on the size of files was reached: call `ulimit -f unlimited` before the program (also in the \
     crontab line) and run it again; everything recorded so far is kept, including submitted jobs";

/// The remedy for an error of the file system; the error itself names the file.
pub fn hint(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(
            "free space on that file system, or raise the quota, and run again; everything recorded so far is kept",
        ),
        io::ErrorKind::FileTooLarge => Some(TOO_LARGE_HINT),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Some(
            "this user needs access to that directory and its files: the program creates and replaces files there",
        ),
        _ => None,
    }
}

impl<I: PartialEq> Replacement<'_, I> {
    pub fn run(&self) -> Result<(), ReplaceError> {
        let old = match self.before {
            Some(_) => {
                let old = if_exists(open_again(self.target));
                let old = old.map_err(FileError::of("read", self.target))?;
                Some(old.ok_or_else(|| self.changed())?)
            }
            None => None,
        };
        let temporary = Temporary::new(self.target, self.bytes, 0o666, old.as_ref())?;
        let is_put = match old {
            Some(old) => self.swap(temporary, &old).map(|()| true)?,
            None => temporary
                .put(self.target)
                .map_err(FileError::of("create", self.target))?,
        };
        if !is_put {
            return Err(self.changed());
        }
        sync_directory_of(self.target).map_err(|source| ReplaceError::Io {
            error: FileError::of("sync the directory of", self.target)(source),
            replaced: true,
        })
    }

    fn changed(&self) -> ReplaceError {
        ReplaceError::Changed(self.target.to_owned())
    }

    fn swap(&self, temporary: Temporary, old: &File) -> Result<(), ReplaceError> {
        // Two processes that replace the file at the same time must not both find it unchanged. Without
        // locks, only a change between comparison and rename goes unnoticed.
        if let Err(Errno::WOULDBLOCK) =
            rustix::fs::flock(old, FlockOperation::NonBlockingLockExclusive)
        {
            return Err(self.changed());
        }
        let backup = self
            .backup
            .map(|backup| self.link_old(old, backup))
            .transpose()?;
        if !self.is_unchanged(old)? {
            return Err(self.changed());
        }
        if let (Some(link), Some(backup)) = (backup, self.backup) {
            link.rename(backup, || self.has(backup, self.before))?;
        }
        Ok(temporary.rename(self.target, || self.has(self.target, Some(self.after)))?)
    }

    /// Adds a second name to the old file, or copies it where hard links cannot be made.
    fn link_old(&self, old: &File, backup: &Path) -> Result<Temporary, FileError> {
        match Temporary::made(backup, |path| std::fs::hard_link(self.target, path)) {
            Err(error) if has_no_links(&error.source) => {
                let bytes = open_again(self.target).and_then(|file| content(&file));
                let bytes = bytes.map_err(FileError::of("read", self.target))?;
                Temporary::new(backup, &bytes, 0o666, Some(old))
            }
            outcome => outcome
                .map(|(link, ())| link)
                .map_err(|error| FileError::of("keep a copy of", self.target)(error.source)),
        }
    }

    fn is_unchanged(&self, old: &File) -> Result<bool, FileError> {
        let read = FileError::of("read", self.target);
        // On NFS, only opening the file again asks the server.
        let now = if_exists(open_again(self.target)).map_err(&read)?;
        let Some(now) = now else { return Ok(false) };
        let [then, found] = [old, &now].map(|file| file.metadata().map(|it| identity(&it)));
        let same_file = then.map_err(&read)? == found.map_err(&read)?;
        Ok(same_file && self.before == Some(&(self.identify)(&now).map_err(read)?))
    }

    /// True if a file has this content.
    fn has(&self, path: &Path, content: Option<&I>) -> bool {
        open_again(path)
            .and_then(|file| (self.identify)(&file))
            .is_ok_and(|found| content == Some(&found))
    }
}

/// Replaces a small file that was read as `before` (`None` if there was none).
pub fn replace(target: &Path, bytes: &[u8], before: Option<&Vec<u8>>) -> Result<(), ReplaceError> {
    Replacement {
        target,
        backup: None,
        bytes,
        before,
        after: &bytes.to_vec(),
        identify: &content,
    }
    .run()?;
    remove_leftovers(&[target], LEFTOVER_AGE);
    Ok(())
}

/// Reads a whole regular file; `None` if it does not exist.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, FileError> {
    let read = |file: File| require_regular(&file).and_then(|()| content(&file));
    let read = again_if(is_stale, || open_again(path).and_then(read));
    if_exists(read).map_err(FileError::of("read", path))
}

/// Reads an open file from its current position to its end.
pub fn content(mut file: &File) -> io::Result<Vec<u8>> {
    let size = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    // An absurd size is an error, and must not kill the process.
    bytes
        .try_reserve_exact(size)
        .map_err(|_| io::Error::other(format!("its {size} bytes do not fit into memory")))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Creates a complete file at once; false if the name is taken. Does not sync the directory.
pub fn create(target: &Path, bytes: &[u8], mode: u32) -> io::Result<bool> {
    Temporary::new(target, bytes, mode, None)?.put(target)
}

/// Adds a second name to a file that has one; false if that name is taken.
pub fn link(from: &Path, to: &Path) -> io::Result<bool> {
    match std::fs::hard_link(from, to) {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            // NFS may repeat a request that was carried out; the number of links shows it (open(2)).
            _ if open_again(from)
                .and_then(|file| file.metadata())
                .is_ok_and(|metadata| metadata.nlink() == 2) =>
            {
                Ok(true)
            }
            io::ErrorKind::AlreadyExists => Ok(false),
            _ => Err(error),
        },
    }
}

/// Replaces an earlier file of this program, which contains `mark`: for files that others only read.
pub fn overwrite(target: &Path, bytes: &[u8], mark: &str) -> Result<(), FileError> {
    make_directory_of(target).map_err(FileError::of("make the directory of", target))?;
    let old = refuse_foreign(target, mark).map_err(FileError::of("replace", target))?;
    Temporary::new(target, bytes, 0o666, old.as_ref())?.rename(target, || false)?;
    remove_leftovers(&[target], LEFTOVER_AGE);
    Ok(())
}

/// Opens the file at a path, or fails if this program has not written it: its files contain a mark in their first
/// 64 KiB. An empty file is accepted. `None` if it does not exist.
pub fn refuse_foreign(path: &Path, mark: &str) -> io::Result<Option<File>> {
    let Some(file) = if_exists(open_regular(path))? else {
        return Ok(None);
    };
    let mut beginning = Vec::new();
    (&file).take(64 * 1024).read_to_end(&mut beginning)?;
    if beginning.is_empty() || contains(&beginning, mark.as_bytes()) {
        Ok(Some(file))
    } else {
        Err(foreign())
    }
}

pub fn contains(text: &[u8], mark: &[u8]) -> bool {
    text.windows(mark.len()).any(|part| part == mark)
}

/// The error for a file that this program has not written.
pub fn foreign() -> io::Error {
    io::Error::other("it was not written by this program; move it away or choose another file")
}

/// Opens a file for reading, and tries again if a server has replaced it meanwhile. Does not wait for the other end of
/// a pipe.
pub fn open_again(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let open = || OpenOptions::new().read(true).custom_flags(flags).open(path);
    again_if(is_stale, open)
}

/// Tries up to three times, while the error is of one kind.
fn again_if<T>(
    is_worth_it: impl Fn(&io::Error) -> bool,
    mut work: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let mut tries = 1;
    loop {
        match work() {
            Err(error) if tries < TRIES && is_worth_it(&error) => tries += 1,
            outcome => return outcome,
        }
    }
}

/// True if the file of a descriptor was replaced on the server.
pub fn is_stale(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StaleNetworkFileHandle
}

/// Creates the directory of a file, with its parents.
pub fn make_directory_of(path: &Path) -> io::Result<()> {
    let Some(directory) = directory_of(path) else {
        return Ok(());
    };
    if if_exists(directory.metadata())?.is_none() {
        std::fs::create_dir_all(directory)?;
        sync_directory_of(directory)?;
    }
    Ok(())
}

/// Syncs a file's directory, so that new names in it survive a crash.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = directory_of(path).unwrap_or(Path::new("."));
    let directory = match File::open(directory) {
        // A directory can be writable, but not readable, for this user; then nothing can be done.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        outcome => outcome?,
    };
    match directory.sync_all() {
        // File systems that need no sync refuse it.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput || is_unsupported(&error) => {
            Ok(())
        }
        outcome => outcome,
    }
}

fn directory_of(path: &Path) -> Option<&Path> {
    let parent = path.parent()?;
    let is_here = parent.as_os_str().is_empty();
    Some(if is_here { Path::new(".") } else { parent })
}

/// The path of a file beside another one, with a longer name.
pub fn with_ending(path: &Path, end: &str) -> PathBuf {
    path.with_file_name(prefixed(path, end))
}

/// The file's name, followed by `mark`.
fn prefixed(path: &Path, mark: &str) -> OsString {
    let mut name = path.file_name().unwrap_or(OsStr::new("state")).to_owned();
    name.push(mark);
    name
}

fn is_unsupported(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
        || Errno::from_io_error(error).is_some_and(|errno| errno == Errno::OPNOTSUPP)
}

/// True where the file system or a rule of the system forbids hard links.
fn has_no_links(error: &io::Error) -> bool {
    is_unsupported(error)
        || matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::TooManyLinks
        )
}

#[cfg(test)]
mod tests;
