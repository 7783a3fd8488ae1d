//! The lock as a file: looked at, linked into place, moved aside and compared, and the file server's time.
//!
//! On NFS a request whose answer was lost is sent again, so that a `link`, `rename` or `unlink` that
//! happened may report failure; each is looked at before its error is believed.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::OFlags;
use rustix::io::Errno;

use super::heartbeat::touch;
use super::holder::{Holder, Life};
use crate::base::durable;

/// A lock file as it was at one moment.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// None if the text is cut, empty, of something else, or not readable for this user.
    pub holder: Option<Holder>,
    pub mtime: SystemTime,
    pub uid: u32,
    identity: (u64, u64),
    text: Vec<u8>,
}

impl Seen {
    pub fn is_of(&self, token: &str) -> bool {
        self.holder
            .as_ref()
            .is_some_and(|holder| holder.token == token)
    }

    /// True if both are the same lock, without a heartbeat in between.
    pub fn is_unchanged(&self, later: &Self) -> bool {
        self.identity == later.identity && self.mtime == later.mtime && self.text == later.text
    }

    pub fn life(&self, me: &Holder) -> Life {
        self.holder
            .as_ref()
            .map_or(Life::Unknown, |holder| holder.life(me))
    }

    fn new(metadata: &Metadata, text: Vec<u8>) -> io::Result<Self> {
        if !metadata.is_file() {
            let what = "it is not a regular file";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        Ok(Self {
            holder: Holder::parse(&text),
            mtime: metadata.modified()?,
            uid: metadata.uid(),
            identity: (metadata.dev(), metadata.ino()),
            text,
        })
    }
}

/// The time between two moments, whichever is the later.
pub(super) fn distance(a: SystemTime, b: SystemTime) -> Duration {
    a.duration_since(b).unwrap_or_else(|error| error.duration())
}

/// Looks at a lock file; none if there is none. Opening it anew each time makes NFS ask the server.
pub(super) fn observe(path: &Path) -> io::Result<Option<Seen>> {
    for _ in 0..3 {
        match try_observe(path) {
            // Removed by another client between open and read.
            Err(error) if error.kind() == io::ErrorKind::StaleNetworkFileHandle => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => return other.map(Some),
        }
    }
    Ok(None)
}

fn try_observe(path: &Path) -> io::Result<Seen> {
    let file = match open(path) {
        // Of another user with a strict umask: what can be seen is when it was touched.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Seen::new(&fs::symlink_metadata(path)?, Vec::new());
        }
        other => other?,
    };
    let metadata = file.metadata()?;
    let mut text = Vec::new();
    if metadata.is_file() {
        file.take(MAX_TEXT).read_to_end(&mut text)?;
    }
    let is_ours = HEAD.starts_with(&text) || text.starts_with(HEAD) || text.iter().all(|&b| b == 0);
    match is_ours {
        true => Seen::new(&metadata, text),
        false => Err(durable::foreign()),
    }
}

/// Puts a lock file of `me` in place. None: there is one already. Returns the open file.
pub(super) fn link(path: &Path, me: &Holder) -> io::Result<Option<File>> {
    let temporary = temporary(path, &me.token, "tmp");
    let linked = write_and_link(&temporary, path, me);
    remove_quietly(&temporary);
    if !linked? {
        return Ok(None);
    }
    // Opened by its new name only now: NFS renames what is removed while it is open.
    match (open(path), observe(path)?) {
        (Ok(file), Some(seen)) if seen.is_of(&me.token) => Ok(Some(file)),
        (Err(error), _) if error.kind() != io::ErrorKind::NotFound => Err(error),
        (_, Some(seen)) if seen.holder.is_none() => {
            remove_if(path, &me.token, |moved| seen.is_unchanged(moved))?;
            Err(io::Error::other("the file system lost what was written"))
        }
        _ => Ok(None),
    }
}

fn write_and_link(temporary: &Path, path: &Path, me: &Holder) -> io::Result<bool> {
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(temporary)?;
    file.write_all(&me.to_line())?;
    // NFS writes at the latest when the file is closed, so that others find it whole.
    drop(file);
    durable::link(temporary, path).map_err(|error| match Errno::from_io_error(&error) {
        // The temporary file has just been made there, so EPERM is not about permission.
        Some(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::MLINK) => {
            let what = format!("no hard links here ({error})");
            io::Error::new(io::ErrorKind::Unsupported, what)
        }
        _ => error,
    })
}

/// Moves a lock aside, and removes it if it is the one that is wanted; else it is linked back.
/// Returns whether it was. `token` makes the name aside unique.
pub(super) fn remove_if(
    path: &Path,
    token: &str,
    is_wanted: impl Fn(&Seen) -> bool,
) -> io::Result<bool> {
    let aside = temporary(path, token, "aside");
    let renamed = fs::rename(path, &aside);
    let Some(moved) = observe(&aside)? else {
        return unless(io::ErrorKind::NotFound, renamed).map(|()| false);
    };
    let wanted = is_wanted(&moved);
    if !wanted {
        unless(io::ErrorKind::AlreadyExists, fs::hard_link(&aside, path))?;
    }
    unless(io::ErrorKind::NotFound, fs::remove_file(&aside)).map(|()| wanted)
}

/// Takes an error of one kind for success.
fn unless(kind: io::ErrorKind, outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == kind => Ok(()),
        outcome => outcome,
    }
}

/// Returns the file server's time: that of a file touched just now beside the lock.
pub(super) fn server_time(path: &Path, token: &str) -> io::Result<SystemTime> {
    let probe = temporary(path, token, "probe");
    let look = || {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&probe)?;
        touch(&file)?;
        file.metadata()?.modified()
    };
    let time = look();
    remove_quietly(&probe);
    time
}

/// Names a file of one call beside the lock. What a call that was killed leaves has a name that each save looks
/// for, see [`durable::remove_leftovers`].
pub(super) fn temporary(path: &Path, token: &str, kind: &str) -> PathBuf {
    sibling(path, &format!("tmp-{token}.{kind}"))
}

/// Names a file beside the lock: `<lock>.<suffix>`.
pub(super) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path.file_name().unwrap_or_default());
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}

/// What each lock file begins with; a crash may cut it, or leave zeros.
const HEAD: &[u8] = b"{\"token\":";

/// More than any holder writes.
const MAX_TEXT: u64 = 64 * 1024;

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(path)
}

/// What stays behind does no harm and is removed later.
fn remove_quietly(path: &Path) {
    if let Err(error) = unless(io::ErrorKind::NotFound, fs::remove_file(path)) {
        tracing::debug!("cannot remove {}: {error}", path.display());
    }
}
