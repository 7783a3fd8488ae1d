//! A study of `scripts/gen-tree` holds the tasks that its `expected.json` says.
#![expect(clippy::disallowed_methods, reason = "starts the generator")]

use std::collections::HashMap;
use std::process::Command;

use serde_json::Value;
use snbb_scheduler::decide::manifest::{Policy, RemovedProcedures, World, plan};
use snbb_scheduler::gather::completion::probe::Probe;
use snbb_scheduler::gather::completion::{Completion, Completions, SubjectCompletions};
use snbb_scheduler::gather::sessions::discover::discover;
use snbb_scheduler::model::bids::SessionLabel;
use snbb_scheduler::model::procedure::{ProcedureDag, ProcedureId, Scope};
use snbb_scheduler::model::state::State;
use tempfile::TempDir;

use super::pipeline::pipeline;
use crate::harness_tree::config;

const STEPS: [&str; 6] = [
    "bids",
    "bids_post",
    "defacing",
    "qsiprep",
    "freesurfer",
    "qsirecon",
];

/// Makes a study of so many sessions.
fn generate(sessions: &str, seed: &str) -> TempDir {
    let tmp = tempfile::tempdir().unwrap();
    let generator = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts/gen-tree");
    let made = Command::new("python3")
        .arg(generator)
        .arg(tmp.path())
        .args(["--sessions", sessions, "--seed", seed])
        .args(["--dicom-files", "1", "--partial", "0.3"])
        .output()
        .expect("the tests need python3");
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    tmp
}

#[test]
fn the_decisions_are_the_same_for_any_number_of_threads() {
    for (sessions, seed) in [("1", "1"), ("2", "2"), ("7", "3"), ("120", "4")] {
        let study = generate(sessions, seed);
        // Things that tasks stumble over, in an order that must not depend on the threads.
        let odd = |path: &str| study.path().join(path);
        std::os::unix::fs::symlink("loop", odd("bids/loop")).unwrap();
        std::os::unix::fs::symlink("../dicom/sub-0001", odd("dicom/sub-x")).unwrap();
        std::os::unix::fs::symlink(".", odd("dicom/sub-0001/ses-loop")).unwrap();
        std::fs::create_dir_all(odd("derivatives/qsirecon/derivatives/qsirecon-x")).unwrap();
        let decide = |threads: usize| {
            let mut config = config(study.path());
            config.procedures = pipeline();
            config.scan_threads = threads;
            let found = discover(&config).unwrap();
            let probe = Probe::new(&config).unwrap();
            let world = World {
                sessions: &found.sessions,
                rows: &State::default(),
                completions: &probe,
                jobs_without_row: &HashMap::new(),
                removed: &RemovedProcedures::default(),
                newest: &std::sync::Arc::default,
                gate: &|_| None,
                late: &|_, _, _| false,
                trusts: &|_| false,
                now: chrono::DateTime::UNIX_EPOCH,
            };
            let manifest = plan(
                &config.procedures,
                &world,
                &Policy::default(),
                threads,
                &|| {},
            );
            (found.sessions, found.notes, manifest.tasks)
        };
        let one = decide(1);
        assert!(!one.2.is_empty());
        for threads in [2, 3, 16, 64, 512] {
            assert!(
                decide(threads) == one,
                "{sessions} sessions, {threads} threads"
            );
        }
    }
}

#[test]
fn the_generated_study_has_the_expected_tasks() {
    let tmp = generate("301", "20240607");
    let text = std::fs::read_to_string(tmp.path().join("expected.json")).unwrap();
    let expected: Value = serde_json::from_str(&text).unwrap();

    let mut config = config(tmp.path());
    config.procedures = pipeline();
    let discovery = discover(&config).unwrap();
    let mut counts = Counts::default();
    let probe = Probe::new(&config).unwrap();
    for sessions in discovery.sessions.chunk_by(|a, b| a.subject == b.subject) {
        let labels: Vec<SessionLabel> = sessions.iter().map(|s| s.session.clone()).collect();
        let answers = probe.for_subject(&sessions[0].subject);
        counts.subjects += 1;
        counts.sessions += labels.len();
        counts.add(&config.procedures, &*answers, &labels);
    }
    assert_eq!(expected["sessions"], counts.sessions);
    assert_eq!(expected["subjects"], counts.subjects);
    for (index, name) in STEPS.into_iter().enumerate() {
        let key = if name == "freesurfer" {
            "freesurfer_subjects"
        } else {
            name
        };
        let of = |value: &Value| value.as_u64().unwrap_or(0) as usize;
        assert_eq!(
            counts.complete[index],
            of(&expected["complete"][key]),
            "complete {name}"
        );
        assert_eq!(counts.due[index], of(&expected["due"][name]), "due {name}");
    }
}

#[derive(Default)]
struct Counts {
    subjects: usize,
    sessions: usize,
    complete: [usize; 6],
    due: [usize; 6],
}

impl Counts {
    /// Decides in the plainest way; all sessions have DICOM files and no job lives.
    fn add(
        &mut self,
        steps: &ProcedureDag,
        answers: &dyn SubjectCompletions,
        sessions: &[SessionLabel],
    ) {
        let is_complete =
            |id: ProcedureId, session: &SessionLabel| match answers.completion(id, session) {
                Completion::Complete => true,
                Completion::Incomplete => false,
                other => panic!("{other:?}"),
            };
        let none = [SessionLabel::none()];
        for (id, step) in steps.iter() {
            let tasks = if step.scope == Scope::Subject {
                &none
            } else {
                sessions
            };
            for session in tasks {
                let ready = steps.dependencies(id).iter().all(|(needed, _)| {
                    match (step.scope, steps.get(*needed).scope) {
                        (Scope::Session, Scope::Session) => is_complete(*needed, session),
                        (_, Scope::Subject) => is_complete(*needed, &none[0]),
                        (Scope::Subject, Scope::Session) => {
                            sessions.iter().all(|session| is_complete(*needed, session))
                        }
                    }
                });
                let complete = is_complete(id, session);
                self.complete[id.index()] += usize::from(complete);
                self.due[id.index()] += usize::from(ready && !complete);
            }
        }
    }
}
