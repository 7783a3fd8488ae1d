//! Jobs that the queue no longer shows, and what else is known of them.

use super::*;
use crate::model::job::ExecutorKind;

/// A cache of the queue may lack a job that is alive.
#[test]
fn e3_without_accounting_outputs_count_only_after_a_long_absence() {
    let off = |since: Option<i64>, reason| {
        Case::new()
            .with(|c| {
                c.accounting = Answer::Off;
                c.row.reason = Some(reason);
                c.row.missing_since = since.map(at);
                c.now = 100;
            })
            .disk(HERE)
            .verdict()
    };
    assert_eq!(off(None, Reason::Running), "running unaccounted");
    assert_eq!(off(Some(96), Reason::Unaccounted), "running unaccounted");
    assert_eq!(off(Some(95), Reason::Unaccounted), "complete verified");
}

#[test]
fn e17_failed_accounting_never_ends_a_job() {
    for disk in [HERE, Outputs::Missing, Outputs::NoRule] {
        let case = Case::new().with(|c| {
            c.accounting = failed();
            c.row.reason = Some(Reason::Unaccounted);
            c.row.missing_since = Some(at(0));
            c.now = 10_000;
        });
        assert_eq!(case.disk(disk).pass().1, Reconciled::default());
    }
}

/// An earlier pass saw that it ended well; only its outputs are awaited.
#[test]
fn a_known_end_stays_known() {
    for accounting in [failed(), Answer::Got(vec![]), Answer::Off] {
        let awaiting = |disk, now| {
            Case::new()
                .with(|c| {
                    c.accounting = accounting.clone();
                    c.row.reason = Some(Reason::AwaitingOutput);
                    c.row.facts.ended_at = Some(at(5));
                    c.now = now;
                })
                .disk(disk)
                .verdict()
        };
        assert_eq!(awaiting(HERE, 6), "complete verified");
        assert_eq!(awaiting(Outputs::Missing, 14), "running awaiting_output");
        assert_eq!(awaiting(Outputs::Missing, 15), "failed no_output");
    }
}

/// What one executor does not show proves nothing about a job of the other one, however long that lasts.
#[test]
fn attack_executor_switch_a_job_of_the_other_executor_is_never_absent() {
    let verdict_by = |id: &str, asked: ExecutorKind, reason: Reason, accounting| {
        let mut row = row("a", TaskStatus::Running, reason);
        row.job_id = Some(JobId::new(id));
        row.missing_since = Some(at(0));
        let mut state = State::default();
        state.put(row);
        let observation = Observation {
            queue: Answer::Got(vec![]),
            accounting,
            of_other_executor: question(&state, at(10_000)).of_other_executor(asked),
            ..Observation::default()
        };
        let changes = reconcile(&state, &observation, &Disk(HERE), &patience(), at(10_000)).changes;
        changes.first().map(|change| change.to)
    };
    let mut proof = report(Phase::Completed);
    proof.id = JobId::new("1");
    for (id, own, other) in [
        ("local-1", ExecutorKind::Local, ExecutorKind::Slurm),
        ("100", ExecutorKind::Slurm, ExecutorKind::Local),
        ("100_4", ExecutorKind::Slurm, ExecutorKind::Local),
    ] {
        for accounting in [Answer::Off, Answer::Got(vec![proof.clone()])] {
            for reason in [Reason::Running, Reason::Unaccounted] {
                let by_other = verdict_by(id, other, reason, accounting.clone());
                assert_eq!(by_other, None, "{id} {reason}");
                let by_own = verdict_by(id, own, reason, accounting.clone());
                assert_eq!(by_own, Some(TaskStatus::Complete), "{id} {reason}");
            }
            // Its end was seen before the switch.
            let awaited = verdict_by(id, other, Reason::AwaitingOutput, accounting);
            assert_eq!(awaited, Some(TaskStatus::Complete), "{id}");
        }
    }
}
