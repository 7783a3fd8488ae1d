//! Executors that do not answer, with a clock that moves on while they wait.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use super::progress::MAX_DOUBTS;
use super::*;
use crate::decide::request::batch::testing::prepared;
use crate::executor::{ArrayJob, ExecutorError, Observation};
use crate::model::job::JobRef;
use crate::model::state::testing::at;
use crate::store::state_file::Store;

/// Gives each submission of `prep` the same slow answer, and accepts all others at once.
struct Slow<'a> {
    now: &'a Cell<DateTime<Utc>>,
    seconds: i64,
    answer: Submission,
    queue_answers: bool,
    calls: usize,
}

impl Executor for Slow<'_> {
    fn command_line(&self, _: &[&JobRequest], _: Option<&ArrayJob>) -> Vec<String> {
        Vec::new()
    }

    fn find_script(&self, script: &str) -> Result<PathBuf, ExecutorError> {
        Ok(script.into())
    }

    fn submit(&mut self, tasks: &[&JobRequest], _: Option<&ArrayJob>) -> Submission {
        let [request] = tasks else {
            unreachable!("there are no arrays")
        };
        self.calls += 1;
        if &*request.key.procedure != "prep" {
            return accepted(&format!("1{:03}", self.calls));
        }
        self.now
            .set(self.now.get() + chrono::Duration::seconds(self.seconds));
        self.answer.clone()
    }

    fn observe(&mut self, _: &Question) -> Observation {
        Observation {
            queue: match self.queue_answers {
                true => Answer::Got(Vec::new()),
                false => Answer::Failed("squeue: timed out".to_owned()),
            },
            ..Observation::default()
        }
    }

    fn cancel(&mut self, _: &[JobRef]) -> Result<(), ExecutorError> {
        unreachable!("a submission cancels nothing")
    }
}

fn accepted(job: &str) -> Submission {
    Submission::Accepted {
        job_id: JobId::new(job),
        cluster: None,
    }
}

/// The outcome of a submission, the number of sbatch calls, the rows and the lines of the audit log.
type Outcome = (Submitted, usize, State, usize);

/// Submits ten tasks.
fn ten(dir: &Path, seconds: i64, answer: Submission) -> Outcome {
    submit(dir, seconds, answer, &["prep"; 10], &|| (), false)
}

