//! Several clusters, and incomplete ends in accounting.

use super::doubt::{in_doubt, tagged};
use super::*;
use crate::model::state::testing::row;

fn on(cluster: Option<&str>, phase: Phase) -> JobReport {
    let mut job = report(phase);
    job.facts.cluster = cluster.map(Into::into);
    job
}

fn on_x(c: &mut Case) {
    c.row.facts.cluster = Some("x".into());
}

#[test]
fn a_job_with_the_same_id_on_another_cluster_is_ignored() {
    let elsewhere = Case::new()
        .with(|c| {
            on_x(c);
            c.queue = Answer::Got(vec![on(None, Phase::Running)]);
            c.accounting = Answer::Got(vec![on(None, Phase::Failed(Reason::Timeout))]);
        })
        .evidence_of_row();
    assert_eq!(elsewhere, (None, None));
    let own = Case::new()
        .with(|c| {
            on_x(c);
            c.queue = Answer::Got(vec![on(None, Phase::Running), on(Some("x"), Phase::Held)]);
            c.accounting = Answer::Got(vec![
                on(Some("x"), Phase::Completed),
                on(None, Phase::Running),
            ]);
        })
        .evidence_of_row();
    assert_eq!(own, (Some(Phase::Held), Some(Phase::Completed)));
}

#[test]
fn an_adopted_job_sets_the_cluster() {
    let (state, _) = in_doubt()
        .with(|c| {
            let mut found = tagged("0123456789abcdef", Phase::Running);
            found.facts.cluster = Some("x".into());
            c.queue = Answer::Got(vec![found]);
        })
        .pass();
    let row = &state.rows()[0];
    assert_eq!(row.facts.cluster.as_deref(), Some("x"));
    let question = question(&state, at(0));
    assert_eq!(question.clusters, ["x".into()]);
    assert_eq!(question.jobs[0].cluster.as_deref(), Some("x"));
}

#[test]
fn clusters_of_ended_jobs_are_not_queried() {
    let mut state = State::default();
    let mut old = row("a", TaskStatus::Failed, Reason::Timeout);
    old.facts.cluster = Some("gone".into());
    state.put(old);
    assert_eq!(question(&state, at(0)).clusters, []);
}

#[test]
fn a_launch_failure_counts_a_minute_after_the_end() {
    let case = |now, code: &'static str| {
        Case::new()
            .with(|c| {
                let mut record = report(Phase::Failed(Reason::LaunchFailed));
                record.facts.exit_code = Some(code.into());
                c.accounting = Answer::Got(vec![record]);
                c.now = now;
            })
            .verdict()
    };
    assert_eq!(case(5, "0:0"), "running running");
    assert_eq!(case(6, "0:0"), "failed launch_failed");
    assert_eq!(case(5, "0:53"), "failed launch_failed", "Slurm says so");
}

#[test]
fn e14_a_cancel_without_details_in_accounting_waits_a_minute() {
    let case = |now| {
        Case::new()
            .queue(Phase::Failed(Reason::Cancelled))
            .accounting(Phase::Unknown)
            .with(|c| c.now = now)
            .verdict()
    };
    assert_eq!(case(5), "running running");
    assert_eq!(case(6), "failed cancelled");
}

#[test]
fn an_incomplete_record_is_accepted_after_some_time() {
    let case = |submitted: Option<i64>, since| {
        Case::new()
            .with(|c| {
                let mut record = report(Phase::Unknown);
                record.submitted_at = submitted.map(at);
                c.accounting = Answer::Got(vec![record]);
                c.row.missing_since = since;
                c.now = 500;
            })
            .verdict()
    };
    assert_eq!(case(Some(0), None), "running unaccounted");
    assert_eq!(case(Some(0), Some(at(0))), "failed lost");
    // An unreadable line is not an answer.
    assert_eq!(case(None, Some(at(0))), "running running");
}
