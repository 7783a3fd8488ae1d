//! The circuit breaker: pauses a procedure after repeated failures.
//!
//! Consecutive failures are counted from the records of all attempts each time, so that no crash can lose one.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};

use crate::model::procedure::ProcedureDag;
use crate::model::state::{AttemptId, Reason, TaskKey, TaskRow, TaskStatus};
use crate::store::control::{Control, Pause, PauseCause};

/// Older failures are irrelevant for the current set-up.
pub const MEMORY: Duration = Duration::days(30);

/// The failures of a procedure since its last success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streak {
    pub count: u32,
    pub reasons: BTreeMap<Reason, usize>,
    /// The failure that ended last.
    pub newest: TaskKey,
    newest_end: DateTime<Utc>,
}

/// The consecutive failures of each procedure: those that ended after its last success and in the last 30 days, of jobs
/// submitted after it was last resumed. `attempts` are in any order; of duplicates, the first counts.
pub fn streaks<'a>(
    attempts: impl Iterator<Item = &'a TaskRow> + Clone,
    control: &Control,
    now: DateTime<Utc>,
) -> BTreeMap<Arc<str>, Streak> {
    let mut last_success: HashMap<&str, DateTime<Utc>> = HashMap::new();
    for row in attempts.clone() {
        if row.is_proven_complete()
            && let Some(end) = end_of(row)
        {
            let last = last_success.entry(&row.key.procedure).or_insert(end);
            *last = end.max(*last);
        }
    }
    let mut seen: HashSet<AttemptId> = HashSet::new();
    let mut streaks: BTreeMap<Arc<str>, Streak> = BTreeMap::new();
    for row in attempts {
        let name = &row.key.procedure;
        let (Some(reason), Some(end)) = (failure(row), end_of(row)) else {
            continue;
        };
        let is_over = last_success.get(&**name).is_some_and(|last| end <= *last)
            || end < now - MEMORY
            || control
                .forgiven_until(name)
                .is_some_and(|until| row.submitted_at.unwrap_or(end) <= until);
        if is_over || !seen.insert(AttemptId::of(row)) {
            continue;
        }
        let streak = streaks.entry(Arc::clone(name)).or_insert_with(|| Streak {
            count: 0,
            reasons: BTreeMap::new(),
            newest: row.key.clone(),
            newest_end: end,
        });
        streak.count = streak.count.saturating_add(1);
        *streak.reasons.entry(reason).or_default() += 1;
        if end > streak.newest_end {
            streak.newest = row.key.clone();
            streak.newest_end = end;
        }
    }
    streaks
}

/// The procedures that must be paused now, with their pauses. Existing pauses stay as they are.
pub fn trip(
    streaks: &BTreeMap<Arc<str>, Streak>,
    dag: &ProcedureDag,
    control: &Control,
    now: DateTime<Utc>,
) -> Vec<(Arc<str>, Pause)> {
    dag.iter()
        .filter_map(|(_, procedure)| {
            let limit = procedure.rules.pause_after_failures?;
            let count = streaks.get(&procedure.name)?.count;
            let switch = control.procedures.get(&procedure.name);
            let is_paused = switch.is_some_and(|switch| switch.paused.is_some());
            (count >= limit && !is_paused).then(|| {
                let cause = PauseCause::Failures { count };
                (Arc::clone(&procedure.name), Pause { since: now, cause })
            })
        })
        .collect()
}

/// The reason of a failure that points to the procedure or the machine: not of jobs that a person or the site ended, or
/// whose end is unknown.
fn failure(row: &TaskRow) -> Option<Reason> {
    row.reason.filter(|reason| {
        let is_excused = matches!(
            reason,
            Reason::Cancelled | Reason::Dependency | Reason::Preempted | Reason::Lost
        );
        row.status == TaskStatus::Failed && reason.fits(row.status) && !is_excused
    })
}

