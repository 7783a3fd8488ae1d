//! Tags that a site has changed, and jobs that have run again.

use super::*;
use crate::decide::reconcile::complete_tags;

const OWN: &str = "0123456789abcdef";

/// The phase of the row's job, and the row's status after an hour in which only a changed comment was seen.
fn verdict(job: &str, comment: &str, change: impl Fn(&mut TaskRow)) -> (String, Option<JobId>) {
    let mut live = report(Phase::Running);
    live.id = JobId::new(job);
    live.tag = JobTag::parse(comment);
    let mut case = Case::new().with(|c| {
        change(&mut c.row);
        c.row.missing_since = Some(at(0));
        c.now = 1000;
    });
    let mut rows = State::default();
    rows.put(case.row.clone());
    let mut observation = Observation {
        queue: Answer::Got(vec![live]),
        ..Observation::default()
    };
    complete_tags(&mut observation, &rows);
    case.queue = observation.queue;
    case.accounting = Answer::Off;
    let (state, _) = case.disk(HERE).pass();
    let row = state.rows().first().cloned();
    let words = row
        .as_ref()
        .map(|row| format!("{} {}", row.status, row.reason.unwrap()));
    (words.unwrap_or_default(), row.and_then(|row| row.job_id))
}

#[test]
fn attack_a_comment_changed_after_the_tag_or_truncated_still_matches() {
    for behind in ["", ";charge=x", ",foo", "charge=x"] {
        let (words, _) = verdict("100", &format!("snbb:p:{OWN}{behind}"), |_| ());
        assert_eq!(words, "running running", "{behind}");
    }
    for left in ["", "0", "0123", "0123456789"] {
        let (words, _) = verdict("100", &format!("snbb:p:{left}"), |_| ());
        assert_eq!(words, "running running", "{left}");
    }
    let array = |row: &mut TaskRow| {
        row.submission_id = Some(format!("array-{OWN}.4").into());
        row.job_id = Some(JobId::new("100_4"));
    };
    for left in ["snbb:p:array-01", "snbb:p:arr"] {
        assert_eq!(verdict("100_4", left, array).0, "running running", "{left}");
    }
    let (words, _) = verdict("100", "snbb:p:00112233445566ff", |_| ());
    assert_eq!(words, "complete verified", "the tag of another submission");
}

/// The answer of sbatch was lost, the plugin appends or cuts, and accounting is off.
#[test]
fn attack_a_submission_in_doubt_is_found_by_a_changed_tag() {
    let doubt = |row: &mut TaskRow| {
        row.status = TaskStatus::Pending;
        row.reason = Some(Reason::Submitting);
        row.job_id = None;
    };
    for comment in ["0123456789abcdef;x", "0123456789abcdefx", "01234567"] {
        let found = verdict("7", &format!("snbb:p:{comment}"), doubt);
        assert_eq!(
            found,
            ("running running".into(), Some(JobId::new("7"))),
            "{comment}"
        );
    }
    let few = verdict("7", "snbb:p:0123", doubt);
    assert_eq!(few.1, None, "too few letters to be sure");
}

/// Somebody requeued a job that had ended, and it ended again before the next pass.
#[test]
fn attack_the_end_of_a_later_run_corrects_a_finished_row() {
    let finished = |status, reason| {
        Case::new().with(|c| {
            (c.row.status, c.row.reason) = (status, Some(reason));
            c.row.facts.started_at = Some(at(1));
            c.row.facts.ended_at = Some(at(5));
            c.now = 60;
        })
    };
    let run = |phase, started: Option<i64>| JobReport {
        submitted_at: Some(at(6)),
        facts: JobFacts {
            started_at: started.map(at),
            ended_at: Some(at(9)),
            ..JobFacts::default()
        },
        ..report(phase)
    };
    let failed_again = || {
        vec![
            report(Phase::Completed),
            run(Phase::Failed(Reason::ExitCode), Some(7)),
        ]
    };
    let complete = || finished(TaskStatus::Complete, Reason::Verified).disk(HERE);
    let by_accounting = complete().with(|c| c.accounting = Answer::Got(failed_again()));
    assert_eq!(by_accounting.verdict(), "failed exit_code");
    let by_queue = complete().with(|c| c.queue = Answer::Got(failed_again().split_off(1)));
    assert_eq!(by_queue.verdict(), "failed exit_code");
    let unverified = finished(TaskStatus::Complete, Reason::Unverified)
        .with(|c| c.accounting = Answer::Got(failed_again()));
    assert_eq!(unverified.verdict(), "failed exit_code");
    let succeeded = finished(TaskStatus::Failed, Reason::NodeFail)
        .disk(HERE)
        .with(|c| c.accounting = Answer::Got(vec![run(Phase::Completed, Some(7))]));
    assert_eq!(succeeded.verdict(), "complete verified");
    // The same run once more; a later one that never began; another job's.
    for record in [
        report(Phase::Failed(Reason::ExitCode)),
        run(Phase::Failed(Reason::Cancelled), None),
        JobReport {
            tag: JobTag::parse("snbb:p:00112233445566ff"),
            ..run(Phase::Failed(Reason::ExitCode), Some(7))
        },
    ] {
        let case = complete().with(|c| c.accounting = Answer::Got(vec![record.clone()]));
        assert_eq!(case.verdict(), "complete verified", "{record:?}");
    }
}
