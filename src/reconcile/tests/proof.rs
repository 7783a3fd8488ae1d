//! What proves that accounting answers, and whose end a record tells.

use super::*;

/// A job of another executor, whose id Slurm is never asked about, proves nothing.
#[test]
fn a_canary_that_is_not_in_the_answer_proves_nothing() {
    let mut state = State::default();
    let mut gone = row("a", TaskStatus::Running, Reason::Unaccounted);
    gone.missing_since = Some(at(0));
    state.put(gone);
    let mut question = question(&state);
    question.canary = Some(JobRef {
        id: JobId::new("local-7"),
        cluster: None,
    });
    let observation = Observation {
        queue: Answer::Got(vec![]),
        accounting: Answer::Got(vec![]),
        warnings: vec![],
    };
    let disk = Disk(Outputs::Missing);
    let out = reconcile(&state, &question, &observation, &disk, &patience(), at(100));
    let became: Vec<TaskStatus> = out.changes.iter().map(|change| change.to).collect();
    assert_eq!(became, [TaskStatus::Running]);
}

#[test]
fn the_canary_is_a_job_that_accounting_has_known_and_not_an_old_one() {
    let day = 24 * 60;
    let ended = |procedure: &str, minute: i64, exit_code: Option<&str>| {
        let mut row = row(procedure, TaskStatus::Failed, Reason::ExitCode);
        row.job_id = Some(JobId::new(procedure));
        row.facts.slurm_state = Some("FAILED".into());
        row.facts.ended_at = Some(at(minute));
        row.facts.exit_code = exit_code.map(Into::into);
        row
    };
    let canary = |rows: Vec<TaskRow>| {
        let mut state = State::default();
        let mut asked = row("asked", TaskStatus::Running, Reason::Running);
        asked.submitted_at = Some(at(40 * day));
        state.put(asked);
        rows.into_iter().for_each(|row| state.put(row));
        question(&state).canary.map(|job| job.id.to_string())
    };
    let known = ended("known", 39 * day - 5, Some("1:0"));
    let from_queue = ended("queue", 39 * day, None);
    let old = ended("old", 32 * day, Some("1:0"));
    assert_eq!(
        canary(vec![known, from_queue.clone(), old.clone()]),
        Some("known".to_owned())
    );
    assert_eq!(canary(vec![from_queue, old]), None);
}

#[test]
fn an_end_is_that_of_an_earlier_run_only_if_the_job_came_back_after_it() {
    let record = |submitted: i64, started: i64, ended: i64| {
        let mut record = report(Phase::Failed(Reason::NodeFail));
        record.submitted_at = Some(at(submitted));
        record.facts.started_at = Some(at(started));
        record.facts.ended_at = Some(at(ended));
        record
    };
    let row_started = |minute: Option<i64>| {
        let mut row = row("a", TaskStatus::Running, Reason::Running);
        row.facts.started_at = minute.map(at);
        row
    };
    let queued = |submitted: i64| JobReport {
        submitted_at: Some(at(submitted)),
        ..report(Phase::Completed)
    };
    let none = JobReport {
        submitted_at: None,
        ..record(0, 1, 5)
    };
    for (record, row, queued, expected, why) in [
        (
            record(0, 1, 5),
            row_started(None),
            None,
            false,
            "the only run",
        ),
        (
            record(0, 1, 5),
            row_started(None),
            Some(queued(6)),
            true,
            "submitted again later",
        ),
        (
            record(0, 1, 5),
            row_started(None),
            Some(queued(0)),
            false,
            "the same submission",
        ),
        (
            none,
            row_started(None),
            Some(queued(6)),
            false,
            "nobody knows when it was submitted",
        ),
        (
            record(0, 1, 5),
            row_started(Some(6)),
            None,
            true,
            "started again after its end",
        ),
        (
            record(0, 1, 5),
            row_started(Some(5)),
            None,
            false,
            "started in the second of its end",
        ),
        (
            record(0, 1, 5),
            row_started(Some(1)),
            None,
            false,
            "the start of this run",
        ),
        (
            record(0, 6, 5),
            row_started(Some(6)),
            None,
            false,
            "a clock was set back: its own start",
        ),
    ] {
        let told = is_of_earlier_run(&record, &row, queued.as_ref());
        assert_eq!(told, expected, "{why}");
    }
    let living = JobReport {
        phase: Phase::Running,
        ..record(0, 1, 5)
    };
    assert!(
        !is_of_earlier_run(&living, &row_started(Some(6)), Some(&queued(6))),
        "alive"
    );
}

/// Accounting calls it alive, the queue does not have it, its outputs stand: one look is not enough.
#[test]
fn outputs_beside_a_record_that_is_alive_are_believed_at_the_second_look() {
    let first = Case::new().accounting(Phase::Running).disk(HERE);
    assert_eq!(first.verdict(), "running unaccounted");
    let second = Case::new().accounting(Phase::Running).disk(HERE).with(|c| {
        c.row.reason = Some(Reason::Unaccounted);
        c.row.missing_since = Some(at(5));
    });
    assert_eq!(second.verdict(), "complete verified");
}
