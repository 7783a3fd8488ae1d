//! The lock as a file: looked at, linked into place, moved aside and compared, and the file server's time.
//!
//! On NFS a request whose answer was lost is sent again, so that a `link`, `rename` or `unlink` that
//! happened may report failure; each is looked at before its error is believed.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rustix::fs::OFlags;

use super::heartbeat::touch;
use super::holder::{Holder, Life};
use crate::base::durable;

/// Holds a lock file as it was at one moment.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// None if the text is cut, empty, of something else, or not readable for this user.
    pub holder: Option<Holder>,
    pub mtime: Stamp,
    pub uid: u32,
    identity: (u64, u64),
    text: Vec<u8>,
}

/// Is a time as a file system stores it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp {
    seconds: i64,
    nanos: i64,
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

    fn new(metadata: &Metadata, text: Vec<u8>) -> Self {
        Self {
            holder: Holder::parse(&text),
            mtime: Stamp::of(metadata),
            uid: metadata.uid(),
            identity: (metadata.dev(), metadata.ino()),
            text,
        }
    }
}

impl Stamp {
    pub fn at(time: DateTime<Utc>) -> Self {
        Self {
            seconds: time.timestamp(),
            nanos: time.timestamp_subsec_nanos().into(),
        }
    }

    fn of(metadata: &Metadata) -> Self {
        Self {
            seconds: metadata.mtime(),
            nanos: metadata.mtime_nsec(),
        }
    }

    fn nanos(self) -> i128 {
        i128::from(self.seconds) * 1_000_000_000 + i128::from(self.nanos)
    }

    /// Returns the time between both, whichever is the later.
    pub fn distance(self, other: Self) -> Duration {
        let nanos = (self.nanos() - other.nanos()).unsigned_abs();
        u64::try_from(nanos).map_or(Duration::MAX, Duration::from_nanos)
    }

    /// Returns the time since an earlier one.
    pub fn since(self, earlier: Self) -> Option<Duration> {
        (self >= earlier).then(|| self.distance(earlier))
    }
}

impl fmt::Display for Stamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match DateTime::from_timestamp(self.seconds, 0) {
            Some(time) => f.write_str(&crate::base::sys::local_time(time)),
            None => write!(f, "{} s", self.seconds),
        }
    }
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
            let metadata = fs::symlink_metadata(path)?;
            require_file(&metadata)?;
            return Ok(Seen::new(&metadata, Vec::new()));
        }
        other => other?,
    };
    let metadata = file.metadata()?;
    require_file(&metadata)?;
    let mut text = Vec::new();
    file.take(MAX_TEXT).read_to_end(&mut text)?;
    let is_ours = HEAD.starts_with(&text) || text.starts_with(HEAD) || text.iter().all(|&b| b == 0);
    if is_ours {
        Ok(Seen::new(&metadata, text))
    } else {
        Err(durable::foreign())
    }
}

/// Puts a lock file of `me` in place. None: there is one already. Returns the open file.
pub(super) fn link(path: &Path, me: &Holder) -> io::Result<Option<File>> {
    let temporary = sibling(path, &format!("{}.tmp", me.token));
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
    durable::link(temporary, path).map_err(no_hard_links)
}

/// Tells apart what link(2) says of a file system without hard links.
fn no_hard_links(error: io::Error) -> io::Error {
    let errno = rustix::io::Errno::from_io_error(&error);
    // The temporary file has just been made there, so EPERM is not about permission.
    if matches!(
        errno,
        Some(
            rustix::io::Errno::PERM
                | rustix::io::Errno::NOTSUP
                | rustix::io::Errno::NOSYS
                | rustix::io::Errno::MLINK
        )
    ) {
        io::Error::new(
            io::ErrorKind::Unsupported,
            format!("no hard links here ({error})"),
        )
    } else {
        error
    }
}

/// Moves a lock aside, and removes it if it is the one that is wanted; else it is linked back.
/// Returns whether it was. `token` makes the name aside unique.
pub(super) fn remove_if(
    path: &Path,
    token: &str,
    is_wanted: impl Fn(&Seen) -> bool,
) -> io::Result<bool> {
    let aside = sibling(path, &format!("{token}.aside"));
    let renamed = fs::rename(path, &aside);
    let Some(moved) = observe(&aside)? else {
        return match renamed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(false),
        };
    };
    let wanted = is_wanted(&moved);
    if !wanted {
        match fs::hard_link(&aside, path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    match fs::remove_file(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(wanted),
    }
}

/// Returns the file server's time: that of a file touched just now beside the lock.
pub(super) fn server_time(path: &Path, token: &str) -> io::Result<Stamp> {
    let probe = sibling(path, &format!("{token}.probe"));
    let look = || {
        let file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&probe)?;
        touch(&file)?;
        Ok(Stamp::of(&file.metadata()?))
    };
    let time = look();
    remove_quietly(&probe);
    time
}

/// Removes what calls that were killed left beside the lock, once it is old.
#[expect(
    clippy::disallowed_methods,
    reason = "the lock's own left-overs are found by name"
)]
pub(super) fn sweep(path: &Path, now: Stamp, older_than: Duration) {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return;
    };
    let directory = if directory.as_os_str().is_empty() {
        Path::new(".")
    } else {
        directory
    };
    let mut prefix = name.as_encoded_bytes().to_vec();
    prefix.push(b'.');
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let ours = name
            .as_encoded_bytes()
            .strip_prefix(prefix.as_slice())
            .is_some_and(|rest| {
                ["tmp", "aside", "probe"]
                    .iter()
                    .any(|kind| rest.ends_with(format!(".{kind}").as_bytes()))
            });
        let old = || {
            entry.metadata().is_ok_and(|metadata| {
                metadata.is_file() && now.distance(Stamp::of(&metadata)) >= older_than
            })
        };
        if ours && old() {
            remove_quietly(&entry.path());
        }
    }
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

fn require_file(metadata: &Metadata) -> io::Result<()> {
    if metadata.is_file() {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "it is not a regular file",
        ))
    }
}

/// What stays behind does no harm and is swept later.
fn remove_quietly(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::debug!("cannot remove {}: {error}", path.display());
    }
}
