//! The program's exit codes. Scripts rely on them: none ever changes its meaning.

/// Is the program's exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done; also: nothing to do.
    Done = 0,
    Error = 1,
    /// Usage or configuration.
    Usage = 2,
    /// Some submissions were refused.
    Refused = 3,
    /// Another call holds the lock.
    Locked = 4,
    /// Slurm cannot be reached.
    Unreachable = 5,
    /// Something is so wrong with the data that nothing was submitted.
    Safety = 6,
    /// Done, but something could not be read.
    Unreadable = 7,
    /// `wait` was told not to wait longer.
    TimeOut = 124,
}

impl Exit {
    pub const fn code(self) -> u8 {
        self as u8
    }
}
