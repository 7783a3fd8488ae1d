//! Reconstructs the attempts of every task from the audit log. Pure.
//!
//! An event identifies its attempt by submission id, otherwise by job id (the Python program had no
//! other). An event without either is about the task's newest attempt.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::model::job::array;
use crate::model::state::table::Metadata;
use crate::model::state::{Reason, TaskKey, TaskRow, TaskStatus};
use crate::store::audit_log;
use crate::store::audit_log::{EventKind, Record};

/// One attempt of a task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Attempt {
    pub row: TaskRow,
    /// Time of its last event.
    pub touched: DateTime<Utc>,
    pub place: Place,
}

/// Where an attempt's row belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The task's row.
    Current,
    /// Replaced by a later attempt.
    Followed,
    /// Removed by `retry` or `clean`.
    Cleared,
    /// Its submission never became a job.
    Released,
}

/// Each task's attempts, oldest first.
pub(super) fn replay(records: &[Record]) -> BTreeMap<TaskKey, Vec<Attempt>> {
    let mut ordered: Vec<&Record> = records.iter().collect();
    // Stable: events with equal times stay in the order of the log.
    ordered.sort_by_key(|record| record.at);
    let mut tasks: BTreeMap<TaskKey, Vec<Attempt>> = BTreeMap::new();
    for record in ordered {
        let attempts = match tasks.get_mut(&record.key) {
            Some(attempts) => attempts,
            None => tasks.entry(record.key.clone()).or_default(),
        };
        apply(record, attempts);
    }
    tasks.retain(|_, attempts| !attempts.is_empty());
    tasks
}

/// Fills in the study of the newest submission.
pub(super) fn fill_meta(meta: &mut Metadata, records: &[Record]) {
    let submitted = |record: &&Record| record.kind == EventKind::Submitted;
    let records = records.iter().filter(submitted);
    let newest = records.max_by_key(|record| record.at);
    let Some(newest) = newest else { return };
    let text = |name| audit_log::text(newest, name).map(str::to_owned);
    if meta.project.is_none() {
        meta.project = audit_log::project_of(newest);
        meta.path = text("state_file");
    }
    meta.cluster = meta.cluster.take().or_else(|| text("home_cluster"));
}

fn apply(record: &Record, attempts: &mut Vec<Attempt>) {
    match record.kind {
        EventKind::Submitted | EventKind::Adopted => begin(record, Reason::Queued, attempts),
        // Refused submissions have no status and leave no row.
        EventKind::Error if record.new_status == Some(TaskStatus::Pending) => {
            begin(record, Reason::Submitting, attempts);
        }
        EventKind::StatusChange | EventKind::ReasonChange | EventKind::Cancelled => {
            if let Some(status) = record.new_status {
                change(record, status, attempts);
            }
        }
        // Rows that `retry` and `clean` removed.
        EventKind::RetryCleared | EventKind::Pruned => {
            if let Some(attempt) = of(record, attempts) {
                audit_log::fill(&mut attempt.row, &record.fields);
                (attempt.place, attempt.touched) = (Place::Cleared, record.at);
            }
        }
        EventKind::Released => {
            let attempt = of(record, attempts).filter(|attempt| attempt.row.job_id.is_none());
            if let Some(attempt) = attempt {
                (attempt.place, attempt.touched) = (Place::Released, record.at);
            }
        }
        _ => {}
    }
}

/// Begins an attempt, or adds the job to a known one.
fn begin(record: &Record, reason: Reason, attempts: &mut Vec<Attempt>) {
    let status = record.new_status.unwrap_or(TaskStatus::Pending);
    let known = match (submission_id(record), &record.job_id) {
        (Some(id), _) => position(attempts, |row| row.submission_id.as_deref() == Some(id)),
        // An adoption without submission id.
        (None, Some(job_id)) if record.kind == EventKind::Adopted => {
            attempts.iter().rposition(|Attempt { row, place, .. }| {
                let may_be = row.is_in_doubt() || row.job_id.as_ref() == Some(job_id);
                *place == Place::Current && may_be
            })
        }
        // The Python program: each submission is a new attempt.
        _ => None,
    };
    let at = known.unwrap_or_else(|| follow(record, attempts));
    let Some(attempt) = attempts.get_mut(at) else {
        return;
    };
    let row = &mut attempt.row;
    audit_log::fill(row, &record.fields);
    if record.job_id.is_some() || known.is_none() {
        row.job_id = record.job_id.clone().or(row.job_id.take());
        row.status = status;
        row.reason = Some(reason_of(record, status).unwrap_or(reason));
    }
    row.updated_at = Some(record.at);
    attempt.touched = record.at;
}

fn change(record: &Record, status: TaskStatus, attempts: &mut Vec<Attempt>) {
    if of(record, attempts).is_none() {
        follow(record, attempts);
    }
    let Some(attempt) = of(record, attempts) else {
        return;
    };
    let row = &mut attempt.row;
    audit_log::fill(row, &record.fields);
    if record.job_id.is_some() {
        row.job_id.clone_from(&record.job_id);
    }
    row.status = status;
    row.reason = reason_of(record, status).or(Reason::usual(status));
    if status.is_in_flight() {
        // After a requeue, the values of the job's end no longer apply.
        if !record.fields.contains_key("ended_at") {
            row.facts.ended_at = None;
        }
        if !record.fields.contains_key("exit_code") {
            row.facts.set_exit_code(None);
        }
    }
    row.updated_at = Some(record.at);
    attempt.touched = record.at;
}

