//! The local executor's directory: a few small files per job, each written once and never changed.
//!
//! | file | written by | contents |
//! |---|---|---|
//! | `7.job` | submit | [`JobRecord`] as one JSON line, then environment and script |
//! | `7.claim` | the job's supervisor, or cancel | [`Claim`]: who took it from the queue |
//! | `7.cancel` | cancel | `Cancel`: the request to end it |
//! | `7.end` | the supervisor, or the first process that finds it missing | [`End`] |
//! | `7.script` | the supervisor | what the interpreter reads |
//! | `finished.jsonl` | version 1.0.0 | [`Job`]s that had ended, one per line; only read |
//!
//! Every file appears complete or not at all (written, synced, linked), and the first writer wins, so that
//! concurrent processes do everything only once.
#![expect(
    clippy::disallowed_methods,
    reason = "lists the directory of its own records"
)]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use itertools::Itertools as _;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::job::{Job, JobRecord, Payload};
use crate::base::durable::{self, make_directory_of, sync_directory_of};
use crate::base::regular::{FileError, if_exists};
use crate::executor::ExecutorError;

/// The files of a job besides its job file.
const OTHERS: [&str; 4] = ["script", "cancel", "claim", "end"];
const FINISHED: &str = "finished.jsonl";

/// The directory of records, with a cache of what was read.
#[derive(Debug)]
pub struct Records {
    dir: PathBuf,
    jobs: BTreeMap<u64, Job>,
    highest: u64,
    is_read: bool,
}

