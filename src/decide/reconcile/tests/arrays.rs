//! Tasks of job arrays: what a report of a sibling or of the array as a whole means for them.

use super::*;
use crate::model::job::array::task_id;

const ARRAY: &str = "array-0123456789abcdef";
const NAME: &str = "a_array_01234567";

/// The row of the pending task 2 of array 7.
fn task() -> Case {
    Case::new().with(|c| {
        c.row = row("a", TaskStatus::Pending, Reason::Queued);
        c.row.job_id = Some(JobId::new("7_2"));
        c.row.job_name = Some(NAME.into());
        c.row.submission_id = Some(task_id(ARRAY, 2).into());
    })
}

fn part(id: &str, phase: Phase, mark: Option<&str>) -> JobReport {
    JobReport {
        id: JobId::new(id),
        name: NAME.into(),
        tag: mark.map(|mark| JobTag {
            project: "p".into(),
            submission_id: mark.into(),
        }),
        ..report(phase)
    }
}

fn got(parts: &[JobReport]) -> Answer<Vec<JobReport>> {
    Answer::Got(parts.to_vec())
}

#[test]
fn a_pending_task_that_slurm_forgot_was_cancelled() {
    let sibling = || got(&[part("7_1", Phase::Running, Some(&task_id(ARRAY, 1)))]);
    // Accounting keeps the old list of waiting tasks until another one starts.
    let range = || got(&[part("7_2", Phase::Queued, None)]);
    let removed = |since: Option<i64>| {
        task().with(|c| {
            c.queue = sibling();
            c.row.missing_since = since.map(at);
        })
    };
    assert_eq!(removed(None).verdict(), "pending unaccounted");
    assert_eq!(removed(Some(2)).verdict(), "pending unaccounted");
    assert_eq!(removed(Some(1)).verdict(), "failed cancelled");
    let stale = |c: &mut Case| c.accounting = range();
    assert_eq!(removed(Some(1)).with(stale).verdict(), "failed cancelled");
    assert_eq!(removed(Some(1)).disk(HERE).verdict(), "complete verified");
    let recorded = removed(Some(1)).with(|c| {
        c.queue = got(&[]);
        c.accounting = got(&[part("7_0", Phase::Completed, None)]);
    });
    assert_eq!(recorded.verdict(), "failed cancelled");
    // Nothing shows that the array is known, or the task had started.
    let alone = removed(Some(1)).with(|c| c.queue = got(&[]));
    assert_eq!(alone.verdict(), "pending unaccounted");
    let other = removed(Some(1)).with(|c| {
        let tag = task_id("array-ffffffffffffffff", 1);
        c.queue = got(&[part("7_1", Phase::Running, Some(&tag))]);
    });
    assert_eq!(other.verdict(), "pending unaccounted");
    let started = removed(Some(1)).with(|c| {
        c.row.status = TaskStatus::Running;
        c.row.facts.started_at = Some(at(1));
    });
    assert_eq!(started.verdict(), "running unaccounted");
    let silent = removed(Some(1)).with(|c| c.accounting = failed());
    assert_eq!(silent.verdict(), "pending queued");
    // Without accounting it may have run between two looks at the queue, which has forgotten it.
    let off = removed(Some(1)).with(|c| c.accounting = Answer::Off);
    assert_eq!(off.verdict(), "pending unaccounted");
}

#[test]
fn a_report_of_a_whole_array_applies_to_its_pending_tasks() {
    let whole_array = |phase: Phase| part("7", phase, Some(ARRAY));
    let queued = |phase| task().with(|c| c.queue = got(&[whole_array(phase)]));
    assert_eq!(queued(Phase::Held).verdict(), "pending held");
    assert_eq!(
        queued(Phase::Failed(Reason::Cancelled)).verdict(),
        "failed cancelled"
    );
    let recorded = |c: &mut Case| {
        c.accounting = got(&[part("7", Phase::Failed(Reason::Cancelled), None)]);
    };
    assert_eq!(task().with(recorded).verdict(), "failed cancelled");
    // A task that has started has an end of its own.
    let started = task().with(recorded).with(|c| {
        c.row.status = TaskStatus::Running;
        c.row.facts.started_at = Some(at(1));
    });
    assert_eq!(started.verdict(), "running unaccounted");
    // Its own report is the better one.
    let both = task().with(|c| {
        c.queue = got(&[
            whole_array(Phase::Queued),
            part("7_2", Phase::Running, Some(&task_id(ARRAY, 2))),
        ]);
    });
    assert_eq!(both.verdict(), "running running");
}

