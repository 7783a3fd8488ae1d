//! The look into the logs of failed tasks, or of all: the last telling line of each, and its last lines.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::details::log_files;
use super::report::{LogFinding, Logs, PatternCount, UnreadableItem};
use crate::base::parallel;
use crate::model::state::{TaskKey, TaskRow, TaskStatus};
use crate::show::failures::patterns::{Found, Patterns, read_tail};

/// Lines and bytes of a log that stand in the report.
const TAIL_LINES: usize = 20;
const TAIL_BYTES: usize = 4096;

/// The report holds the last lines of so many failed tasks, the newest; of the others only the telling
/// line.
const TAILS: usize = 1000;

/// Holds what logs say, and the last lines by task.
#[derive(Debug, Default)]
pub struct Read {
    pub logs: Logs,
    pub tails: HashMap<TaskKey, Vec<String>>,
    /// The log excerpts of failed tasks.
    pub excerpts: HashMap<TaskKey, String>,
    /// Failed tasks that have no log.
    pub silent: HashSet<TaskKey>,
    pub unreadable: Vec<UnreadableItem>,
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
    let mut chosen: Vec<(&TaskRow, [String; 2])> = rows
        .iter()
        .filter(|row| all || row.status == TaskStatus::Failed)
        .filter_map(|row| {
            let (output, error) = log_files(row, log_dir)?;
            Some((*row, [output, error]))
        })
        .collect();
    chosen.sort_by_key(|(row, _)| Reverse(row.submitted_at));
    let numbered: Vec<_> = chosen.iter().enumerate().collect();
    let looked = parallel::map(&numbered, threads, |(number, (row, files))| {
        let one = look(row, files, patterns, *number < TAILS);
        tick();
        one
    });
    let mut read = Read {
        logs: Logs {
            tasks: looked.len(),
            ..Logs::default()
        },
        ..Read::default()
    };
    let mut counts: HashMap<Arc<str>, usize> = HashMap::new();
    for ((row, _), one) in chosen.iter().zip(looked) {
        if !one.has_log && one.unreadable.is_empty() {
            read.logs.without_log += 1;
            read.silent.insert(row.key.clone());
        } else if !one.findings.iter().any(|finding| finding.telling) {
            read.logs.without_finding += 1;
        }
        for finding in one.findings.iter().filter(|finding| finding.telling) {
            *counts.entry(Arc::clone(&finding.pattern)).or_default() += 1;
        }
        let telling = one.findings.iter().find(|finding| finding.telling);
        let excerpt = telling
            .map(|finding| finding.line.clone())
            .or(one.last_line);
        if let Some(excerpt) = excerpt.filter(|_| row.status == TaskStatus::Failed) {
            read.excerpts.insert(row.key.clone(), excerpt);
        }
        read.logs.findings.extend(one.findings);
        read.unreadable.extend(one.unreadable);
        if !one.tail.is_empty() {
            read.tails.insert(row.key.clone(), one.tail);
        }
    }
    read.logs.by_pattern = by_pattern(patterns, &counts);
    read
}

fn by_pattern(patterns: &Patterns, counts: &HashMap<Arc<str>, usize>) -> Vec<PatternCount> {
    let mut by_pattern: Vec<PatternCount> = Vec::new();
    for meaning in patterns.meanings() {
        // A pattern of the site may have the name of a built-in one: they count together.
        let is_known = by_pattern.iter().any(|known| known.pattern == meaning.name);
        if let Some(tasks) = counts.get(&meaning.name).filter(|_| !is_known) {
            by_pattern.push(PatternCount {
                pattern: Arc::clone(&meaning.name),
                meaning: Arc::clone(&meaning.meaning),
                hint: Arc::clone(&meaning.hint),
                tasks: *tasks,
            });
        }
    }
    by_pattern.sort_by_key(|count| Reverse(count.tasks));
    by_pattern
}

#[derive(Default)]
struct Looked {
    has_log: bool,
    findings: Vec<LogFinding>,
    /// The last line with text.
    last_line: Option<String>,
    tail: Vec<String>,
    unreadable: Vec<UnreadableItem>,
}

fn look(row: &TaskRow, files: &[String; 2], patterns: &Patterns, wants_tail: bool) -> Looked {
    let mut looked = Looked::default();
    let [output, _] = files;
    let mut found: Vec<(Found<'_>, &String)> = Vec::new();
    // The error file comes last: of two lines that say as much, its own tells more.
    for file in files {
        let tail = match read_tail(Path::new(file)) {
            Ok(Some(tail)) => tail,
            Ok(None) => continue,
            Err(what) => {
                let item = UnreadableItem::new("log", &what.path, what.error);
                looked.unreadable.push(item);
                continue;
            }
        };
        looked.has_log = true;
        found.extend(patterns.scan(&tail).into_iter().map(|one| (one, file)));
        looked.last_line = tail.last_lines(1, TAIL_BYTES).pop().or(looked.last_line);
        if wants_tail {
            let lines = tail.last_lines(TAIL_LINES, TAIL_BYTES);
            if !lines.is_empty() {
                looked.tail = lines;
            }
        }
    }
    // Each pattern once: where both files have it, the error file's line.
    let mut once: Vec<(Found<'_>, &String)> = Vec::new();
    for (one, file) in found.into_iter().rev() {
        let name = |found: &Found<'_>| found.meaning.map(|meaning| Arc::clone(&meaning.name));
        if !once.iter().any(|(known, _)| name(known) == name(&one)) {
            once.push((one, file));
        }
    }
    let is_failed = row.status == TaskStatus::Failed;
    // Within one file the last of the highest rank, between files the error file's.
    let reasons = once.iter().enumerate();
    let reasons = reasons.filter(|(_, (found, _))| !is_failed || !found.is_note());
    let telling = reasons.min_by_key(|(_, (found, file))| {
        let (rank, place) = found.weight();
        (rank, *file == output, place)
    });
    let telling = telling.map(|(at, _)| at);
    looked.findings = once
        .into_iter()
        .enumerate()
        .filter_map(|(at, (one, file))| {
            Some(LogFinding {
                key: row.key.clone(),
                job_id: row.job_id.as_ref().map(|id| id.as_str().into()),
                pattern: Arc::clone(&one.meaning?.name),
                telling: Some(at) == telling,
                line: one.line,
                file: file.clone(),
                line_number: one.number,
            })
        })
        .collect();
    looked.findings.sort_by_key(|finding| !finding.telling);
    looked
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
            .map(|f| (&*f.pattern, f.telling, f.line.as_str(), f.line_number))
            .collect();
        assert_eq!(
            seen,
            [
                ("out_of_memory", true, "Killed", Some(2)),
                ("python", false, "ValueError: y", Some(3)),
            ]
        );
        assert!(logs.findings[0].file.ends_with(".err"));
        let tail = &read.tails[&rows[0].key];
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
        // A series that was left out is no reason to fail.
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
    fn without_a_log_directory_nothing_is_looked_for() {
        let row = failed("a");
        let read = read(&[&row], true, None, Patterns::builtin(), 1, &|| ());
        assert_eq!(read.logs, Logs::default());
    }
}
