//! The verdict sees each kind of fault: a soak that cannot fail proves nothing.

use chrono::DateTime;
use serde_json::json;
use snbb_scheduler::model::job::JobId;
use snbb_scheduler::model::state::{Reason, TaskKey, TaskRow, TaskStatus};
use snbb_scheduler::store::audit_log::{EventKind, Record};

use super::evidence::{Account, Evidence, Line, Mark};
use super::site::Act;
use super::verdict::judge;
use crate::harness::rows::attempt;

fn convert() -> TaskKey {
    TaskKey::new("sub-1", "ses-1", "convert")
}

fn row(job: &str) -> TaskRow {
    let at = DateTime::from_timestamp(100, 0).unwrap();
    attempt(convert(), TaskStatus::Failed, Reason::ExitCode, job, at)
}

fn submitted(job: &str) -> Record {
    Record {
        at: DateTime::from_timestamp(100, 0).unwrap(),
        kind: EventKind::Submitted,
        key: convert(),
        job_id: Some(JobId::new(job)),
        old_status: None,
        new_status: None,
        fields: json!({"submission_id": format!("s{job}")})
            .as_object()
            .unwrap()
            .clone(),
    }
}

fn record(job: &str, submit: i64, end: i64) -> Account {
    Account {
        job: job.to_owned(),
        state: "FAILED".to_owned(),
        submit,
        start: Some(submit),
        end: Some(end),
        mark: Some(format!("s{job}")),
    }
}

fn start(job: &str) -> Line {
    Line {
        mark: Mark::Start,
        job: job.to_owned(),
        key: convert(),
        at: 100,
        note: "fails".to_owned(),
    }
}

/// One task, whose first attempt failed as it should and whose second one did too.
fn good() -> Evidence {
    Evidence {
        uid: 1000,
        sessions: vec![("sub-1".to_owned(), "ses-1".to_owned())],
        rows: vec![row("8")],
        attempts: vec![row("7")],
        events: vec![submitted("7"), submitted("8")],
        records: vec![record("7", 100, 110), record("8", 120, 130)],
        log: vec![start("7"), start("8")],
        ..Evidence::default()
    }
}

/// Breaks one thing and expects exactly one complaint.
fn broken(change: impl FnOnce(&mut Evidence), complaint: &str) {
    let mut evidence = good();
    change(&mut evidence);
    let faults = judge(&evidence);
    assert!(
        faults.iter().any(|fault| fault.contains(complaint)),
        "no '{complaint}' in {faults:#?}"
    );
}

#[test]
fn a_good_end_is_no_fault() {
    assert_eq!(judge(&good()), [""; 0]);
    // The call was killed right after its event: the next one found the job.
    let mut killed = good();
    killed.events.push(Record {
        kind: EventKind::Adopted,
        ..submitted("8")
    });
    assert_eq!(judge(&killed), [""; 0]);
}

#[test]
fn lost_jobs_are_seen() {
    broken(
        |all| all.records.push(record("9", 200, 210)),
        "Slurm accepted job 9, and nothing knows it",
    );
    broken(
        |all| all.log.push(start("9")),
        "job 9 ran as convert sub-1 ses-1, and nothing knows it",
    );
    broken(
        |all| all.log[0].key = TaskKey::new("sub-2", "ses-1", "convert"),
        "is recorded as convert sub-1",
    );
    broken(|all| drop(all.rows.pop()), "has no row and no output");
    broken(
        |all| drop(all.attempts.pop()),
        "submission s7 has the events [Submitted] and is no attempt",
    );
    broken(|all| drop(all.events.pop()), "submission s8 has no event");
}

#[test]
fn doubled_jobs_are_seen() {
    broken(
        |all| all.records[1].mark = Some("s7".to_owned()),
        "submission s7 became the jobs {\"7\", \"8\"}",
    );
    broken(
        |all| all.records[1].submit = 105,
        "job 8 was submitted at 105 while job 7 lived",
    );
    broken(|all| all.records[1].end = None, "job 8 has not ended");
    broken(
        |all| all.events.push(submitted("8")),
        "submission s8 has the events [Submitted, Submitted]",
    );
    let adopted = |job| Record {
        kind: EventKind::Adopted,
        ..submitted(job)
    };
    broken(
        |all| all.events.insert(0, adopted("8")),
        "submission s8 has the events [Adopted, Submitted]",
    );
    broken(
        |all| {
            all.events.pop();
        },
        "submission s8 has no event",
    );
    broken(
        |all| all.attempts.push(row("8")),
        "submission s8 is kept 2 times",
    );
    let overlap = Line {
        mark: Mark::Overlap,
        note: "7".to_owned(),
        ..start("8")
    };
    broken(
        |all| all.log.push(overlap),
        "job 8 ran while job 7 still did",
    );
}

#[test]
fn ends_without_a_cause_are_seen() {
    broken(
        |all| all.rows[0].reason = Some(Reason::Timeout),
        "that is not what Slurm says",
    );
    broken(
        |all| all.log[1].note = "good".to_owned(),
        "its job did not fail by itself",
    );
    broken(
        |all| all.records[1].state = "CANCELLED by 0".to_owned(),
        "that is not what Slurm says",
    );
    let cancelled = |all: &mut Evidence| {
        all.records[1].state = "CANCELLED by 0".to_owned();
        all.rows[0].reason = Some(Reason::Cancelled);
    };
    broken(cancelled, "nobody cancelled it");
    let by_the_user = |all: &mut Evidence| {
        cancelled(all);
        all.acts.push(Act::Scancel("8".to_owned(), 1000));
    };
    broken(by_the_user, "nobody cancelled it");
    let mut by_root = good();
    cancelled(&mut by_root);
    by_root.acts.push(Act::Scancel("8".to_owned(), 0));
    assert_eq!(judge(&by_root), [""; 0]);
    // Slurm fails a job that it requeues before the node has let go of the run before.
    let not_startable = |all: &mut Evidence| {
        all.log[1].note = "slow".to_owned();
        all.rows[0].facts.exit_code = Some("1:0".into());
    };
    broken(not_startable, "its job did not fail by itself");
    let mut requeued = good();
    not_startable(&mut requeued);
    requeued.acts.push(Act::Requeue("8".to_owned()));
    assert_eq!(judge(&requeued), [""; 0]);
    let complete = |all: &mut Evidence| {
        all.rows[0].status = TaskStatus::Complete;
        all.rows[0].reason = Some(Reason::Verified);
    };
    broken(complete, "there is no output");
    let running = |all: &mut Evidence| all.rows[0].status = TaskStatus::Running;
    broken(running, "nothing moves any more");
}

#[test]
fn what_is_left_is_seen() {
    broken(
        |all| all.left.push("state.lock".to_owned()),
        "state.lock was left behind",
    );
    broken(|all| all.complaints.push("x".to_owned()), "state verify: x");
    broken(|all| all.rows.push(row("8")), "a task has two rows");
}
