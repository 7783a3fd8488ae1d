//! Accepts a job, after checking everything that can be wrong.

use std::collections::BTreeMap;
use std::ffi::OsString;

use super::LocalExecutor;
use super::job::{JobRecord, Payload};
use super::record::Written;
use crate::base::sys;
use crate::executor::script::Script;
use crate::executor::{Executor as _, ExecutorError, JobRequest, Refusal, Submission};
use crate::model::job::JobId;

impl LocalExecutor {
    /// Accepts a job; returns the existing one if the submission id is already recorded.
    pub(super) fn accept(&mut self, request: &JobRequest) -> Result<Submission, ExecutorError> {
        if self.settings.read_only {
            return Ok(refused("this executor is read-only"));
        }
        self.records.create()?;
        self.load()?;
        if let Some(job) = self.records.all().find(|job| {
            job.record.submission_id == request.submission_id
                && job.record.project == request.project
        }) {
            return Ok(accepted(job.record.number));
        }
        let path = match self.find_script(&request.script) {
            Ok(path) => path,
            Err(error) => return Ok(refused(&error.to_string())),
        };
        let script = match Script::read(&path) {
            Ok(script) => script,
            Err(error) => return Ok(refused(&error.to_string())),
        };
        let log_dir = request
            .log_dir
            .clone()
            .unwrap_or_else(|| self.records.log_dir());
        if let Err(error) = std::fs::create_dir_all(&log_dir) {
            let dir = log_dir.display();
            return Ok(refused(&format!(
                "cannot create log directory {dir}: {error}"
            )));
        }
        let now = sys::now();
        let (umask, directory) = (umask(), std::env::current_dir().unwrap_or_default());
        let make = |number: u64| {
            let log =
                |end: &str| log_dir.join(format!("{}_local-{number}.{end}", request.job_name));
            JobRecord {
                number,
                job_name: request.job_name.clone(),
                submission_id: request.submission_id.clone(),
                project: request.project.clone(),
                subject: request.key.subject.as_ref().to_owned(),
                session: request.key.session.as_ref().to_owned(),
                procedure: request.key.procedure.as_ref().to_owned(),
                attempt: request.attempt,
                submitted_at: now,
                script: path.clone(),
                interpreter: script.interpreter.clone(),
                arguments: request.arguments.clone(),
                env: request.env.clone(),
                directory: directory.clone(),
                umask: umask.clone(),
                output: log("out"),
                error: log("err"),
            }
        };
        let payload = Payload {
            environment: self.environment(request),
            script: script.text,
        };
        let (number, written) = self.records.add(&payload, make)?;
        if let Written::Unsynced(error) = written {
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

    /// The inherited environment and the request's, which takes precedence.
    fn environment(&self, request: &JobRequest) -> Vec<(OsString, OsString)> {
        let mut environment: BTreeMap<OsString, OsString> =
            self.settings.environment.iter().cloned().collect();
        if let Some(cpus) = request.resources.cpus_per_task {
            // Job scripts read the number of threads from Slurm's variable.
            environment.insert("SLURM_CPUS_PER_TASK".into(), cpus.to_string().into());
        }
        for (name, value) in &request.env {
            environment.insert(name.into(), value.into());
        }
        environment.into_iter().collect()
    }
}

fn accepted(number: u64) -> Submission {
    Submission::Accepted {
        job_id: JobId::local(number),
        cluster: None,
    }
}

fn refused(message: &str) -> Submission {
    Submission::refused(Refusal::Permanent, message)
}

/// This process's umask. The system call would change it for a moment.
fn umask() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("Umask:"))?;
    Some(mask.trim().to_owned())
}
