//! What is taken from a report of a job that lives, has begun, or has just ended.

use super::*;
use crate::decide::reconcile::evidence::never_started;
use crate::decide::reconcile::verdict::{Verdict, live_facts};

fn verdict_of<'a>(
    row: &'a TaskRow,
    disk: &'a dyn OutputSource,
    patience: &'a Patience,
) -> Verdict<'a> {
    Verdict {
        row,
        disk,
        patience,
        now: at(6),
    }
}

#[test]
fn only_stable_facts_of_a_live_job_are_recorded() {
    let recorded = |phase| {
        let mut job = report(phase);
        job.facts.elapsed_s = Some(60);
        job.facts.ended_at = Some(at(9));
        job.facts.exit_code = Some("0:0".into());
        job.facts.node_list = Some("n1".into());
        live_facts(&job)
    };
    for phase in [Phase::Running, Phase::Suspended, Phase::Queued, Phase::Held] {
        let facts = recorded(phase);
        assert_eq!(facts.elapsed_s, None, "it changes at every look");
        assert_eq!(
            (facts.ended_at, facts.exit_code),
            (None, None),
            "its expected end is none"
        );
        assert_eq!(facts.node_list.as_deref(), Some("n1"));
        let has_begun = matches!(phase, Phase::Running | Phase::Suspended);
        let expected = has_begun.then(|| at(1));
        assert_eq!(facts.started_at, expected, "an expected start is none");
    }
}

#[test]
fn a_real_start_is_recorded_before_the_end_is_decided() {
    let disk = Disk(Outputs::Missing);
    let mut row = row("a", TaskStatus::Pending, Reason::Queued);
    row.missing_since = Some(at(4));
    let noted = |phase, started: Option<i64>, ended: i64| {
        let mut job = report(phase);
        job.facts.started_at = started.map(at);
        job.facts.ended_at = Some(at(ended));
        verdict_of(&row, &disk, &patience()).started_at_least(&job)
    };
    let change = noted(Phase::Completed, Some(1), 5).unwrap();
    assert_eq!(
        (change.to, change.reason),
        (TaskStatus::Running, Reason::Running),
        "a waiting row that has a start has come back"
    );
    assert_eq!(
        change.facts,
        JobFacts {
            started_at: Some(at(1)),
            ..JobFacts::default()
        }
    );
    let cancelled = Phase::Failed(Reason::Cancelled);
    assert_eq!(
        noted(cancelled, Some(5), 5),
        None,
        "cancelled before it began"
    );
    assert!(noted(cancelled, Some(1), 5).is_some());
    assert!(noted(Phase::Completed, Some(5), 5).is_some(), "a short one");
    assert_eq!(noted(Phase::Completed, None, 5), None);
}

/// The clock of a file server may be behind by five seconds, and no more.
#[test]
fn replaced_outputs_may_be_slightly_older_than_the_start() {
    let newest_before_start = |seconds: i64| {
        let mut row = row("a", TaskStatus::Running, Reason::Running);
        row.replaces_outputs = Some(true);
        let disk = Disk(Outputs::Complete {
            newest: Some(at(3) - Duration::seconds(seconds)),
        });
        let found = verdict_of(&row, &disk, &patience()).outputs(Some(at(3)));
        matches!(found, Outputs::Complete { .. })
    };
    assert!(newest_before_start(-1));
    assert!(newest_before_start(0));
    assert!(newest_before_start(5));
    assert!(!newest_before_start(6));
}

#[test]
fn a_task_with_a_start_or_seen_running_has_started() {
    let waiting = row("a", TaskStatus::Pending, Reason::Queued);
    assert!(never_started(&waiting));
    let mut begun = waiting.clone();
    begun.facts.started_at = Some(at(1));
    assert!(!never_started(&begun));
    assert!(!never_started(&row(
        "a",
        TaskStatus::Running,
        Reason::Running
    )));
}

#[test]
fn an_array_in_doubt_is_adopted_with_its_cluster() {
    let case = super::doubt::in_doubt().with(|c| {
        c.row.submission_id = Some("array-0123456789abcdef.3".into());
        let mut array = super::doubt::tagged("array-0123456789abcdef", Phase::Queued);
        array.facts.cluster = Some("east".into());
        c.queue = Answer::Got(vec![array]);
    });
    let (state, _) = case.pass();
    let row = &state.rows()[0];
    assert_eq!(row.job_id, Some(JobId::new("7_3")));
    assert_eq!(row.facts.cluster.as_deref(), Some("east"));
}
