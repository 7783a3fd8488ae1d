//! The heartbeat of a lock's holder: a thread that touches the lock file.
//!
//! By descriptor, never by path: after a takeover, the old holder must not touch the new lock.

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};

/// A thread that touches a file. Dropping it ends the thread at once and closes the file.
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
                    touch_quietly(&theirs);
                }
            })?;
        Ok(Self {
            file,
            running: Some(running),
            thread: Some(thread),
        })
    }

    pub(super) fn beat(&self) {
        touch_quietly(&self.file);
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

/// A failed touch does not mean that the lock is lost: [`super::Lock::check`] finds that out.
fn touch_quietly(file: &File) {
    if let Err(error) = touch(file) {
        tracing::debug!("cannot touch the lock file: {error}");
    }
}
