//! The temporary file that replaces another one, with the same access rights; those that dead processes left behind,
//! and copies of damaged files that were kept.
#![expect(
    clippy::disallowed_methods,
    reason = "lists a file's directory to find leftovers beside it"
)]

use std::ffi::OsString;
use std::fs::{DirEntry, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, Gid, Mode, RenameFlags, Uid, XattrFlags, renameat_with};
use rustix::io::Errno;

use super::{
    TEMPORARY, again_if, content, directory_of, has_no_links, link, open_again, prefixed,
    sync_directory_of,
};
use crate::base::regular::FileError;
use crate::base::sys;

const ACL: &str = "system.posix_acl_access";

/// A complete file that is removed unless it gets its final name.
pub struct Temporary {
    pub(super) path: PathBuf,
    armed: bool,
}

impl Temporary {
    /// Makes a file with a new name. A network file system may make it, lose the answer and report that it exists: then
    /// another name is used.
    pub(super) fn made<T>(
        target: &Path,
        make: impl Fn(&Path) -> io::Result<T>,
    ) -> Result<(Self, T), FileError> {
        let mut path = PathBuf::new();
        let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
        let made = again_if(is_taken, || {
            path = Self::name_for(target);
            make(&path)
        });
        let made = made.map_err(FileError::of("create", &path))?;
        Ok((Self { path, armed: true }, made))
    }

    /// Chooses a name that contains the host and the process id.
    fn name_for(target: &Path) -> PathBuf {
        let host = sys::host_name().replace('/', "_");
        let mut name = prefixed(target, TEMPORARY);
        name.push(format!("{host}.{}.{}", std::process::id(), sys::random()));
        target.with_file_name(name)
    }

    /// Writes and syncs the file that will become `target`, with the access rights of `old`, or else those given by
    /// `mode`, umask and directory.
    pub fn new(
        target: &Path,
        bytes: &[u8],
        mode: u32,
        old: Option<&File>,
    ) -> Result<Self, FileError> {
        let mode = if old.is_some() { 0o600 } else { mode };
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(mode);
        let (temporary, mut file) = Self::made(target, |path| options.open(path))?;
        // A sync that failed is not tried again: the kernel may have dropped the pages already.
        file.write_all(bytes)
            .and_then(|()| old.map_or(Ok(()), |old| copy_rights(old, &file)))
            .and_then(|()| file.sync_all())
            .map_err(FileError::of("write", &temporary.path))?;
        Ok(temporary)
    }

    /// Moves the file to its final name; false if that is taken. Does not sync the directory.
    pub fn put(mut self, to: &Path) -> io::Result<bool> {
        match link(&self.path, to) {
            Err(error) if has_no_links(&error) => {
                match renameat_with(CWD, &self.path, CWD, to, RenameFlags::NOREPLACE) {
                    Ok(()) => self.armed = false,
                    Err(Errno::EXIST) => return Ok(false),
                    Err(_) => return Err(error),
                }
                Ok(true)
            }
            outcome => outcome,
        }
    }

    pub(super) fn rename(mut self, to: &Path, is_done: impl Fn() -> bool) -> Result<(), FileError> {
        let was_interrupted = |error: &io::Error| error.kind() == io::ErrorKind::Interrupted;
        again_if(was_interrupted, || match std::fs::rename(&self.path, to) {
            // NFS may report that a rename failed although it took place.
            Err(_) if is_done() => Ok(()),
            outcome => outcome,
        })
        .map_err(FileError::of("replace", to))?;
        // A rename between two names of one file does nothing, and leaves both.
        self.remove();
        Ok(())
    }

