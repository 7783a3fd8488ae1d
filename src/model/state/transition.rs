//! The only place where the status of a row changes.
//!
//! A final status of an attempt never changes back, with three exceptions: a proven requeue of the same job,
//! late outputs of a job that counted as failed without them (`no_output`, `lost`), and the end of a job that
//! was judged without one, or by the end of a run before its last one.

use chrono::{DateTime, Utc};

use super::columns::About;
use super::{JobFacts, Reason, State, TaskKey, TaskRow, TaskStatus};
use crate::model::job::JobId;

/// Describes what a row becomes, and for which of the task's jobs that was found out.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub key: TaskKey,
    /// The job (none: a submission in doubt) that the verdict is about. If the row has gone on to
    /// another one, the change is void.
    pub about: Option<JobId>,
    pub cause: Cause,
    pub to: TaskStatus,
    pub reason: Reason,
    /// Facts that are known now; none of them erases what the row knows.
    pub facts: JobFacts,
    pub missing_since: Option<DateTime<Utc>>,
}

/// Says what led to a change; it decides which changes are allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Queue, accounting or disk show where the job stands.
    Verdict,
    /// The queue shows the same job alive again after its end.
    Requeue,
    /// The job of a submission was found by its tag; the row gets its id.
    Adoption(JobId),
    /// A person says that the outputs are good.
    Accepted,
}

/// Tells what became of a change.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The row's status or reason changed.
    Changed {
        old: (TaskStatus, Option<Reason>),
        row: Box<TaskRow>,
    },
    /// Only facts were added.
    FactsOnly,
    /// The row says all this already.
    Same,
    /// The row is about another job by now, or its status is final.
    Void,
}

/// Applies a change if it is allowed.
pub fn apply(state: &mut State, change: Change, now: DateTime<Utc>) -> Outcome {
    let Some(row) = state.get(&change.key) else {
        return Outcome::Void;
    };
    if row.job_id != change.about || !is_allowed(row, &change) {
        return Outcome::Void;
    }
    let mut next = row.clone();
    next.status = change.to;
    next.reason = Some(change.reason);
    next.missing_since = change.missing_since;
    let news = TaskRow {
        facts: change.facts,
        ..row.clone()
    };
    next.take_from(&news, |about, _| matches!(about, About::Job | About::End));
    if let Cause::Adoption(job_id) = &change.cause {
        next.job_id = Some(job_id.clone());
    }
    if change.cause == Cause::Requeue {
        next.facts.ended_at = None;
        next.facts.set_exit_code(None);
        next.facts.elapsed_s = None;
        next.facts.max_rss_mb = None;
        next.facts.cpu_time_s = None;
    }
    if next == *row {
        return Outcome::Same;
    }
    next.updated_at = Some(now);
    let old = (row.status, row.reason);
    let changed = old != (next.status, next.reason) || next.job_id != row.job_id;
    if let Some(place) = state.row_mut(&change.key) {
        place.clone_from(&next);
    }
    if changed {
        Outcome::Changed {
            old,
            row: Box::new(next),
        }
    } else {
        Outcome::FactsOnly
    }
}

fn is_allowed(row: &TaskRow, change: &Change) -> bool {
    if !change.reason.fits(change.to) {
        return false;
    }
    match change.cause {
        Cause::Adoption(_) => row.is_in_flight() && change.to.is_in_flight(),
        Cause::Requeue => !row.is_in_flight() && change.to.is_in_flight(),
        Cause::Accepted => row.status == TaskStatus::Failed && change.to == TaskStatus::Complete,
        Cause::Verdict => {
            row.is_in_flight()
                || (may_still_be_corrected(row) || is_later_run(row, &change.facts))
                    && !change.to.is_in_flight()
                    && change.facts.ended_at.is_some()
                || may_still_become_complete(row)
                    && (change.to == TaskStatus::Complete
                        || (change.to, Some(change.reason)) == (row.status, row.reason))
                || row.reason == Some(Reason::Unverified)
                    && matches!(change.reason, Reason::Verified | Reason::NoOutput)
        }
    }
}

/// True for rows that failed for want of outputs which may only have been late.
pub fn may_still_become_complete(row: &TaskRow) -> bool {
    row.status == TaskStatus::Failed && matches!(row.reason, Some(Reason::NoOutput | Reason::Lost))
}

