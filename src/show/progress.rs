//! Progress per day and a forecast, from the events of the audit log. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Duration, NaiveDate, Utc};
use serde::{Serialize, Serializer};

use crate::model::procedure::ProcedureDag;
use crate::model::state::TaskStatus;
use crate::show::tables::utc_time;
use crate::store::audit_log::{EventKind, Record};

/// Progress of the study, from the audit log.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Progress {
    /// In order of priority, without procedures that have neither events nor a backlog.
    pub procedures: Vec<ProcedureProgress>,
    /// Over all procedures of the report.
    pub rate: Rate,
    pub backlog: Backlog,
    /// Invalid lines of the audit log.
    pub bad_lines: usize,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProcedureProgress {
    pub procedure: Arc<str>,
    /// Days with an event, oldest first.
    pub days: Vec<Day>,
    pub rate: Rate,
    pub backlog: Backlog,
}

/// One day (UTC).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Day {
    pub date: NaiveDate,
    pub submitted: usize,
    pub completed: usize,
    pub failed: usize,
    /// Sums up to and including this day. A rerun counts again.
    pub completed_so_far: usize,
    pub failed_so_far: usize,
}

/// Completed tasks per day (24 h) before the report.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Rate {
    /// Average of the last 7 days, or of the days since the first event if there are fewer.
    pub last_7_days: Option<f64>,
    /// The same over 28 days.
    pub last_28_days: Option<f64>,
}

/// Incomplete tasks that will run automatically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Backlog {
    /// Tasks that are due, in flight, over a limit, waiting or settling, but not failed, blocked, paused or
    /// unreadable ones.
    pub tasks: usize,
    /// Expected end at the rate of the last 7 days. `None` without completed tasks in that time, or without a
    /// backlog.
    #[serde(serialize_with = "maybe_time")]
    pub expected_end: Option<DateTime<Utc>>,
}

fn maybe_time<S: Serializer>(at: &Option<DateTime<Utc>>, serializer: S) -> Result<S::Ok, S::Error> {
    at.map(utc_time).serialize(serializer)
}

/// Sums up the events. `backlog` is the number of tasks by procedure that will run automatically.
pub fn progress<'a>(
    events: impl Iterator<Item = &'a Record>,
    backlog: &HashMap<Arc<str>, usize>,
    dag: &ProcedureDag,
    bad_lines: usize,
    now: DateTime<Utc>,
) -> Progress {
    let mut series: BTreeMap<Arc<str>, Series> = BTreeMap::new();
    let mut total = Series::default();
    for event in events {
        total.add(event);
        let name = Arc::clone(&event.key.procedure);
        series.entry(name).or_default().add(event);
    }
    let mut names: Vec<&Arc<str>> = series.keys().chain(backlog.keys()).collect();
    names.sort_by_key(|name| (dag.rank(name), *name));
    names.dedup();
    let empty = Series::default();
    let mut all = Backlog::default();
    let mut is_known = true;
    let mut procedures = Vec::new();
    for name in names {
        let events = series.get(name).unwrap_or(&empty);
        let rate = events.rate(now);
        let tasks = backlog.get(name).copied().unwrap_or(0);
        let ahead = Backlog {
            tasks,
            expected_end: expected_end(tasks, rate, now),
        };
        all.tasks += tasks;
        all.expected_end = all.expected_end.max(ahead.expected_end);
        is_known &= tasks == 0 || ahead.expected_end.is_some();
        if !events.days.is_empty() || tasks > 0 {
            procedures.push(ProcedureProgress {
                procedure: Arc::clone(name),
                days: events.days(),
                rate,
                backlog: ahead,
            });
        }
    }
    // The overall end is unknown if one procedure's end is unknown.
    all.expected_end = all.expected_end.filter(|_| is_known);
    Progress {
        procedures,
        rate: total.rate(now),
        backlog: all,
        bad_lines,
    }
}

#[derive(Debug, Default)]
struct Series {
    /// Without dates and sums.
    days: BTreeMap<NaiveDate, Day>,
    completed_at: Vec<DateTime<Utc>>,
    first: Option<DateTime<Utc>>,
}

impl Series {
    /// Ignores rows that a repair restored, because the log already has their events.
    fn add(&mut self, event: &Record) {
        let is_new = event.old_status != event.new_status;
        let count: fn(&mut Day) -> &mut usize =
            match (event.kind, event.new_status.filter(|_| is_new)) {
                (EventKind::Repaired, _) => return,
                (EventKind::Submitted, _) => |day| &mut day.submitted,
                (_, Some(TaskStatus::Complete)) => {
                    self.completed_at.push(event.at);
                    |day| &mut day.completed
                }
                (_, Some(TaskStatus::Failed)) => |day| &mut day.failed,
                _ => return,
            };
        *count(self.days.entry(event.at.date_naive()).or_default()) += 1;
        self.first = Some(self.first.map_or(event.at, |first| first.min(event.at)));
    }

