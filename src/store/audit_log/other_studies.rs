//! Events of other studies in the same log: two configurations in one directory share the log unless
//! they set `log_file`. Pure.
//!
//! A submission contains its study. Later events contain their submission, and all events of one
//! invocation belong to one study. Events without study are kept, since they may belong to this one.

use std::collections::{BTreeSet, HashSet};

use super::{Contents, Record};
use crate::model::job::{JobTag, is_same_study};

/// The other studies whose events were removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OtherStudies {
    /// The project words of those studies.
    pub projects: BTreeSet<String>,
    pub events: usize,
}

impl Contents {
    /// Removes the events of other studies, if there are any.
    pub fn remove_other_studies(&mut self, project: &str) -> Option<OtherStudies> {
        let mut projects = BTreeSet::new();
        let (mut submissions, mut calls) = (HashSet::new(), HashSet::new());
        for record in &self.records {
            let Some(other) = project_of(record).filter(|other| !is_same_study(other, project))
            else {
                continue;
            };
            projects.insert(other);
            submissions.extend(text(record, "submission_id").map(str::to_owned));
            calls.extend(text(record, "run_id").map(str::to_owned));
        }
        if projects.is_empty() {
            return None;
        }
        let before = self.records.len();
        self.records.retain(|record| {
            // An event with a study belongs to it, whatever the other events suggest.
            if let Some(named) = project_of(record) {
                return is_same_study(&named, project);
            }
            let is_in = |known: &HashSet<String>, key| {
                text(record, key).is_some_and(|word| known.contains(word))
            };
            !is_in(&submissions, "submission_id") && !is_in(&calls, "run_id")
        });
        Some(OtherStudies {
            projects,
            events: before - self.records.len(),
        })
    }

    /// The studies that have submitted.
    pub fn projects(&self) -> BTreeSet<String> {
        self.records.iter().filter_map(project_of).collect()
    }
}

/// The study of an event, from its `project` or from the job's comment.
pub fn project_of(record: &Record) -> Option<String> {
    if let Some(project) = text(record, "project") {
        return Some(project.to_owned());
    }
    let argv = record.fields.get("argv")?.as_array()?;
    argv.iter()
        .filter_map(|word| word.as_str()?.strip_prefix("--comment="))
        .find_map(JobTag::parse)
        .map(|tag| tag.project)
}

/// A text value of an event.
pub fn text<'a>(record: &'a Record, key: &str) -> Option<&'a str> {
    record.fields.get(key)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn submissions_of_other_studies_and_their_later_events_are_removed() {
        let lines = [
            r#""event":"submitted","job_id":"1","submission_id":"x","run_id":"r1","argv":["sbatch","--comment=snbb:own:x"]"#,
            r#""event":"submitted","job_id":"2","submission_id":"y","run_id":"r2","project":"other""#,
            r#""event":"error","submission_id":"z","run_id":"r2""#,
            r#""event":"status_change","job_id":"2","new_status":"failed","submission_id":"y","run_id":"r3""#,
            r#""event":"status_change","job_id":"1","new_status":"failed","submission_id":"x","run_id":"r4""#,
            r#""event":"submitted","job_id":"9""#,
        ];
        let text: String = lines
            .iter()
            .map(|line| {
                format!("{{\"timestamp\":\"2026-03-01T00:00:00+00:00\",\"subject\":\"sub-1\",\"session\":\"\",\"procedure\":\"a\",{line}}}\n")
            })
            .collect();
        let mut contents = parse(text.as_bytes());
        assert_eq!(
            contents.projects(),
            ["other", "own"].map(str::to_owned).into()
        );
        let other_studies = contents.remove_other_studies("own").unwrap();
        assert_eq!((other_studies.projects.len(), other_studies.events), (1, 3));
        let left: Vec<&str> = contents
            .records
            .iter()
            .map(|record| record.job_id.as_ref().unwrap().as_str())
            .collect();
        assert_eq!(left, ["1", "1", "9"]);
        assert_eq!(contents.remove_other_studies("own"), None);
    }
}