/// True for rows that were judged without the end of their job: its outputs decided alone, or it counted as lost.
pub fn may_still_be_corrected(row: &TaskRow) -> bool {
    row.job_id.is_some()
        && row.facts.ended_at.is_none()
        && match row.status {
            TaskStatus::Complete => row.missing_since.is_some(),
            _ => row.reason == Some(Reason::Lost),
        }
}

/// True if a job has started and ended again after what the row knows: it was requeued meanwhile.
pub fn is_later_run(row: &TaskRow, facts: &JobFacts) -> bool {
    let known = (row.facts.started_at, row.facts.ended_at);
    match (known, (facts.started_at, facts.ended_at)) {
        ((Some(started), Some(ended)), (Some(started_again), Some(ended_again))) => {
            started_again > started && started_again >= ended && ended_again >= started_again
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::state::testing::{at, row};

    fn verdict(row: &TaskRow, to: TaskStatus, reason: Reason) -> Change {
        Change {
            key: row.key.clone(),
            about: row.job_id.clone(),
            cause: Cause::Verdict,
            to,
            reason,
            facts: JobFacts::default(),
            missing_since: None,
        }
    }

    #[test]
    fn a_verdict_about_another_job_is_void() {
        let mut state = State::default();
        let mut old = row("a", TaskStatus::Running, Reason::Running);
        old.job_id = Some(JobId::new("2"));
        state.put(old.clone());
        let mut change = verdict(&old, TaskStatus::Failed, Reason::Timeout);
        change.about = Some(JobId::new("1"));
        assert_eq!(apply(&mut state, change, at(9)), Outcome::Void);
        assert_eq!(state.get(&old.key), Some(&old));
    }

    #[test]
    fn final_statuses_stay_whatever_is_said_later() {
        for status in TaskStatus::ALL.into_iter().filter(|s| !s.is_in_flight()) {
            for &reason in Reason::ALL.iter().filter(|r| r.fits(status)) {
                for to in TaskStatus::ALL {
                    for &why in Reason::ALL.iter().filter(|r| r.fits(to)) {
                        let mut state = State::default();
                        let before = row("a", status, reason);
                        state.put(before.clone());
                        let outcome = apply(&mut state, verdict(&before, to, why), at(9));
                        let late = matches!(reason, Reason::NoOutput | Reason::Lost);
                        if late && (to == TaskStatus::Complete || (to, why) == (status, reason)) {
                            continue;
                        }
                        let unjudged = reason == Reason::Unverified;
                        if unjudged && matches!(why, Reason::Verified | Reason::NoOutput) {
                            continue;
                        }
                        assert_eq!(outcome, Outcome::Void, "{status} {reason} -> {to} {why}");
                        assert_eq!(state.get(&before.key), Some(&before));
                    }
                }
            }
        }
    }

    /// Its outputs decided alone, or it counted as lost; then its end arrived.
    #[test]
    fn e17_a_true_end_corrects_a_row_that_was_judged_without_one() {
        let corrected = |status, reason, missing_since, ended_before: Option<i64>| {
            let mut state = State::default();
            let mut before = row("a", status, reason);
            before.missing_since = missing_since;
            before.facts.ended_at = ended_before.map(at);
            state.put(before.clone());
            let mut change = verdict(&before, TaskStatus::Failed, Reason::ExitCode);
            assert_eq!(apply(&mut state, change.clone(), at(9)), Outcome::Void);
            change.facts.ended_at = Some(at(8));
            apply(&mut state, change, at(9)) != Outcome::Void
        };
        let (complete, verified) = (TaskStatus::Complete, Reason::Verified);
        assert!(corrected(complete, verified, Some(at(5)), None));
        assert!(!corrected(complete, verified, None, None), "by its end");
        assert!(!corrected(complete, verified, Some(at(5)), Some(6)));
        assert!(corrected(TaskStatus::Failed, Reason::Lost, None, None));
        assert!(!corrected(
            TaskStatus::Failed,
            Reason::Timeout,
            Some(at(5)),
            None
        ));
    }

    #[test]
    fn saying_the_same_again_changes_nothing() {
        let mut state = State::from_rows(
            vec![row("a", TaskStatus::Running, Reason::Running)],
            None,
            Default::default(),
        );
        let before = state.rows()[0].clone();
        let change = verdict(&before, TaskStatus::Running, Reason::Running);
        assert_eq!(apply(&mut state, change, at(9)), Outcome::Same);
        assert!(!state.is_changed());
    }

    #[test]
    fn a_requeue_brings_a_failed_row_back() {
        let mut state = State::default();
        let before = row("a", TaskStatus::Failed, Reason::NodeFail);
        state.put(before.clone());
        let mut change = verdict(&before, TaskStatus::Pending, Reason::Queued);
        assert_eq!(apply(&mut state, change.clone(), at(9)), Outcome::Void);
        change.cause = Cause::Requeue;
        assert!(matches!(
            apply(&mut state, change, at(9)),
            Outcome::Changed { .. }
        ));
    }

    /// Which causes may move which rows: each pair of statuses, with a reason that fits.
    #[test]
    fn each_cause_moves_only_the_rows_that_it_is_about() {
        let reason = |status: TaskStatus| *Reason::ALL.iter().find(|r| r.fits(status)).unwrap();
        for from in TaskStatus::ALL {
            for in_doubt in [false, true] {
                for to in TaskStatus::ALL {
                    for (cause, expected) in [
                        (
                            Cause::Adoption(JobId::new("7")),
                            from.is_in_flight() && to.is_in_flight(),
                        ),
                        (Cause::Requeue, !from.is_in_flight() && to.is_in_flight()),
                        (
                            Cause::Accepted,
                            from == TaskStatus::Failed && to == TaskStatus::Complete,
                        ),
                    ] {
                        let mut before = row("a", from, reason(from));
                        if in_doubt {
                            if from != TaskStatus::Pending {
                                continue;
                            }
                            before.reason = Some(Reason::Submitting);
                            before.job_id = None;
                        }
                        let mut state = State::default();
                        state.put(before.clone());
                        let change = Change {
                            cause: cause.clone(),
                            ..verdict(&before, to, reason(to))
                        };
                        let is_void = apply(&mut state, change, at(9)) == Outcome::Void;
                        assert_eq!(is_void, !expected, "{cause:?}: {from} -> {to} {in_doubt}");
                    }
                }
            }
        }
    }

    #[test]
    fn the_end_of_the_run_before_is_forgotten_by_a_requeue_and_by_nothing_else() {
        let ended = |status, reason| {
            let mut row = row("a", status, reason);
            row.facts.ended_at = Some(at(5));
            row.facts.exit_code = Some("1:0".into());
            row.facts.elapsed_s = Some(240);
            row.facts.max_rss_mb = Some(100);
            row.facts.cpu_time_s = Some(200);
            row.facts.node_list = Some("n1".into());
            row
        };
        let mut state = State::default();
        let before = ended(TaskStatus::Failed, Reason::NodeFail);
        state.put(before.clone());
        let change = Change {
            cause: Cause::Requeue,
            ..verdict(&before, TaskStatus::Running, Reason::Running)
        };
        apply(&mut state, change, at(9));
        let facts = &state.rows()[0].facts;
        assert_eq!(
            (
                facts.ended_at,
                facts.elapsed_s,
                facts.max_rss_mb,
                facts.cpu_time_s
            ),
            (None, None, None, None)
        );
        assert_eq!(facts.exit_code, None);
        assert_eq!(facts.node_list.as_deref(), Some("n1"));

        let before = ended(TaskStatus::Running, Reason::AwaitingOutput);
        state.put(before.clone());
        apply(
            &mut state,
            verdict(&before, TaskStatus::Complete, Reason::Verified),
            at(9),
        );
        assert_eq!(state.rows()[0].facts, before.facts);
    }

    /// A mere fact, such as the node, is no event.
    #[test]
    fn facts_alone_are_told_from_changes() {
        let mut state = State::default();
        let before = row("a", TaskStatus::Running, Reason::Running);
        state.put(before.clone());
        let mut change = verdict(&before, TaskStatus::Running, Reason::Running);
        change.facts.node_list = Some("n1".into());
        assert_eq!(apply(&mut state, change, at(9)), Outcome::FactsOnly);
        assert_eq!(state.rows()[0].facts.node_list.as_deref(), Some("n1"));
        let again = state.rows()[0].clone();
        let other = verdict(&again, TaskStatus::Running, Reason::Unaccounted);
        assert!(matches!(
            apply(&mut state, other, at(9)),
            Outcome::Changed { .. }
        ));
    }
}