impl Records {
    pub fn at(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            jobs: BTreeMap::new(),
            highest: 0,
            is_read: false,
        }
    }

    /// All jobs, in order of submission.
    pub fn all(&self) -> impl Iterator<Item = &Job> {
        self.jobs.values()
    }

    pub fn get(&self, number: u64) -> Option<&Job> {
        self.jobs.get(&number)
    }

    pub fn file(&self, number: u64, kind: &str) -> PathBuf {
        self.dir.join(format!("{number}.{kind}"))
    }

    /// Creates the directory.
    pub fn create(&self) -> Result<(), ExecutorError> {
        let made = make_directory_of(&self.file(0, "job"));
        Ok(made.map_err(FileError::of("make", &self.dir))?)
    }

    /// Reads everything, once.
    pub fn load(&mut self) -> Result<(), ExecutorError> {
        match self.is_read {
            true => Ok(()),
            false => self.refresh(),
        }
    }

    /// Reads everything again. A missing directory has no jobs; an unreadable or invalid file is an error,
    /// never a missing job.
    pub fn refresh(&mut self) -> Result<(), ExecutorError> {
        let list = || FileError::of("list", &self.dir);
        let entries = if_exists(std::fs::read_dir(&self.dir)).map_err(list())?;
        let mut jobs = BTreeMap::new();
        for entry in entries.into_iter().flatten() {
            let name = entry.map_err(list())?.file_name();
            let Some((number, kind)) = name.to_str().and_then(|n| n.split_once('.')) else {
                continue;
            };
            let Ok(number) = number.parse() else { continue };
            self.highest = self.highest.max(number);
            if kind == "job"
                && let Some(job) = self.read_job(number)?
            {
                jobs.insert(number, job);
            }
        }
        // Rows may still need them, and their numbers are not used again. The list comes first: if version 1.0.0 was
        // killed while it moved a job there, the job file may be left alone.
        let finished = durable::read(&self.dir.join(FINISHED))?.unwrap_or_default();
        let finished = finished.split(|byte| *byte == b'\n');
        for job in finished.filter_map(|line| serde_json::from_slice::<Job>(line).ok()) {
            self.highest = self.highest.max(job.record.number);
            jobs.insert(job.record.number, job);
        }
        self.jobs = jobs;
        self.is_read = true;
        Ok(())
    }

    /// Reads one job again.
    pub fn reload(&mut self, number: u64) -> Result<(), ExecutorError> {
        if let Some(job) = self.read_job(number)? {
            self.jobs.insert(number, job);
        }
        Ok(())
    }

    /// Reads one job's record, environment and script.
    pub fn payload(&self, number: u64) -> Result<(JobRecord, Payload), ExecutorError> {
        let path = self.file(number, "job");
        let file = File::open(&path).map_err(FileError::of("read", &path))?;
        let mut reader = BufReader::new(file);
        let header: Header = read_header(&mut reader, &path)?;
        let mut bytes = Vec::new();
        let read = reader.read_to_end(&mut bytes);
        read.map_err(FileError::of("read", &path))?;
        let parts = bytes.split_at_checked(header.environment_len);
        let (environment, script) = parts.ok_or_else(|| damaged(&path, "it is truncated"))?;
        let environment = environment
            .split(|byte| *byte == 0)
            .filter_map(|variable| {
                let at = variable.iter().position(|byte| *byte == b'=')?;
                let text = |part: &[u8]| OsStr::from_bytes(part).to_owned();
                Some((text(variable.get(..at)?), text(variable.get(at + 1..)?)))
            })
            .collect();
        let payload = Payload {
            environment,
            script: script.to_vec(),
        };
        Ok((header.record, payload))
    }

    /// Adds a job with the next free number, completely or not at all. `make` gets the number. Also returns whether
    /// the job certainly survives a power cut.
    pub fn add(
        &mut self,
        payload: &Payload,
        make: impl Fn(u64) -> JobRecord,
    ) -> Result<(u64, io::Result<()>), ExecutorError> {
        let mut environment = Vec::new();
        for (name, value) in &payload.environment {
            environment.extend_from_slice(name.as_bytes());
            environment.push(b'=');
            environment.extend_from_slice(value.as_bytes());
            environment.push(0);
        }
        loop {
            let number = self.highest + 1;
            let record = make(number);
            let path = self.file(number, "job");
            let header = Header {
                environment_len: environment.len(),
                record,
            };
            let mut bytes = to_line(&header, &path)?;
            bytes.extend_from_slice(&environment);
            bytes.extend_from_slice(&payload.script);
            let is_new = durable::create(&path, &bytes, 0o600);
            let is_new = is_new.map_err(FileError::of("write", &path))?;
            self.highest = number;
            if is_new {
                let job = Job {
                    record: header.record,
                    claim: None,
                    cancel: None,
                    end: None,
                };
                self.jobs.insert(number, job);
                return Ok((number, sync_directory_of(&path)));
            }
        }
    }

    /// Removes the files of jobs that ended before this time, unless they are needed. The last number stays, so that
    /// none is used twice. The job files go first, and for good: a job file alone would be a job in the queue, and files
    /// without a job file are ignored.
    pub fn remove_old(&self, before: DateTime<Utc>, is_needed: impl Fn(&Job) -> bool) {
        let is_old = |(number, job): &(&u64, &Job)| {
            job.ended_at().is_some_and(|at| at < before)
                && **number != self.highest
                && !is_needed(job)
        };
        let remove = |number: u64, kind: &str| std::fs::remove_file(self.file(number, kind));
        let old = self.jobs.iter().filter(is_old).map(|(number, _)| *number);
        let removed: Vec<u64> = old
            .filter(|number| remove(*number, "job").is_ok())
            .collect();
        if !removed.is_empty() && sync_directory_of(&self.file(0, "job")).is_ok() {
            for (number, kind) in removed.into_iter().cartesian_product(OTHERS) {
                let _ = remove(number, kind);
            }
        }
    }

    /// Writes a file of a job; false if it exists.
    pub fn write(
        &self,
        number: u64,
        kind: &str,
        value: &impl Serialize,
    ) -> Result<bool, ExecutorError> {
        let path = self.file(number, kind);
        let bytes = to_line(value, &path)?;
        let is_new = durable::create(&path, &bytes, 0o644);
        let is_new = is_new.map_err(FileError::of("write", &path))?;
        // Without it, the file may not survive a power cut, and neither do the processes.
        let _ = sync_directory_of(&path);
        Ok(is_new)
    }

    fn read_job(&self, number: u64) -> Result<Option<Job>, ExecutorError> {
        let path = self.file(number, "job");
        let file = if_exists(File::open(&path)).map_err(FileError::of("read", &path))?;
        let Some(file) = file else { return Ok(None) };
        let header = read_header(&mut BufReader::new(file), &path)?;
        Ok(Some(Job {
            record: header.record,
            claim: self.read(number, "claim")?,
            cancel: self.read(number, "cancel")?,
            end: self.read(number, "end")?,
        }))
    }

    fn read<T: DeserializeOwned>(
        &self,
        number: u64,
        kind: &str,
    ) -> Result<Option<T>, ExecutorError> {
        let path = self.file(number, kind);
        durable::read(&path)?
            .map(|bytes| serde_json::from_slice(&bytes))
            .transpose()
            .map_err(|error| damaged(&path, &error.to_string()))
    }
}

/// The first line of a job file.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// Bytes of the environment after this line; the rest is the script.
    environment_len: usize,
    #[serde(flatten)]
    record: JobRecord,
}

fn read_header(reader: &mut impl io::BufRead, path: &Path) -> Result<Header, ExecutorError> {
    let mut line = Vec::new();
    let read = reader.read_until(b'\n', &mut line);
    read.map_err(FileError::of("read", path))?;
    serde_json::from_slice(&line).map_err(|error| damaged(path, &error.to_string()))
}

fn to_line(value: &impl Serialize, path: &Path) -> Result<Vec<u8>, ExecutorError> {
    let mut line =
        serde_json::to_vec(value).map_err(|error| FileError::of("write", path)(error.into()))?;
    line.push(b'\n');
    Ok(line)
}

fn damaged(path: &Path, what: &str) -> ExecutorError {
    let problem = format!("{what}; if its job has certainly ended, move this file away");
    FileError::of("understand", path)(io::Error::other(problem)).into()
}

#[cfg(test)]
mod tests;
