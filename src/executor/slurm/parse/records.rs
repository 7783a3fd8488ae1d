//! Splits an answer of squeue or sacct into records of fields, and parses the ids of jobs. Pure.
//!
//! Slurm prints a separator after each field and a line break after each record, but free texts may contain line
//! breaks. No text contains our separator, so counting separators finds the end of a record, whatever its texts are.

use crate::model::job::JobId;

/// An answer in parts.
#[derive(Default)]
pub(crate) struct Records<'a> {
    pub(crate) records: Vec<Record<'a>>,
    /// Lines outside of records, and records that were cut. An answer with any of these is broken.
    pub(crate) foreign: Vec<&'a str>,
}

/// The fields of one record.
pub(crate) struct Record<'a> {
    names: &'a [&'a str],
    values: Vec<&'a str>,
}

/// Splits an answer whose records have these fields; those after the first `safe` ones are free texts.
pub(crate) fn records<'a>(
    text: &'a str,
    separator: &str,
    names: &'a [&'a str],
    safe: usize,
) -> Records<'a> {
    let mut found = Records::default();
    // The start and the number of separators of a record that may have further lines.
    let mut open: Option<(usize, usize)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let separators = line.matches(separator).count();
        let is_start = line
            .split_once(separator)
            .is_some_and(|(id, _)| ids(id).is_some());
        // The rest of a name has one separator, at its end. Any other start of a record means that a wrapper around
        // Slurm's command dropped the last separator of the previous record.
        let ends_name = separators == 1 && line.trim_end().ends_with(separator);
        let is_next =
            |seen: usize| seen < safe || seen + 1 == names.len() && is_start && !ends_name;
        match &mut open {
            Some((_, seen)) if !is_next(*seen) => *seen += separators,
            _ => {
                if let Some((start, _)) = open.take() {
                    found.add(text.get(start..at), separator, names);
                }
                if is_start {
                    open = Some((at, separators));
                } else if !line.trim().is_empty() {
                    found.foreign.push(line);
                }
            }
        }
        at += line.len();
        if let Some((start, _)) = open.take_if(|(_, seen)| *seen >= names.len()) {
            found.add(text.get(start..at), separator, names);
        }
    }
    if let Some((start, _)) = open {
        found.add(text.get(start..), separator, names);
    }
    found
}

impl<'a> Records<'a> {
    fn add(&mut self, record: Option<&'a str>, separator: &str, names: &'a [&'a str]) {
        let record = record.unwrap_or_default().trim_end_matches(['\r', '\n']);
        let mut values: Vec<&str> = record.split(separator).collect();
        // The separator at the end of the record.
        if values.len() == names.len() + 1 && values.last() == Some(&"") {
            values.pop();
        }
        match values.len() == names.len() {
            true => self.records.push(Record { names, values }),
            false => self.foreign.push(record),
        }
    }
}

impl<'a> Record<'a> {
    /// The value of a field; an empty text if the answer has no such field.
    pub(crate) fn get(&self, name: &str) -> &'a str {
        let mut fields = self.names.iter().zip(&self.values);
        let field = fields.find(|(own, _)| **own == name);
        field.map_or("", |(_, value)| value)
    }
}

/// True for an id that can be queried (`123`, `123_4`): an id that sacct cannot read makes the complete query fail.
pub fn is_askable(id: &JobId) -> bool {
    match id.as_str().split_once('_') {
        Some((job, task)) => is_number(job) && is_number(task),
        None => is_number(id.as_str()),
    }
}

/// True for a number of a job or task, which has 32 bits.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.len() <= 10 && text.bytes().all(|b| b.is_ascii_digit())
}

/// The contents of an id field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    One(JobId),
    /// `123_[1-5%2]`; not complete if the list was cut.
    Tasks {
        array: JobId,
        ranges: Vec<Range>,
        is_complete: bool,
    },
    /// A step (`123.batch`).
    Other,
}

/// The tasks of a list: `7`, `1-5` or `1-99:2`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Range {
    first: u32,
    last: u32,
    step: usize,
}

/// More than any array of ours, and than all of them together; invalid lines must not fill the memory.
const MOST_TASKS: usize = 100_000;
pub(crate) const MOST_TASKS_OF_ALL: usize = 1_000_000;

/// The tasks of an array, at most `left`, and whether these are all.
pub(crate) fn tasks(array: &JobId, ranges: &[Range], left: usize) -> (Vec<JobId>, bool) {
    let numbers = ranges
        .iter()
        .flat_map(|range| (range.first..=range.last).step_by(range.step));
    let mut ids = numbers.map(|task| JobId::new(&format!("{}_{task}", array.as_str())));
    let tasks = ids.by_ref().take(MOST_TASKS.min(left)).collect();
    (tasks, ids.next().is_none())
}

