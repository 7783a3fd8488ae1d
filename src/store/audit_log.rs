//! The audit log: JSON lines, append only, one event each.
//!
//! Every event goes through here. None is dropped: a failed write is an error.

pub mod archive;
mod reading;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use chrono::{DateTime, SecondsFormat, Utc};
use serde_json::{Map, Value};

pub use reading::{Contents, OtherStudies, Record, newest, parse, project_of, read, text};

use crate::base::durable;
use crate::base::regular::{self, FileError};
use crate::base::words::words;
use crate::model::job::JobId;
use crate::model::state::columns::{self, COLUMNS, Column, Kind};
use crate::model::state::{TaskKey, TaskRow, TaskStatus};
use crate::store::journal::Intent;

/// One event. The entries of `extra` become further keys.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub at: DateTime<Utc>,
    pub kind: EventKind,
    /// `None` for events of the whole study, whose subject, session and procedure are empty.
    pub key: Option<TaskKey>,
    pub job_id: Option<JobId>,
    pub old_status: Option<TaskStatus>,
    pub new_status: Option<TaskStatus>,
    pub detail: Option<String>,
    pub extra: Vec<(&'static str, serde_json::Value)>,
}

words! {
    /// The kinds of events.
    pub enum EventKind {
        Submitted = "submitted",
        StatusChange = "status_change",
        /// Same status, another reason.
        ReasonChange = "reason_change",
        Error = "error",
        RetryCleared = "retry_cleared",
        Adopted = "adopted",
        Released = "released",
        Cancelled = "cancelled",
        Paused = "paused",
        Resumed = "resumed",
        SafetyStop = "safety_stop",
        Pruned = "pruned",
        /// The state was rebuilt by `state repair`.
        Repaired = "repaired",
    }
}

impl Event {
    /// An event of the whole study.
    pub fn new(at: DateTime<Utc>, kind: EventKind) -> Self {
        Self {
            at,
            kind,
            key: None,
            job_id: None,
            old_status: None,
            new_status: None,
            detail: None,
            extra: Vec::new(),
        }
    }

    /// An event with all values of a row.
    pub fn of(row: &TaskRow, at: DateTime<Utc>, kind: EventKind) -> Self {
        Self {
            key: Some(row.key.clone()),
            job_id: row.job_id.clone(),
            old_status: Some(row.status),
            extra: extras_of(row),
            ..Self::new(at, kind)
        }
    }
}

/// The audit log, open for the events of one command.
#[derive(Debug)]
pub struct AuditLog {
    path: PathBuf,
    file: File,
    run_id: String,
}

impl AuditLog {
    /// Opens the log for appending. Creates it and its directory if needed.
    pub fn open(path: &Path, run_id: &str) -> Result<Self, FileError> {
        Ok(Self {
            path: path.to_owned(),
            file: open(path).map_err(FileError::of("write", path))?,
            run_id: run_id.to_owned(),
        })
    }

    /// Appends events in one write and syncs them, so that after a power cut no row exists without its event.
    pub fn append(&mut self, events: &[Event]) -> Result<(), FileError> {
        self.append_unsynced(events)?;
        match events.is_empty() {
            true => Ok(()),
            false => self.sync(),
        }
    }

    /// Appends events; [`Self::sync`] syncs them later.
    pub fn append_unsynced(&mut self, events: &[Event]) -> Result<(), FileError> {
        let written = self.write(events);
        written.map_err(FileError::of("write", &self.path))
    }

    pub fn sync(&mut self) -> Result<(), FileError> {
        let synced = self.file.sync_data();
        synced.map_err(FileError::of("write", &self.path))
    }

    fn write(&mut self, events: &[Event]) -> io::Result<()> {
        if events.is_empty() {
            return Ok(());
        }
        let mut lines = Vec::new();
        // `clean` replaced the log, or it was moved away.
        if !self.is_in_place()? {
            self.file = open(&self.path)?;
        }
        // A process that died while writing must not spoil the line of the next one.
        if self.ends_within_line()? {
            lines.push(b'\n');
        }
        for event in events {
            // With spaces, as the Python program wrote it: sites search the log with `grep`.
            let line = self.line(event).into_iter();
            let pairs = line.map(|(key, value)| format!("{}: {value}", Value::from(key)));
            writeln!(lines, "{{{}}}", Vec::from_iter(pairs).join(", "))?;
        }
        self.file.write_all(&lines)
    }

    /// True if the path still leads to the open file.
    fn is_in_place(&self) -> io::Result<bool> {
        let open = regular::identity(&self.file.metadata()?);
        let now = regular::if_exists(self.path.metadata())?;
        Ok(now.is_some_and(|now| regular::identity(&now) == open))
    }

