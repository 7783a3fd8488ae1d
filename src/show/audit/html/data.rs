//! The data of the heat map and of the details, as compact JSON for the page's script.
//!
//! Says exactly what the report says, with words as numbers into lists and paths as `N:rest`, where `N`
//! is a number in `roots` or `-`. What tasks have in common stands there once: of a task's texts, its own
//! names are left out (`%s` subject, `%e` session, `%j` job, `%%` a per cent sign). Only log tails are cut when
//! there are many.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};

use super::looks::{GROUPS, group_of, symbol, word_number};
use super::safe::json_in_html;
use crate::show::audit::report::{
    Cell, JobDetail, LogFinding, MarkerResult, MarkerState, Report, TaskDetail,
};
use crate::show::tables::words::WORDS;

/// All log tails together have about so many bytes; each keeps its end.
const TAILS: usize = 3 << 20;
const LONGEST_TAIL: usize = 4096;
const SHORTEST_TAIL: usize = 80;

/// Lies behind the heat map.
#[derive(Serialize)]
struct Data<'a> {
    words: Vec<Value>,
    groups: Vec<Value>,
    procedures: &'a [Arc<str>],
    /// Roots of paths; the last number stands for the task's own output directory.
    roots: &'a [String],
    reasons: Vec<&'a str>,
    texts: Vec<&'a str>,
    /// Subject, session, complete procedures, of how many (0: none applies), cells.
    rows: Vec<(&'a str, &'a str, usize, usize, Vec<CellData<'a>>)>,
}

/// Is read when the first detail is asked for.
#[derive(Serialize)]
struct Details<'a> {
    /// With the names of the task that says them left out.
    texts: Vec<String>,
    /// What the markers of a task showed, all of them together.
    markers: Vec<Vec<Shown>>,
    tasks: Vec<Detail<'a>>,
}

/// Is a marker as configured, its state, its path, a note; all but the state as number of a text.
type Shown = (usize, MarkerState, Option<usize>, Option<usize>);

/// Collects what tasks have in common.
#[derive(Default)]
struct Shared {
    texts: List<String>,
    markers: List<Vec<Shown>>,
}

/// No task, the number of a word, or word, reason, job, text and detail (-1: none).
#[derive(Serialize)]
#[serde(untagged)]
enum CellData<'a> {
    None,
    Word(usize),
    Full(usize, i64, &'a str, i64, i64),
}

#[derive(Serialize)]
struct Detail<'a> {
    /// Number of a text, as `text` and `dir`.
    procedure: usize,
    subject: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    session: &'a str,
    word: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    text: usize,
    dir: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    markers: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<Value>,
    /// Pattern, line, number of the file's text, number of the line; the telling one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<(&'a str, &'a str, usize, Option<u64>)>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tail: Vec<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    tail_cut: bool,
}

/// Returns the data of the heat map, as JSON that may stand in a `script` element.
pub fn grid(report: &Report) -> String {
    let (mut reasons, mut texts) = (List::default(), List::default());
    let rows = report.matrix.sessions.iter().map(|row| {
        let mut cells = Vec::with_capacity(row.cells.len());
        for cell in &row.cells {
            cells.push(match cell {
                None => CellData::None,
                Some(cell) => cell_data(cell, &mut reasons, &mut texts),
            });
        }
        let (complete, of) = row.health.map_or((0, 0), |h| (h.complete, h.of));
        (&*row.subject, &*row.session, complete, of, cells)
    });
    let rows = rows.collect();
    let words = WORDS.iter();
    let words = words.map(|word| json!([word, symbol(word), group_of(word)]));
    let groups = GROUPS.iter();
    let groups = groups.map(|group| json!([group.name, group.title, group.symbol]));
    written(&Data {
        words: words.collect(),
        groups: groups.collect(),
        procedures: &report.matrix.procedures,
        roots: &roots(report),
        reasons: reasons.values,
        texts: texts.values,
        rows,
    })
}

/// Returns what is told of single tasks, in the order of [`Report::tasks`].
pub fn details(report: &Report) -> String {
    let roots = roots(report);
    let mut findings: HashMap<(&str, &str, &str), Vec<&LogFinding>> = HashMap::new();
    for finding in report.logs.iter().flat_map(|logs| &logs.findings) {
        let key = (&*finding.procedure, &*finding.subject, &*finding.session);
        findings.entry(key).or_default().push(finding);
    }
    let longest = longest_tail(&report.tasks);
    let mut shared = Shared::default();
    let tasks = report.tasks.iter().map(|task| {
        let key = (&*task.procedure, &*task.subject, &*task.session);
        let found = findings.get(&key).map_or(&[][..], Vec::as_slice);
        detail(task, found, &roots, &mut shared, longest)
    });
    let tasks = tasks.collect();
    written(&Details {
        texts: shared.texts.values,
        markers: shared.markers.values,
        tasks,
    })
}

