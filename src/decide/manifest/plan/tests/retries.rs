//! A failed task that will be tried again.

use super::*;

/// Timeouts are tried again at once, failures of nodes a minute later, twice each.
pub(super) fn with_retries(
    mut procedure: crate::model::procedure::Procedure,
) -> crate::model::procedure::Procedure {
    procedure.rules.retry = Some(RetryRules {
        max_attempts: 3,
        max_infrastructure: 2,
        on: [
            (Reason::Timeout, Default::default()),
            (Reason::NodeFail, Default::default()),
        ]
        .into(),
    });
    procedure
}

#[test]
fn dependents_wait_for_a_failed_task_with_a_retry() {
    let dag = ProcedureDag::new(vec![
        with_retries(procedure("a", Scope::Session, &[])),
        procedure("b", Scope::Session, &[("a", SessionsRule::All)]),
        with_retries(procedure("c", Scope::Session, &[("b", SessionsRule::All)])),
    ])
    .unwrap();
    let spent = |used, allowed, infrastructure| {
        Outlook::Spent(crate::decide::manifest::Budget {
            used,
            allowed,
            infrastructure,
        })
    };
    let retry = |complete| {
        Some(Due::Retry {
            reason: Reason::Timeout,
            complete,
        })
    };
    use Completion::{Complete, Incomplete, NotApplicable};
    // reason, retries so far (of both kinds), own outputs; due, outlook, is b blocked
    for (reason, retries, own, due, outlook, blocked) in [
        (Reason::Timeout, 0, Incomplete, retry(false), None, false),
        (Reason::Timeout, 1, Complete, retry(true), None, false),
        (
            Reason::Timeout,
            2,
            Complete,
            None,
            Some(spent(3, 3, false)),
            true,
        ),
        (
            Reason::NodeFail,
            0,
            Complete,
            None,
            Some(Outlook::At(at(1))),
            false,
        ),
        (
            Reason::NodeFail,
            2,
            Complete,
            None,
            Some(spent(2, 2, true)),
            true,
        ),
        (
            Reason::ExitCode,
            0,
            Complete,
            None,
            Some(Outlook::None),
            true,
        ),
    ] {
        let mut disk = Disk::default();
        disk.set("sub-01", "ses-01", 0, own);
        let mut failed = row("a", TaskStatus::Failed, reason);
        failed.retry.retries = retries;
        failed.retry.infrastructure = retries;
        let mut rows = State::default();
        rows.put(failed);
        let sessions = [session("sub-01", "ses-01", true)];
        let policy = Policy::default();
        let got = decide(&dag, &sessions, &rows, &disk, &policy);
        let own = match &got["a/sub-01/ses-01"] {
            Decision::Submit(due) => (Some(*due), None),
            Decision::Skip(Skip::Failed { outlook, .. }) => (None, Some(*outlook)),
            other => panic!("{other:?}"),
        };
        assert_eq!(own, (due, outlook), "{reason} {retries}");
        assert!(
            matches!(&got["b/sub-01/ses-01"], Decision::Skip(Skip::WaitingFor(waiting))
                if waiting.blocked.is_some() == blocked),
            "{reason} {retries}: {got:?}"
        );
        // The switch of the Python program goes before rules, and so does a person.
        let policy = Policy {
            resubmit_failed: true,
            ..Policy::default()
        };
        let got = decide(&dag, &sessions, &rows, &disk, &policy);
        assert!(
            !matches!(
                got["a/sub-01/ses-01"],
                Decision::Submit(Due::Retry { .. }) | Decision::Skip(Skip::Failed { .. })
            ),
            "{got:?}"
        );
        let policy = Policy {
            force: true,
            ..Policy::default()
        };
        let got = decide(&dag, &sessions, &rows, &disk, &policy);
        assert!(
            matches!(got["a/sub-01/ses-01"], Decision::Submit(Due::Forced { .. })),
            "{got:?}"
        );
    }
    // DICOM files, dependencies and readability hold as for any other task.
    let mut rows = State::default();
    rows.put(row("c", TaskStatus::Failed, Reason::Timeout));
    for (dicom, dependency, own, expected) in [
        (true, Complete, Incomplete, "Submit(Retry"),
        (false, Complete, Incomplete, "Skip(NoDicom"),
        (true, Incomplete, Complete, "Skip(WaitingFor"),
        (true, Complete, NotApplicable, "Skip(NotApplicable"),
        (true, Complete, unreadable(), "Skip(Unreadable"),
    ] {
        let mut disk = Disk::default();
        disk.set("sub-01", "ses-01", 0, Complete);
        disk.set("sub-01", "ses-01", 1, dependency);
        disk.set("sub-01", "ses-01", 2, own);
        let sessions = [session("sub-01", "ses-01", dicom)];
        let got = decide(&dag, &sessions, &rows, &disk, &Policy::default());
        let text = format!("{:?}", got["c/sub-01/ses-01"]);
        assert!(text.starts_with(expected), "{text}");
    }
}

