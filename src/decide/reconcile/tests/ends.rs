//! Jobs that have ended, and what their outputs prove.

use super::*;

#[test]
fn a_failed_end_keeps_its_reason_whatever_the_disk_shows() {
    for reason in [
        Reason::ExitCode,
        Reason::Timeout,
        Reason::OutOfMemory,
        Reason::Cancelled,
        Reason::NodeFail,
        Reason::Preempted,
        Reason::BootFail,
        Reason::LaunchFailed,
        Reason::Deadline,
        Reason::Dependency,
    ] {
        for disk in [HERE, Outputs::Missing, Outputs::Unreadable, Outputs::NoRule] {
            let expected = format!("failed {reason}");
            let accounting = Case::new().accounting(Phase::Failed(reason)).disk(disk);
            assert_eq!(accounting.verdict(), expected);
            let queue_only = Case::new()
                .queue(Phase::Failed(reason))
                .with(|case| case.accounting = Answer::Off)
                .disk(disk);
            assert_eq!(queue_only.verdict(), expected);
        }
    }
}

#[test]
fn an_end_in_the_queue_waits_a_minute_for_accounting() {
    let case = |now| {
        Case::new()
            .queue(Phase::Failed(Reason::ExitCode))
            .with(|c| c.accounting = Answer::Got(vec![report(Phase::Running)]))
            .with(|c| c.now = now)
    };
    assert_eq!(case(5).verdict(), "running running");
    assert_eq!(case(6).verdict(), "failed exit_code");
}

#[test]
fn outputs_decide_about_a_successful_job() {
    let ended = || Case::new().accounting(Phase::Completed);
    assert_eq!(ended().disk(HERE).verdict(), "complete verified");
    assert_eq!(
        ended().disk(Outputs::NoRule).verdict(),
        "complete unverified"
    );
    assert_eq!(
        ended().disk(Outputs::Unreadable).verdict(),
        "running awaiting_output"
    );
    assert_eq!(
        ended().verdict(),
        "running awaiting_output",
        "one minute after the end"
    );
    assert_eq!(
        ended().with(|c| c.now = 14).verdict(),
        "running awaiting_output"
    );
    assert_eq!(ended().with(|c| c.now = 15).verdict(), "failed no_output");
    assert_eq!(
        ended()
            .with(|c| {
                c.now = 500;
                c.disk = Outputs::Unreadable;
            })
            .verdict(),
        "running awaiting_output",
        "unreadable is never an absence"
    );
}

#[test]
fn d6_a_forced_job_that_succeeds_and_leaves_good_outputs_untouched_is_complete() {
    let rerun = |phase, newest| {
        Case::new()
            .accounting(phase)
            .disk(Outputs::Complete { newest })
            .with(|c| c.row.replaces_outputs = Some(true))
    };
    for newest in [Some(at(0)), None, Some(at(3))] {
        assert_eq!(
            rerun(Phase::Completed, newest).verdict(),
            "complete verified"
        );
        assert_eq!(
            rerun(Phase::Failed(Reason::ExitCode), newest).verdict(),
            "failed exit_code"
        );
    }
    // What a failed attempt left proves nothing for the one that the retry rules made.
    let retried = |newest| {
        let case = rerun(Phase::Completed, newest);
        case.with(|c| c.row.retry.retries = 1).verdict()
    };
    assert_eq!(retried(Some(at(0))), "running awaiting_output");
    assert_eq!(retried(Some(at(3))), "complete verified");
}

/// The markers were not known when the job ended: the end says nothing about them.
#[test]
fn e12_an_end_without_known_markers_is_decided_once_they_are_known() {
    let after = |disk: Outputs, minute: i64| {
        let case = Case::new().with(|c| {
            c.queue = Answer::Got(Vec::new());
            c.row.status = TaskStatus::Complete;
            c.row.reason = Some(Reason::Unverified);
            c.row.facts.ended_at = Some(at(5));
            c.now = minute;
        });
        let (state, _) = case.disk(disk).pass();
        (state.rows()[0].status, state.rows()[0].reason)
    };
    let unverified = (TaskStatus::Complete, Some(Reason::Unverified));
    assert_eq!(after(Outputs::NoRule, 60), unverified);
    assert_eq!(after(Outputs::Unreadable, 60), unverified);
    assert_eq!(after(Outputs::Missing, 14), unverified, "they may be late");
    assert_eq!(
        after(Outputs::Missing, 15),
        (TaskStatus::Failed, Some(Reason::NoOutput))
    );
    assert_eq!(
        after(HERE, 6),
        (TaskStatus::Complete, Some(Reason::Verified))
    );
}