/// The start that Slurm gives a job that was cancelled while it waited is its end.
#[test]
fn a_task_cancelled_before_its_start_did_not_start() {
    let first = task().with(|c| {
        let mut whole_array = part("7", Phase::Failed(Reason::Cancelled), Some(ARRAY));
        whole_array.facts.started_at = whole_array.facts.ended_at;
        c.queue = got(&[whole_array]);
        c.accounting = got(&[]);
        c.now = 0;
    });
    let (state, out) = first.pass();
    assert!(out.changes.is_empty(), "{out:?}");
    assert!(
        state
            .rows()
            .iter()
            .all(|row| row.facts.started_at.is_none())
    );
}

fn doubted(queue: &[JobReport], accounting: &[JobReport]) -> TaskRow {
    let case = task().with(|c| {
        c.row.reason = Some(Reason::Submitting);
        c.row.job_id = None;
        c.row.missing_since = Some(at(0));
        c.queue = got(queue);
        c.accounting = got(accounting);
        c.now = 100;
    });
    let (state, out) = case.pass();
    state.rows().first().cloned().unwrap_or_else(|| {
        panic!("it was released: {out:?}");
    })
}

#[test]
fn any_report_of_an_array_gives_the_job_ids_of_its_tasks() {
    let own = Some(task_id(ARRAY, 2));
    let sibling = Some(task_id(ARRAY, 1));
    let other = task_id("array-ffffffffffffffff", 2);
    for (queue, accounting, id, status) in [
        (
            vec![part("7_2", Phase::Running, own.as_deref())],
            vec![],
            "7_2",
            TaskStatus::Running,
        ),
        (
            vec![part("7", Phase::Queued, Some(ARRAY))],
            vec![],
            "7_2",
            TaskStatus::Pending,
        ),
        (
            vec![part("9_1", Phase::Running, sibling.as_deref())],
            vec![],
            "9_2",
            TaskStatus::Pending,
        ),
        (
            vec![],
            vec![part("9_1", Phase::Completed, sibling.as_deref())],
            "9_2",
            TaskStatus::Pending,
        ),
        // Accounting without submit lines.
        (
            vec![],
            vec![
                part("9_1", Phase::Running, None),
                part("9_2", Phase::Running, None),
            ],
            "9_2",
            TaskStatus::Running,
        ),
        (
            vec![],
            vec![part("9", Phase::Queued, None)],
            "9_2",
            TaskStatus::Pending,
        ),
        (
            vec![
                part("3_2", Phase::Running, Some(&other)),
                part("9_5", Phase::Running, Some(&task_id(ARRAY, 5))),
            ],
            vec![],
            "9_2",
            TaskStatus::Pending,
        ),
    ] {
        let row = doubted(&queue, &accounting);
        assert_eq!(row.job_id, Some(JobId::new(id)), "{queue:?} {accounting:?}");
        assert_eq!(row.status, status);
        assert_eq!(row.missing_since, None);
    }
}

#[test]
fn another_array_is_not_adopted() {
    let other = part(
        "3_2",
        Phase::Running,
        Some(&task_id("array-ffffffffffffffff", 2)),
    );
    let (_, out) = task()
        .with(|c| {
            c.row.reason = Some(Reason::Submitting);
            c.row.job_id = None;
            c.row.missing_since = Some(at(0));
            c.queue = got(&[other]);
            c.now = 100;
        })
        .pass();
    assert_eq!(out.released.len(), 1);
}
