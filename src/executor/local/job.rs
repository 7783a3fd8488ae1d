//! The records of a local job, and the report that follows from them: plain values.

use std::ffi::OsString;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::base::process::{Host, ProcessId};
use crate::executor::{JobReport, Phase};
use crate::model::job::{JobId, JobTag};
use crate::model::state::{JobFacts, Reason};

/// A job as requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    pub number: u64,
    pub job_name: String,
    pub submission_id: String,
    pub project: String,
    pub submitted_at: DateTime<Utc>,
    /// The script's path; the job runs a copy made at submission.
    pub script: PathBuf,
    pub interpreter: Vec<String>,
    pub arguments: Vec<String>,
    pub directory: PathBuf,
    /// In octal digits. `None` if unknown.
    pub umask: Option<String>,
    pub output: PathBuf,
    pub error: PathBuf,
}

/// The data of a job besides its record, byte for byte.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Payload {
    /// The complete environment, including the scheduler's variables.
    pub environment: Vec<(OsString, OsString)>,
    pub script: Vec<u8>,
}

/// Who took a job from the queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    Supervisor {
        process: ProcessId,
        host: Host,
        at: DateTime<Utc>,
    },
    /// Cancelled before it started.
    Cancelled { at: DateTime<Utc>, uid: u32 },
}

/// A request to end a running job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cancel {
    pub at: DateTime<Utc>,
    pub uid: u32,
}

/// The end of a started job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct End {
    pub at: DateTime<Utc>,
    pub how: Ending,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
    /// The script did not run at all.
    NotStarted {
        error: String,
    },
    /// The supervisor left no result: it was killed, or the host went down.
    #[serde(rename = "vanished")]
    Lost,
}

/// The status of a job, as seen from this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    Queued,
    Running,
    /// Started on another host, where its processes are visible.
    Elsewhere,
    /// No process is left, but no result was written.
    Lost,
    Over,
}

/// All records of one job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    pub record: JobRecord,
    pub claim: Option<Claim>,
    pub cancel: Option<Cancel>,
    pub end: Option<End>,
}

impl Job {
    pub fn id(&self) -> JobId {
        JobId::local(self.record.number)
    }

    /// True if the job has ended or will never start.
    pub fn is_over(&self) -> bool {
        self.ended_at().is_some()
    }

    /// The supervisor, its host and its start.
    pub fn supervisor(&self) -> Option<(ProcessId, &Host, DateTime<Utc>)> {
        match &self.claim {
            Some(Claim::Supervisor { process, host, at }) => Some((*process, host, *at)),
            Some(Claim::Cancelled { .. }) | None => None,
        }
    }

    pub fn ended_at(&self) -> Option<DateTime<Utc>> {
        match (&self.end, &self.claim) {
            (Some(end), _) => Some(end.at),
            (None, Some(Claim::Cancelled { at, .. })) => Some(*at),
            (None, _) => None,
        }
    }

    /// The neutral report, with Slurm's words where readers know them.
    pub fn report(&self, status: JobStatus, now: DateTime<Utc>) -> JobReport {
        let (phase, word, exit_code) = self.outcome(status);
        let started_at = self.supervisor().map(|(.., at)| at);
        let is_lost = status == JobStatus::Lost;
        let ended_at = self.ended_at().or(is_lost.then_some(now));
        JobReport {
            id: self.id(),
            name: self.record.job_name.clone(),
            phase,
            pending_reason: (phase == Phase::Queued).then(|| "Resources".to_owned()),
            submitted_at: Some(self.record.submitted_at),
            facts: JobFacts {
                slurm_state: Some(word.into()),
                started_at,
                ended_at,
                node_list: self
                    .supervisor()
                    .map(|(_, host, _)| host.name.as_str().into()),
                elapsed_s: started_at
                    .map(|start| (ended_at.unwrap_or(now) - start).num_seconds().max(0)),
                ..JobFacts::default()
            }
            .with_exit_code(exit_code.as_deref()),
            tag: Some(JobTag {
                project: self.record.project.clone(),
                submission_id: self.record.submission_id.clone(),
            }),
            has_submit_line: false,
        }
    }

    /// The phase, Slurm's word for it, and the exit code.
    fn outcome(&self, status: JobStatus) -> (Phase, String, Option<String>) {
        match status {
            JobStatus::Queued => return (Phase::Queued, "PENDING".to_owned(), None),
            JobStatus::Running | JobStatus::Elsewhere => {
                return (Phase::Running, "RUNNING".to_owned(), None);
            }
            JobStatus::Lost | JobStatus::Over => {}
        }
        let (how, cancelled_by) = match (&self.end, &self.claim) {
            (None, Some(Claim::Cancelled { uid, .. })) => (&Ending::Exited { code: 0 }, Some(*uid)),
            (end, _) => {
                let how = end.as_ref().map_or(&Ending::Lost, |end| &end.how);
                // A request after the end had no effect.
                let end = self.ended_at();
                let request = self.cancel.as_ref();
                let request = request.filter(|request| end.is_none_or(|end| request.at <= end));
                (how, request.map(|request| request.uid))
            }
        };
        let failed = |reason| (Phase::Failed(reason), "FAILED");
        let ((phase, word), code) = match how {
            Ending::Exited { code: 0 } => ((Phase::Completed, "COMPLETED"), Some("0:0".to_owned())),
            Ending::Exited { code } => (failed(Reason::ExitCode), Some(format!("{code}:0"))),
            Ending::Signalled { signal } => (failed(Reason::ExitCode), Some(format!("0:{signal}"))),
            Ending::NotStarted { .. } => (failed(Reason::LaunchFailed), Some("0:53".to_owned())),
            Ending::Lost => ((Phase::Failed(Reason::NodeFail), "NODE_FAIL"), None),
        };
        match cancelled_by {
            // Slurm's word for a job that a person cancelled; without `by` it means a failed controller.
            Some(uid) => (
                Phase::Failed(Reason::Cancelled),
                format!("CANCELLED by {uid}"),
                code,
            ),
            None => (phase, word.to_owned(), code),
        }
    }
}
