//! A local job as its files tell of it: plain values.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::process::{Host, ProcessId};
use crate::model::job::JobId;

/// Describes a job as it was asked for.
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
    /// The script's path; what runs is the copy made at submission.
    pub script: PathBuf,
    pub interpreter: Vec<String>,
    pub arguments: Vec<String>,
    /// What the scheduler adds to the environment.
    pub env: BTreeMap<String, String>,
    pub directory: PathBuf,
    /// Octal, as `/proc/self/status` shows it.
    pub umask: Option<String>,
    pub output: PathBuf,
    pub error: PathBuf,
}

/// Holds what a job needs besides its record, byte for byte.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Payload {
    /// The whole environment, the scheduler's variables included.
    pub environment: Vec<(OsString, OsString)>,
    pub script: Vec<u8>,
}

/// Says who took a job from the queue.
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

/// Says that the end of a running job was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cancel {
    pub at: DateTime<Utc>,
    pub uid: u32,
}

/// Says how a started job ended.
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
    /// Nothing of the script ran.
    NotStarted {
        error: String,
    },
    /// The supervisor left no result: killed, or the host went down.
    RemovedProcedures,
}

/// Holds all that is on record of one job.
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

    /// True if nothing more will happen to it.
    pub fn is_over(&self) -> bool {
        self.end.is_some() || matches!(self.claim, Some(Claim::Cancelled { .. }))
    }
}
