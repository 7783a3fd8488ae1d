//! One finding per problem of a state.

use std::path::Path;

use super::super::{Finding, testing};
use super::*;
use crate::model::bids::{Dicom, SessionLabel, SubjectLabel};
use crate::model::state::testing::row;

fn config() -> Config {
    testing::config("procedures:\n  - {name: bids, output_dir: '', script: x.sh}\n")
}

fn study(rows: &[TaskRow]) -> Study {
    let mut state = State::default();
    for row in rows {
        state.put(row.clone());
    }
    Study {
        state,
        store: Store::at(Path::new("/s/state.parquet")).unwrap(),
        attempts: Vec::new(),
        verified: vec![verify::Finding {
            level: Level::Ok,
            part: "state file",
            text: "rows: 3".to_owned(),
            todo: None,
        }],
    }
}

fn complete(procedure: &str) -> TaskRow {
    row(procedure, TaskStatus::Complete, Reason::Verified)
}

fn without_output(session: &str) -> TaskRow {
    let mut row = row("bids", TaskStatus::Failed, Reason::NoOutput);
    row.key.session = session.into();
    row
}

/// The findings if only this session exists, or if the sessions are unknown.
fn judged(study: &Study, sessions: Option<(&str, &str)>) -> Vec<Finding> {
    let sessions = sessions.map(|(subject, session)| Session {
        subject: SubjectLabel::new(subject).unwrap(),
        session: SessionLabel::new(session).unwrap(),
        dicom: Dicom::NotNeeded,
    });
    testing::judged(|out| {
        verified(study, out.about(TOPIC, ""));
        judge(
            &config(),
            study,
            sessions.as_ref().map(std::slice::from_ref),
            out,
        );
    })
}

const SESSION: Option<(&str, &str)> = Some(("sub-01", "ses-01"));

fn one(study: &Study, level: Level, part: &str) {
    testing::one(&judged(study, SESSION), level, part);
}

fn count(study: &Study) -> usize {
    judged(study, SESSION).len()
}

#[test]
fn an_intact_state_is_one_line() {
    let findings = judged(&study(&[complete("bids")]), SESSION);
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert!(findings[0].text.contains("rows: 3"));
}

#[test]
fn each_problem_is_a_finding() {
    for level in [Level::Warning, Level::Error] {
        let mut study = study(&[complete("bids")]);
        study.verified[0].level = level;
        one(&study, level, "state file: rows: 3");
    }
    let mut stopped = study(&[complete("bids")]);
    let baselines = &mut stopped.state.meta.baselines;
    baselines.insert("stopped/sessions".to_owned(), 3);
    one(
        &stopped,
        Level::Error,
        "the last run made a safety stop because of sessions",
    );
}

#[test]
fn permissions_that_are_too_wide_are_a_warning() {
    let access =
        |mode| testing::judged(|out| out.writable_by_all(Path::new("/s"), Some(mode), "change it"));
    testing::one(&access(0o646), Level::Warning, "can change it");
    assert!(access(0o640).is_empty());
}

#[test]
fn rows_without_procedure_or_session_are_warnings() {
    let old = study(&[complete("old"), complete("bids")]);
    one(&old, Level::Warning, "old (1)");
    let rows = study(&[complete("bids")]);
    let elsewhere = judged(&rows, Some(("sub-02", "ses-01")));
    testing::one(&elsewhere, Level::Warning, "1 row of sessions");
    assert_eq!(judged(&rows, None).len(), 1);
    // A row of subject scope belongs to the subject.
    let mut subject = complete("bids");
    subject.key.session = "".into();
    assert_eq!(count(&study(&[subject])), 1);
}

#[test]
fn a_procedure_that_never_completes_is_a_warning() {
    let mut never = study(&[without_output("ses-01")]);
    assert_eq!(count(&never), 1, "a single job is not enough");
    never.attempts = vec![without_output("ses-01"), without_output("ses-01")];
    one(&never, Level::Warning, "3 jobs ended without an error");
    let mut some = study(&[complete("bids")]);
    some.attempts = never.attempts;
    assert_eq!(count(&some), 1);
}
