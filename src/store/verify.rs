//! Checks that every file is readable, every row follows the rules, and nothing is missing. Pure.

use std::collections::BTreeMap;
use std::fmt::Display;

use itertools::Itertools as _;

use super::findings::{Findings, REPAIR, control_file, temporary_files};
use super::repair::{self, Origin, Rebuilt};
use super::schema::Contents;
use super::sources::Sources;
use crate::base::text::{maybe, plural};
use crate::model::state::{TaskKey, TaskRow};

pub use super::findings::{Finding, Level};

/// Checks first the files, then the rows.
pub fn verify(sources: &Sources) -> Vec<Finding> {
    let rebuilt = repair::rebuild(sources);
    let mut out = Findings::of_files(sources, rebuilt.state.len() + rebuilt.past);
    control_file(sources, &mut out);
    if let Some(contents) = sources.state.read() {
        let attempts = sources.attempts.read();
        let attempts = attempts.map_or(&[][..], |contents| &contents.rows);
        check_rows(contents, attempts, &mut out);
        check_missing_rows(&rebuilt, &mut out);
    }
    temporary_files(sources, &mut out);
    out.list
}

/// Checks the rows of the state file.
fn check_rows(contents: &Contents, attempts: &[TaskRow], out: &mut Findings) {
    let rows = &contents.rows;
    let level = match contents.meta.format_version {
        0 => Level::Warning,
        _ => Level::Error,
    };
    let by_task = rows.iter().map(|row| &row.key).counts().into_iter();
    let doubled = by_task.filter(|(_, count)| *count > 1).sorted();
    let doubled = doubled.map(|(key, count)| format!("{key} ({count} rows)"));
    let mut by_id: BTreeMap<&str, Vec<&TaskKey>> = BTreeMap::new();
    for row in rows.iter().chain(attempts) {
        if let Some(id) = row.submission_id.as_deref() {
            let keys = by_id.entry(id).or_default();
            // A crash between two saves leaves an attempt in both files.
            if !keys.contains(&&row.key) {
                keys.push(&row.key);
            }
        }
    }
    out.rule(
        (level, "one row per task"),
        "each task has one row",
        "tasks with several rows",
        "nothing: the next save keeps the live or newest row and moves the others to the attempts \
         file",
        &Vec::from_iter(doubled),
    );
    out.rule(
        (Level::Error, "job ids"),
        "no two rows in flight have the same job id",
        "jobs with several rows in flight",
        REPAIR,
        &texts(repair::shared_jobs(rows).map(|(id, rows)| {
            let keys = rows.iter().map(|row| &row.key).collect();
            (format!("job {id}"), keys)
        })),
    );
    out.rule(
        (Level::Error, "submission ids"),
        "each belongs to one attempt",
        "submission ids of several tasks",
        "check the job's comment in Slurm, and correct the state file with pandas",
        &texts(by_id.into_iter().filter(|(_, keys)| keys.len() > 1)),
    );
    let misfit = |row: &TaskRow| {
        let reason = row.reason.filter(|reason| !reason.fits(row.status))?;
        Some(format!("{} is {} ({reason})", row.key, row.status))
    };
    let misfits: Vec<String> = rows.iter().filter_map(misfit).collect();
    out.rule(
        (Level::Error, "reasons"),
        "each matches its status",
        "reasons that do not match the status",
        REPAIR,
        &misfits,
    );
    let jobless: Vec<String> = rows
        .iter()
        .filter(|row| row.is_in_flight() && row.job_id.is_none())
        .filter(|row| !row.is_in_doubt() || row.submission_id.is_none())
        .map(|row| row.key.to_string())
        .collect();
    out.rule(
        (Level::Error, "rows in flight"),
        "each has a job id, or a submission id by which its job can be found",
        "rows in flight without a job and without a submission in doubt",
        REPAIR,
        &jobless,
    );
}

/// Finds attempts of the other files that the state file lacks.
fn check_missing_rows(rebuilt: &Rebuilt, out: &mut Findings) {
    let (mut live, mut ended) = (Vec::new(), Vec::new());
    for (key, origin) in &rebuilt.origins {
        let row = rebuilt.state.get(key);
        let is_missing = matches!(origin, Origin::AuditLog | Origin::Backup);
        if let Some(row) = row.filter(|_| is_missing) {
            let job = maybe(", job ", row.job_id.as_ref(), "");
            let text = format!("{key} ({origin}{job})");
            match row.is_in_flight() {
                true => live.push(text),
                false => ended.push(text),
            }
        }
    }
    out.rule(
        (Level::Error, "submissions"),
        "every job in the audit log that may still be running has a row",
        "jobs that may be running but have no row",
        REPAIR,
        &live,
    );
    if !ended.is_empty() {
        out.rule(
            (Level::Warning, "submissions"),
            "",
            "ended attempts without a row",
            "snbb-scheduler state repair, unless the rows were removed on purpose",
            &ended,
        );
    }
    if rebuilt.past > 0 {
        let earlier = plural(rebuilt.past, "earlier attempt");
        let text = format!("{earlier} of the audit log in no other file");
        let todo = "snbb-scheduler state repair, unless the attempts file was removed on purpose";
        out.add(Level::Warning, "submissions", text, todo);
    }
}

/// What several tasks share, with these tasks.
fn texts<'a>(shared: impl Iterator<Item = (impl Display, Vec<&'a TaskKey>)>) -> Vec<String> {
    let text = |(what, keys): (_, Vec<&TaskKey>)| format!("{what} ({})", keys.iter().join(", "));
    shared.map(text).collect()
}