    fn ends_within_line(&mut self) -> io::Result<bool> {
        if self.file.metadata()?.len() == 0 {
            return Ok(false);
        }
        let mut last = [0];
        self.file.seek(SeekFrom::End(-1))?;
        self.file.read_exact(&mut last)?;
        Ok(last != *b"\n")
    }

    /// The keys have the order of the Python program, which readers may rely on.
    fn line(&self, event: &Event) -> Map<String, Value> {
        let key = event.key.as_ref();
        let detail = event.detail.as_deref();
        let texts = [
            ("timestamp", Some(&*timestamp(event.at))),
            ("event", Some(event.kind.as_str())),
            ("subject", Some(key.map_or("", |key| &key.subject))),
            ("session", Some(key.map_or("", |key| &key.session))),
            ("procedure", Some(key.map_or("", |key| &key.procedure))),
            ("job_id", event.job_id.as_ref().map(|id| id.as_str())),
            ("old_status", event.old_status.map(TaskStatus::as_str)),
            ("new_status", event.new_status.map(TaskStatus::as_str)),
            ("detail", detail.filter(|detail| !detail.is_empty())),
        ];
        let texts = texts.into_iter();
        let mut line: Map<String, Value> = texts
            .filter_map(|(key, value)| Some((key.to_owned(), value?.into())))
            .collect();
        for (key, value) in &event.extra {
            // Extra values must not replace the event's own.
            line.entry(*key).or_insert_with(|| value.clone());
        }
        line.insert("run_id".to_owned(), Value::from(self.run_id.as_str()));
        line
    }
}

fn open(path: &Path) -> io::Result<File> {
    durable::make_directory_of(path)?;
    durable::refuse_foreign(path, MARK)?;
    // Also read: whether the last line is whole.
    let file = regular::open_for_appending(path)?;
    regular::require_regular(&file)?;
    Ok(file)
}

/// What each event begins with.
const MARK: &str = "{\"timestamp\"";

/// `2026-03-01T04:05:06.000007+00:00`
fn timestamp(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, false)
}

/// Columns that events have under other keys, or that follow from others.
const ELSEWHERE: [&str; 7] = [
    "subject",
    "session",
    "procedure",
    "status",
    "job_id",
    "job_name",
    "updated_at",
];

/// The values of a row except task, job and status.
pub fn extras_of(row: &TaskRow) -> Vec<(&'static str, Value)> {
    logged()
        .filter_map(|column| Some((column.name, to_json(column.kind, (column.get)(row)?)?)))
        .collect()
}

/// The values of an attempt that is being submitted.
pub fn extras_of_intent(intent: &Intent) -> Vec<(&'static str, Value)> {
    let mut extras = extras_of(&intent.row());
    extras.retain(|(name, _)| *name != "reason");
    extras
}

/// Fills the values of an event into its row and keeps the others, except `missing_since`, which
/// becomes null again once the job is found.
pub fn fill(row: &mut TaskRow, fields: &Map<String, Value>) {
    row.missing_since = None;
    // A reason is valid only together with its status.
    for column in logged().filter(|column| column.kind != Kind::Reason) {
        if let Some(json) = fields.get(column.name)
            && let Some(value) = from_json(column.kind, json)
        {
            (column.set)(row, &value);
        }
    }
}

fn logged() -> impl Iterator<Item = &'static Column> {
    COLUMNS
        .iter()
        .filter(|column| !ELSEWHERE.contains(&column.name))
}

fn to_json(kind: Kind, value: columns::Value<'_>) -> Option<Value> {
    match kind {
        Kind::Time => value.time().map(|at| timestamp(at).into()),
        Kind::Int32 | Kind::Int64 => value.number().map(Value::from),
        Kind::Flag => value.flag().map(Value::from),
        Kind::Json => serde_json::from_str(value.text()?).ok(),
        _ => value.text().map(Value::from),
    }
}

fn from_json(kind: Kind, json: &Value) -> Option<columns::Value<'_>> {
    match kind {
        Kind::Time => json.as_str().and_then(parse_time).map(columns::Value::Time),
        Kind::Int32 | Kind::Int64 => json.as_i64().map(columns::Value::Number),
        Kind::Flag => json.as_bool().map(columns::Value::Flag),
        Kind::Json => Some(columns::Value::Text(json.to_string().into())),
        _ => json.as_str().map(|text| columns::Value::Text(text.into())),
    }
}

pub(super) fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text)
        .ok()
        .map(|time| time.with_timezone(&Utc))
}

#[cfg(test)]
mod tests;