/// Adds an attempt that replaces the current one, and returns its index.
fn follow(record: &Record, attempts: &mut Vec<Attempt>) -> usize {
    for attempt in attempts.iter_mut() {
        if attempt.place == Place::Current {
            attempt.place = Place::Followed;
        }
    }
    let count = attempts.iter().filter_map(|a| a.row.attempt).max();
    attempts.push(Attempt {
        row: TaskRow {
            submitted_at: Some(record.at),
            job_id: record.job_id.clone(),
            attempt: Some(count.unwrap_or(0).saturating_add(1)),
            updated_at: Some(record.at),
            job_name: submission_id(record).map(|id| {
                Arc::from(match array::split_task_id(id) {
                    Some((array, _)) => array::job_name(&record.key.procedure, array),
                    None => record.key.job_name(),
                })
            }),
            ..TaskRow::new(record.key.clone(), TaskStatus::Pending)
        },
        touched: record.at,
        place: Place::Current,
    });
    attempts.len() - 1
}

/// The attempt of an event; `None` if the event has an unknown job or submission.
fn of<'a>(record: &Record, attempts: &'a mut [Attempt]) -> Option<&'a mut Attempt> {
    let at = match (submission_id(record), &record.job_id) {
        (Some(id), _) => position(attempts, |row| row.submission_id.as_deref() == Some(id)),
        (None, Some(job_id)) => position(attempts, |row| row.job_id.as_ref() == Some(job_id))
            .or_else(|| attempts.iter().rposition(|a| a.row.job_id.is_none())),
        (None, None) => attempts.iter().rposition(|a| a.place == Place::Current),
    }?;
    attempts.get_mut(at)
}

fn position(attempts: &[Attempt], is: impl Fn(&TaskRow) -> bool) -> Option<usize> {
    attempts.iter().rposition(|attempt| is(&attempt.row))
}

fn submission_id(record: &Record) -> Option<&str> {
    audit_log::text(record, "submission_id")
}

/// The event's reason, if it matches the status.
fn reason_of(record: &Record, status: TaskStatus) -> Option<Reason> {
    let reason: Reason = audit_log::text(record, "reason")?.parse().ok()?;
    reason.fits(status).then_some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attempts(lines: &[&str]) -> Vec<String> {
        let text: String = lines
            .iter()
            .enumerate()
            .map(|(at, line)| {
                format!(
                    "{{\"timestamp\":\"2026-03-01T00:{at:02}:00+00:00\",\"subject\":\"sub-1\",\
                     \"session\":\"\",\"procedure\":\"a\",{line}}}\n"
                )
            })
            .collect();
        let contents = audit_log::parse(text.as_bytes());
        assert_eq!(contents.bad_lines, [0; 0]);
        replay(&contents.records)
            .into_values()
            .flatten()
            .map(|a| {
                format!(
                    "{} {} job {} {} {:?}",
                    a.row.attempt.unwrap(),
                    a.row.submission_id.as_deref().unwrap_or("-"),
                    a.row.job_id.as_ref().map_or("-", |id| id.as_str()),
                    a.row
                        .reason
                        .map_or(a.row.status.as_str(), |reason| reason.as_str()),
                    a.place,
                )
            })
            .collect()
    }

    #[test]
    fn ids_connect_submissions_and_their_ends() {
        assert_eq!(
            attempts(&[
                r#""event":"submitted","job_id":"1","new_status":"pending","submission_id":"x""#,
                r#""event":"status_change","job_id":"1","new_status":"failed","reason":"timeout""#,
                r#""event":"retry_cleared","job_id":"1","old_status":"failed""#,
                r#""event":"error","detail":"refused","submission_id":"y","attempt":2"#,
                r#""event":"submitted","job_id":"2","submission_id":"z","attempt":2"#,
                r#""event":"status_change","job_id":"1","new_status":"running","reason":"running""#,
            ]),
            ["1 x job 1 running Cleared", "2 z job 2 queued Current"]
        );
    }

    #[test]
    fn a_submission_in_doubt_is_adopted_or_released() {
        let doubt = r#""event":"error","new_status":"pending","submission_id":"x""#;
        assert_eq!(attempts(&[doubt]), ["1 x job - submitting Current"]);
        assert_eq!(
            attempts(&[
                doubt,
                r#""event":"adopted","job_id":"5","new_status":"running","reason":"running""#
            ]),
            ["1 x job 5 running Current"]
        );
        assert_eq!(
            attempts(&[doubt, r#""event":"released","submission_id":"x""#]),
            ["1 x job - submitting Released"]
        );
    }

    #[test]
    fn the_python_programs_events_are_understood() {
        assert_eq!(
            attempts(&[
                r#""event":"submitted","job_id":"1""#,
                r#""event":"status_change","job_id":"1","old_status":"pending","new_status":"failed""#,
                r#""event":"submitted","job_id":"2""#,
                r#""event":"status_change","job_id":"2","old_status":"pending","new_status":"complete""#,
                r#""event":"status_change","job_id":"9","old_status":"pending","new_status":"running""#,
            ]),
            [
                "1 - job 1 failed Followed",
                "2 - job 2 verified Followed",
                "3 - job 9 running Current"
            ]
        );
    }
}
