//! Jobs without a row, and rows that the state lacks because its file was deleted or replaced by an older one: finds the
//! tasks of such jobs, adopts them, and numbers the attempts of a task.

use std::cell::{LazyCell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::decide::request::study_word;
use crate::executor::array;
use crate::executor::{JobReport, OtherExecutor, Phase, SUBMIT_TIME_WINDOW};
use crate::model::config::Config;
use crate::model::job::array::is_array_id;
use crate::model::job::{JobId, JobTag, is_same_study};
use crate::model::state::transition::Cause;
use crate::model::state::{JobFacts, Reason, State, TaskKey, TaskRow, TaskStatus};
use crate::store::audit_log::{Event, EventKind, Record, newest, project_of, text};
use crate::store::sources::Sources;
use crate::store::state_file::Store;
use crate::store::{audit_log, repair};

/// Adds rows for live jobs of ours that have none (the state was rolled back or deleted).
pub fn adopt(
    state: &mut State,
    jobs: &[(TaskKey, JobReport)],
    history: &AttemptNumbers,
    now: DateTime<Utc>,
) -> Vec<Event> {
    jobs.iter()
        .map(|(key, job)| {
            let old = state.get(key).map(|row| row.status);
            // The retries that were used so far still count.
            let retry = state.get(key).map(|row| row.retry.clone());
            let (status, reason) = match job.phase {
                Phase::Running | Phase::Suspended => (TaskStatus::Running, Reason::Running),
                _ => (TaskStatus::Pending, Reason::Queued),
            };
            let row = TaskRow {
                submitted_at: job.submitted_at.or(Some(now)),
                job_id: Some(job.id.clone()),
                reason: Some(reason),
                attempt: Some(history.next(key).0),
                facts: JobFacts {
                    elapsed_s: None,
                    ..job.facts.clone()
                },
                updated_at: Some(now),
                job_name: Some(job.name.as_str().into()),
                // A cut id would contradict the full one, which accounting may show later.
                submission_id: job
                    .tag
                    .as_ref()
                    .filter(|tag| !tag.is_cut())
                    .map(|tag| tag.submission_id.as_str().into()),
                // Earlier outputs may exist, so new ones must be newer than the job's start.
                replaces_outputs: Some(true),
                retry: retry.unwrap_or_default(),
                ..TaskRow::new(key.clone(), status)
            };
            let event = Event {
                old_status: old,
                ..event(now, &Cause::Adoption(job.id.clone()), row.status, &row)
            };
            state.put(row);
            event
        })
        .collect()
}

pub(super) fn event(at: DateTime<Utc>, cause: &Cause, old: TaskStatus, row: &TaskRow) -> Event {
    let kind = match cause {
        Cause::Adoption(_) => EventKind::Adopted,
        _ if old == row.status => EventKind::ReasonChange,
        _ => EventKind::StatusChange,
    };
    Event {
        old_status: Some(old),
        new_status: Some(row.status),
        ..Event::of(row, at, kind)
    }
}

/// The number and the last failure of each task's earlier attempts.
#[derive(Debug, Default)]
pub struct AttemptNumbers {
    attempts: HashMap<TaskKey, (i32, Option<Reason>)>,
}

impl AttemptNumbers {
    pub fn new(attempts: &[TaskRow], state: &State) -> Self {
        let mut history = Self::default();
        let earlier = attempts.iter().chain(state.superseded());
        for row in earlier.chain(state.rows()) {
            let entry = history.attempts.entry(row.key.clone()).or_default();
            let attempt = row.attempt.unwrap_or(1);
            if attempt >= entry.0 {
                let failed = row.status == TaskStatus::Failed;
                *entry = (attempt, row.reason.filter(|_| failed));
            }
        }
        history
    }

    /// The number of the next attempt, and why the previous one failed.
    pub fn next(&self, key: &TaskKey) -> (i32, Option<Reason>) {
        match self.attempts.get(key) {
            Some((attempt, reason)) => (attempt.saturating_add(1), *reason),
            None => (1, None),
        }
    }
}

/// Finds the task of a job. The log is read at the first call; an unreadable log counts as empty.
pub(super) fn logged_tasks(log: &Path, project: &str) -> impl Fn(&JobReport) -> Option<TaskKey> {
    let known = LazyCell::new(|| Submissions::read(log, project));
    move |job| known.task_of(job).cloned()
}

#[derive(Default)]
struct Submissions {
    by_id: HashMap<String, TaskKey>,
    by_job: HashMap<JobId, (TaskKey, DateTime<Utc>)>,
}

impl Submissions {
    fn read(log: &Path, project: &str) -> Self {
        let mut contents = audit_log::read(log).ok().flatten().unwrap_or_default();
        contents.remove_other_studies(project);
        let mut known = Self::default();
        for record in contents.records {
            if !matches!(record.kind, EventKind::Submitted | EventKind::Adopted) {
                continue;
            }
            let text = |field: &str| record.fields.get(field).and_then(Value::as_str);
            if let Some(id) = text("submission_id") {
                known.by_id.insert(id.to_owned(), record.key.clone());
            }
            let submitted = text("submitted_at")
                .and_then(|time| DateTime::parse_from_rfc3339(time).ok())
                .map_or(record.at, |time| time.to_utc());
            if let Some(job) = record.job_id {
                known.by_job.insert(job, (record.key, submitted));
            }
        }
        known
    }

    fn task_of(&self, job: &JobReport) -> Option<&TaskKey> {
        let id = job.tag.as_ref().map(|tag| &tag.submission_id);
        if let Some(key) = id.and_then(|id| self.by_id.get(id)) {
            return Some(key);
        }
        let (key, submitted) = self.by_job.get(&job.id)?;
        let is_near = |time: DateTime<Utc>| (time - *submitted).abs() <= SUBMIT_TIME_WINDOW;
        let is_same = job.submitted_at.is_none_or(is_near) || has_name_of(job, key);
        let has_other_tag = job.tag.as_ref().is_some_and(|tag| !JobTag::is_cut(tag));
        (is_same && !has_other_tag).then_some(key)
    }
}

fn has_name_of(job: &JobReport, key: &TaskKey) -> bool {
    let rest = job.name.strip_prefix(&*key.procedure);
    let rest = rest.and_then(|rest| rest.strip_prefix('_'));
    rest.is_some_and(|rest| rest.starts_with(&*key.subject) || rest.starts_with("array_"))
}

/// Reads the task lists of arrays, each once. An unreadable list counts as gone, since its tasks are unknown.
pub(super) fn listings(arrays: &Path) -> impl Fn(&str) -> Option<Arc<[TaskKey]>> {
    let known: RefCell<HashMap<String, Option<Arc<[TaskKey]>>>> = RefCell::default();
    let read = |name: &str| {
        let id = match is_array_id(name) {
            true => name.to_owned(),
            false => array::find(arrays, name)?,
        };
        let tasks = array::read(arrays, &id).unwrap_or_else(|error| {
            tracing::warn!("{error}");
            None
        });
        tasks.map(Arc::from)
    };
    move |name| {
        let mut known = known.borrow_mut();
        let listing = known.entry(name.to_owned());
        listing.or_insert_with(|| read(name)).clone()
    }
}

/// True if jobs of the study may have no row: the state is empty, or lacks the newest submission of the audit log.
pub(super) fn may_lack_rows(config: &Config, state: &State) -> bool {
    if state.is_empty() {
        return true;
    }
    let Some(project) = &state.meta.project else {
        return false;
    };
    newest_submission(config, project).is_some_and(|record| {
        let id = text(&record, "submission_id");
        let mut rows = state.rows().iter();
        !rows.any(|row| row.submission_id.as_deref() == id)
    })
}

/// The newest submission of a study in the audit log.
pub fn newest_submission(config: &Config, project: &str) -> Option<Record> {
    newest(&config.log_file, |record| {
        // A submission in doubt is logged as an error.
        matches!(record.kind, EventKind::Submitted | EventKind::Error)
            && record.new_status == Some(TaskStatus::Pending)
            && text(record, "submission_id").is_some()
            && project_of(record).is_some_and(|of| is_same_study(&of, project))
    })
}

/// Brings back the rows of jobs that only another executor can show, from the files beside the state.
pub(super) fn restore(config: &Config, store: &Store, state: &mut State) {
    for row in rows(config, store, state) {
        let is_free = state.get(&row.key).is_none_or(|own| !own.is_in_flight());
        if is_free && OtherExecutor::of(&row, config.executor).is_some() {
            state.put(TaskRow {
                other_columns: None,
                ..row
            });
        }
    }
}

/// All attempts in the files beside the state.
pub(super) fn rows(config: &Config, store: &Store, state: &State) -> Vec<TaskRow> {
    let project = state.meta.project.as_ref().or(config.project.as_ref());
    let project = study_word(project.cloned(), &store.paths.state);
    let sources = Sources::read(store, &config.log_file);
    // A new study may write to the log of others.
    let projects = sources.audit.read().map(|log| log.projects());
    let projects = projects.unwrap_or_default();
    let is_new = sources.backup.is_missing() && sources.attempts.is_missing();
    if is_new && !projects.is_empty() && !projects.iter().any(|one| is_same_study(one, &project)) {
        return Vec::new();
    }
    let state = repair::rebuild(&sources.of_study(&project)).state;
    [state.rows(), state.superseded()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::state::testing::at;

    #[test]
    fn attack_the_log_finds_a_job_by_its_tag_or_by_id_and_time() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("audit.jsonl");
        let line = |job: &str, id: &str, project: &str| {
            format!(
                r#"{{"timestamp":"{}","event":"submitted","subject":"sub-{job}","session":"","procedure":"a","job_id":"{job}","submission_id":"{id}","project":"{project}","run_id":"r{job}"}}"#,
                at(0).to_rfc3339()
            )
        };
        let ours = line("1", "0123456789abcdef", "p");
        std::fs::write(
            &log,
            ours + "\n" + &line("2", "00112233445566ff", "q") + "\n",
        )
        .unwrap();
        let found = |job: &str, comment: &str, name: &str, minute: i64| {
            let job = JobReport {
                id: JobId::new(job),
                name: name.into(),
                phase: Phase::Running,
                pending_reason: None,
                submitted_at: Some(at(minute)),
                facts: JobFacts::default(),
                tag: JobTag::parse(comment),
                has_submit_line: false,
            };
            logged_tasks(&log, "p")(&job).map(|key| key.subject.to_string())
        };
        let first = Some("sub-1".to_owned());
        let week = 7 * 24 * 60;
        assert_eq!(found("9", "snbb:p:0123456789abcdef", "x", week), first);
        assert_eq!(found("1", "site", "x", 60), first);
        assert_eq!(found("1", "snbb:p:0123", "x", 60), first);
        assert_eq!(found("1", "", "a_sub-1", week), first, "requeued");
        assert_eq!(found("1", "", "x", week), None, "recycled");
        assert_eq!(found("1", "snbb:p:ffffffffffffffff", "x", 60), None);
        assert_eq!(found("2", "", "x", 0), None, "another study's");
        let missing = directory.path().join("none");
        let none = logged_tasks(&missing, "p");
        let job = JobReport {
            id: JobId::new("1"),
            name: String::new(),
            phase: Phase::Running,
            pending_reason: None,
            submitted_at: None,
            facts: JobFacts::default(),
            tag: None,
            has_submit_line: false,
        };
        assert_eq!(none(&job), None);
    }
}
