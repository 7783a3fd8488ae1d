//! The words of the `reason` column.

use super::TaskStatus;
use crate::base::words::words;

words! {
    /// Why a row has its status.
    pub enum Reason {
        /// sbatch was started, and its result is still unknown.
        Submitting = "submitting",
        Queued = "queued",
        /// Held, or can never start: needs manual action.
        Held = "held",
        /// Neither queue nor accounting shows the job (yet).
        Unaccounted = "unaccounted",
        Running = "running",
        Suspended = "suspended",
        /// The job succeeded; its outputs are not visible yet.
        AwaitingOutput = "awaiting_output",
        Verified = "verified",
        /// Slurm reports COMPLETED, but no rule of the current configuration can verify it.
        Unverified = "unverified",
        ExitCode = "exit_code",
        Timeout = "timeout",
        OutOfMemory = "out_of_memory",
        Cancelled = "cancelled",
        NodeFail = "node_fail",
        Preempted = "preempted",
        BootFail = "boot_fail",
        /// The job's environment could not be set up on its node (exit code 0:53, prolog).
        LaunchFailed = "launch_failed",
        Deadline = "deadline",
        Dependency = "dependency",
        /// The job succeeded, but its outputs did not appear in time.
        NoOutput = "no_output",
        /// Queue, accounting and disk have shown nothing of the job for longer than `lost_grace`.
        Lost = "lost",
    }
}

impl Reason {
    /// True if a row of this status may have this reason.
    pub fn fits(self, status: TaskStatus) -> bool {
        match self {
            Self::Submitting | Self::Queued | Self::Held => status == TaskStatus::Pending,
            Self::Unaccounted => status.is_in_flight(),
            Self::Running | Self::Suspended | Self::AwaitingOutput => status == TaskStatus::Running,
            Self::Verified | Self::Unverified => status == TaskStatus::Complete,
            _ => status == TaskStatus::Failed,
        }
    }

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
