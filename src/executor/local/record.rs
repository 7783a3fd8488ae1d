//! The local executor's directory: a few small files per job, each written once and never changed.
//!
//! | file | written by | contents |
//! |---|---|---|
//! | `7.job` | submit | [`JobRecord`] as one JSON line, then environment and script |
//! | `7.claim` | the job's supervisor, or cancel | [`Claim`]: who took it from the queue |
//! | `7.cancel` | cancel | [`Cancel`]: the request to end it |
//! | `7.end` | the supervisor, or the first process that finds it missing | [`End`] |
//! | `7.script` | the supervisor | what the interpreter reads |
//! | `finished.jsonl` | [`Records::compact`] | ended [`Job`]s, one per line |
//!
//! Every file appears complete or not at all (written, synced, linked), and the first writer wins, so that
//! concurrent processes do everything only once.
#![expect(
    clippy::disallowed_methods,
    reason = "lists the directory of its own records"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::job::{Cancel, Claim, End, Job, JobRecord, Payload};
use crate::base::durable::{self, make_directory_of, sync_directory_of};
use crate::base::regular::{FileError, if_exists, open_for_appending};
use crate::executor::ExecutorError;

const FINISHED: &str = "finished.jsonl";

/// The directory of records, with a cache of what was read.
#[derive(Debug)]
pub struct Records {
    dir: PathBuf,
    live: BTreeMap<u64, Job>,
    finished: BTreeMap<u64, Job>,
    /// Bytes of [`FINISHED`] that have been read.
    finished_len: u64,
    highest: u64,
    is_read: bool,
}

impl Records {
    pub fn at(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            live: BTreeMap::new(),
            finished: BTreeMap::new(),
            finished_len: 0,
            highest: 0,
            is_read: false,
        }
    }

    /// Queued, running and recently ended jobs, in order of submission.
    pub fn live(&self) -> impl Iterator<Item = &Job> {
        self.live.values()
    }

    /// All jobs ever, in order of submission.
    pub fn all(&self) -> impl Iterator<Item = &Job> {
        self.finished.values().chain(self.live.values())
    }

    pub fn get(&self, number: u64) -> Option<&Job> {
        self.live
            .get(&number)
            .or_else(|| self.finished.get(&number))
    }

    pub fn log_dir(&self) -> PathBuf {
        self.dir.join("logs")
    }

    pub fn script_path(&self, number: u64) -> PathBuf {
        self.file(number, "script")
    }

    fn file(&self, number: u64, kind: &str) -> PathBuf {
        self.dir.join(format!("{number}.{kind}"))
    }

    /// Creates the directory.
    pub fn create(&self) -> Result<(), ExecutorError> {
        let made = make_directory_of(&self.dir.join(FINISHED));
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
        let mut numbers = BTreeSet::new();
        let list = || FileError::of("list", &self.dir);
        let entries = if_exists(std::fs::read_dir(&self.dir)).map_err(list())?;
        for entry in entries.into_iter().flatten() {
            let name = entry.map_err(list())?.file_name();
            let Some((number, kind)) = name.to_str().and_then(|n| n.split_once('.')) else {
                continue;
            };
            let Ok(number) = number.parse() else { continue };
            self.highest = self.highest.max(number);
            if kind == "job" {
                numbers.insert(number);
            }
        }
        let mut live = BTreeMap::new();
        for number in numbers.difference(&self.finished.keys().copied().collect()) {
            if let Some(job) = self.read_job(*number)? {
                live.insert(*number, job);
            }
        }
        self.live = live;
        // Read last, so that a job that moves to the list meanwhile is found in one of the two.
        self.read_finished()?;
        let finished = &self.finished;
        self.live.retain(|number, _| !finished.contains_key(number));
        self.is_read = true;
        Ok(())
    }

    /// Reads one job again.
    pub fn reload(&mut self, number: u64) -> Result<(), ExecutorError> {
        if let Some(job) = self.read_job(number)? {
            self.live.insert(number, job);
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
        self.read_finished()?;
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
                self.live.insert(number, job);
                return Ok((number, sync_directory_of(&path)));
            }
        }
    }

    /// Takes a job from the queue; false if another process did.
    pub fn claim(&self, number: u64, claim: &Claim) -> Result<bool, ExecutorError> {
        self.write(number, "claim", claim)
    }

    /// Requests the end of a running job.
    pub fn ask_cancel(&self, number: u64, cancel: &Cancel) -> Result<bool, ExecutorError> {
        self.write(number, "cancel", cancel)
    }

    pub fn is_cancelled(&self, number: u64) -> Result<bool, ExecutorError> {
        let path = self.file(number, "cancel");
        Ok(path.try_exists().map_err(FileError::of("read", &path))?)
    }

    /// Records the end of a job, unless it is already recorded.
    pub fn end(&self, number: u64, end: &End) -> Result<bool, ExecutorError> {
        self.write(number, "end", end)
    }

    /// Moves ended jobs to the list, so that reading stays fast.
    pub fn compact(&mut self, from: usize) -> Result<(), ExecutorError> {
        let over: Vec<Job> = self.live().filter(|job| job.is_over()).cloned().collect();
        if over.len() < from {
            return Ok(());
        }
        let path = self.dir.join(FINISHED);
        // The first line must not be appended to an unfinished one.
        let mut bytes = vec![b'\n'];
        for job in &over {
            bytes.extend(to_line(job, &path)?);
        }
        open_for_appending(&path)
            .and_then(|mut file| file.write_all(&bytes).and_then(|()| file.sync_all()))
            .and_then(|()| sync_directory_of(&path))
            .map_err(FileError::of("write", &path))?;
        for job in over {
            // The list counts from now on, so files that cannot be removed do no harm. The job file
            // is removed last, so that a number never has only some of its files.
            for kind in ["script", "cancel", "claim", "end", "job"] {
                let _ = std::fs::remove_file(self.file(job.record.number, kind));
            }
            self.live.remove(&job.record.number);
            self.finished.insert(job.record.number, job);
        }
        Ok(())
    }

    fn write(
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
        let bytes = durable::read(&path).map_err(FileError::of("read", &path))?;
        bytes
            .map(|bytes| serde_json::from_slice(&bytes))
            .transpose()
            .map_err(|error| damaged(&path, &error.to_string()))
    }

    /// Reads new lines of the list. A cut or repeated line loses nothing: the job's own files are
    /// removed only after its line is safe.
    fn read_finished(&mut self) -> Result<(), ExecutorError> {
        let path = self.dir.join(FINISHED);
        let file = if_exists(File::open(&path)).map_err(FileError::of("read", &path))?;
        let Some(mut file) = file else { return Ok(()) };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.finished_len))
            .and_then(|_| file.read_to_end(&mut bytes))
            .map_err(FileError::of("read", &path))?;
        let end = bytes.iter().rposition(|byte| *byte == b'\n');
        let complete = end.map_or(0, |at| at + 1);
        bytes.truncate(complete);
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Ok(job) = serde_json::from_slice::<Job>(line) {
                self.highest = self.highest.max(job.record.number);
                self.finished.entry(job.record.number).or_insert(job);
            }
        }
        self.finished_len += complete as u64;
        Ok(())
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
