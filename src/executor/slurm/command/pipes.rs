//! Reading both outputs of a process at the same time.

use std::io::Read;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// One end of a pipe, and what came through it.
pub(super) struct Pipe<R> {
    source: Option<R>,
    pub(super) bytes: Vec<u8>,
}

/// Lets stdout and stderr stand in one list.
pub(super) trait Listening {
    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>>;
    fn take_some(&mut self);
}

impl<R> Pipe<R> {
    pub(super) fn new(source: Option<R>) -> Self {
        Self {
            source,
            bytes: Vec::new(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.source.is_none()
    }

    pub(super) fn text(self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl<R: Read + std::os::fd::AsFd> Listening for Pipe<R> {
    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        self.source.as_ref().map(std::os::fd::AsFd::as_fd)
    }

    fn take_some(&mut self) {
        let mut buffer = [0; 65536];
        let Some(source) = &mut self.source else {
            return;
        };
        match source.read(&mut buffer) {
            Ok(count @ 1..) => self
                .bytes
                .extend_from_slice(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => self.source = None,
        }
    }
}

/// Waits for something to read, for a tenth of a second at most, and reads it.
pub(super) fn listen(pipes: &mut [&mut dyn Listening], most: Duration) {
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: most.min(Duration::from_millis(100)).subsec_nanos().into(),
    };
    let ready: Vec<bool> = {
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        let places: Vec<Option<usize>> = pipes
            .iter()
            .map(|pipe| {
                pipe.fd().map(|fd| {
                    fds.push(PollFd::from_borrowed_fd(fd, PollFlags::IN));
                    fds.len() - 1
                })
            })
            .collect();
        if poll(&mut fds, Some(&timeout)).is_err() {
            return;
        }
        places
            .into_iter()
            .map(|place| {
                place
                    .and_then(|place| fds.get(place))
                    .is_some_and(|fd| !fd.revents().is_empty())
            })
            .collect()
    };
    for (pipe, _) in pipes.iter_mut().zip(ready).filter(|(_, ready)| *ready) {
        pipe.take_some();
    }
}