    fn remove(&mut self) {
        if std::mem::take(&mut self.armed) {
            // After a rename it no longer exists. If it cannot be removed, it is removed later as a leftover.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Copies owner (as root), group, mode and ACL.
fn copy_rights(from: &File, to: &File) -> io::Result<()> {
    let (old, new) = (from.metadata()?, to.metadata()?);
    let mut mode = old.mode() & 0o7777;
    if old.uid() != new.uid() && rustix::process::geteuid().is_root() {
        // If root repairs a state, it still belongs to its owner.
        rustix::fs::fchown(to, Some(Uid::from_raw(old.uid())), None)?;
    }
    let has_group = old.gid() == new.gid()
        || rustix::fs::fchown(to, None, Some(Gid::from_raw(old.gid()))).is_ok();
    if !has_group {
        // Another group must not get the old group's access.
        mode = (mode & !0o070) | ((mode & 0o007) << 3);
    }
    rustix::fs::fchmod(to, Mode::from_raw_mode(mode))?;
    match acl_of(from)? {
        Some(acl) if has_group => rustix::fs::fsetxattr(to, ACL, &acl, XattrFlags::empty())?,
        _ => match rustix::fs::fremovexattr(to, ACL) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(errno) => return Err(errno.into()),
        },
    }
    Ok(())
}

fn acl_of(file: &File) -> io::Result<Option<Vec<u8>>> {
    // The kernel allows attributes of 64 KiB at most.
    let mut acl = vec![0; 64 * 1024];
    match rustix::fs::fgetxattr(file, ACL, acl.as_mut_slice()) {
        Ok(length) => {
            acl.truncate(length);
            Ok(Some(acl))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::NOSYS) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// The age from which a leftover of a dead process is removed.
pub const LEFTOVER_AGE: Duration = Duration::from_secs(24 * 3600);

const KEPT: &str = ".damaged-";

/// Removes temporary files that dead processes left beside files of one directory. The first file was just written:
/// its time is the file server's clock, by which ages are measured.
pub fn remove_leftovers(files: &[&Path], older_than: Duration) {
    let Some(Ok(now)) = files
        .first()
        .map(|file| file.metadata().and_then(|metadata| metadata.modified()))
    else {
        return;
    };
    for entry in beside(files, TEMPORARY) {
        // The second name of an old file has that file's modification time; only its ctime is its own.
        let age = || {
            let metadata = entry.metadata().ok()?;
            let linked = Duration::from_secs(u64::try_from(metadata.ctime()).ok()?);
            let now = now.duration_since(std::time::UNIX_EPOCH).ok()?;
            now.checked_sub(linked)
        };
        if age().is_some_and(|age| age > older_than) {
            // A file that cannot be removed does no harm; the next save tries again.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Lists temporary files beside files of one directory, and copies that a repair has kept.
pub fn list_leftovers(files: &[&Path]) -> (Vec<PathBuf>, Vec<PathBuf>) {
    let [temporary, kept] = [TEMPORARY, KEPT].map(|mark| {
        let mut paths: Vec<PathBuf> = beside(files, mark).map(|entry| entry.path()).collect();
        paths.sort();
        paths
    });
    (temporary, kept)
}

/// The entries of the first file's directory whose names begin with one of the files' names and `mark`.
fn beside(files: &[&Path], mark: &str) -> impl Iterator<Item = DirEntry> {
    let prefixes: Vec<OsString> = files.iter().map(|file| prefixed(file, mark)).collect();
    let directory = files.first().and_then(|file| directory_of(file));
    directory
        .and_then(|directory| std::fs::read_dir(directory).ok())
        .into_iter()
        .flatten()
        .flatten()
        .filter(move |entry| {
            let name = entry.file_name();
            prefixes.iter().any(|prefix| {
                name.as_encoded_bytes()
                    .starts_with(prefix.as_encoded_bytes())
            })
        })
}

/// Links a file to an unused name `<file>.damaged-<stamp>`, or copies it where links cannot be made. Returns the name.
pub fn keep(path: &Path, stamp: &str) -> io::Result<PathBuf> {
    for count in 1..1000 {
        let mut name = prefixed(path, KEPT);
        name.push(stamp);
        if count > 1 {
            name.push(format!("-{count}"));
        }
        let kept = path.with_file_name(name);
        let is_kept = match std::fs::hard_link(path, &kept) {
            Err(error) if has_no_links(&error) => {
                let old = open_again(path)?;
                Temporary::new(&kept, &content(&old)?, 0o600, Some(&old))?.put(&kept)?
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            outcome => outcome.map(|()| true)?,
        };
        if is_kept {
            return sync_directory_of(path).map(|()| kept);
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
