//! Corrects rows that break a rule. Pure.

use std::collections::BTreeMap;

use super::history::Attempt;
use super::{Origin, Rebuilt, is_same};
use crate::model::job::JobId;
use crate::model::state::{Reason, TaskKey, TaskRow, TaskStatus};

/// Makes the corrections that are certain; `verify` reports everything else.
pub(super) fn fix(out: &mut Rebuilt, tasks: &BTreeMap<TaskKey, Vec<Attempt>>) {
    let broken: Vec<TaskRow> = out
        .state
        .rows()
        .iter()
        .filter_map(|row| fixed(row, tasks))
        .collect();
    for row in broken {
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
        let logged = tasks
            .get(&row.key)
            .and_then(|attempts| attempts.iter().find(|a| is_same(&a.row, row)));
        match logged.and_then(|a| a.row.job_id.clone()) {
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
    by_job
        .into_iter()
        .filter(|(_, rows)| rows.len() > 1)
        .map(|((id, _), rows)| (id, rows))
}

/// If several rows in flight share a job, the row in the log keeps it, otherwise the newest. Returns
/// the others that have a submission id to find their job.
fn with_shared_jobs(out: &Rebuilt, tasks: &BTreeMap<TaskKey, Vec<Attempt>>) -> Vec<TaskRow> {
    let mut found = Vec::new();
    for (_, mut rows) in shared_jobs(out.state.rows()) {
        let is_logged = |row: &TaskRow| {
            tasks.get(&row.key).is_some_and(|attempts| {
                attempts
                    .iter()
                    .any(|a| is_same(&a.row, row) && a.row.job_id == row.job_id)
            })
        };
        rows.sort_by_key(|row| (is_logged(row), row.submitted_at));
        rows.pop();
        found.extend(
            rows.into_iter()
                .filter(|row| row.submission_id.is_some())
                .cloned(),
        );
    }
    found
}
