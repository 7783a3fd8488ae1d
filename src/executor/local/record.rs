//! The local executor's directory: a few small files per job, each written once and never changed.
//!
//! | file | written by | holds |
//! |---|---|---|
//! | `7.job` | submit | [`JobRecord`] as one JSON line, then environment and script as they were |
//! | `7.claim` | the job's supervisor, or cancel | [`Claim`]: who took it from the queue |
//! | `7.cancel` | cancel | [`Cancel`]: that its end was asked for |
//! | `7.end` | the supervisor, or who finds it gone | [`End`] |
//! | `7.script` | the supervisor | what the interpreter reads |
//! | `finished.jsonl` | [`Records::compact`] | [`Job`]s that have ended, one per line |
//!
//! Every file appears whole, under its name, or not at all (written, synced, linked), and the first to
//! write it wins. So two processes that do the same at the same time do it once.
#![expect(
    clippy::disallowed_methods,
    reason = "lists the directory of its own records"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use super::files::Written;
use super::files::{append, damaged, io_error, write_once};
use super::job::{Cancel, Claim, End, Job, JobRecord, Payload};
use crate::base::durable::sync_directory_of;
use crate::executor::ExecutorError;

const FINISHED: &str = "finished.jsonl";

/// Reads and writes the directory, and remembers what it read.
#[derive(Debug)]
pub struct Records {
    dir: PathBuf,
    live: BTreeMap<u64, Job>,
    finished: BTreeMap<u64, Job>,
    /// How much of [`FINISHED`] has been read, in bytes.
    finished_len: u64,
    highest: u64,
    created: bool,
}

