//! Cancels jobs: a queued job never starts, all processes of a running job get a signal.

use std::time::Duration;

use chrono::TimeDelta;
use rustix::process::Signal;

use super::job::{Cancel, Claim, Job};
use super::{JobStatus, LocalExecutor, followers, report};
use crate::base::sys;
use crate::executor::ExecutorError;
use crate::model::job::{JobId, JobRef};

/// How long after SIGTERM the next invocation sends SIGKILL.
const KILL_AFTER: TimeDelta = TimeDelta::seconds(10);
/// How long `cancel` waits for jobs to end.
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
            _ => {
                let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
                Err(ExecutorError::failed("cancel", messages.join("; ")))
            }
        }
    }

    /// Kills jobs that did not end after a cancel request.
    pub(super) fn kill_overdue(&mut self) -> Result<(), ExecutorError> {
        let now = sys::now();
        let overdue = |job: &Job| {
            let asked = job.cancel.as_ref();
            !job.is_over() && asked.is_some_and(|cancel| now - cancel.at >= KILL_AFTER)
        };
        for number in self.numbers(overdue) {
            if self.status_of(number)? == (JobStatus::Running { here: true }) {
                self.signal(number, Signal::KILL)?;
            }
        }
        Ok(())
    }

    /// Sends a signal to all processes of a job except its supervisor.
    fn signal(&self, number: u64, signal: Signal) -> Result<(), ExecutorError> {
        if let Some(Job {
            claim: Some(Claim::Supervisor { process, .. }),
            ..
        }) = self.records.get(number)
        {
            for process in followers(*process)? {
                let command = format!("signal to local-{number}");
                let sent = process.signal(signal);
                sent.map_err(|error| ExecutorError::failed(command, error))?;
            }
        }
        Ok(())
    }

    /// Returns whether the job was asked to end and may still be running.
    fn cancel_one(&mut self, id: &JobId) -> Result<bool, ExecutorError> {
        let failed = |message: String| ExecutorError::failed(format!("cancel {id}"), message);
        let number = id
            .local_number()
            .filter(|number| self.records.get(*number).is_some())
            .ok_or_else(|| failed("no record of this job".to_owned()))?;
        let (at, uid) = (sys::now(), sys::effective_uid());
        if self.status_of(number)? == JobStatus::Queued {
            self.records.claim(number, &Claim::Cancelled { at, uid })?;
            // It may have been started meanwhile.
            self.records.reload(number)?;
        }
        match self.status_of(number)? {
            JobStatus::Running { here: true } => {
                if self.records.ask_cancel(number, &Cancel { at, uid })? {
                    self.signal(number, Signal::TERM)?;
                }
                self.records.reload(number)?;
                Ok(true)
            }
            JobStatus::Running { here: false } => {
                let job = self.records.get(number);
                let host = job.and_then(report::host_of).unwrap_or("another host");
                Err(failed(format!("it runs on {host}: cancel it there")))
            }
            JobStatus::Queued | JobStatus::Lost | JobStatus::Over => Ok(false),
        }
    }
}