/// Submits one task of each procedure, and calls `tick` after each.
fn submit(
    dir: &Path,
    seconds: i64,
    answer: Submission,
    procedures: &[&str],
    tick: &dyn Fn(),
    queue_answers: bool,
) -> Outcome {
    let now = Cell::new(at(0));
    let mut executor = Slow {
        now: &now,
        seconds,
        answer,
        queue_answers,
        calls: 0,
    };
    let store = Store::at(&dir.join("state.parquet")).unwrap();
    let locked = store.lock("run", Duration::from_secs(5)).unwrap();
    let mut state = locked.read().unwrap();
    let log = dir.join("audit.jsonl");
    let mut audit = AuditLog::open(&log, "run-1").unwrap();
    let batches: Vec<Batch> = (0..)
        .zip(procedures)
        .map(|(number, procedure)| Batch {
            tasks: vec![prepared(procedure, number)],
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
fn a_controller_that_never_answers_is_asked_only_three_times() {
    for seconds in [1, 20, 100] {
        let dir = tempfile::tempdir().unwrap();
        let (submitted, calls, state, _) = ten(dir.path(), seconds, in_doubt());
        assert_eq!(calls, MAX_DOUBTS, "{seconds} s each");
        let Some((Halt::NoAnswers(_), left)) = submitted.stopped else {
            panic!("{seconds} s each: {:?}", submitted.stopped);
        };
        assert_eq!((left, submitted.in_doubt.len()), (7, 3));
        assert_eq!(state.rows().len(), 3, "the rows have the sent tasks");
        assert!(submitted.unsaved.is_none());
    }
}

#[test]
fn no_submission_starts_after_the_deadline() {
    let dir = tempfile::tempdir().unwrap();
    let (answer, until) = (accepted("7"), 10 * 60);
    let procedures = ["prep", "qc", "qc"];
    let (submitted, calls, state, _) = submit(dir.path(), until, answer, &procedures, &|| (), true);
    assert!(
        matches!(submitted.stopped, Some((Halt::Deadline, 2))),
        "{:?}",
        submitted.stopped
    );
    assert_eq!((calls, state.rows().len()), (1, 1));
}

#[test]
fn nothing_is_submitted_after_the_lock_was_lost() {
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join("state.lock");
    let lose = || {
        let _ = std::fs::remove_file(&lock);
    };
    let procedures = ["prep", "qc", "qc"];
    let (submitted, calls, _, _) = submit(dir.path(), 1, accepted("7"), &procedures, &lose, true);
    assert!(
        matches!(
            submitted.stopped,
            Some((Halt::Lock(LockError::Lost { .. }), 2))
        ),
        "{:?}",
        submitted.stopped
    );
    assert_eq!(calls, 1);
}

#[test]
fn each_try_after_a_transient_refusal_is_one_line_of_the_audit_log() {
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
fn the_run_stops_when_rows_cannot_be_saved() {
    let dir = tempfile::tempdir().unwrap();
    let spoil = || {
        // A directory in place of the file: no rename can replace it.
        let state = dir.path().join("state.parquet");
        let _ = std::fs::remove_file(&state);
        std::fs::create_dir_all(state.join("in/the/way")).unwrap();
    };
    let (submitted, calls, ..) = submit(dir.path(), 40, accepted("7"), &["prep"; 10], &spoil, true);
    assert!(submitted.unsaved.is_some());
    assert!(matches!(submitted.stopped, Some((Halt::Unsaved, 9))));
    assert_eq!((calls, submitted.accepted.len()), (1, 1));
}

#[test]
fn an_answer_with_another_tasks_job_is_in_doubt() {
    let dir = tempfile::tempdir().unwrap();
    let (submitted, calls, state, _) = ten(dir.path(), 1, accepted("7"));
    assert_eq!((submitted.accepted.len(), submitted.in_doubt.len()), (1, 3));
    assert_eq!(calls, 4);
    assert!(submitted.in_doubt[0].1.contains("job 7"));
    let known = state.rows().iter().filter(|row| row.job_id.is_some());
    assert_eq!(known.count(), 1);
}

#[test]
fn a1_refusals_limits_and_doubts_stop_only_their_own_procedure() {
    let limit = |kind, message: &str| Submission::Refused {
        kind,
        message: message.to_owned(),
    };
    let procedures = ["prep", "mriqc"].repeat(5);
    for (answer, calls, held) in [
        (
            limit(Refusal::Permanent, "no such node"),
            6,
            (HeldBy::Refusal, 5),
        ),
        (
            limit(Refusal::Limit, "QOSMaxSubmitJobPerUserLimit"),
            6,
            (HeldBy::Limit, 5),
        ),
        (in_doubt(), 8, (HeldBy::Doubts, 2)),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (submitted, called, ..) = submit(dir.path(), 1, answer, &procedures, &|| (), true);
        assert_eq!((called, submitted.accepted.len()), (calls, 5));
        assert!(submitted.stopped.is_none(), "{:?}", submitted.stopped);
        let [found] = &submitted.held_back[..] else {
            panic!("{:?}", submitted.held_back);
        };
        assert_eq!(&*found.key.procedure, "prep");
        assert_eq!((&found.by, found.count), (&held.0, held.1));
    }
    // A refusal after a long wait means that the controller is full.
    let dir = tempfile::tempdir().unwrap();
    let full = limit(Refusal::Limit, "Resource temporarily unavailable");
    let (submitted, ..) = submit(dir.path(), 120, full, &procedures, &|| (), true);
    assert!(matches!(submitted.stopped, Some((Halt::Limit(_), 10))));
}

#[test]
fn a1_doubts_hold_back_their_procedure_while_squeue_answers() {
    let dir = tempfile::tempdir().unwrap();
    let (submitted, calls, ..) = submit(dir.path(), 1, in_doubt(), &["prep"; 10], &|| (), true);
    assert_eq!((calls, submitted.held_back[0].count), (MAX_DOUBTS, 7));
    assert!(submitted.stopped.is_none());
}
