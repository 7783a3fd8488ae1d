//! Status changes of rows, which happen only here.
//!
//! A final status of an attempt never changes back, with six exceptions: a proven requeue of the same job; late outputs of a
//! job that counted as failed without them (`no_output`, `lost`); the end of a job that was judged without it; the end
//! of a later run than the one it was judged by; markers that were unknown (`unverified`); outputs that a user accepted.

use chrono::{DateTime, Utc};

use super::columns::About;
use super::{JobFacts, Reason, State, TaskKey, TaskRow, TaskStatus};
use crate::model::job::JobId;

/// A new status of a row, and the job that it is based on.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub key: TaskKey,
    /// The job that the verdict is about (`None` for a submission in doubt). If the row has
    /// another job now, the change is void.
    pub about: Option<JobId>,
    pub cause: Cause,
    pub to: TaskStatus,
    pub reason: Reason,
    /// New facts; missing ones do not erase known ones.
    pub facts: JobFacts,
    pub missing_since: Option<DateTime<Utc>>,
}

impl Change {
    /// A change of a row about its own job, without new facts.
    pub fn of(row: &TaskRow, cause: Cause, to: TaskStatus, reason: Reason) -> Self {
        Self {
            key: row.key.clone(),
            about: row.job_id.clone(),
            cause,
            to,
            reason,
            facts: JobFacts::default(),
            missing_since: None,
        }
    }
}

/// The cause of a change, which determines the allowed changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Queue, accounting or disk show the job's state.
    Verdict,
    /// The queue shows the same job alive again after its end.
    Requeue,
    /// The job of a submission was found by its tag; the row adopts its id.
    Adoption(JobId),
    /// A user accepted the outputs.
    Accepted,
}

/// The result of applying a change.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// The row's status or reason changed.
    Changed {
        old: (TaskStatus, Option<Reason>),
        row: Box<TaskRow>,
    },
    /// Only facts were added.
    FactsOnly,
    /// The row has these values already.
    Same,
    /// The row has another job now, or its status is final.
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
    let update = TaskRow {
        facts: change.facts,
        ..row.clone()
    };
    next.take_from(&update, |about, _| matches!(about, About::Job | About::End));
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

/// True for rows that failed because of missing outputs, which may still appear.
pub fn may_still_become_complete(row: &TaskRow) -> bool {
    row.status == TaskStatus::Failed && matches!(row.reason, Some(Reason::NoOutput | Reason::Lost))
}

/// True for rows that were judged without the end of their job: by its outputs alone, or as lost.
pub fn may_still_be_corrected(row: &TaskRow) -> bool {
    row.job_id.is_some()
        && row.facts.ended_at.is_none()
        && match row.status {
            TaskStatus::Complete => row.missing_since.is_some(),
            _ => row.reason == Some(Reason::Lost),
        }
}

/// True if a job has started and ended again after the recorded run, because it was requeued.
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
        Change::of(row, Cause::Verdict, to, reason)
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
    fn final_statuses_do_not_change() {
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

    /// A row was judged by outputs alone or as lost, before the end of its job was known.
    #[test]
    fn a_late_end_corrects_a_row_that_was_judged_without_it() {
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
    fn repeating_a_verdict_changes_nothing() {
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

    /// Tests each pair of statuses with a valid reason.
    #[test]
    fn each_cause_changes_only_its_own_rows() {
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
    fn only_a_requeue_clears_the_end_of_the_previous_run() {
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

    /// New facts, such as the node, are not an event.
    #[test]
    fn facts_without_a_status_change_are_recognized() {
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
