//! Rebuilds the rows from everything that is left: the state file or its backup, the
//! journal, the audit log, the attempts file. Pure.
//!
//! No row of any source is lost; if sources disagree, the newer attempt wins. A readable state file
//! is trusted: only missing rows are added to it.

mod history;
mod merge;

use std::collections::BTreeMap;

use super::journal::Entry;
use super::sources::Sources;
use crate::base::words::words;
use crate::model::job::JobId;
use crate::model::state::columns::About;
use crate::model::state::{Reason, State, TaskKey, TaskRow, TaskStatus};
use crate::store::state_file::Rebuilding;
use history::Attempt;
use merge::Merge;

words! {
    /// The source of a row.
    pub enum Origin {
        StateFile = "state file",
        Backup = "backup",
        Attempts = "attempts file",
        Journal = "journal",
        AuditLog = "audit log",
        /// Queue, accounting or disk.
        World = "Slurm and disk",
        /// Corrected, because the row broke a rule.
        Fixed = "broken rule",
    }
}

/// A rebuilt state.
#[derive(Debug)]
pub struct Rebuilt {
    pub state: State,
    /// The source of the first rows: the state file, otherwise its backup.
    pub base: Origin,
    /// The rows of the base, for comparison.
    pub before: State,
    /// The source of each row that differs from the base.
    pub origins: BTreeMap<TaskKey, Origin>,
    /// The number of earlier attempts that only the backup or the audit log still had.
    pub past: usize,
    /// Damaged or missing files, one sentence each.
    pub damage: Vec<String>,
    /// Other remarks for people.
    pub notes: Vec<String>,
    pub files: Rebuilding,
}

impl Rebuilt {
    /// True if there is something to repair.
    pub fn is_needed(&self) -> bool {
        !self.damage.is_empty()
            || self.past > 0
            // The next command that writes applies the journal anyway.
            || self.origins.values().any(|origin| *origin != Origin::Journal)
    }
}

pub fn rebuild(sources: &Sources) -> Rebuilt {
    let mut merge = Merge::begin(sources);
    let journal = sources.journal.read();
    let entries: &[Entry] = journal.map_or(&[], |salvaged| &salvaged.entries);
    merge.take_journal(entries);
    let log = sources.audit.read();
    let records = log.map_or(&[][..], |contents| &contents.records);
    let tasks = history::replay(records);
    merge.take_attempts(sources, &tasks);
    let attempts = tasks.values().flatten();
    attempts.for_each(|attempt| merge.take_attempt(attempt));
    // Results whose intent is damaged find the row that came from the log.
    merge.take_journal(entries);
    let meta = &mut merge.out.state.meta;
    entries.iter().for_each(|entry| entry.fill(meta));
    if let (None, Some(attempts)) = (&meta.project, sources.attempts.read()) {
        meta.project.clone_from(&attempts.meta.project);
        meta.path.clone_from(&attempts.meta.path);
    }
    history::fill_meta(meta, records);
    fix(&mut merge.out, &tasks);
    merge.finish(sources)
}

/// True if two rows may be the same attempt of their task. Unlike [`crate::model::state::AttemptId`], a row without
/// submission id equals a row with the same job.
pub fn is_same(a: &TaskRow, b: &TaskRow) -> bool {
    if a.key != b.key {
        return false;
    }
    match (&a.submission_id, &b.submission_id) {
        (Some(a), Some(b)) => a == b,
        _ => match (&a.job_id, &b.job_id) {
            (Some(a), Some(b)) => a == b,
            _ => a.submitted_at == b.submitted_at,
        },
    }
}

/// The attempt of a row in the audit log.
fn logged<'a>(row: &TaskRow, tasks: &'a BTreeMap<TaskKey, Vec<Attempt>>) -> Option<&'a Attempt> {
    let mut attempts = tasks.get(&row.key)?.iter();
    attempts.find(|attempt| is_same(&attempt.row, row))
}

/// Merges the values of a later event into a row; other values stay.
fn merge_rows(old: &TaskRow, news: &TaskRow) -> TaskRow {
    let mut row = news.clone();
    row.other_columns = old.other_columns;
    let has_ended = !row.is_in_flight() || row.reason == Some(Reason::AwaitingOutput);
    row.take_from(old, |about, is_known| match about {
        About::Row => false,
        About::Submission => true,
        About::Job => !is_known,
        About::End => !is_known && has_ended,
    });
    row
}

/// Makes the corrections that are certain; `verify` reports everything else.
fn fix(out: &mut Rebuilt, tasks: &BTreeMap<TaskKey, Vec<Attempt>>) {
    let rows = out.state.rows().iter();
    for row in Vec::from_iter(rows.filter_map(|row| fixed(row, tasks))) {
        replace(out, row);
    }
    for mut row in with_shared_jobs(out, tasks) {
        out.notes.push(format!(
            "{}: job {} also has another row; the next `run` will look for this row's job by its submission id",
            row.key,
            row.job_id.as_ref().map_or("?", |id| id.as_str()),
        ));
        row.job_id = None;
        row.status = TaskStatus::Pending;
        row.reason = Some(Reason::Submitting);
        row.missing_since = None;
        replace(out, row);
    }
}

fn replace(out: &mut Rebuilt, row: TaskRow) {
    let key = row.key.clone();
    if let Some(place) = out.state.row_mut(&key) {
        *place = row;
        out.origins.insert(key, Origin::Fixed);
    }
}

fn fixed(row: &TaskRow, tasks: &BTreeMap<TaskKey, Vec<Attempt>>) -> Option<TaskRow> {
    let mut fixed = row.clone();
    if row.is_in_flight() && row.job_id.is_none() && !row.is_in_doubt() {
        match logged(row, tasks).and_then(|a| a.row.job_id.clone()) {
            Some(id) => fixed.job_id = Some(id),
            None if row.submission_id.is_some() => {
                fixed.status = TaskStatus::Pending;
                fixed.reason = Some(Reason::Submitting);
            }
            None => {}
        }
    }
    if let Some(reason) = fixed.reason
        && !reason.fits(fixed.status)
    {
        fixed.reason = Reason::usual(fixed.status);
    }
    (fixed != *row).then_some(fixed)
}

/// Jobs with several rows in flight.
pub fn shared_jobs(rows: &[TaskRow]) -> impl Iterator<Item = (&JobId, Vec<&TaskRow>)> {
    let mut by_job: BTreeMap<(&JobId, Option<&str>), Vec<&TaskRow>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.is_in_flight()) {
        if let Some(id) = &row.job_id {
            let cluster = row.facts.cluster.as_deref();
            by_job.entry((id, cluster)).or_default().push(row);
        }
    }
    let shared = by_job.into_iter().filter(|(_, rows)| rows.len() > 1);
    shared.map(|((id, _), rows)| (id, rows))
}

/// If several rows in flight share a job, the row in the log keeps it, otherwise the newest. Returns
/// the others that have a submission id to find their job.
fn with_shared_jobs(out: &Rebuilt, tasks: &BTreeMap<TaskKey, Vec<Attempt>>) -> Vec<TaskRow> {
    let mut found = Vec::new();
    for (_, mut rows) in shared_jobs(out.state.rows()) {
        let is_logged =
            |row: &TaskRow| logged(row, tasks).is_some_and(|a| a.row.job_id == row.job_id);
        rows.sort_by_key(|row| (is_logged(row), row.submitted_at));
        rows.pop();
        let sent = rows.into_iter().filter(|row| row.submission_id.is_some());
        found.extend(sent.cloned());
    }
    found
}

#[cfg(test)]
mod tests;
