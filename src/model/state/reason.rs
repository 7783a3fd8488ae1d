//! The words of the `reason` column.

use std::fmt;
use std::str::FromStr;

use super::{TaskStatus, UnknownWord};

macro_rules! reasons {
    ($($(#[$doc:meta])* $variant:ident = $word:literal in $($status:ident)|+;)*) => {
        /// Why a row has its status. Each word belongs to one status or two.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Reason { $($(#[$doc])* $variant),* }

        impl Reason {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }

            /// True if a row of this status may have this reason.
            pub fn fits(self, status: TaskStatus) -> bool {
                match self { $(Self::$variant => matches!(status, $(TaskStatus::$status)|+)),* }
            }
        }
    };
}

reasons! {
    /// sbatch was started, and its result is still unknown.
    Submitting = "submitting" in Pending;
    Queued = "queued" in Pending;
    /// Held, or can never start: needs manual action.
    Held = "held" in Pending;
    /// Neither queue nor accounting shows the job (yet).
    Unaccounted = "unaccounted" in Pending | Running;
    Running = "running" in Running;
    Suspended = "suspended" in Running;
    /// The job succeeded; its outputs are not visible yet.
    AwaitingOutput = "awaiting_output" in Running;
    Verified = "verified" in Complete;
    /// Slurm reports COMPLETED, but no rule of the current configuration can verify it.
    Unverified = "unverified" in Complete;
    ExitCode = "exit_code" in Failed;
    Timeout = "timeout" in Failed;
    OutOfMemory = "out_of_memory" in Failed;
    Cancelled = "cancelled" in Failed;
    NodeFail = "node_fail" in Failed;
    Preempted = "preempted" in Failed;
    BootFail = "boot_fail" in Failed;
    /// The job's environment could not be set up on its node (exit code 0:53, prolog).
    LaunchFailed = "launch_failed" in Failed;
    Deadline = "deadline" in Failed;
    Dependency = "dependency" in Failed;
    /// The job succeeded, but its outputs did not appear in time.
    NoOutput = "no_output" in Failed;
    /// Queue, accounting and disk have shown nothing of the job for longer than `lost_grace`.
    Lost = "lost" in Failed;
}

impl Reason {
    /// The default reason of a row without one. A failure has none: the disk decides.
    pub fn usual(status: TaskStatus) -> Option<Self> {
        match status {
            TaskStatus::Pending => Some(Self::Queued),
            TaskStatus::Running => Some(Self::Running),
            TaskStatus::Complete => Some(Self::Verified),
            TaskStatus::Failed => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Reason {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL
            .iter()
            .copied()
            .find(|reason| reason.as_str() == text)
            .ok_or_else(|| UnknownWord(text.to_owned()))
    }
}
