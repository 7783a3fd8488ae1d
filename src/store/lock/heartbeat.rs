//! The sign of life of a lock's holder: a thread that touches the lock file.
//!
//! By descriptor, never by path: a lock that was taken over must not be kept fresh for its thief.

use std::fs::File;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, futimens};

/// Touches a file until it is stopped or dropped.
#[derive(Debug)]
pub(super) struct Heartbeat {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    /// None once it has ended.
    file: Mutex<Option<File>>,
    stopped: Condvar,
}

impl Heartbeat {
    pub fn start(file: File, pause: Duration) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            file: Mutex::new(Some(file)),
            stopped: Condvar::new(),
        });
        let theirs = shared.clone();
        let thread = std::thread::Builder::new()
            .name("lock heartbeat".to_owned())
            .spawn(move || theirs.run(pause))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Touches the file now.
    pub fn beat(&self) {
        let file = self.shared.file.lock();
        if let Some(file) = &*file.unwrap_or_else(PoisonError::into_inner) {
            touch_quietly(file);
        }
    }

    /// Ends the thread at once and closes the file.
    pub fn stop(&mut self) {
        let file = self.shared.file.lock();
        file.unwrap_or_else(PoisonError::into_inner).take();
        self.shared.stopped.notify_all();
        if let Some(thread) = self.thread.take() {
            // It ends by returning only.
            let _ = thread.join();
        }
    }
}

impl Drop for Heartbeat {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn run(&self, pause: Duration) {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let waited = self
                .stopped
                .wait_timeout_while(file, pause, |file| file.is_some())
                .unwrap_or_else(PoisonError::into_inner);
            file = waited.0;
            match &*file {
                Some(file) => touch_quietly(file),
                None => return,
            }
        }
    }
}

/// Sets a file's times to now. With both times as "now" and no time of ours, an NFS client asks the
/// server for the server's time.
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

/// Whether the lock is lost is for [`super::Lock::check`] to find out; a single failed touch says nothing.
fn touch_quietly(file: &File) {
    if let Err(error) = touch(file) {
        tracing::debug!("cannot touch the lock file: {error}");
    }
}