/// Returns what paths are told from, see [`short_path`].
fn roots(report: &Report) -> Vec<String> {
    let study = &report.study;
    let roots = [&study.derivatives_root, &study.bids_root, &study.dicom_root];
    let roots = roots.into_iter().chain(&study.log_dir);
    roots.cloned().collect()
}

/// Cannot fail: all keys are texts. The script would say so on the console.
fn written(data: &impl Serialize) -> String {
    json_in_html(&serde_json::to_string(data).unwrap_or_default())
}

fn cell_data<'a>(
    cell: &'a Cell,
    reasons: &mut List<&'a str>,
    texts: &mut List<&'a str>,
) -> CellData<'a> {
    let word = word_number(cell.decision).unwrap_or(WORDS.len());
    if (cell.reason, &cell.job_id, &cell.text, cell.detail) == (None, &None, &None, None) {
        return CellData::Word(word);
    }
    let number = |found: Option<usize>| found.and_then(|n| i64::try_from(n).ok()).unwrap_or(-1);
    CellData::Full(
        word,
        number(cell.reason.map(|reason| reasons.number(reason))),
        cell.job_id.as_deref().unwrap_or_default(),
        number(cell.text.as_deref().map(|text| texts.number(text))),
        number(cell.detail),
    )
}

fn detail<'a>(
    task: &'a TaskDetail,
    findings: &[&'a LogFinding],
    roots: &[String],
    shared: &mut Shared,
    longest: usize,
) -> Detail<'a> {
    let Shared { texts, markers } = shared;
    let names = Names::of(task);
    let mut number = |text: &str| texts.number(names.left_out_of(text));
    let path = |path: &str| short_path(path, roots, Some(&task.output_dir));
    let shown = task.markers.iter().map(|result: &MarkerResult| {
        (
            number(&result.marker),
            result.state,
            result.path.as_deref().map(|found| number(&path(found))),
            result.note.as_deref().map(&mut number),
        )
    });
    let shown: Vec<Shown> = shown.collect();
    let (tail, tail_cut) = end_of(&task.log_tail, longest);
    Detail {
        procedure: number(&task.procedure),
        subject: &task.subject,
        session: &task.session,
        word: word_number(task.decision).unwrap_or(WORDS.len()),
        reason: task.reason,
        text: number(&task.text),
        dir: number(&short_path(&task.output_dir, roots, None)),
        markers: (!shown.is_empty()).then(|| markers.number(shown)),
        job: task
            .job
            .as_ref()
            .map(|job| job_data(job, roots, &mut number)),
        findings: findings
            .iter()
            .map(|f| {
                let file = number(&path(&f.file));
                (&*f.pattern, f.line.as_str(), file, f.line_number)
            })
            .collect(),
        tail,
        tail_cut,
    }
}

/// Returns what the report has of a job, without what is not known.
fn job_data(job: &JobDetail, roots: &[String], number: &mut dyn FnMut(&str) -> usize) -> Value {
    let mut value = json!(job);
    if let Some(fields) = value.as_object_mut() {
        for name in ["output", "error"] {
            if let Some(Value::String(path)) = fields.get(name) {
                let text = number(&short_path(path, roots, None));
                fields.insert(name.to_owned(), json!(text));
            }
        }
        fields.retain(|_, value| !value.is_null());
    }
    value
}

/// Holds the names that only one task has, and the letters that stand for them.
struct Names<'a>(Vec<(char, &'a str)>);

impl<'a> Names<'a> {
    fn of(task: &'a TaskDetail) -> Self {
        let job = task.job.as_ref().and_then(|job| job.job_id.as_deref());
        let mut names = vec![('s', &*task.subject), ('e', &*task.session)];
        names.extend(job.map(|job| ('j', job)));
        names.retain(|(_, name)| !name.is_empty());
        Self(names)
    }

