//! Whether a study will proceed automatically.

use std::collections::HashSet;

use super::{Decision, Limit, Manifest, Skip};
use crate::model::state::State;

/// Counts the tasks whose decision may change in a later pass without a person. `rows` are those after the submissions
/// of this pass.
pub fn moving(manifest: &Manifest, rows: &State) -> usize {
    let in_flight = rows.rows().iter().filter(|row| row.is_in_flight());
    let busy: HashSet<&str> = in_flight.map(|row| &*row.key.subject).collect();
    let tasks = manifest.tasks.iter().filter(|task| {
        let is_subject_busy = busy.contains(task.subject.as_str());
        moves(&task.decision, is_subject_busy, !busy.is_empty())
    });
    tasks.count()
}

fn moves(decision: &Decision, is_subject_busy: bool, is_study_busy: bool) -> bool {
    let Decision::Skip(skip) = decision else {
        return true;
    };
    match skip {
        Skip::InFlight { .. }
        | Skip::JobWithoutRow(_)
        | Skip::Renamed(_)
        | Skip::Settling { .. }
        // Jobs of other programs leave the queue eventually.
        | Skip::OverLimit(Limit::QueuedUserJobs(_)) => true,
        Skip::Failed { outlook, .. } => outlook.is_retry(),
        // A dependency that proceeds is counted itself, but it may be a job that was not selected.
        Skip::WaitingFor(waiting) => waiting.blocked.is_none() && is_subject_busy,
        Skip::TooFewSessions { .. } => is_subject_busy,
        Skip::OverLimit(_) => is_study_busy,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::manifest::{Blocked, Budget, Due, Outlook, Waiting};
    use crate::model::state::{Reason, TaskStatus};

    #[test]
    fn tasks_that_proceed_automatically_are_counted() {
        let failed = |outlook| Skip::Failed {
            reason: Some(Reason::Timeout),
            attempt: 1,
            outlook,
        };
        let waiting = |blocked| {
            Skip::WaitingFor(Box::new(Waiting {
                procedure: "bids".into(),
                session: None,
                sessions_missing: 0,
                blocked,
            }))
        };
        let spent = Budget {
            used: 2,
            allowed: 2,
            infrastructure: false,
        };
        let warmup = Limit::Warmup {
            needed: 2,
            succeeded: 0,
            failed: 2,
        };
        let in_flight = Skip::InFlight {
            job_id: None,
            status: TaskStatus::Pending,
            reason: None,
        };
        // With the decision: whether it may change in a study without jobs, and while its subject has one.
        let cases = [
            (in_flight, true, true),
            (failed(Outlook::Now), true, true),
            (failed(Outlook::None), false, false),
            (failed(Outlook::Spent(spent)), false, false),
            (waiting(None), false, true),
            (waiting(Some(Blocked::Failed(None))), false, false),
            (Skip::OverLimit(warmup), false, true),
            (Skip::OverLimit(Limit::MaxJobs(0)), false, true),
            (Skip::OverLimit(Limit::QueuedUserJobs(1)), true, true),
            (Skip::NoDicom, false, false),
            (Skip::Complete, false, false),
        ];
        for (skip, alone, busy) in cases {
            let decision = Decision::Skip(skip);
            let seen = (moves(&decision, false, false), moves(&decision, true, true));
            assert_eq!(seen, (alone, busy), "{decision:?}");
        }
        assert!(moves(&Decision::Submit(Due::New), false, false));
    }
}