pub(crate) fn ids(text: &str) -> Option<Ids> {
    let text = text.trim();
    let id = JobId::new(text);
    if is_askable(&id) {
        return Some(Ids::One(id));
    }
    if let Some((job, _step)) = text.split_once('.')
        && (is_askable(&JobId::new(job)) || job.split('+').all(is_number))
    {
        return Some(Ids::Other);
    }
    // sbatch prints the leader's id, and the leader is part 0.
    if let Some((leader, part)) = text.split_once('+') {
        return match (is_number(leader), part) {
            (true, "0") => Some(Ids::One(JobId::new(leader))),
            (true, part) if is_number(part) => Some(Ids::One(id)),
            _ => None,
        };
    }
    let (array, list) = text.split_once("_[")?;
    if !is_number(array) {
        return None;
    }
    let (list, mut is_complete) = match list.strip_suffix(']') {
        Some(list) => (list, true),
        None => (list.trim_end_matches('.'), false),
    };
    let list = list.split('%').next().unwrap_or_default();
    let mut ranges = Vec::new();
    let parts: Vec<&str> = list.split(',').collect();
    for (place, part) in parts.iter().enumerate() {
        let is_cut = !is_complete && place + 1 == parts.len();
        // The last number of a cut list may lack digits.
        match task_range(part).filter(|_| !is_cut) {
            Some(range) => ranges.push(range),
            None => is_complete = false,
        }
    }
    Some(Ids::Tasks {
        array: JobId::new(array),
        ranges,
        is_complete,
    })
}

fn task_range(text: &str) -> Option<Range> {
    let (range, step) = text.split_once(':').unwrap_or((text, "1"));
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    let step: usize = step.parse().ok()?;
    Some(Range {
        first: first.parse().ok()?,
        last: last.parse().ok()?,
        step: step.max(1),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fields<'a>(text: &'a str, separator: &str) -> (Vec<Vec<&'a str>>, usize) {
        let found = records(text, separator, &["id", "state", "comment", "name"], 2);
        let records = found.records.into_iter().map(|record| record.values);
        (records.collect(), found.foreign.len())
    }

    #[test]
    fn texts_may_contain_line_breaks_and_record_lookalikes() {
        let text = "1|R|a\n2|x\ny|\n3|R||\n4|\n";
        assert_eq!(
            fields(text, "|"),
            (
                vec![vec!["1", "R", "a\n2", "x\ny"], vec!["3", "R", "", "\n4"]],
                0
            )
        );
    }

    #[test]
    fn e4_text_between_records_is_foreign() {
        for (text, records, foreign) in [
            ("", 0, 0),
            ("\n\n", 0, 0),
            ("1|R|a|b|\n", 1, 0),
            ("1|R|a|b|\r\n2|R|a|b|\r\n", 2, 0),
            ("1|R|a|b\n2|R|a|b\n", 2, 0),
            ("<html>\n<body>busy</body>\n", 0, 2),
            ("JOBID|STATE|COMMENT|NAME|\n1|R|a|b|\n", 1, 1),
            (
                "1|R|a|b|\nslurm_load_jobs error: Zero Bytes\n2|R|a|b|\n",
                2,
                1,
            ),
            ("1|R|a|b|\n2|R", 1, 1),
            ("1|R|a|b|\n2", 1, 1),
            ("1|R\n2|R|a|b|\n", 1, 1),
            ("1|R|a|b|c|d|\n", 0, 1),
        ] {
            let (found, others) = fields(text, "|");
            assert_eq!((found.len(), others), (records, foreign), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn a3_no_text_moves_the_frame_of_a_record(
            texts in prop::collection::vec(("([0-9]{1,3}|[|\u{1f}\r\nR,x ]){0,20}", "([0-9]{1,3}|[|\u{1f}\r\nR]){0,20}"), 0..6),
        ) {
            let separator = "\u{1f}0a1b\u{1f}";
            let answer: String = texts
                .iter()
                .enumerate()
                .map(|(id, (comment, name))| [&id.to_string(), "R", comment, name, "\n"].join(separator))
                .collect();
            let (found, foreign) = fields(&answer, separator);
            prop_assert_eq!(foreign, 0);
            let expected: Vec<Vec<String>> = texts
                .iter()
                .enumerate()
                .map(|(id, (comment, name))| vec![id.to_string(), "R".to_owned(), comment.clone(), name.clone()])
                .collect();
            prop_assert_eq!(found, expected);
        }
    }
}
