//! Ending jobs: the queued never start, the running get a signal with all their processes.

use std::time::Duration;

use chrono::TimeDelta;
use rustix::process::Signal;

use super::job::{Cancel, Claim, Job};
use super::{JobStanding, LocalExecutor, followers, report};
use crate::base::sys;
use crate::executor::ExecutorError;
use crate::model::job::{JobId, JobRef};

/// How long a job gets to end by itself after SIGTERM, before the next call sends SIGKILL.
const KILL_AFTER: TimeDelta = TimeDelta::seconds(10);
/// How long a call waits for jobs to end.
const WAIT: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(50);

impl LocalExecutor {
    pub(super) fn cancel_all(&mut self, jobs: &[JobRef]) -> Result<(), ExecutorError> {
        self.records.refresh()?;
        self.loaded = true;
        self.kill_overdue()?;
        let mut ending = Vec::new();
        let mut errors = Vec::new();
        for job in jobs {
            match self.cancel_one(&job.id) {
                Ok(true) => ending.extend(job.id.local_number()),
                Ok(false) => {}
                Err(error) => errors.push(error),
            }
        }
        let mut waited = Duration::ZERO;
        while waited < WAIT && !ending.is_empty() {
            std::thread::sleep(POLL);
            waited += POLL;
            for number in &ending {
                self.records.reload(*number)?;
            }
            ending.retain(|number| !self.is_over(*number));
        }
        match errors.len() {
            0 | 1 => errors.pop().map_or(Ok(()), Err),
            _ => Err(ExecutorError::Failed {
                command: "cancel".to_owned(),
                message: errors
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join("; "),
            }),
        }
    }

    /// Kills jobs that did not end when they were asked to.
    pub(super) fn kill_overdue(&mut self) -> Result<(), ExecutorError> {
        let now = sys::now();
        let overdue = |job: &Job| {
            let asked = job.cancel.as_ref();
            !job.is_over() && asked.is_some_and(|cancel| now - cancel.at >= KILL_AFTER)
        };
        for number in self.numbers(overdue) {
            if self.standing_of(number)? == (JobStanding::Running { here: true }) {
                self.signal(number, Signal::KILL)?;
            }
        }
        Ok(())
    }

    /// Sends a signal to all processes of a job but its supervisor.
    fn signal(&self, number: u64, signal: Signal) -> Result<(), ExecutorError> {
        if let Some(Job {
            claim: Some(Claim::Supervisor { process, .. }),
            ..
        }) = self.records.get(number)
        {
            for process in followers(*process)? {
                process
                    .signal(signal)
                    .map_err(|source| ExecutorError::Failed {
                        command: format!("signal to local-{number}"),
                        message: source.to_string(),
                    })?;
            }
        }
        Ok(())
    }

    /// Returns whether something was asked to end that has not ended yet.
    fn cancel_one(&mut self, id: &JobId) -> Result<bool, ExecutorError> {
        let failed = |message: String| ExecutorError::Failed {
            command: format!("cancel {id}"),
            message,
        };
        let number = id
            .local_number()
            .filter(|number| self.records.get(*number).is_some())
            .ok_or_else(|| failed("no such job is on record".to_owned()))?;
        let (at, uid) = (sys::now(), sys::effective_uid());
        if self.standing_of(number)? == JobStanding::Queued {
            self.records.claim(number, &Claim::Cancelled { at, uid })?;
            // If it was started meanwhile, it is a running one now.
            self.records.reload(number)?;
        }
        match self.standing_of(number)? {
            JobStanding::Running { here: true } => {
                if self.records.ask_cancel(number, &Cancel { at, uid })? {
                    self.signal(number, Signal::TERM)?;
                }
                self.records.reload(number)?;
                Ok(true)
            }
            JobStanding::Running { here: false } => {
                let job = self.records.get(number);
                let host = job.and_then(report::host_of).unwrap_or("another host");
                Err(failed(format!("it runs on {host}: cancel it there")))
            }
            JobStanding::Queued | JobStanding::RemovedProcedures | JobStanding::Over => Ok(false),
        }
    }
}
