//! Reads the logs of failed tasks, or of all: the log excerpt, known errors and last lines of each.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::UnreadableItem;
use super::details::TaskDetail;
use crate::base::parallel;
use crate::gather::logs::log_path;
use crate::model::job::JobId;
use crate::model::state::{TaskKey, TaskRow, TaskStatus};
use crate::show::failures::patterns::{Found, Patterns, read_tail};

/// Lines and bytes per log in the report.
const TAIL_LINES: usize = 20;
const TAIL_BYTES: usize = 4096;

/// Newest tasks whose last lines are in the report. The others have only the log excerpt.
const TAILS: usize = 1000;

/// Results from the logs of failed tasks, or of all tasks on request.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Logs {
    /// Tasks with a known log path.
    pub tasks: usize,
    /// Of these, tasks without an existing log file.
    pub without_log: usize,
    /// Of these, tasks whose logs match no known pattern.
    pub without_finding: usize,
    /// Tasks by the pattern of their log excerpt, most frequent first.
    pub by_pattern: Vec<PatternCount>,
    /// One per task and pattern; a task's log excerpt comes first.
    pub findings: Vec<LogFinding>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PatternCount {
    pub pattern: Arc<str>,
    pub meaning: Arc<str>,
    /// The remedy.
    pub hint: Arc<str>,
    pub tasks: usize,
}

/// The last line of a log that matches a known pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogFinding {
    #[serde(flatten)]
    pub key: TaskKey,
    pub job_id: Option<JobId>,
    pub pattern: Arc<str>,
    /// True for the task's log excerpt.
    #[serde(rename = "telling")]
    pub is_excerpt: bool,
    /// Cut after 300 characters; control characters are escaped.
    pub line: String,
    pub file: String,
    /// From 1. `None` if the log is longer than the part that is read.
    pub line_number: Option<u64>,
}

/// Results from the logs.
#[derive(Debug, Default)]
pub struct Read {
    pub logs: Logs,
    pub tasks: HashMap<TaskKey, TaskLogs>,
    pub unreadable: Vec<UnreadableItem>,
}

/// Results from the logs of one task.
#[derive(Debug, Default)]
pub struct TaskLogs {
    /// False if neither file exists.
    pub has_log: bool,
    pub tail: Vec<String>,
    /// The log excerpt of a failed task.
    pub excerpt: Option<String>,
    findings: Vec<LogFinding>,
    unreadable: Vec<UnreadableItem>,
}

impl Read {
    /// Moves the log's tail and excerpt into the details of its task.
    pub fn add_to(&mut self, task: &mut TaskDetail) {
        let Some(one) = self.tasks.remove(&task.key) else {
            return;
        };
        if let Some(job) = task.job.as_mut().filter(|_| !one.has_log) {
            (job.output, job.error) = (None, None);
        }
        (task.log_tail, task.log_line) = (one.tail, one.excerpt);
    }
}

/// Reads the logs of the failed rows, or of `all`, several at a time.
pub fn read(
    rows: &[&TaskRow],
    all: bool,
    log_dir: Option<&Path>,
    patterns: &Patterns,
    threads: usize,
    tick: &(dyn Fn() + Sync),
) -> Read {
    let mut chosen: Vec<(&TaskRow, (String, String))> = rows
        .iter()
        .filter(|row| all || row.status == TaskStatus::Failed)
        .filter_map(|row| Some((*row, log_files(row, log_dir)?)))
        .collect();
    chosen.sort_by_key(|(row, _)| Reverse(row.submitted_at));
    let numbered: Vec<_> = chosen.iter().enumerate().collect();
    let results = parallel::map(&numbered, threads, |(number, (row, files))| {
        let mut one = read_task(row, files, patterns);
        if *number >= TAILS {
            one.tail = Vec::new();
        }
        tick();
        one
    });
    let mut read = Read::default();
    read.logs.tasks = results.len();
    let mut counts: HashMap<Arc<str>, usize> = HashMap::new();
    for ((row, _), mut one) in chosen.iter().zip(results) {
        match one.findings.iter().find(|finding| finding.is_excerpt) {
            Some(known) => *counts.entry(Arc::clone(&known.pattern)).or_default() += 1,
            None if one.has_log => read.logs.without_finding += 1,
            None => read.logs.without_log += 1,
        }
        read.logs.findings.append(&mut one.findings);
        read.unreadable.append(&mut one.unreadable);
        read.tasks.insert(row.key.clone(), one);
    }
    read.logs.by_pattern = by_pattern(patterns, counts);
    read
}

fn by_pattern(patterns: &Patterns, mut counts: HashMap<Arc<str>, usize>) -> Vec<PatternCount> {
    let found = patterns.meanings().iter().filter_map(|meaning| {
        Some(PatternCount {
            // A pattern of the site may share its name with a built-in one; they are counted together.
            tasks: counts.remove(&meaning.name)?,
            pattern: Arc::clone(&meaning.name),
            meaning: Arc::clone(&meaning.meaning),
            hint: Arc::clone(&meaning.hint),
        })
    });
    let mut by_pattern: Vec<PatternCount> = found.collect();
    by_pattern.sort_by_key(|count| Reverse(count.tasks));
    by_pattern
}

/// The output and error file of a job.
pub fn log_files(row: &TaskRow, log_dir: Option<&Path>) -> Option<(String, String)> {
    let output = log_path(row, &log_dir?.to_string_lossy())?;
    let error = format!("{}.err", output.strip_suffix(".out")?);
    Some((output, error))
}