impl Records {
    pub fn at(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            live: BTreeMap::new(),
            finished: BTreeMap::new(),
            finished_len: 0,
            highest: 0,
            created: false,
        }
    }

    /// Jobs that are queued, run, or ended lately, in order of submission.
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

    /// Makes the directory, once.
    pub fn create(&mut self) -> Result<(), ExecutorError> {
        if !self.created {
            std::fs::create_dir_all(&self.dir)
                .and_then(|()| sync_directory_of(&self.dir))
                .map_err(io_error("make", &self.dir))?;
            self.created = true;
        }
        Ok(())
    }

    /// Reads everything anew. A missing directory holds no jobs; a file that cannot be read or
    /// understood is an error, never an absent job.
    pub fn refresh(&mut self) -> Result<(), ExecutorError> {
        let mut numbers = BTreeSet::new();
        match std::fs::read_dir(&self.dir) {
            Ok(entries) => {
                for entry in entries {
                    let name = entry.map_err(io_error("list", &self.dir))?.file_name();
                    let Some((number, kind)) = name.to_str().and_then(|n| n.split_once('.')) else {
                        continue;
                    };
                    let Ok(number) = number.parse() else { continue };
                    self.highest = self.highest.max(number);
                    if kind == "job" {
                        numbers.insert(number);
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error("list", &self.dir)(error)),
        }
        let mut live = BTreeMap::new();
        for number in numbers.difference(&self.finished.keys().copied().collect()) {
            if let Some(job) = self.read_job(*number)? {
                live.insert(*number, job);
            }
        }
        self.live = live;
        // Read last: a job that is moved to the list meanwhile is then in one of the two.
        self.read_finished()?;
        let finished = &self.finished;
        self.live.retain(|number, _| !finished.contains_key(number));
        Ok(())
    }

    /// Reads what may have changed of one job.
    pub fn reload(&mut self, number: u64) -> Result<(), ExecutorError> {
        if let Some(job) = self.read_job(number)? {
            self.live.insert(number, job);
        }
        Ok(())
    }

    /// Reads one job's record, environment and script.
    pub fn payload(&self, number: u64) -> Result<(JobRecord, Payload), ExecutorError> {
        let path = self.file(number, "job");
        let file = File::open(&path).map_err(io_error("read", &path))?;
        let mut reader = BufReader::new(file);
        let header: Header = read_header(&mut reader, &path)?;
        let mut bytes = Vec::new();
        reader
            .read_to_end(&mut bytes)
            .map_err(io_error("read", &path))?;
        let (environment, script) = bytes
            .split_at_checked(header.environment_len)
            .ok_or_else(|| damaged(&path, "it is cut"))?;
        let environment = environment
            .split(|byte| *byte == 0)
            .filter_map(|variable| {
                let equals = variable.iter().position(|byte| *byte == b'=')?;
                let (name, value) = variable.split_at_checked(equals)?;
                let value = value.get(1..)?;
                Some((
                    OsString::from_vec(name.to_vec()),
                    OsString::from_vec(value.to_vec()),
                ))
            })
            .collect();
        let payload = Payload {
            environment,
            script: script.to_vec(),
        };
        Ok((header.record, payload))
    }

    /// Adds a job under the next free number: all of it, or nothing. `make` gets the number.
    pub fn add(
        &mut self,
        payload: &Payload,
        make: impl Fn(u64) -> JobRecord,
    ) -> Result<(u64, Written), ExecutorError> {
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
            let written = write_once(&path, &bytes, 0o600).map_err(io_error("write", &path))?;
            self.highest = number;
            if !matches!(written, Written::Taken) {
                let job = Job {
                    record: header.record,
                    claim: None,
                    cancel: None,
                    end: None,
                };
                self.live.insert(number, job);
                return Ok((number, written));
            }
        }
    }

    /// Takes a job from the queue. False if somebody else did.
    pub fn claim(&self, number: u64, claim: &Claim) -> Result<bool, ExecutorError> {
        self.write(number, "claim", claim)
    }

    /// Asks for the end of a running job.
    pub fn ask_cancel(&self, number: u64, cancel: &Cancel) -> Result<bool, ExecutorError> {
        self.write(number, "cancel", cancel)
    }

    /// True if the end of the job was asked for.
    pub fn is_cancelled(&self, number: u64) -> Result<bool, ExecutorError> {
        let path = self.file(number, "cancel");
        path.try_exists().map_err(io_error("read", &path))
    }

    /// Writes how a job ended, unless that is known.
    pub fn end(&self, number: u64, end: &End) -> Result<bool, ExecutorError> {
        self.write(number, "end", end)
    }

    /// Moves jobs that are over to the list, so that reading stays quick however many there were.
    pub fn compact(&mut self, from: usize) -> Result<(), ExecutorError> {
        let over: Vec<Job> = self.live().filter(|job| job.is_over()).cloned().collect();
        if over.len() < from {
            return Ok(());
        }
        let path = self.dir.join(FINISHED);
        let mut bytes = Vec::new();
        for job in &over {
            bytes.extend(to_line(job, &path)?);
        }
        append(&path, &bytes).map_err(io_error("write", &path))?;
        for job in over {
            // The list counts from now on: what cannot be removed is only litter. The job file
            // goes last, so that the number is never half there.
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
        match write_once(&path, &bytes, 0o644).map_err(io_error("write", &path))? {
            Written::Yes | Written::Unsynced(_) => Ok(true),
            Written::Taken => Ok(false),
        }
    }

    fn read_job(&self, number: u64) -> Result<Option<Job>, ExecutorError> {
        let path = self.file(number, "job");
        let header: Header = match File::open(&path) {
            Ok(file) => read_header(&mut BufReader::new(file), &path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read", &path)(error)),
        };
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
        match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| damaged(&path, &error.to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", &path)(error)),
        }
    }

    /// Reads what was added to the list. A line that is cut or doubled is no loss: the job's own
    /// files are removed only after its line is safe.
    fn read_finished(&mut self) -> Result<(), ExecutorError> {
        let path = self.dir.join(FINISHED);
        let mut file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(io_error("read", &path)(error)),
        };
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.finished_len))
            .and_then(|_| file.read_to_end(&mut bytes))
            .map_err(io_error("read", &path))?;
        let whole = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1);
        bytes.truncate(whole);
        for line in bytes.split(|byte| *byte == b'\n') {
            if let Ok(job) = serde_json::from_slice::<Job>(line) {
                self.highest = self.highest.max(job.record.number);
                self.finished.entry(job.record.number).or_insert(job);
            }
        }
        self.finished_len += whole as u64;
        Ok(())
    }
}

/// Is the first line of a job file.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// In bytes, right after the line; the script is the rest.
    environment_len: usize,
    #[serde(flatten)]
    record: JobRecord,
}

fn read_header(reader: &mut impl io::BufRead, path: &Path) -> Result<Header, ExecutorError> {
    let mut line = Vec::new();
    reader
        .read_until(b'\n', &mut line)
        .map_err(io_error("read", path))?;
    serde_json::from_slice(&line).map_err(|error| damaged(path, &error.to_string()))
}

fn to_line(value: &impl Serialize, path: &Path) -> Result<Vec<u8>, ExecutorError> {
    let mut line =
        serde_json::to_vec(value).map_err(|error| io_error("write", path)(error.into()))?;
    line.push(b'\n');
    Ok(line)
}

#[cfg(test)]
mod tests;
