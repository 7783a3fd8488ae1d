//! Replaces a file so that a crash at any moment leaves the old one or the new one, whole.
//!
//! A temporary file beside it is written, synced and renamed, then the directory is synced. What
//! was read before is compared with what stands there right before the rename: a file that someone
//! else has written meanwhile is never overwritten. Says nothing about what the bytes mean.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

use super::regular::require_regular;

mod leftovers;
mod ours;
mod temporary;

pub use leftovers::{LEFTOVER_AGE, keep, list_leftovers, remove_leftovers};
pub use ours::{foreign, holds, refuse_foreign};
pub use temporary::Temporary;

/// Describes a replacement. `I` tells one content of the file from another.
pub struct Replacement<'a, I> {
    pub target: &'a Path,
    /// Where the old file is kept.
    pub backup: Option<&'a Path>,
    pub bytes: &'a [u8],
    /// What the caller has read. None: there was no file.
    pub before: Option<&'a I>,
    /// What `bytes` are.
    pub after: &'a I,
    pub identify: &'a dyn Fn(&File) -> io::Result<I>,
}

/// Says why a file was not replaced, or not for certain.
#[derive(Debug, thiserror::Error)]
pub enum ReplaceError {
    /// Nothing was changed.
    #[error("the file was changed by someone else")]
    Changed,
    #[error("cannot {action} {}: {source}", .path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
        /// True if the new file already stands in its place, and only its safety is in question.
        replaced: bool,
    },
}

impl From<ReplaceError> for io::Error {
    fn from(error: ReplaceError) -> Self {
        match error {
            ReplaceError::Changed => Self::other(error.to_string()),
            ReplaceError::Io { source, .. } => source,
        }
    }
}

const TRIES: usize = 3;

/// Stands between the name of a file and that of a temporary one beside it.
const TEMPORARY: &str = ".tmp-";

/// What to do where a file may not become as large as it must (`EFBIG`). Neither room nor permission is missing.
const TOO_LARGE_HINT: &str = "a limit on the size of files stands in the way: call `ulimit -f unlimited` before the program (in the \
     crontab's line too) and run again; what was recorded before is kept, jobs that were submitted among it";

/// What a person can do about an error of the file system; the error itself names the file.
pub fn hint(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Some(
            "make room on that file system, or raise the quota, and run again; what was recorded before is kept",
        ),
        io::ErrorKind::FileTooLarge => Some(TOO_LARGE_HINT),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Some(
            "this user needs access to that directory and the files in it: the program makes and replaces files there",
        ),
        _ => None,
    }
}

impl<I: PartialEq> Replacement<'_, I> {
    /// Replaces the file.
    pub fn run(&self) -> Result<(), ReplaceError> {
        let old = match self.before {
            Some(_) => Some(open_again(self.target).map_err(|source| {
                if source.kind() == io::ErrorKind::NotFound {
                    ReplaceError::Changed
                } else {
                    failed("read", self.target, source)
                }
            })?),
            None => None,
        };
        let temporary = Temporary::write(self.target, self.bytes, old.as_ref())?;
        match old {
            Some(old) => self.swap(temporary, &old)?,
            None => match temporary.put(self.target) {
                Ok(true) => {}
                Ok(false) => return Err(ReplaceError::Changed),
                Err(source) => return Err(failed("create", self.target, source)),
            },
        }
        sync_directory_of(self.target).map_err(|source| ReplaceError::Io {
            action: "sync the directory of",
            path: self.target.to_owned(),
            source,
            replaced: true,
        })
    }

    fn swap(&self, temporary: Temporary, old: &File) -> Result<(), ReplaceError> {
        // Two who replace at once must not both find it unchanged. Where there is no such lock,
        // the time between comparison and rename is all that is left to chance.
        if let Err(Errno::WOULDBLOCK) =
            rustix::fs::flock(old, FlockOperation::NonBlockingLockExclusive)
        {
            return Err(ReplaceError::Changed);
        }
        let backup = self
            .backup
            .map(|backup| self.link_old(old, backup))
            .transpose()?;
        if !self.is_unchanged(old)? {
            return Err(ReplaceError::Changed);
        }
        if let (Some(link), Some(backup)) = (backup, self.backup) {
            link.rename(backup, || self.is_kept(backup))?;
        }
        temporary.rename(self.target, || self.is_done())
    }

    /// Gives the old file a second name, or copies it where that cannot be done.
    fn link_old(&self, old: &File, backup: &Path) -> Result<Temporary, ReplaceError> {
        let mut link = Temporary::named(backup);
        for _ in 0..100 {
            match std::fs::hard_link(self.target, &link.path) {
                Ok(()) => return Ok(link),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    link.disarm();
                    link = Temporary::named(backup);
                }
                Err(error) if has_no_links(&error) => {
                    let bytes = open_again(self.target)
                        .and_then(|file| content(&file))
                        .map_err(|source| failed("read", self.target, source))?;
                    return Temporary::write(backup, &bytes, Some(old));
                }
                Err(source) => return Err(failed("keep a copy of", self.target, source)),
            }
        }
        Err(failed(
            "keep a copy of",
            self.target,
            io::ErrorKind::AlreadyExists.into(),
        ))
    }

    fn is_unchanged(&self, old: &File) -> Result<bool, ReplaceError> {
        let read = |source| failed("read", self.target, source);
        // Opened anew: on NFS, that is what asks the server.
        let now = match open_again(self.target) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(read(error)),
        };
        let same_file = {
            let (old, now) = (old.metadata().map_err(read)?, now.metadata().map_err(read)?);
            (old.dev(), old.ino()) == (now.dev(), now.ino())
        };
        Ok(same_file && self.before == Some(&(self.identify)(&now).map_err(read)?))
    }

    /// True if the copy holds what was read before already.
    fn is_kept(&self, backup: &Path) -> bool {
        open_again(backup)
            .and_then(|file| (self.identify)(&file))
            .is_ok_and(|found| self.before == Some(&found))
    }

    /// True if the new content stands in its place already.
    fn is_done(&self) -> bool {
        open_again(self.target)
            .and_then(|file| (self.identify)(&file))
            .is_ok_and(|found| found == *self.after)
    }
}

