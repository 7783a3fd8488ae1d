//! Operations on the lock file, and the file server's time.
//!
//! On NFS a request whose answer was lost is sent again, so a `link`, `rename` or `unlink` that
//! succeeded may report failure. The result of each is checked before its error is believed.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use rustix::fs::{OFlags, Timespec, Timestamps, UTIME_NOW, futimens};
use rustix::io::Errno;

use super::holder::{Holder, Life};
use crate::base::durable;
use crate::base::regular::identity;

/// A lock file as it was at one moment.
#[derive(Debug, Clone)]
pub(super) struct Seen {
    /// `None` if the text is incomplete, not a lock's, or unreadable for this user.
    pub holder: Option<Holder>,
    pub mtime: SystemTime,
    pub uid: u32,
    identity: (u64, u64),
    text: Vec<u8>,
}

impl Seen {
    pub(super) fn is_of(&self, token: &str) -> bool {
        self.holder
            .as_ref()
            .is_some_and(|holder| holder.token == token)
    }

    /// True if both are the same lock, without a heartbeat in between.
    pub(super) fn is_unchanged(&self, later: &Self) -> bool {
        self.identity == later.identity && self.mtime == later.mtime && self.text == later.text
    }

    pub(super) fn life(&self, me: &Holder) -> Life {
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
            identity: identity(metadata),
            text,
        })
    }
}

/// Reads a lock file; `None` if it does not exist. Opening it again each time makes NFS ask the server.
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
        // The file of another user with a strict umask: only its times are visible.
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

/// Creates the lock file of `me` and returns it open; `None` if there is one already.
pub(super) fn link(path: &Path, me: &Holder) -> io::Result<Option<File>> {
    let temporary = temporary(path, &me.token, "tmp");
    let linked = write_and_link(&temporary, path, me);
    // A file that remains does no harm and is removed later.
    let _ = fs::remove_file(&temporary);
    if !linked? {
        return Ok(None);
    }
    // Opened only now, by its new name: NFS renames a file that is removed while it is open.
    match (open(path), observe(path)?) {
        (Ok(file), Some(seen)) if seen.is_of(&me.token) => Ok(Some(file)),
        (Err(error), _) if error.kind() != io::ErrorKind::NotFound => Err(error),
        (_, Some(seen)) if seen.holder.is_none() => {
            remove_if(path, &me.token, |moved| seen.is_unchanged(moved))?;
            Err(io::Error::other("the file system lost the written text"))
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
    // NFS writes when the file is closed at the latest, so that others find it complete.
    drop(file);
    durable::link(temporary, path).map_err(|error| match Errno::from_io_error(&error) {
        // The temporary file has just been made there, so EPERM is not about permission.
        Some(Errno::PERM | Errno::NOTSUP | Errno::NOSYS | Errno::MLINK) => {
            let what = format!("this file system has no hard links ({error})");
            io::Error::new(io::ErrorKind::Unsupported, what)
        }
        _ => error,
    })
}

/// Moves a lock aside and removes it if it is the wanted one; otherwise links it back and returns
/// false. `token` makes the temporary name unique.
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

/// Treats an error of one kind as success.
fn unless(kind: io::ErrorKind, outcome: io::Result<()>) -> io::Result<()> {
    match outcome {
        Err(error) if error.kind() == kind => Ok(()),
        outcome => outcome,
    }
}

/// The file server's time: the time of a file touched just now next to the lock.
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
    let _ = fs::remove_file(&probe);
    time
}

/// The path of a temporary file next to the lock. If its process is killed, a later save removes it, see
/// [`durable::remove_leftovers`].
pub(super) fn temporary(path: &Path, token: &str, kind: &str) -> PathBuf {
    durable::with_ending(path, &format!(".tmp-{token}.{kind}"))
}

/// The beginning of each lock file; a crash may cut it, or leave zeros.
const HEAD: &[u8] = b"{\"token\":";

/// More than any holder's text.
const MAX_TEXT: u64 = 64 * 1024;

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(path)
}

/// The heartbeat of a lock's holder: a thread that touches the lock file. By descriptor, never by path: after a takeover,
/// the old holder must not touch the new lock.
/// Dropping it ends the thread at once and closes the file.
#[derive(Debug)]
pub(super) struct Heartbeat {
    file: Arc<File>,
    /// Dropped to end the thread.
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Heartbeat {
    pub(super) fn start(file: File, pause: Duration) -> io::Result<Self> {
        let file = Arc::new(file);
        let theirs = Arc::clone(&file);
        let (running, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("lock heartbeat".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    // A failed touch does not mean that the lock is lost: `Lock::check` finds that out.
                    let _ = touch(&theirs);
                }
            })?;
        Ok(Self {
            file,
            running: Some(running),
            thread: Some(thread),
        })
    }

    pub(super) fn beat(&self) {
        let _ = touch(&self.file);
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.running.take();
        if let Some(thread) = self.thread.take() {
            // The thread cannot panic.
            let _ = thread.join();
        }
    }
}

/// Sets a file's times to now. With "now" for both times instead of a local time, an NFS client uses
/// the server's time.
pub(super) fn touch(file: &File) -> io::Result<()> {
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: UTIME_NOW,
    };
    let times = Timestamps {
        last_access: now,
        last_modification: now,
    };
    Ok(futimens(file, &times)?)
}