    /// Writes a text so that other tasks may say the same; the script puts the names in again.
    fn left_out_of(&self, text: &str) -> String {
        let mut left_out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let named = self
                .0
                .iter()
                .find_map(|(letter, name)| Some((*letter, rest.strip_prefix(name)?)));
            let after = rest.get(first.len_utf8()..).unwrap_or_default();
            rest = match named {
                Some((letter, after)) => {
                    left_out.extend(['%', letter]);
                    after
                }
                None if first == '%' => {
                    left_out.push_str("%%");
                    after
                }
                None => {
                    left_out.push(first);
                    after
                }
            };
        }
        left_out
    }
}

/// Writes a path as number of its root and the rest; the longest root wins.
fn short_path(path: &str, roots: &[String], own: Option<&str>) -> String {
    let roots = roots.iter().map(String::as_str).chain(own);
    let below = roots.enumerate().filter_map(|(number, root)| {
        let rest = path.strip_prefix(root)?;
        let whole = !root.is_empty() && (rest.is_empty() || rest.starts_with('/'));
        whole.then_some((root.len(), number, rest))
    });
    match below.max() {
        Some((_, number, rest)) => format!("{number}:{rest}"),
        None => format!("-:{path}"),
    }
}

fn longest_tail(tasks: &[TaskDetail]) -> usize {
    let with = tasks.iter().filter(|task| !task.log_tail.is_empty());
    (TAILS / with.count().max(1)).clamp(SHORTEST_TAIL, LONGEST_TAIL)
}

/// Returns the last lines that fit, and whether something is missing. Of a last line that does not fit
/// there is its end.
fn end_of(lines: &[String], longest: usize) -> (Vec<&str>, bool) {
    let mut left = longest;
    let mut kept: Vec<&str> = Vec::new();
    for line in lines.iter().rev() {
        if line.len() + 1 > left {
            if kept.is_empty() {
                let mut from = line.len() - left.min(line.len());
                while !line.is_char_boundary(from) {
                    from += 1;
                }
                kept.extend(line.get(from..));
            }
            break;
        }
        left -= line.len() + 1;
        kept.push(line);
    }
    kept.reverse();
    let all: usize = lines.iter().map(String::len).sum();
    let is_cut = kept.iter().map(|line| line.len()).sum::<usize>() < all;
    (kept, is_cut)
}

/// Holds each value once, in the order of coming.
struct List<T> {
    values: Vec<T>,
    numbers: HashMap<T, usize>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            numbers: HashMap::new(),
        }
    }
}

impl<T: Clone + Eq + Hash> List<T> {
    fn number(&mut self, value: T) -> usize {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let number = self.values.len();
        self.values.push(value.clone());
        self.numbers.insert(value, number);
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lose_the_longest_root() {
        let roots = ["/d".to_owned(), "/d/bids".to_owned()];
        for (path, short) in [
            ("/d/bids/sub-1", "1:/sub-1"),
            ("/d/bids", "1:"),
            ("/d/bids2", "0:/bids2"),
            ("/data", "-:/data"),
            ("/d/bids/sub-1/x/y", "2:/y"),
        ] {
            assert_eq!(short_path(path, &roots, Some("/d/bids/sub-1/x")), short);
        }
        assert_eq!(short_path("/x", &[String::new()], None), "-:/x");
    }

    #[test]
    fn texts_of_two_tasks_are_the_same_without_their_names() {
        let names = Names(vec![('s', "sub-1"), ('e', "ses-01"), ('j', "12")]);
        for (text, left_out) in [
            ("/sub-1/ses-01/sub-1_ses-01_T1w.nii", "/%s/%e/%s_%e_T1w.nii"),
            ("job 12, 90 % of %s", "job %j, 90 %% of %%s"),
            ("sub-2", "sub-2"),
            ("sub-ä1%", "sub-ä1%%"),
            ("", ""),
        ] {
            assert_eq!(names.left_out_of(text), left_out);
        }
        assert_eq!(Names(Vec::new()).left_out_of("a%"), "a%%");
    }

    #[test]
    fn tails_keep_their_end() {
        let lines: Vec<String> = ["one", "two", "three"].map(str::to_owned).into();
        assert_eq!(end_of(&lines, 100), (vec!["one", "two", "three"], false));
        assert_eq!(end_of(&lines, 10), (vec!["two", "three"], true));
        assert_eq!(end_of(&["äöü".to_owned()], 3), (vec!["ü"], true));
        assert_eq!(end_of(&[], 3), (vec![], false));
    }
}
