//! Accepts jobs, after checking everything that can be wrong, and cancels them: a queued job never starts, all
//! processes of a running job get a signal.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use chrono::TimeDelta;
use rustix::process::Signal;

use super::LocalExecutor;
use super::job::{Cancel, Claim, Job, JobRecord, JobStatus, Payload};
use crate::base::sys;
use crate::executor::script::Script;
use crate::executor::{Executor as _, ExecutorError, JobRequest, Refusal, Submission};
use crate::model::job::{JobId, JobRef};

/// How long after SIGTERM the next invocation sends SIGKILL.
const KILL_AFTER: TimeDelta = TimeDelta::seconds(10);

impl LocalExecutor {
    /// Accepts a job; returns the existing one if the submission id is already recorded.
    pub(super) fn accept(&mut self, request: &JobRequest) -> Result<Submission, ExecutorError> {
        let refused = |message: String| Ok(Submission::refused(Refusal::Permanent, message));
        if self.settings.read_only {
            return refused("this executor is read-only".to_owned());
        }
        self.records.create()?;
        self.records.load()?;
        let is_known = |job: &&Job| {
            job.record.submission_id == request.submission_id
                && job.record.project == request.project
        };
        if let Some(job) = self.records.all().find(is_known) {
            return Ok(accepted(job.record.number));
        }
        let (path, script, log_dir) = match self.prepare(request) {
            Ok(prepared) => prepared,
            Err(message) => return refused(message),
        };
        let now = sys::now();
        let (directory, umask) = (std::env::current_dir().unwrap_or_default(), umask());
        let make = |number: u64| {
            let log =
                |end: &str| log_dir.join(format!("{}_local-{number}.{end}", request.job_name));
            JobRecord {
                number,
                job_name: request.job_name.clone(),
                submission_id: request.submission_id.clone(),
                project: request.project.clone(),
                submitted_at: now,
                script: path.clone(),
                interpreter: script.interpreter.clone(),
                arguments: request.arguments.clone(),
                directory: directory.clone(),
                umask: umask.clone(),
                output: log("out"),
                error: log("err"),
            }
        };
        let payload = Payload {
            environment: self.environment(request),
            script: script.text.clone(),
        };
        let (number, synced) = self.records.add(&payload, make)?;
        if let Err(error) = synced {
            return Ok(Submission::InDoubt {
                message: format!(
                    "the record of local-{number} may not survive a power cut: {error}"
                ),
            });
        }
        if let Err(error) = self.fill_slots() {
            self.warnings.push(error.to_string());
        }
        Ok(accepted(number))
    }

    /// Finds the script, and creates the log directory; an error means that this job can never run.
    fn prepare(&self, request: &JobRequest) -> Result<(PathBuf, Script, PathBuf), String> {
        let path = self.find_script(&request.script);
        let path = path.map_err(|error| error.to_string())?;
        let script = Script::read(&path).map_err(|error| error.to_string())?;
        let log_dir = request.log_dir.clone();
        let log_dir = log_dir.unwrap_or_else(|| self.settings.records.join("logs"));
        match std::fs::create_dir_all(&log_dir) {
            Ok(()) => Ok((path, script, log_dir)),
            Err(error) => {
                let dir = log_dir.display();
                Err(format!("cannot create log directory {dir}: {error}"))
            }
        }
    }

    /// The inherited environment and the request's, which takes precedence.
    fn environment(&self, request: &JobRequest) -> Vec<(OsString, OsString)> {
        let mut environment: BTreeMap<OsString, OsString> =
            self.settings.environment.iter().cloned().collect();
        if let Some(cpus) = request.resources.cpus_per_task {
            // Job scripts read the number of threads from Slurm's variable.
            environment.insert("SLURM_CPUS_PER_TASK".into(), cpus.to_string().into());
        }
        let own = request.env.iter();
        environment.extend(own.map(|(name, value)| (name.into(), value.into())));
        environment.into_iter().collect()
    }

    pub(super) fn cancel_all(&mut self, jobs: &[JobRef]) -> Result<(), ExecutorError> {
        self.records.refresh()?;
        self.kill_overdue()?;
        let problems = jobs.iter().filter_map(|job| {
            let problem = self.cancel_one(&job.id).err()?;
            Some(format!("{}: {problem}", job.id))
        });
        match Vec::from_iter(problems).join("; ") {
            none if none.is_empty() => Ok(()),
            problems => Err(ExecutorError::failed("cancel", problems)),
        }
    }

    fn cancel_one(&mut self, id: &JobId) -> Result<(), Box<dyn std::error::Error>> {
        let number = id.local_number();
        let number = number.filter(|number| self.records.get(*number).is_some());
        let number = number.ok_or("no record of this job")?;
        let (at, uid) = (sys::now(), sys::effective_uid());
        if self.status_of(number)? == JobStatus::Queued {
            self.records
                .write(number, "claim", &Claim::Cancelled { at, uid })?;
            // It may have been started meanwhile.
            self.records.reload(number)?;
        }
        match self.status_of(number)? {
            JobStatus::Running => {
                if self.records.write(number, "cancel", &Cancel { at, uid })? {
                    self.signal(number, Signal::TERM)?;
                }
                Ok(self.records.reload(number)?)
            }
            JobStatus::Elsewhere => {
                let supervisor = self.records.get(number).and_then(Job::supervisor);
                let host = supervisor.map_or("another host", |(_, host, _)| &host.name);
                Err(format!("it runs on {host}: cancel it there").into())
            }
            JobStatus::Queued | JobStatus::Lost | JobStatus::Over => Ok(()),
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
            if self.status_of(number)? == JobStatus::Running {
                self.signal(number, Signal::KILL)?;
            }
        }
        Ok(())
    }

    /// Sends a signal to all processes of a job except its supervisor.
    fn signal(&self, number: u64, signal: Signal) -> Result<(), ExecutorError> {
        let supervisor = self.records.get(number).and_then(Job::supervisor);
        let sent = supervisor.map_or(Ok(false), |(process, ..)| process.signal_followers(signal));
        let failed = |error| ExecutorError::failed(format!("signal to local-{number}"), error);
        sent.map(drop).map_err(failed)
    }
}

fn accepted(number: u64) -> Submission {
    Submission::Accepted {
        job_id: JobId::local(number),
        cluster: None,
    }
}

/// The umask of this process. The system call for it would change it for a moment.
fn umask() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mut lines = status.lines();
    let umask = lines.find_map(|line| line.strip_prefix("Umask:"))?;
    Some(umask.trim().to_owned())
}
