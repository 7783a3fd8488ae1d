//! Replaces a file so that a crash at any moment leaves the old one or the new one, whole.
//!
//! A temporary file beside it is written, synced and renamed, then the directory is synced. What
//! was read before is compared with what stands there right before the rename: a file that someone
//! else has written meanwhile is never overwritten. Says nothing about what the bytes mean.
#![expect(
    clippy::disallowed_methods,
    reason = "left-overs beside the file are looked for in its directory"
)]

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;

mod ours;
mod temporary;

pub use ours::{foreign, holds, refuse_foreign};
use temporary::Temporary;

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

/// How old a left-over of a process that died must be to be removed.
pub const LEFTOVER_AGE: Duration = Duration::from_secs(24 * 3600);
const TRIES: usize = 3;

/// What to do where a file may not become as large as it must (`EFBIG`). Neither room nor permission is missing.
pub const TOO_LARGE_HINT: &str = "a limit on the size of files stands in the way: call `ulimit -f unlimited` before the program (in the \
     crontab's line too) and run again; what was recorded before is kept, jobs that were submitted among it";

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
            None => self.put(temporary)?,
        }
        sync_directory_of(self.target).map_err(|source| ReplaceError::Io {
            action: "sync the directory of",
            path: self.target.to_owned(),
            source,
            replaced: true,
        })
    }

    /// Puts the file where none is.
    fn put(&self, temporary: Temporary) -> Result<(), ReplaceError> {
        match std::fs::hard_link(&temporary.path, self.target) {
            Ok(()) => Ok(()),
            // NFS may repeat a request that was carried out, and then report this.
            Err(_) if self.is_done() => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                Err(ReplaceError::Changed)
            }
            Err(error) if has_no_links(&error) => match self.target.symlink_metadata() {
                Ok(_) => Err(ReplaceError::Changed),
                Err(_) => temporary.rename(self.target, || self.is_done()),
            },
            Err(source) => Err(failed("create", self.target, source)),
        }
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
                    let bytes = std::fs::read(self.target)
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

/// Removes temporary files that dead processes have left beside files of one directory. The first
/// one was just written: ages are told by the file server's clock.
pub fn remove_leftovers(files: &[&Path], older_than: Duration) {
    let Some(first) = files.first() else {
        return;
    };
    let (Some(directory), Ok(now)) = (
        directory_of(first),
        first.metadata().and_then(|metadata| metadata.modified()),
    ) else {
        return;
    };
    let prefixes: Vec<OsString> = files.iter().map(|file| prefix_of(file)).collect();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_temporary = prefixes.iter().any(|prefix| {
            name.as_encoded_bytes()
                .starts_with(prefix.as_encoded_bytes())
        });
        // The second name of an old file has that file's time of change, but its own time of linking.
        let age = || {
            let metadata = entry.metadata().ok()?;
            let linked = Duration::from_secs(u64::try_from(metadata.ctime()).ok()?);
            let now = now.duration_since(std::time::UNIX_EPOCH).ok()?;
            now.checked_sub(linked)
        };
        if is_temporary && age().is_some_and(|age| age > older_than) {
            // One that cannot be removed does no harm; the next save tries again.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Lists temporary files beside files of one directory, and those that a repair has kept.
pub fn list_leftovers(files: &[&Path]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let (mut temporary, mut kept) = (Vec::new(), Vec::new());
    let directory = files.first().and_then(|file| directory_of(file));
    for entry in directory
        .and_then(|directory| std::fs::read_dir(directory).ok())
        .into_iter()
        .flatten()
        .flatten()
    {
        let name = entry.file_name();
        let begins = |with: OsString| name.as_encoded_bytes().starts_with(with.as_encoded_bytes());
        if files.iter().any(|file| begins(prefix_of(file))) {
            temporary.push(entry.path());
        } else if files.iter().any(|file| begins(kept_prefix_of(file))) {
            kept.push(entry.path());
        }
    }
    temporary.sort();
    kept.sort();
    (temporary, kept)
}

/// Gives a file a second name, `<file>.damaged-<stamp>`, that nothing stands at yet; where links
/// cannot be made, copies it. Returns the name.
pub fn keep(path: &Path, stamp: &str) -> io::Result<PathBuf> {
    for count in 1..1000 {
        let mut name = kept_prefix_of(path);
        name.push(stamp);
        if count > 1 {
            name.push(format!("-{count}"));
        }
        let kept = path.with_file_name(name);
        let outcome = match std::fs::hard_link(path, &kept) {
            Err(error) if has_no_links(&error) => copy_new(path, &kept),
            outcome => outcome,
        };
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            outcome => {
                return outcome
                    .and_then(|()| sync_directory_of(path))
                    .map(|()| kept);
            }
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

fn copy_new(from: &Path, to: &Path) -> io::Result<()> {
    let mut from = open_again(from)?;
    let mut file = OpenOptions::new().write(true).create_new(true).open(to)?;
    io::copy(&mut from, &mut file)?;
    file.set_permissions(from.metadata()?.permissions())?;
    file.sync_all()
}

fn kept_prefix_of(path: &Path) -> OsString {
    let mut name = path.file_name().unwrap_or(OsStr::new("state")).to_owned();
    name.push(".damaged-");
    name
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

fn prefix_of(path: &Path) -> OsString {
    let mut name = path.file_name().unwrap_or(OsStr::new("state")).to_owned();
    name.push(".tmp-");
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