/// Replaces a small file that was read as `before`; `None`: there was none.
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

/// Reads a whole regular file; `None`: there is none.
pub fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let read = |file: File| require_regular(&file).and_then(|()| content(&file));
    match open_again(path).and_then(read) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some),
    }
}

/// Reads what is left of an open file.
pub fn content(mut file: &File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Makes a file appear whole where none is. Returns whether it did: the name may be taken. Does not sync the directory.
pub fn create(target: &Path, bytes: &[u8], mode: u32) -> io::Result<bool> {
    Temporary::new(target, bytes, mode)?.put(target)
}

/// Gives a file that has one name a second one, unless that is taken. Returns whether it did.
pub fn link(from: &Path, to: &Path) -> io::Result<bool> {
    match std::fs::hard_link(from, to) {
        Ok(()) => Ok(true),
        Err(error) => match error.kind() {
            // NFS may repeat a request that was carried out. Only the count of links tells, see open(2).
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

/// Puts a file in place of an earlier one of its kind, which holds `mark`: for files that others read and nobody else
/// writes.
pub fn overwrite(target: &Path, bytes: &[u8], mark: &str) -> Result<(), ReplaceError> {
    make_directory_of(target).map_err(|source| failed("make the directory of", target, source))?;
    let old = refuse_foreign(target, mark).map_err(|source| failed("replace", target, source))?;
    Temporary::write(target, bytes, old.as_ref())?.rename(target, || false)?;
    remove_leftovers(&[target], LEFTOVER_AGE);
    Ok(())
}

/// Opens a file for reading, again if the server has forgotten it meanwhile. Does not wait for
/// the other end of a pipe.
pub fn open_again(path: &Path) -> io::Result<File> {
    #[expect(
        clippy::cast_possible_wrap,
        reason = "a flag of the kernel's interface"
    )]
    let flags = OFlags::NONBLOCK.bits() as i32;
    let mut tries = 1;
    loop {
        match OpenOptions::new().read(true).custom_flags(flags).open(path) {
            Err(error) if is_stale(&error) && tries < TRIES => tries += 1,
            outcome => return outcome,
        }
    }
}

/// True if the file behind a descriptor was replaced on the server.
pub fn is_stale(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::StaleNetworkFileHandle
}

/// Makes the directory of a file, and those above it.
pub fn make_directory_of(path: &Path) -> io::Result<()> {
    let Some(directory) = directory_of(path) else {
        return Ok(());
    };
    match directory.metadata() {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            std::fs::create_dir_all(directory)?;
            sync_directory_of(directory)
        }
        Err(error) => Err(error),
    }
}

/// Makes names in a file's directory safe against a crash.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    let directory = directory_of(path).unwrap_or(Path::new("."));
    let directory = match File::open(directory) {
        // It may be writable and still not be open to this user; then nothing can be done.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        outcome => outcome?,
    };
    match directory.sync_all() {
        // File systems that need none refuse it.
        Err(error) if error.kind() == io::ErrorKind::InvalidInput || is_unsupported(&error) => {
            Ok(())
        }
        outcome => outcome,
    }
}

fn directory_of(path: &Path) -> Option<&Path> {
    path.parent().map(|parent| {
        if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        }
    })
}

/// Begins the name of a file beside another.
fn prefixed(path: &Path, mark: &str) -> OsString {
    let mut name = path.file_name().unwrap_or(OsStr::new("state")).to_owned();
    name.push(mark);
    name
}

fn failed(action: &'static str, path: &Path, source: io::Error) -> ReplaceError {
    ReplaceError::Io {
        action,
        path: path.to_owned(),
        source,
        replaced: false,
    }
}

fn is_unsupported(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
        || Errno::from_io_error(error).is_some_and(|errno| errno == Errno::OPNOTSUPP)
}

/// True where hard links cannot be made: by the file system, or by rules of the system.
fn has_no_links(error: &io::Error) -> bool {
    is_unsupported(error)
        || matches!(
            error.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::TooManyLinks
        )
}

#[cfg(test)]
mod tests;
