//! The audit log: JSON lines, append only, one event each.
//!
//! Every event goes through here. None is dropped: a failed write is an error.

pub mod archive;
mod facts;
mod other_studies;
pub(crate) mod purge;
mod reading;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use chrono::{DateTime, SecondsFormat, Utc};
use serde::Serialize as _;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Map, Value};

pub use facts::{extras_of, extras_of_intent, fill};
pub use other_studies::{OtherStudies, project_of, text};
pub use reading::{Contents, Record, newest, parse, read};

use crate::base::words::words;
use crate::base::{durable, regular};
use crate::model::job::JobId;
use crate::model::state::{TaskKey, TaskRow, TaskStatus};

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
    pub fn open(path: &Path, run_id: &str) -> Result<Self, (PathBuf, io::Error)> {
        Ok(Self {
            path: path.to_owned(),
            file: open(path).map_err(|error| (path.to_owned(), error))?,
            run_id: run_id.to_owned(),
        })
    }

    /// Appends events in one write and syncs them, so that after a power cut no row exists without its event.
    pub fn append(&mut self, events: &[Event]) -> Result<(), (PathBuf, io::Error)> {
        if events.is_empty() {
            return Ok(());
        }
        self.append_unsynced(events)?;
        self.sync()
    }

    /// Appends events; [`Self::sync`] syncs them later.
    pub fn append_unsynced(&mut self, events: &[Event]) -> Result<(), (PathBuf, io::Error)> {
        if events.is_empty() {
            return Ok(());
        }
        let written = self.write(events);
        written.map_err(|error| (self.path.clone(), error))
    }

    pub fn sync(&mut self) -> Result<(), (PathBuf, io::Error)> {
        let synced = self.file.sync_data();
        synced.map_err(|error| (self.path.clone(), error))
    }

    fn write(&mut self, events: &[Event]) -> io::Result<()> {
        let mut lines = Vec::new();
        if !self.is_in_place()? {
            // `clean` replaced the log, or it was moved away.
            self.file = open(&self.path)?;
        }
        // A process that died while writing must not spoil the line of the next one.
        if self.ends_within_line()? {
            lines.push(b'\n');
        }
        for event in events {
            let mut line = Serializer::with_formatter(&mut lines, Spaced);
            self.line(event).serialize(&mut line)?;
            lines.push(b'\n');
        }
        self.file.write_all(&lines)
    }

    /// True if the path still leads to the open file.
    fn is_in_place(&self) -> io::Result<bool> {
        let open = self.file.metadata()?;
        match self.path.metadata() {
            Ok(now) => Ok((open.dev(), open.ino()) == (now.dev(), now.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
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
        let mut line = Map::new();
        let mut put = |key: &str, value: &str| line.insert(key.to_owned(), Value::from(value));
        put("timestamp", &timestamp(event.at));
        put("event", event.kind.as_str());
        let key = event.key.as_ref();
        put("subject", key.map_or("", |key| &key.subject));
        put("session", key.map_or("", |key| &key.session));
        put("procedure", key.map_or("", |key| &key.procedure));
        if let Some(job_id) = &event.job_id {
            put("job_id", job_id.as_str());
        }
        if let Some(status) = event.old_status {
            put("old_status", status.as_str());
        }
        if let Some(status) = event.new_status {
            put("new_status", status.as_str());
        }
        if let Some(detail) = event.detail.as_deref().filter(|detail| !detail.is_empty()) {
            put("detail", detail);
        }
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
    // Also read: whether the last line is whole.
    let mut file = regular::open_for_appending(path)?;
    regular::require_regular(&file)?;
    if !is_log(&mut file)? {
        return Err(durable::foreign());
    }
    Ok(file)
}

/// What each event begins with.
const MARK: &[u8] = b"{\"timestamp\"";

/// True if a file is empty, or its beginning or end holds an event: a crash may have spoilt one of them.
fn is_log(file: &mut File) -> io::Result<bool> {
    const PART: u64 = 64 * 1024;
    let length = file.metadata()?.len();
    for from in [0, length.saturating_sub(PART)] {
        let mut part = Vec::new();
        file.seek(SeekFrom::Start(from))?;
        io::Read::by_ref(file).take(PART).read_to_end(&mut part)?;
        if part.is_empty() || durable::holds(&part, MARK) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// JSON with a space after each comma and colon, as the Python program wrote it: sites search the log with `grep`.
struct Spaced;

impl Formatter for Spaced {
    fn begin_array_value<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        to.write_all(if first { b"" } else { b", " })
    }

    fn begin_object_key<W: ?Sized + io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.begin_array_value(to, first)
    }

    fn begin_object_value<W: ?Sized + io::Write>(&mut self, to: &mut W) -> io::Result<()> {
        to.write_all(b": ")
    }
}

/// `2026-03-01T04:05:06.000007+00:00`
fn timestamp(at: DateTime<Utc>) -> String {
    at.to_rfc3339_opts(SecondsFormat::Micros, false)
}

#[cfg(test)]
mod tests {
    use chrono::TimeZone as _;

    use super::*;

    fn event() -> Event {
        Event {
            at: Utc.with_ymd_and_hms(2026, 3, 1, 4, 5, 6).unwrap()
                + chrono::TimeDelta::microseconds(7),
            kind: EventKind::StatusChange,
            key: Some(TaskKey::new("sub-0001", "ses-01", "qsiprep")),
            job_id: Some(JobId::new("12")),
            old_status: Some(TaskStatus::Running),
            new_status: Some(TaskStatus::Failed),
            detail: Some("exit code 1\nand \"more\"".to_owned()),
            extra: vec![("reason", Value::from("exit_code"))],
        }
    }

    fn study_event() -> Event {
        Event {
            kind: EventKind::SafetyStop,
            key: None,
            job_id: None,
            old_status: None,
            new_status: None,
            detail: Some(String::new()),
            extra: Vec::new(),
            ..event()
        }
    }

    #[test]
    fn c6_lines_have_the_order_and_the_spaces_of_the_python_program() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new/dir/audit.jsonl");
        let mut log = AuditLog::open(&path, "r1").unwrap();
        log.append(&[event(), study_event()]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            concat!(
                r#"{"timestamp": "2026-03-01T04:05:06.000007+00:00", "event": "status_change", "subject": "sub-0001", "session": "ses-01", "procedure": "qsiprep", "job_id": "12", "old_status": "running", "new_status": "failed", "detail": "exit code 1\nand \"more\"", "reason": "exit_code", "run_id": "r1"}"#,
                "\n",
                r#"{"timestamp": "2026-03-01T04:05:06.000007+00:00", "event": "safety_stop", "subject": "", "session": "", "procedure": "", "run_id": "r1"}"#,
                "\n",
            )
        );
    }

    #[test]
    fn a_cut_last_line_does_not_spoil_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        std::fs::write(&path, "{\"timestamp\":\"2026-0").unwrap();
        let mut log = AuditLog::open(&path, "r1").unwrap();
        log.append(&[event()]).unwrap();
        log.append(&[event()]).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        for line in &lines[1..] {
            serde_json::from_str::<Value>(line).unwrap();
        }
    }

    #[test]
    fn extras_do_not_replace_values_of_the_event() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let mut log = AuditLog::open(&path, "r1").unwrap();
        let mut event = event();
        event.extra = vec![("job_id", Value::from("99")), ("run_id", Value::from("x"))];
        log.append(&[event]).unwrap();
        let line: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(
            (&line["job_id"], &line["run_id"]),
            (&Value::from("12"), &Value::from("r1"))
        );
    }

    #[test]
    fn two_logs_append_to_one_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        std::thread::scope(|scope| {
            for run in 0..4 {
                let path = &path;
                scope.spawn(move || {
                    let mut log = AuditLog::open(path, &format!("r{run}")).unwrap();
                    for _ in 0..50 {
                        log.append(&[event(), event()]).unwrap();
                    }
                });
            }
        });
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().filter(|line| !line.is_empty());
        let events: Vec<Value> = lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        assert_eq!(events.len(), 400);
    }

    #[test]
    fn the_next_events_go_to_a_replaced_log() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.jsonl");
        let mut log = AuditLog::open(&path, "r1").unwrap();
        log.append(&[event()]).unwrap();
        std::fs::rename(&path, directory.path().join("moved")).unwrap();
        log.append(&[event()]).unwrap();
        std::fs::write(directory.path().join("new"), "").unwrap();
        std::fs::rename(directory.path().join("new"), &path).unwrap();
        log.append(&[event()]).unwrap();
        log.append(&[event()]).unwrap();
        assert_eq!(read(&path).unwrap().unwrap().records.len(), 2);
    }

    #[test]
    fn e9_nothing_is_appended_to_a_file_that_is_not_a_log() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        let text = "bids_root: /data\n".repeat(9000);
        std::fs::write(&path, &text).unwrap();
        assert!(AuditLog::open(&path, "r1").is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        // A damaged beginning is still a log.
        std::fs::write(
            &path,
            format!("{}\n{}\n", "\0".repeat(99), r#"{"timestamp": "x"}"#),
        )
        .unwrap();
        AuditLog::open(&path, "r1")
            .unwrap()
            .append(&[event()])
            .unwrap();
    }

    #[test]
    fn e10_a_log_must_be_a_regular_file() {
        let directory = tempfile::tempdir().unwrap();
        let pipe = directory.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for path in [&pipe, Path::new("/dev/full"), directory.path()] {
            let (named, _) = AuditLog::open(path, "r1").unwrap_err();
            assert_eq!(named, path);
        }
    }
}