    fn days(&self) -> Vec<Day> {
        let (mut completed_so_far, mut failed_so_far) = (0, 0);
        let days = self.days.iter();
        days.map(|(date, day)| {
            completed_so_far += day.completed;
            failed_so_far += day.failed;
            Day {
                date: *date,
                completed_so_far,
                failed_so_far,
                ..*day
            }
        })
        .collect()
    }

    fn rate(&self, now: DateTime<Utc>) -> Rate {
        let per_day = |days: i64| {
            let since = now - Duration::days(days);
            // A new study counts only from its first event.
            let begun = self.first?.max(since);
            let span = (now - begun).num_seconds().max(86_400) as f64 / 86_400.0;
            let completed = self.completed_at.iter();
            let count = completed.filter(|at| **at > since && **at <= now).count();
            Some(count as f64 / span)
        };
        Rate {
            last_7_days: per_day(7),
            last_28_days: per_day(28),
        }
    }
}

fn expected_end(tasks: usize, rate: Rate, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let rate = rate.last_7_days.filter(|rate| *rate > 0.0)?;
    let seconds = tasks as f64 / rate * 86_400.0;
    let left = Duration::try_seconds(seconds as i64).filter(|_| tasks > 0)?;
    now.checked_add_signed(left)
}

#[cfg(test)]
mod tests {
    use serde_json::Map;

    use super::*;
    use crate::model::state::TaskKey;

    fn noon(day: u32) -> DateTime<Utc> {
        NaiveDate::from_ymd_opt(2026, 3, day)
            .and_then(|date| date.and_hms_opt(12, 0, 0))
            .unwrap()
            .and_utc()
    }

    fn event(day: u32, procedure: &str, kind: EventKind, new: Option<TaskStatus>) -> Record {
        Record {
            at: noon(day),
            kind,
            key: TaskKey::new("sub-1", "ses-1", procedure),
            job_id: None,
            old_status: Some(TaskStatus::Running),
            new_status: new,
            fields: Map::new(),
        }
    }

    fn done(day: u32, procedure: &str) -> Record {
        event(
            day,
            procedure,
            EventKind::StatusChange,
            Some(TaskStatus::Complete),
        )
    }

    fn of(events: &[Record], backlog: &[(&str, usize)]) -> Progress {
        let dag = ProcedureDag::new(Vec::new()).unwrap();
        let backlog = backlog
            .iter()
            .map(|(name, count)| (Arc::from(*name), *count))
            .collect();
        progress(events.iter(), &backlog, &dag, 0, noon(20))
    }

    #[test]
    fn days_count_and_add_up() {
        let events = [
            event(1, "a", EventKind::Submitted, None),
            done(1, "a"),
            done(3, "a"),
            event(3, "a", EventKind::StatusChange, Some(TaskStatus::Failed)),
            event(4, "a", EventKind::StatusChange, Some(TaskStatus::Running)),
            event(5, "a", EventKind::Repaired, Some(TaskStatus::Complete)),
        ];
        let found = of(&events, &[]);
        let days: Vec<_> = found.procedures[0]
            .days
            .iter()
            .map(|d| {
                (
                    d.submitted,
                    d.completed,
                    d.failed,
                    d.completed_so_far,
                    d.failed_so_far,
                )
            })
            .collect();
        assert_eq!(days, [(1, 1, 0, 1, 0), (0, 1, 1, 2, 1)]);
    }

    #[test]
    fn the_end_follows_from_the_last_week() {
        // One task per day in the last week; the first event is before that week.
        let mut events = vec![event(1, "a", EventKind::Submitted, None)];
        events.extend((14..=20).map(|day| done(day, "a")));
        let found = of(&events, &[("a", 14)]);
        assert_eq!(found.rate.last_7_days, Some(1.0));
        assert_eq!(
            found.backlog.expected_end,
            Some(noon(20) + Duration::days(14))
        );
        // A procedure that never ran has no forecast, so the study has none.
        let found = of(&events, &[("a", 14), ("b", 1)]);
        assert_eq!(
            (found.backlog.tasks, found.backlog.expected_end),
            (15, None)
        );
        assert_eq!(found.procedures.len(), 2);
    }

    #[test]
    fn the_rate_of_a_new_study_starts_at_its_first_event() {
        let found = of(&[done(18, "a"), done(19, "a")], &[("a", 2)]);
        assert_eq!(found.rate.last_7_days, Some(1.0));
        assert_eq!(found.rate.last_28_days, Some(1.0));
        assert_eq!(of(&[], &[]).rate, Rate::default());
    }
}