#[test]
fn attack_resubmit_failed_does_not_trust_outputs_of_a_failed_attempt() {
    let sessions = [session("sub-01", "ses-01", true)];
    let mut disk = Disk::default();
    disk.set("sub-01", "ses-01", 0, Completion::Complete);
    let policy = Policy {
        resubmit_failed: true,
        ..Policy::default()
    };
    let submit = Decision::Submit;
    let complete = Decision::Skip(Skip::Complete);
    // reason, accept_outputs; the task, whether its dependent starts
    for (reason, accept_outputs, expected, starts) in [
        (
            Some(Reason::ExitCode),
            false,
            submit(Due::FailedBefore { complete: true }),
            false,
        ),
        (Some(Reason::ExitCode), true, complete.clone(), true),
        (None, false, complete, true),
    ] {
        let mut first = procedure("a", Scope::Session, &[]);
        first.rules.accept_outputs = accept_outputs;
        let second = procedure("b", Scope::Session, &[("a", SessionsRule::Same)]);
        let dag = ProcedureDag::new(vec![first, second]).unwrap();
        let mut failed = row("a", TaskStatus::Failed, Reason::ExitCode);
        failed.reason = reason;
        let mut rows = State::default();
        rows.put(failed);
        let got = decide(&dag, &sessions, &rows, &disk, &policy);
        assert_eq!(got["a/sub-01/ses-01"], expected);
        assert_eq!(
            got["b/sub-01/ses-01"] == submit(Due::New),
            starts,
            "{got:?}"
        );
    }
}

/// `retry` and `clean` move a failed row to the attempts file; what it left is then believed no more than before.
#[test]
fn attack_outputs_are_not_trusted_if_the_newest_attempt_failed() {
    use super::*;
    let attempt = |minute, status, reason| {
        let mut row = row("a", status, reason);
        row.submitted_at = Some(at(minute));
        row
    };
    let failed = |minute, reason| attempt(minute, TaskStatus::Failed, reason);
    let again = Decision::Submit(Due::FailedBefore { complete: true });
    let done = Decision::Skip(Skip::Complete);
    let dag = |accepts| {
        let mut first = procedure("a", Scope::Session, &[]);
        first.rules.accept_outputs = accepts;
        let second = procedure("b", Scope::Session, &[("a", SessionsRule::ByScope)]);
        ProcedureDag::new(vec![first, second]).unwrap()
    };
    let mut disk = Disk::default();
    disk.set("sub-01", "ses-01", 0, Completion::Complete);
    let sessions = [session("sub-01", "ses-01", true)];
    let of_python = TaskRow {
        reason: None,
        ..failed(1, Reason::Timeout)
    };
    let complete = |minute| attempt(minute, TaskStatus::Complete, Reason::Verified);
    for (attempts, accepts, expected) in [
        (vec![failed(1, Reason::Timeout)], false, &again),
        (vec![failed(1, Reason::Timeout)], true, &done),
        (
            vec![complete(1), failed(2, Reason::ExitCode)],
            false,
            &again,
        ),
        (vec![failed(2, Reason::ExitCode), complete(3)], false, &done),
        // As for a row: these failed only for want of outputs.
        (vec![failed(1, Reason::NoOutput)], false, &done),
        (vec![failed(1, Reason::Lost)], false, &done),
        (vec![of_python], false, &done),
        (vec![], false, &done),
    ] {
        let got = decide_after(
            &dag(accepts),
            &sessions,
            &State::default(),
            &attempts,
            &disk,
            &Policy::default(),
        );
        assert_eq!(got["a/sub-01/ses-01"], *expected, "{attempts:?}");
        let starts = matches!(got["b/sub-01/ses-01"], Decision::Submit(_));
        assert_eq!(starts, *expected == done, "its dependent: {attempts:?}");
        // Cleared in this very invocation.
        let mut rows = State::default();
        for attempt in &attempts {
            rows.put(attempt.clone());
        }
        rows.clear(&TaskKey::new("sub-01", "ses-01", "a"));
        let got = decide(&dag(accepts), &sessions, &rows, &disk, &Policy::default());
        assert_eq!(got["a/sub-01/ses-01"], *expected, "{attempts:?}");
    }
}
