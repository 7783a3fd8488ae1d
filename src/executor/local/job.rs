//! The records of a local job: plain values.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::process::{Host, ProcessId};
use crate::model::job::JobId;

/// A job as requested.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct JobRecord {
    pub number: u64,
    pub job_name: String,
    pub submission_id: String,
    pub project: String,
    pub subject: String,
    pub session: String,
    pub procedure: String,
    pub attempt: i32,
    pub submitted_at: DateTime<Utc>,
    /// The script's path; the job runs a copy made at submission.
    pub script: PathBuf,
    pub interpreter: Vec<String>,
    pub arguments: Vec<String>,
    /// The scheduler's variables.
    pub env: BTreeMap<String, String>,
    pub directory: PathBuf,
    /// Octal, as `/proc/self/status` shows it.
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
        self.end.is_some() || matches!(self.claim, Some(Claim::Cancelled { .. }))
    }
}
