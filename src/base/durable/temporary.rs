//! The temporary file that replaces another one, with the same access rights.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Gid, Mode, RenameFlags, Uid, XattrFlags, renameat_with};
use rustix::io::Errno;

use super::{TEMPORARY, TRIES, has_no_links, link, prefixed};
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
        let mut tries = 1;
        loop {
            let mut temporary = Self::named(target);
            match make(&temporary.path) {
                Ok(made) => return Ok((temporary, made)),
                Err(error) => {
                    temporary.armed = false;
                    if error.kind() != io::ErrorKind::AlreadyExists || tries == TRIES {
                        return Err(FileError::of("create", &temporary.path)(error));
                    }
                    tries += 1;
                }
            }
        }
    }

    /// Chooses a name that contains the host and the process id.
    fn named(target: &Path) -> Self {
        let host = sys::host_name().replace('/', "_");
        let mut name = prefixed(target, TEMPORARY);
        name.push(format!("{host}.{}.{}", std::process::id(), sys::random()));
        Self {
            path: target.with_file_name(name),
            armed: true,
        }
    }

    /// Writes and syncs the file that will become `target`, with the access rights of `mode`, umask and directory.
    pub fn new(target: &Path, bytes: &[u8], mode: u32) -> io::Result<Self> {
        Ok(Self::filled(target, bytes, mode, None)?)
    }

    /// Writes and syncs a file, with the access rights of `old`, or else those given by umask and directory.
    pub(super) fn write(
        target: &Path,
        bytes: &[u8],
        old: Option<&File>,
    ) -> Result<Self, FileError> {
        let mode = if old.is_some() { 0o600 } else { 0o666 };
        Self::filled(target, bytes, mode, old)
    }

    fn filled(
        target: &Path,
        bytes: &[u8],
        mode: u32,
        old: Option<&File>,
    ) -> Result<Self, FileError> {
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
        let mut tries = 1;
        loop {
            match std::fs::rename(&self.path, to) {
                Ok(()) => break,
                // NFS may report that a rename failed although it took place.
                Err(_) if is_done() => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted && tries < TRIES => {
                    tries += 1;
                }
                Err(error) => return Err(FileError::of("replace", to)(error)),
            }
        }
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
