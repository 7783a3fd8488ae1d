//! What a run does about executors that do not answer, with a clock that such answers move on.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use super::progress::MAX_DOUBTS;
use super::*;
use crate::executor::{ExecutorError, Observation, Question};
use crate::job::JobRef;
use crate::request::batch::testing::prepared;
use crate::state::store::Store;
use crate::state::testing::at;

/// Answers each submission alike, after some seconds.
struct Slow<'a> {
    now: &'a Cell<DateTime<Utc>>,
    seconds: i64,
    answer: Submission,
    calls: usize,
}

impl Executor for Slow<'_> {
    fn preflight(&self) -> Result<(), ExecutorError> {
        Ok(())
    }

    fn command_line(&self, _: &JobRequest) -> Vec<String> {
        Vec::new()
    }

    fn find_script(&self, script: &str) -> Result<PathBuf, ExecutorError> {
        Ok(script.into())
    }

    fn submit(&mut self, _: &JobRequest) -> Submission {
        self.calls += 1;
        self.now
            .set(self.now.get() + chrono::Duration::seconds(self.seconds));
        self.answer.clone()
    }

    fn observe(&mut self, _: &Question) -> Observation {
        unreachable!("who submits does not look")
    }

    fn cancel(&mut self, _: &[JobRef]) -> Result<(), ExecutorError> {
        unreachable!("who submits cancels nothing")
    }
}

/// Submits ten tasks; returns what came of it, the calls, the rows and the lines of the audit log.
fn ten(dir: &Path, seconds: i64, answer: Submission) -> (Submitted, usize, State, usize) {
    ten_with(dir, seconds, answer, &|| ())
}

/// Does the same, with something that happens after each task.
fn ten_with(
    dir: &Path,
    seconds: i64,
    answer: Submission,
    tick: &dyn Fn(),
) -> (Submitted, usize, State, usize) {
    let now = Cell::new(at(0));
    let mut executor = Slow {
        now: &now,
        seconds,
        answer,
        calls: 0,
    };
    let store = Store::at(&dir.join("state.parquet")).unwrap();
    let locked = store.lock("run", Duration::from_secs(5)).unwrap();
    let mut state = locked.read().unwrap();
    let log = dir.join("audit.jsonl");
    let mut audit = AuditLog::open(&log, "run-1").unwrap();
    let batches: Vec<Batch> = (0..10)
        .map(|number| Batch {
            tasks: vec![prepared("prep", number)],
            array: None,
        })
        .collect();
    let submitted = Submitter {
        store: &locked,
        state: &mut state,
        executor: &mut executor,
        audit: &mut audit,
        clock: &|| now.get(),
        pause: &|pause| now.set(now.get() + pause),
        tick,
        deadline: at(10),
    }
    .submit(&batches);
    let calls = executor.calls;
    let lines = std::fs::read_to_string(&log).unwrap().lines().count();
    (submitted, calls, state, lines)
}

fn in_doubt() -> Submission {
    Submission::InDoubt {
        message: "Socket timed out".to_owned(),
    }
}

#[test]
fn a_controller_that_never_answers_is_asked_three_times_however_long_it_takes() {
    for seconds in [1, 20, 100] {
        let dir = tempfile::tempdir().unwrap();
        let (submitted, calls, state, _) = ten(dir.path(), seconds, in_doubt());
        assert_eq!(calls, MAX_DOUBTS, "{seconds} s each");
        let Some((Halt::NoAnswers(_), left)) = submitted.stopped else {
            panic!("{seconds} s each: {:?}", submitted.stopped);
        };
        assert_eq!((left, submitted.in_doubt.len()), (7, 3));
        assert_eq!(state.rows().len(), 3, "what was sent is in the rows");
        assert!(submitted.unsaved.is_none());
    }
}

#[test]
fn a_refusal_that_is_tried_again_is_one_line_for_each_try() {
    let dir = tempfile::tempdir().unwrap();
    let busy = Submission::Refused {
        kind: Refusal::Transient,
        message: "Unable to contact slurm controller".to_owned(),
    };
    let (submitted, calls, state, lines) = ten(dir.path(), 1, busy);
    assert_eq!((calls, lines), (1 + PAUSES.len(), 1 + PAUSES.len()));
    assert!(matches!(submitted.stopped, Some((Halt::Transient(_), 10))));
    assert_eq!(state.rows().len(), 0);
}

#[test]
fn rows_that_cannot_be_saved_in_mid_run_hold_the_others_back() {
    let dir = tempfile::tempdir().unwrap();
    let spoil = || {
        // A directory in the place of the file: no rename can take it.
        let state = dir.path().join("state.parquet");
        let _ = std::fs::remove_file(&state);
        std::fs::create_dir_all(state.join("in/the/way")).unwrap();
    };
    let accepted = Submission::Accepted {
        job_id: JobId::new("7"),
        cluster: None,
    };
    let (submitted, calls, ..) = ten_with(dir.path(), 40, accepted, &spoil);
    assert!(submitted.unsaved.is_some());
    assert!(matches!(submitted.stopped, Some((Halt::Unsaved, 9))));
    assert_eq!((calls, submitted.accepted.len()), (1, 1));
}

#[test]
fn an_answer_that_names_another_tasks_job_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let same = Submission::Accepted {
        job_id: JobId::new("7"),
        cluster: None,
    };
    let (submitted, calls, state, _) = ten(dir.path(), 1, same);
    assert_eq!((submitted.accepted.len(), submitted.in_doubt.len()), (1, 3));
    assert_eq!(calls, 4);
    assert!(
        submitted.in_doubt[0]
            .1
            .contains("job 7, which is another task's")
    );
    let known = state.rows().iter().filter(|row| row.job_id.is_some());
    assert_eq!(known.count(), 1);
}
