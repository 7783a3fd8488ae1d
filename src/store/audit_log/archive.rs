//! Archives of old events beside the log, compressed, one per month: `<stem>.<year>-<month>.jsonl.gz`.
//!
//! The archives are part of the log: [`super::read`] reads them too. An event is synced in its archive
//! before it is removed from the log; a crash in between leaves it in both, and readers count it once.
#![expect(
    clippy::disallowed_methods,
    reason = "lists the archives in the directory of the log"
)]

use std::collections::{BTreeMap, HashSet};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use chrono::{DateTime, NaiveDate, Utc};
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde_json::Value;

use super::parse_time;
use crate::base::durable;
use crate::base::regular::{if_exists, read_regular};
use crate::store::state_file::StateError;

/// A log with the old events to archive.
#[derive(Debug)]
pub struct OldEvents {
    /// The log itself, links followed.
    log: PathBuf,
    before: Vec<u8>,
    /// The lines that stay in the log.
    kept: Vec<u8>,
    /// Lines by month, `2026-03`.
    months: BTreeMap<String, Vec<Vec<u8>>>,
}

/// The part of the log that goes to one archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Archived {
    pub path: PathBuf,
    pub events: usize,
    /// Their size in the log.
    pub bytes: u64,
}

impl OldEvents {
    /// Reads a log and selects the events before a point in time. Unreadable lines and events without
    /// time stay in the log. `None` if there is no log.
    pub fn find(log: &Path, before: DateTime<Utc>) -> Result<Option<Self>, StateError> {
        let read = StateError::io("read", log);
        let log = if_exists(std::fs::canonicalize(log)).map_err(&read)?;
        let Some(log) = log else { return Ok(None) };
        let bytes = read_regular(&log).map_err(&read)?;
        let mut kept = Vec::new();
        let mut months: BTreeMap<String, Vec<Vec<u8>>> = BTreeMap::new();
        for line in bytes.split_inclusive(|&byte| byte == b'\n') {
            // A last line without newline is still being written, or was cut.
            let at = time_of(line).filter(|at| line.ends_with(b"\n") && *at < before);
            match at {
                Some(at) => {
                    let month = at.format("%Y-%m").to_string();
                    months.entry(month).or_default().push(line.to_vec());
                }
                None => kept.extend_from_slice(line),
            }
        }
        Ok(Some(Self {
            log,
            before: bytes,
            kept,
            months,
        }))
    }

    pub fn archives(&self) -> Vec<Archived> {
        self.months
            .iter()
            .map(|(month, lines)| Archived {
                path: archive_of(&self.log, month),
                events: lines.len(),
                bytes: lines.iter().map(|line| line.len() as u64).sum(),
            })
            .collect()
    }

    /// Writes the archives, reads them back, and then removes their events from the log. `check` checks
    /// that the lock is still held.
    pub fn archive(&self, check: impl Fn() -> Result<(), StateError>) -> Result<(), StateError> {
        if self.months.is_empty() {
            return Ok(());
        }
        for (month, lines) in &self.months {
            self.add(&archive_of(&self.log, month), lines)?;
        }
        check()?;
        rewrite(&self.log, &self.before, &self.kept)
    }

    /// Adds the lines that are not in the archive yet.
    fn add(&self, path: &Path, lines: &[Vec<u8>]) -> Result<(), StateError> {
        let packed = durable::read(path)?;
        let mut text = match &packed {
            Some(packed) => unpack(packed).map_err(StateError::io("unpack", path))?,
            None => Vec::new(),
        };
        if !text.is_empty() && !durable::contains(&text, super::MARK.as_bytes()) {
            return Err(StateError::io("add to", path)(durable::foreign()));
        }
        let held = text.clone();
        let held: HashSet<&[u8]> = held.split_inclusive(|&byte| byte == b'\n').collect();
        let is_new = |line: &&Vec<u8>| !held.contains(line.as_slice());
        let new: Vec<&Vec<u8>> = lines.iter().filter(is_new).collect();
        if new.is_empty() {
            return Ok(());
        }
        if !text.is_empty() && !text.ends_with(b"\n") {
            text.push(b'\n');
        }
        text.extend(new.into_iter().flatten());
        let bytes = pack(&text).map_err(StateError::io("write", path))?;
        durable::replace(path, &bytes, packed.as_ref())?;
        if packed.is_none() {
            // The archive gets the log's permissions.
            let rights = self.log.metadata().map(|metadata| metadata.permissions());
            rights
                .and_then(|rights| std::fs::set_permissions(path, rights))
                .map_err(StateError::io("set the permissions of", path))?;
        }
        if read(path).is_ok_and(|back| back == text) {
            Ok(())
        } else {
            let source = io::Error::other("the contents differ from what was written");
            Err(StateError::io("read back", path)(source))
        }
    }
}

/// Replaces a log with the contents `before`.
pub(crate) fn rewrite(log: &Path, before: &Vec<u8>, after: &[u8]) -> Result<(), StateError> {
    let read = StateError::io("read", log);
    let mut old = durable::open_again(log).map_err(&read)?;
    durable::replace(log, after, Some(before))?;
    // If the lock does not work, another process may have written to the old file at the last moment.
    let mut late = Vec::new();
    old.seek(SeekFrom::Start(before.len() as u64))
        .and_then(|_| old.read_to_end(&mut late))
        .map_err(&read)?;
    if !late.is_empty() {
        let append = || {
            let mut log = std::fs::OpenOptions::new().append(true).open(log)?;
            log.write_all(&late)?;
            log.sync_all()
        };
        append().map_err(StateError::io("append to", log))?;
    }
    Ok(())
}

/// The archives of a log, oldest month first.
pub fn archives_of(log: &Path) -> io::Result<Vec<PathBuf>> {
    let log = std::fs::canonicalize(log).unwrap_or_else(|_| log.to_owned());
    let entries = log.parent().map(|dir| if_exists(std::fs::read_dir(dir)));
    let entries = entries.transpose()?.flatten();
    let mut found = Vec::new();
    for entry in entries.into_iter().flatten() {
        let name = entry?.file_name();
        // `scheduler_audit.2026-03.jsonl.gz`
        let mut parts = name.to_str().unwrap_or_default().rsplit('.');
        let month = parts.find(|part| {
            let date = NaiveDate::parse_from_str(&format!("{part}-01"), "%Y-%m-%d");
            date.is_ok() && part.len() == "2026-03".len()
        });
        let archive = month.map(|month| archive_of(&log, month));
        found.extend(archive.filter(|archive| archive.file_name() == Some(&name)));
    }
    found.sort();
    Ok(found)
}

pub(super) fn read(path: &Path) -> io::Result<Vec<u8>> {
    unpack(&read_regular(path)?)
}

/// `scheduler_audit.2026-03.jsonl.gz`
fn archive_of(log: &Path, month: &str) -> PathBuf {
    let mut name = log.file_stem().unwrap_or_default().to_owned();
    name.push(format!(".{month}"));
    if let Some(extension) = log.extension() {
        name.push(".");
        name.push(extension);
    }
    name.push(".gz");
    log.with_file_name(name)
}

fn time_of(line: &[u8]) -> Option<DateTime<Utc>> {
    let event: Value = serde_json::from_slice(line).ok()?;
    parse_time(event.get("timestamp")?.as_str()?)
}

pub(crate) fn pack(text: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text)?;
    encoder.finish()
}

pub(crate) fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    MultiGzDecoder::new(packed).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests;
