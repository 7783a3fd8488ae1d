//! Failures: the log excerpt of one, and groups of similar ones.

pub mod patterns;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;

use crate::gather::logs::{self, LogFiles};
use crate::model::config::Config;
use crate::model::state::{Reason, TaskRow, TaskStatus};
use crate::store::state_file::Store;
use patterns::{Found, Patterns, read_tail};

/// The properties that similar failures share.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Likeness<'a> {
    procedure: &'a str,
    reason: Option<Reason>,
    exit_code: Option<&'a str>,
    /// The log excerpt without numbers and the task's own labels.
    line: String,
}

impl<'a> Likeness<'a> {
    /// `line` is the log excerpt.
    pub fn new(row: &'a TaskRow, line: Option<&str>) -> Self {
        let labels = [&row.key.subject, &row.key.session];
        let labels = labels.map(|label| label.split_once('-').map_or("", |(_, label)| label));
        // Only whole words are labels: `pre` is not removed from "preprocessing".
        let words = line
            .unwrap_or_default()
            .split_inclusive(|c: char| !c.is_alphanumeric());
        let own = |word: &&str| {
            let word = word.trim_end_matches(|c: char| !c.is_alphanumeric());
            !word.is_empty() && labels.contains(&word)
        };
        let mut line: String = words.filter(|word| !own(word)).collect();
        line.retain(|c| !c.is_ascii_digit());
        Self {
            procedure: &row.key.procedure,
            reason: row.reason,
            exit_code: row.facts.exit_code.as_deref(),
            line,
        }
    }

    /// Reads the log excerpt of a failed task from its files.
    pub fn from_logs(
        row: &'a TaskRow,
        config: &Config,
        store: &Store,
        patterns: &Patterns,
    ) -> Self {
        let files = logs::files_of(config, store, row);
        let found = files.as_ref().and_then(|files| excerpt(files, patterns));
        Self::new(row, found.map(|(_, found)| found.line).as_deref())
    }
}

/// Groups similar failures, the largest group first.
pub fn alike<'a, T>(failed: &'a [T], likeness: impl Fn(&'a T) -> Likeness<'a>) -> Vec<Vec<&'a T>> {
    let mut groups: Vec<Vec<&T>> = Vec::new();
    let mut places = HashMap::new();
    for one in failed {
        let place = *places.entry(likeness(one)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    groups.sort_by_key(|group| Reverse(group.len()));
    groups
}

/// The value that all members of a group share. `None` if they differ.
pub fn shared<T, V: PartialEq>(group: &[T], get: impl Fn(&T) -> Option<V>) -> Option<V> {
    let mut values = group.iter().map(get);
    let first = values.next().flatten()?;
    values
        .all(|value| value.as_ref() == Some(&first))
        .then_some(first)
}

/// The log excerpt of a job's two logs. If both have an equally important line, the error log's is used.
/// `None` without readable text.
pub fn excerpt<'f, 'p>(
    files: &'f LogFiles,
    patterns: &'p Patterns,
) -> Option<(&'f Path, Found<'p>)> {
    let logs = [&*files.error, &*files.output].into_iter();
    let found = logs.filter_map(|path| {
        let tail = read_tail(path).ok().flatten()?;
        Some((path, patterns.excerpt(&tail)?))
    });
    // The first of equal ones.
    found.min_by_key(|(_, found)| (found.meaning.is_none(), found.weight().0))
}

/// What missing or empty logs of a failed job may mean. `None` if there is a log, or if that is unknown.
pub fn silence(row: &TaskRow, files: &LogFiles) -> Option<String> {
    let reason = row.reason.filter(|_| row.status == TaskStatus::Failed)?;
    let mut sizes = Vec::new();
    for (_, path) in files.iter() {
        match path.metadata() {
            Ok(metadata) => sizes.push(metadata.len()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => return None,
        }
    }
    let dir = files.output.parent().unwrap_or(&files.output).display();
    match reason {
        _ if sizes.is_empty() && row.facts.started_at.is_none() => {
            Some("no log exists, because the job never ran".to_owned())
        }
        _ if sizes.is_empty() => Some(format!(
            "no log was written: the disk of {dir} may be full, or the node cannot reach it"
        )),
        // A killed job may not have printed anything.
        Reason::ExitCode | Reason::NoOutput if sizes.iter().all(|size| *size == 0) => Some(
            format!("the logs are empty: the job printed nothing, or the disk of {dir} was full"),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::state::testing::{at, row};

    #[test]
    fn a_job_that_ran_without_a_log_points_to_the_disk() {
        let tmp = tempfile::tempdir().unwrap();
        let files = LogFiles {
            output: tmp.path().join("x.out"),
            error: tmp.path().join("x.err"),
        };
        let ran = |reason| {
            let mut row = row("p", TaskStatus::Failed, reason);
            row.facts.started_at = Some(at(1));
            row
        };
        let text = |reason| silence(&ran(reason), &files);
        let starts = |reason, expected: &str| text(reason).unwrap().starts_with(expected);
        assert!(starts(Reason::Timeout, "no log was written"));
        let never = row("p", TaskStatus::Failed, Reason::Cancelled);
        assert_eq!(
            silence(&never, &files).unwrap(),
            "no log exists, because the job never ran"
        );
        std::fs::write(&files.output, "").unwrap();
        std::fs::write(&files.error, "").unwrap();
        assert!(starts(Reason::ExitCode, "the logs are empty"));
        assert_eq!(text(Reason::Timeout), None);
        std::fs::write(&files.error, "x").unwrap();
        assert_eq!(text(Reason::ExitCode), None);
    }

    #[test]
    fn numbers_and_labels_in_logs_do_not_make_failures_different() {
        let failed = |procedure: &str, subject: &str, reason, line: &'static str| {
            let mut row = row(procedure, TaskStatus::Failed, reason);
            row.key.subject = subject.into();
            (row, line)
        };
        let all = [
            failed("a", "sub-x1", Reason::Timeout, "step 3 of 7"),
            failed("a", "sub-x1", Reason::ExitCode, "no file sub-x1/12.nii"),
            failed("a", "sub-y2", Reason::ExitCode, "no file sub-y2/345.nii"),
            failed("b", "sub-y2", Reason::ExitCode, "no file sub-y2/345.nii"),
            failed("a", "sub-y2", Reason::ExitCode, "no room"),
            failed("a", "sub-pre", Reason::ExitCode, "preprocessing failed"),
            failed("a", "sub-post", Reason::ExitCode, "preprocessing failed"),
            failed("a", "sub-post", Reason::ExitCode, "postprocessing failed"),
        ];
        let groups = alike(&all, |(row, line)| Likeness::new(row, Some(line)));
        let sizes: Vec<usize> = groups.iter().map(Vec::len).collect();
        assert_eq!(sizes, [2, 2, 1, 1, 1, 1]);
        let subject = |one: &&(TaskRow, &str)| Some(one.0.key.subject.clone());
        let first = groups.first().unwrap();
        assert_eq!(shared(first, subject), None);
        let reason = |one: &&(TaskRow, &str)| one.0.reason;
        assert_eq!(shared(first, reason), Some(Reason::ExitCode));
    }
}
