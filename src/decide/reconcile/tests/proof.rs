//! The proof that accounting answers, and the run to which an end belongs.

use super::*;

#[test]
fn an_empty_answer_of_accounting_is_not_evidence() {
    let mut state = State::default();
    let mut gone = row("a", TaskStatus::Running, Reason::Unaccounted);
    gone.missing_since = Some(at(0));
    state.put(gone);
    let observation = Observation {
        queue: Answer::Got(vec![]),
        accounting: Answer::Got(vec![]),
        ..Observation::default()
    };
    let disk = Disk(Outputs::Missing);
    let out = reconcile(&state, &observation, &disk, &patience(), at(100));
    let became: Vec<TaskStatus> = out.changes.iter().map(|change| change.to).collect();
    assert_eq!(became, [TaskStatus::Running]);
}

#[test]
fn the_canary_is_a_recent_job_known_to_accounting() {
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
        question(&state, at(0)).canary.map(|job| job.id.to_string())
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
fn an_end_belongs_to_an_earlier_run_only_if_the_job_ran_again() {
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
    let is_earlier = |record: JobReport, row: &TaskRow, queued: Option<JobReport>| {
        let observation = Observation {
            queue: Answer::Got(queued.into_iter().collect()),
            accounting: Answer::Got(vec![record.clone()]),
            ..Observation::default()
        };
        let evidence = Evidence::new(&observation);
        let recorded = evidence.recorded(row, &evidence.queued(row).unwrap());
        !record.phase.is_live() && matches!(recorded, Recorded::Open(_))
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
            "unknown submit time",
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
        let found = is_earlier(record, &row, queued);
        assert_eq!(found, expected, "{why}");
    }
    let living = JobReport {
        phase: Phase::Running,
        ..record(0, 1, 5)
    };
    assert!(
        !is_earlier(living, &row_started(Some(6)), Some(queued(6))),
        "alive"
    );
}

/// Pass 1: accounting has the end of the first run, the queue the job waiting again. Pass 2: the queue has
/// forgotten it. Pass 3: the end of the second run arrives.
#[test]
fn a5_the_end_of_a_run_is_ignored_after_a_later_submission() {
    let run = |phase, minutes: i64| JobReport {
        submitted_at: Some(at(minutes)),
        facts: JobFacts {
            started_at: Some(at(minutes + 1)),
            ended_at: Some(at(minutes + 2)),
            ..JobFacts::default()
        },
        ..report(phase)
    };
    let preempted = || run(Phase::Failed(Reason::Preempted), 0);
    let mut row = row("a", TaskStatus::Pending, Reason::Queued);
    let mut pass = |queue: Vec<JobReport>, accounting: Vec<JobReport>, now, disk| {
        let case = Case::new().disk(disk).with(|c| {
            c.row = row.clone();
            (c.queue, c.accounting) = (Answer::Got(queue), Answer::Got(accounting));
            c.now = now;
        });
        row = case.pass().0.rows()[0].clone();
        format!("{} {}", row.status, row.reason.unwrap())
    };
    let mut waiting = report(Phase::Queued);
    (waiting.submitted_at, waiting.facts.started_at) = (Some(at(2)), None);
    let missing = Outputs::Missing;
    assert_eq!(
        pass(vec![waiting], vec![preempted()], 3, missing),
        "pending queued"
    );
    assert_eq!(
        pass(vec![], vec![preempted()], 20, missing),
        "pending unaccounted"
    );
    let both = vec![preempted(), run(Phase::Completed, 2)];
    assert_eq!(pass(vec![], both, 30, HERE), "complete verified");
}

/// The queue answers without the job, from a cache or because it has forgotten it, and accounting is behind.
#[test]
fn e3_e17_a_job_that_is_alive_in_accounting_has_not_ended() {
    let case = |since: Option<i64>, now| {
        Case::new().accounting(Phase::Running).disk(HERE).with(|c| {
            if since.is_some() {
                c.row.reason = Some(Reason::Unaccounted);
            }
            c.row.missing_since = since.map(at);
            c.now = now;
        })
    };
    assert_eq!(case(None, 6).verdict(), "running unaccounted");
    assert_eq!(case(Some(6), 65).verdict(), "running unaccounted");
    let (state, _) = case(Some(6), 66).pass();
    let finished = &state.rows()[0];
    assert_eq!(finished.status, TaskStatus::Complete);
    // The true end corrects it, once.
    let corrected = |row: &TaskRow, phase| {
        let case = Case::new().accounting(phase).disk(HERE);
        let case = case.with(|c| (c.row, c.now) = (row.clone(), 70));
        case.pass().0.rows()[0].clone()
    };
    let failed = corrected(finished, Phase::Failed(Reason::ExitCode));
    assert_eq!(failed.reason, Some(Reason::ExitCode));
    let confirmed = corrected(finished, Phase::Completed);
    assert_eq!(confirmed.reason, Some(Reason::Verified));
    assert_eq!(confirmed.facts.ended_at, Some(at(5)));
    let again = corrected(&confirmed, Phase::Failed(Reason::ExitCode));
    assert_eq!(again, confirmed);
}

#[test]
fn e17_the_true_end_of_a_lost_job_corrects_its_row() {
    let lost = |phase, disk| {
        let case = Case::new().accounting(phase).disk(disk).with(|c| {
            (c.row.status, c.row.reason) = (TaskStatus::Failed, Some(Reason::Lost));
            c.row.missing_since = Some(at(4));
            c.now = 100;
        });
        case.verdict()
    };
    assert_eq!(lost(Phase::Failed(Reason::Timeout), HERE), "failed timeout");
    assert_eq!(lost(Phase::Completed, HERE), "complete verified");
    assert_eq!(lost(Phase::Completed, Outputs::Missing), "failed no_output");
    assert_eq!(lost(Phase::Completed, Outputs::Unreadable), "failed lost");
    assert_eq!(lost(Phase::Running, Outputs::Missing), "failed lost");
}