fn end_of(row: &TaskRow) -> Option<DateTime<Utc>> {
    row.facts.ended_at.or(row.updated_at).or(row.submitted_at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::procedure::testing::procedure;
    use crate::model::procedure::{ProcedureDag, Scope};
    use crate::model::state::testing::{at, row};

    /// An attempt submitted a minute before its end.
    fn ended(minute: i64, reason: Reason) -> TaskRow {
        let status = if reason.fits(TaskStatus::Complete) {
            TaskStatus::Complete
        } else {
            TaskStatus::Failed
        };
        let mut row = row("a", status, reason);
        row.submission_id = Some(format!("{minute}").as_str().into());
        row.submitted_at = Some(at(minute - 1));
        row.facts.ended_at = Some(at(minute));
        row
    }

    fn count(rows: &[TaskRow], control: &Control, now: i64) -> u32 {
        streaks(rows.iter(), control, at(now))
            .get("a")
            .map_or(0, |streak| streak.count)
    }

    #[test]
    fn only_failures_that_point_to_the_procedure_count() {
        let counted: Vec<&str> = Reason::ALL
            .iter()
            .filter(|reason| {
                reason.fits(TaskStatus::Failed)
                    && count(&[ended(1, **reason)], &Control::default(), 2) == 1
            })
            .map(|reason| reason.as_str())
            .collect();
        assert_eq!(
            counted,
            [
                "exit_code",
                "timeout",
                "out_of_memory",
                "node_fail",
                "boot_fail",
                "launch_failed",
                "deadline",
                "no_output"
            ]
        );
        let mut python = ended(1, Reason::ExitCode);
        python.reason = None;
        assert_eq!(count(&[python], &Control::default(), 2), 0);
    }

    #[test]
    fn a_success_a_resume_and_time_end_a_streak() {
        let mut rows: Vec<TaskRow> = (1..=5).map(|at| ended(at, Reason::ExitCode)).collect();
        let mut control = Control::default();
        assert_eq!(count(&rows, &control, 10), 5);
        let days = |days: i64| days * 24 * 60;
        assert_eq!(count(&rows, &control, days(30) + 3), 3);
        rows.push(ended(3, Reason::Verified));
        assert_eq!(count(&rows, &control, 10), 2, "in any order");
        control.switch_mut(Some(&"a".into())).resumed_at = Some(at(3));
        assert_eq!(count(&rows, &control, 10), 1, "submitted after minute 3");
        control.study.resumed_at = Some(at(9));
        assert_eq!(count(&rows, &control, 10), 0);
    }

    #[test]
    fn it_trips_at_the_limit_and_keeps_existing_pauses() {
        let mut declared = procedure("a", Scope::Session, &[]);
        declared.rules.pause_after_failures = Some(3);
        let dag = ProcedureDag::new(vec![declared.clone()]).unwrap();
        let rows: Vec<TaskRow> = (1..=3).map(|at| ended(at, Reason::Timeout)).collect();
        let trips = |count: usize, dag: &ProcedureDag, control: &Control| {
            let found = streaks(rows[..count].iter(), control, at(9));
            trip(&found, dag, control, at(9))
        };
        let mut control = Control::default();
        assert_eq!(trips(2, &dag, &control), []);
        let tripped = trips(3, &dag, &control);
        assert_eq!(
            tripped[0].1,
            Pause {
                since: at(9),
                cause: PauseCause::Failures { count: 3 }
            }
        );
        control.switch_mut(Some(&"a".into())).paused = Some(tripped[0].1.clone());
        assert_eq!(trips(3, &dag, &control), []);
        declared.rules.pause_after_failures = None;
        let never = ProcedureDag::new(vec![declared]).unwrap();
        assert_eq!(trips(3, &never, &Control::default()), []);
    }

    proptest! {
        /// In any order, with duplicate attempts.
        #[test]
        fn it_counts_the_failures_after_the_last_success(
            ends in proptest::collection::vec(0usize..4, 0..20),
            shuffle in any::<prop::sample::Index>(),
            twice in any::<bool>(),
        ) {
            let words = [Reason::ExitCode, Reason::Cancelled, Reason::Verified, Reason::NoOutput];
            let mut rows: Vec<TaskRow> = ends
                .iter()
                .enumerate()
                .map(|(minute, word)| ended(minute as i64, words[*word]))
                .collect();
            let expected = ends
                .iter()
                .rev()
                .take_while(|word| words[**word] != Reason::Verified)
                .filter(|word| words[**word] != Reason::Cancelled)
                .count();
            if !rows.is_empty() {
                let by = shuffle.index(rows.len());
                rows.rotate_left(by);
            }
            if twice {
                rows.extend(rows.clone());
            }
            prop_assert_eq!(count(&rows, &Control::default(), 60) as usize, expected);
        }
    }
}
