//! Jobs that the queue no longer shows, and what else is known of them.

use super::*;

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
fn e17_a_failed_accounting_ends_nothing_however_long_the_queue_lacks_the_job() {
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
fn an_end_that_was_seen_stays_seen() {
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