fn read_task(row: &TaskRow, (output, error): &(String, String), patterns: &Patterns) -> TaskLogs {
    let mut result = TaskLogs::default();
    // Each pattern once. If both files match, the error file's line is used.
    let mut found: Vec<(Found<'_>, &String)> = Vec::new();
    for file in [error, output] {
        let tail = match read_tail(Path::new(file)) {
            Ok(Some(tail)) => tail,
            Ok(None) => continue,
            Err(what) => {
                result.has_log = true;
                let item = UnreadableItem::new("log", &what.path, what.error);
                result.unreadable.push(item);
                continue;
            }
        };
        result.has_log = true;
        if result.tail.is_empty() {
            result.tail = tail.last_lines(TAIL_LINES, TAIL_BYTES);
        }
        for one in patterns.scan(&tail) {
            let name = |found: &Found<'_>| found.meaning.map(|meaning| Arc::clone(&meaning.name));
            if found.iter().all(|(known, _)| name(known) != name(&one)) {
                found.push((one, file));
            }
        }
    }
    let is_failed = row.status == TaskStatus::Failed;
    let causes = found.iter().enumerate();
    let causes = causes.filter(|(_, (found, _))| !is_failed || !found.is_note());
    let excerpt = causes.min_by_key(|(_, (found, file))| {
        let (rank, place) = found.weight();
        (rank, *file == output, place)
    });
    let excerpt = excerpt.map(|(at, _)| at);
    let line = excerpt.and_then(|at| Some(&found.get(at)?.0.line));
    result.excerpt = line.or(result.tail.last()).cloned();
    result.excerpt = result.excerpt.filter(|_| is_failed);
    let findings = found.into_iter().enumerate();
    let findings = findings.filter_map(|(at, (one, file))| {
        Some(LogFinding {
            key: row.key.clone(),
            job_id: row.job_id.clone(),
            pattern: Arc::clone(&one.meaning?.name),
            is_excerpt: Some(at) == excerpt,
            line: one.line,
            file: file.clone(),
            line_number: one.number,
        })
    });
    result.findings = findings.collect();
    result.findings.sort_by_key(|finding| !finding.is_excerpt);
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::state::Reason;
    use crate::model::state::testing::row;

    fn failed(procedure: &str) -> TaskRow {
        row(procedure, TaskStatus::Failed, Reason::ExitCode)
    }

    fn read_of(files: &[(&str, &str)], rows: &[TaskRow], all: bool) -> Read {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let rows: Vec<&TaskRow> = rows.iter().collect();
        read(&rows, all, Some(dir.path()), Patterns::builtin(), 2, &|| ())
    }

    #[test]
    fn both_files_are_read_and_each_task_counts_once() {
        let files = [
            ("a/a_sub-01_ses-01_100.out", "Killed\nthe end\n"),
            (
                "a/a_sub-01_ses-01_100.err",
                "ValueError: x\nKilled\nValueError: y\n",
            ),
            ("b/b_sub-01_ses-01_100.out", "nothing special\n"),
        ];
        let rows = [
            failed("a"),
            failed("b"),
            failed("c"),
            row("d", TaskStatus::Complete, Reason::Verified),
        ];
        let read = read_of(&files, &rows, false);
        let logs = &read.logs;
        assert_eq!(
            (logs.tasks, logs.without_log, logs.without_finding),
            (3, 1, 1)
        );
        let counted: usize = logs.by_pattern.iter().map(|p| p.tasks).sum();
        assert_eq!(
            counted + logs.without_log + logs.without_finding,
            logs.tasks
        );
        let seen: Vec<_> = logs
            .findings
            .iter()
            .map(|f| (&*f.pattern, f.is_excerpt, f.line.as_str(), f.line_number))
            .collect();
        assert_eq!(
            seen,
            [
                ("out_of_memory", true, "Killed", Some(2)),
                ("python", false, "ValueError: y", Some(3)),
            ]
        );
        assert!(logs.findings[0].file.ends_with(".err"));
        let tail = &read.tasks[&rows[0].key].tail;
        assert_eq!(tail.last().map(String::as_str), Some("ValueError: y"));
    }

    #[test]
    fn c15_logs_of_running_and_complete_tasks_are_read_on_request() {
        let left_out = "series left out: 14-vibe: no rule of the heuristic matches\n";
        let files = [
            ("a/a_sub-01_ses-01_100.err", left_out),
            ("b/b_sub-01_ses-01_100.err", "Segmentation fault\n"),
            ("c/c_sub-01_ses-01_100.err", left_out),
        ];
        let rows = [
            row("a", TaskStatus::Complete, Reason::Verified),
            row("b", TaskStatus::Running, Reason::Running),
            failed("c"),
        ];
        let counts = |read: Read| -> Vec<(String, usize)> {
            let counts = read.logs.by_pattern.into_iter();
            counts.map(|p| (p.pattern.to_string(), p.tasks)).collect()
        };
        // A series that was left out does not explain a failure.
        let only_failed = read_of(&files, &rows, false);
        assert_eq!(
            (only_failed.logs.tasks, only_failed.logs.without_finding),
            (1, 1)
        );
        assert_eq!(counts(only_failed), []);
        let all = read_of(&files, &rows, true);
        assert_eq!((all.logs.tasks, all.logs.without_finding), (3, 1));
        let expected = [("segfault".to_owned(), 1), ("left_out".to_owned(), 1)];
        assert_eq!(counts(all), expected);
    }

    #[test]
    fn without_a_log_directory_no_logs_are_read() {
        let row = failed("a");
        let read = read(&[&row], true, None, Patterns::builtin(), 1, &|| ());
        assert_eq!(read.logs, Logs::default());
    }
}
