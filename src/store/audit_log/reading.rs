//! Reads the log back.
//!
//! Also reads lines of the Python program. Counts and skips lines that a crash cut.
//!
//! Studies may share a log: two configurations in one directory do unless they set `log_file`. A
//! submission contains its study. Later events contain their submission, and all events of one invocation
//! belong to one study. Events without study are kept, since they may belong to this one.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::{EventKind, archive, parse_time};
use crate::base::durable;
use crate::base::regular::open_regular;
use crate::model::job::{JobId, JobTag, is_same_study};
use crate::model::state::{TaskKey, TaskStatus};

/// One event of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub at: DateTime<Utc>,
    pub kind: EventKind,
    pub key: TaskKey,
    pub job_id: Option<JobId>,
    pub old_status: Option<TaskStatus>,
    pub new_status: Option<TaskStatus>,
    /// All keys of the line.
    pub fields: Map<String, Value>,
}

/// The contents of a log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Contents {
    /// Those of the archives first, then in the order of the file. Without events of the whole study
    /// and of unknown kinds.
    pub records: Vec<Record>,
    /// Numbers of unreadable lines of the log itself, from 1.
    pub bad_lines: Vec<usize>,
    /// Unreadable archives, with the error.
    pub bad_archives: Vec<(PathBuf, String)>,
}

/// Reads a log and its archives; `None` if there is neither.
pub fn read(path: &Path) -> io::Result<Option<Contents>> {
    // Events move from the log to an archive, so in this order none is missed.
    let log = durable::read(path)?;
    let archives = archive::archives_of(path)?;
    if log.is_none() && archives.is_empty() {
        return Ok(None);
    }
    let mut contents = Contents::default();
    let mut texts = Vec::new();
    for path in archives {
        match archive::read(&path) {
            Ok(text) => texts.push(text),
            Err(error) => contents.bad_archives.push((path, error.to_string())),
        }
    }
    let mut archived: HashSet<&[u8]> = HashSet::new();
    for text in &texts {
        // Damaged lines stay in the log, so there are none here.
        contents.records.extend(parse(text).records);
        archived.extend(text.split(|&byte| byte == b'\n'));
    }
    contents.take(&log.unwrap_or_default(), &archived);
    Ok(Some(contents))
}

/// The newest matching event of a task in the log. Archives are older and not read.
pub fn newest(path: &Path, is_wanted: impl Fn(&Record) -> bool) -> Option<Record> {
    let mut file = open_regular(path).ok()?;
    let length = file.metadata().ok()?.len();
    let mut size = 1 << 16;
    loop {
        let start = length.saturating_sub(size);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start)).ok()?;
        file.read_to_end(&mut bytes).ok()?;
        // A line that begins before `start` cannot be parsed.
        let lines = bytes.rsplit(|&byte| byte == b'\n');
        let mut records = lines.filter_map(|line| parse_line(line).ok().flatten());
        if let Some(found) = records.find(&is_wanted) {
            return Some(found);
        }
        if start == 0 {
            return None;
        }
        size *= 16;
    }
}

/// Parses the bytes of a log; never fails.
pub fn parse(bytes: &[u8]) -> Contents {
    let mut contents = Contents::default();
    contents.take(bytes, &HashSet::new());
    contents
}

impl Contents {
    /// Adds the events of a log, without known lines.
    fn take(&mut self, bytes: &[u8], known: &HashSet<&[u8]>) {
        for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            if line.iter().all(u8::is_ascii_whitespace) || known.contains(line) {
                continue;
            }
            match parse_line(line) {
                Ok(record) => self.records.extend(record),
                Err(Unreadable) => self.bad_lines.push(index + 1),
            }
        }
    }

    /// Removes the events of other studies, if there are any.
    pub fn remove_other_studies(&mut self, project: &str) -> Option<OtherStudies> {
        let mut projects = BTreeSet::new();
        let (mut submissions, mut calls) = (HashSet::new(), HashSet::new());
        for record in &self.records {
            let Some(other) = project_of(record).filter(|other| !is_same_study(other, project))
            else {
                continue;
            };
            projects.insert(other);
            submissions.extend(text(record, "submission_id").map(str::to_owned));
            calls.extend(text(record, "run_id").map(str::to_owned));
        }
        if projects.is_empty() {
            return None;
        }
        let before = self.records.len();
        self.records.retain(|record| {
            // An event with a study belongs to it, whatever the other events suggest.
            if let Some(named) = project_of(record) {
                return is_same_study(&named, project);
            }
            let is_in = |known: &HashSet<String>, key| {
                text(record, key).is_some_and(|word| known.contains(word))
            };
            !is_in(&submissions, "submission_id") && !is_in(&calls, "run_id")
        });
        Some(OtherStudies {
            projects,
            events: before - self.records.len(),
        })
    }

    /// The studies that have submitted.
    pub fn projects(&self) -> BTreeSet<String> {
        self.records.iter().filter_map(project_of).collect()
    }
}

struct Unreadable;

