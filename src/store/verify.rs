//! Checks that every file is readable, every row follows the rules, and nothing is missing. Pure.

use std::collections::BTreeMap;

use super::findings::{Findings, REPAIR, control_file, leftovers};
use super::repair::{self, Origin, Rebuilt};
use super::schema::Contents;
use super::sources::Sources;
use crate::base::text::plural;
use crate::model::state::{TaskKey, TaskRow};

pub use super::findings::{Finding, Level};

/// Checks first the files, then the rows.
pub fn verify(sources: &Sources) -> Vec<Finding> {
    let rebuilt = repair::rebuild(sources);
    let mut out = Findings::of_files(sources, rebuilt.state.len() + rebuilt.past);
    control_file(sources, &mut out);
    if let Some(contents) = sources.state.read() {
        let attempts = sources
            .attempts
            .read()
            .map_or(&[][..], |contents| &contents.rows);
        check_rows(contents, attempts, &mut out);
        check_missing_rows(&rebuilt, &mut out);
    }
    leftovers(sources, &mut out);
    out.list
}

/// Checks the rows of the state file.
fn check_rows(contents: &Contents, attempts: &[TaskRow], out: &mut Findings) {
    let rows = &contents.rows;
    let level = match contents.meta.format_version {
        0 => Level::Warning,
        _ => Level::Error,
    };
    let mut by_task: BTreeMap<&TaskKey, usize> = BTreeMap::new();
    for row in rows {
        *by_task.entry(&row.key).or_default() += 1;
    }
    let doubled: Vec<String> = by_task
        .into_iter()
        .filter(|(_, count)| *count > 1)
        .map(|(key, count)| format!("{key} ({count} rows)"))
        .collect();
    out.rule(
        (level, "one row per task"),
        "each task has one row",
        "tasks with several rows",
        "nothing: the next save keeps the live or newest row and moves the others to the attempts \
         file",
        &doubled,
    );
    out.rule(
        (Level::Error, "job ids"),
        "no two rows in flight have the same job id",
        "jobs with several rows in flight",
        REPAIR,
        &doubled_jobs(rows),
    );
    out.rule(
        (Level::Error, "submission ids"),
        "each belongs to one attempt",
        "submission ids of several tasks",
        "check the job's comment in Slurm, and correct the state file with pandas",
        &doubled_submissions(rows.iter().chain(attempts)),
    );
    let misfits: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let reason = row.reason.filter(|reason| !reason.fits(row.status))?;
            Some(format!("{} is {} ({reason})", row.key, row.status))
        })
        .collect();
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
        if !matches!(origin, Origin::AuditLog | Origin::Backup) {
            continue;
        }
        let Some(row) = rebuilt.state.get(key) else {
            continue;
        };
        let job = row
            .job_id
            .as_ref()
            .map_or_else(String::new, |id| format!(", job {id}"));
        let text = format!("{key} ({origin}{job})");
        if row.is_in_flight() {
            live.push(text);
        } else {
            ended.push(text);
        }
    }
    out.rule(
        (Level::Error, "submissions"),
        "every job in the audit log that may still be running has a row",
        "jobs that may be running but have no row",
        REPAIR,
        &live,
    );
    out.broken(
        Level::Warning,
        "submissions",
        "ended attempts without a row",
        "snbb-scheduler state repair, unless the rows were removed on purpose",
        &ended,
    );
    if rebuilt.past > 0 {
        out.add(
            Level::Warning,
            "submissions",
            format!(
                "{} of the audit log in no other file",
                plural(rebuilt.past, "earlier attempt")
            ),
            Some("snbb-scheduler state repair, unless the attempts file was removed on purpose"),
        );
    }
}

fn doubled_jobs(rows: &[TaskRow]) -> Vec<String> {
    repair::shared_jobs(rows)
        .map(|(id, rows)| {
            let keys: Vec<&TaskKey> = rows.iter().map(|row| &row.key).collect();
            format!("job {id} ({})", joined(&keys))
        })
        .collect()
}

fn doubled_submissions<'a>(rows: impl Iterator<Item = &'a TaskRow>) -> Vec<String> {
    let mut by_id: BTreeMap<&str, Vec<&TaskKey>> = BTreeMap::new();
    for row in rows {
        if let Some(id) = row.submission_id.as_deref() {
            let keys = by_id.entry(id).or_default();
            // A crash between two saves leaves an attempt in both files.
            if !keys.contains(&&row.key) {
                keys.push(&row.key);
            }
        }
    }
    by_id
        .into_iter()
        .filter(|(_, keys)| keys.len() > 1)
        .map(|(id, keys)| format!("{id} ({})", joined(&keys)))
        .collect()
}

fn joined(keys: &[&TaskKey]) -> String {
    let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
    keys.join(", ")
}
