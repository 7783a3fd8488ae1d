//! Failures: the line of a log that explains one, and which of them are alike.

mod excerpt;
pub mod patterns;

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::gather::logs;
use crate::model::config::Config;
use crate::model::state::{Reason, TaskRow};
use crate::store::state_file::Store;
use patterns::Patterns;

pub use excerpt::{excerpt, silence};

/// What failures of one cause have in common.
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
        // A label is a whole word: `pre` is not part of "preprocessing".
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

    /// Reads the log excerpt of a failed task.
    pub fn of(row: &'a TaskRow, config: &Config, store: &Store, patterns: &Patterns) -> Self {
        let files = logs::files_of(config, store, row);
        let found = files.as_ref().and_then(|files| excerpt(files, patterns));
        Self::new(row, found.map(|(_, found)| found.line).as_deref())
    }
}

/// Groups failures that are alike, the largest group first.
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

/// The value that all members of a group have; `None` if they differ.
pub fn shared<T, V: PartialEq>(group: &[T], get: impl Fn(&T) -> Option<V>) -> Option<V> {
    let mut values = group.iter().map(get);
    let first = values.next().flatten()?;
    values
        .all(|value| value.as_ref() == Some(&first))
        .then_some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::state::TaskStatus;
    use crate::model::state::testing::row;

    #[test]
    fn failures_are_alike_whatever_numbers_and_labels_their_logs_have() {
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