fn parse_line(line: &[u8]) -> Result<Option<Record>, Unreadable> {
    let fields: Map<String, Value> = serde_json::from_slice(line).map_err(|_| Unreadable)?;
    let text = |key: &str| fields.get(key).and_then(Value::as_str);
    let at = text("timestamp").and_then(parse_time).ok_or(Unreadable)?;
    let word = text("event").ok_or(Unreadable)?;
    let Ok(kind) = word.parse::<EventKind>() else {
        return Ok(None);
    };
    let (Some(subject), Some(procedure)) = (text("subject"), text("procedure")) else {
        return Err(Unreadable);
    };
    if subject.is_empty() || procedure.is_empty() {
        return Ok(None);
    }
    let status = |key: &str| match text(key) {
        Some(word) => word.parse::<TaskStatus>().map(Some).map_err(|_| Unreadable),
        None => Ok(None),
    };
    Ok(Some(Record {
        at,
        kind,
        key: TaskKey::new(subject, text("session").unwrap_or_default(), procedure),
        job_id: text("job_id").filter(|id| !id.is_empty()).map(JobId::new),
        old_status: status("old_status")?,
        new_status: status("new_status")?,
        fields,
    }))
}

/// The other studies whose events were removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherStudies {
    /// The project words of those studies.
    pub projects: BTreeSet<String>,
    pub events: usize,
}

/// The study of an event, from its `project` or from the job's comment.
pub fn project_of(record: &Record) -> Option<String> {
    if let Some(project) = text(record, "project") {
        return Some(project.to_owned());
    }
    let argv = record.fields.get("argv")?.as_array()?;
    argv.iter()
        .filter_map(|word| word.as_str()?.strip_prefix("--comment="))
        .find_map(JobTag::parse)
        .map(|tag| tag.project)
}

/// A text value of an event.
pub fn text<'a>(record: &'a Record, key: &str) -> Option<&'a str> {
    record.fields.get(key)?.as_str()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_both_programs_are_read_and_cut_ones_counted() {
        let text = concat!(
            r#"{"timestamp":"2026-03-01T04:05:06.000007+00:00","event":"submitted","subject":"sub-1","session":"","procedure":"a","job_id":"12"}"#,
            "\n\n",
            r#"{"timestamp":"2026-03-01T04:05:06+00:00","event":"dry_run","subject":"sub-1","session":"","procedure":"a","detail":"x"}"#,
            "\n",
            r#"{"timestamp":"2026-03-01T04:05:06+00:00","event":"paused","subject":"","session":"","procedure":""}"#,
            "\n",
            r#"{"timestamp":"2026-03-01T04:05:0"#,
            "\n",
            r#"{"timestamp":"2026-03-01T05:05:06+01:00","event":"status_change","subject":"sub-1","session":"","procedure":"a","old_status":"pending","new_status":"failed"}"#,
        );
        let found = parse(text.as_bytes());
        assert_eq!(found.bad_lines, [5]);
        let kinds: Vec<_> = found.records.iter().map(|record| record.kind).collect();
        assert_eq!(kinds, [EventKind::Submitted, EventKind::StatusChange]);
        assert_eq!(found.records[0].job_id, Some(JobId::new("12")));
        assert_eq!(found.records[1].new_status, Some(TaskStatus::Failed));
        assert_eq!(
            found.records[0].at.timestamp(),
            found.records[1].at.timestamp()
        );
    }

    #[test]
    fn submissions_of_other_studies_and_their_later_events_are_removed() {
        let lines = [
            r#""event":"submitted","job_id":"1","submission_id":"x","run_id":"r1","argv":["sbatch","--comment=snbb:own:x"]"#,
            r#""event":"submitted","job_id":"2","submission_id":"y","run_id":"r2","project":"other""#,
            r#""event":"error","submission_id":"z","run_id":"r2""#,
            r#""event":"status_change","job_id":"2","new_status":"failed","submission_id":"y","run_id":"r3""#,
            r#""event":"status_change","job_id":"1","new_status":"failed","submission_id":"x","run_id":"r4""#,
            r#""event":"submitted","job_id":"9""#,
        ];
        let text: String = lines
            .iter()
            .map(|line| {
                format!("{{\"timestamp\":\"2026-03-01T00:00:00+00:00\",\"subject\":\"sub-1\",\"session\":\"\",\"procedure\":\"a\",{line}}}\n")
            })
            .collect();
        let mut contents = parse(text.as_bytes());
        assert_eq!(
            contents.projects(),
            ["other", "own"].map(str::to_owned).into()
        );
        let other_studies = contents.remove_other_studies("own").unwrap();
        assert_eq!((other_studies.projects.len(), other_studies.events), (1, 3));
        let left: Vec<&str> = contents
            .records
            .iter()
            .map(|record| record.job_id.as_ref().unwrap().as_str())
            .collect();
        assert_eq!(left, ["1", "1", "9"]);
        assert_eq!(contents.remove_other_studies("own"), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            parse(&bytes);
        }
    }
}
