//! Finds the tasks of jobs in the audit log.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::path::Path;

use chrono::{DateTime, Utc};
use serde_json::Value;

use crate::executor::{JobReport, SUBMIT_TIME_WINDOW};
use crate::model::job::{JobId, JobTag};
use crate::model::state::TaskKey;
use crate::store::audit_log;
use crate::store::audit_log::EventKind;

/// Finds the task of a job. The log is read at the first call; an unreadable log counts as empty.
pub fn logged_tasks(log: &Path, project: &str) -> impl Fn(&JobReport) -> Option<TaskKey> {
    let known: OnceCell<Submissions> = OnceCell::new();
    move |job| {
        let known = known.get_or_init(|| Submissions::read(log, project));
        known.task_of(job).cloned()
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Phase;
    use crate::model::state::JobFacts;
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
