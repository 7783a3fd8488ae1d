//! The health of a session: its share of complete tasks. Pure.

use super::report::{Band, Health, HealthSummary};
use crate::decide::manifest::{Decision, Skip};
use crate::show::tables::TaskState;

/// Rates a share with integers, so that 4 of 5 is exactly 0.8.
pub fn band(complete: usize, of: usize) -> Band {
    if complete * 5 >= of * 4 {
        Band::Good
    } else if complete * 5 >= of * 2 {
        Band::Fair
    } else {
        Band::Poor
    }
}

/// Rates the tasks of one session. Inapplicable tasks and tasks in flight do not count, because nothing is
/// wrong with them. A session with a stuck task is never good. `None` if no task counts.
pub fn rate<'a>(decisions: impl Iterator<Item = &'a Decision>) -> Option<Health> {
    let (mut complete, mut of, mut has_stuck) = (0, 0, false);
    for decision in decisions {
        has_stuck |= TaskState::of(decision).is_stuck();
        match decision {
            Decision::Skip(
                Skip::NotApplicable | Skip::NotSelected | Skip::Excluded | Skip::InFlight { .. },
            ) => {}
            Decision::Skip(Skip::Complete | Skip::Stale(_) | Skip::LateInput) => {
                complete += 1;
                of += 1;
            }
            _ => of += 1,
        }
    }
    (of > 0).then(|| Health {
        complete,
        of,
        share: complete as f64 / of as f64,
        band: match band(complete, of) {
            Band::Good if has_stuck => Band::Fair,
            band => band,
        },
    })
}

/// A share in percent, rounded down, so that 100 % always means all.
pub fn percent(share: f64) -> String {
    format!("{} %", (share * 100.0 + 1e-9).floor())
}

pub fn summary(sessions: impl Iterator<Item = Option<Health>>) -> HealthSummary {
    let mut summary = HealthSummary::default();
    let mut sum = 0.0;
    for health in sessions {
        match health {
            None => summary.none += 1,
            Some(health) => {
                sum += health.share;
                match health.band {
                    Band::Good => summary.good += 1,
                    Band::Fair => summary.fair += 1,
                    Band::Poor => summary.poor += 1,
                }
            }
        }
    }
    let rated = summary.good + summary.fair + summary.poor;
    summary.mean = (rated > 0).then(|| sum / rated as f64);
    summary
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::manifest::{Blocked, Due, Outlook, Waiting};
    use crate::model::state::TaskStatus;

    #[test]
    fn bounds_of_the_bands() {
        for (complete, of, expected) in [
            (4, 5, Band::Good),
            (5, 6, Band::Good),
            (3, 4, Band::Fair),
            (2, 5, Band::Fair),
            (1, 3, Band::Poor),
            (0, 1, Band::Poor),
            (1, 1, Band::Good),
        ] {
            assert_eq!(band(complete, of), expected, "{complete}/{of}");
        }
    }

    #[test]
    fn inapplicable_tasks_do_not_count() {
        let decisions = [
            Decision::Skip(Skip::Complete),
            Decision::Skip(Skip::NotApplicable),
            Decision::Skip(Skip::NotSelected),
            Decision::Submit(Due::New),
        ];
        let health = rate(decisions.iter()).unwrap();
        assert_eq!(
            (health.complete, health.of, health.band),
            (1, 2, Band::Fair)
        );
        assert_eq!(rate(decisions[1..3].iter()), None);
        let running = Decision::Skip(Skip::InFlight {
            status: TaskStatus::Running,
            reason: None,
            job_id: None,
        });
        let health = rate([Decision::Skip(Skip::Complete), running].iter()).unwrap();
        assert_eq!(
            (health.complete, health.of, health.band),
            (1, 1, Band::Good)
        );
        assert_eq!(
            [percent(0.888), percent(0.9999), percent(1.0)],
            ["88 %", "99 %", "100 %"]
        );
    }

    #[test]
    fn d12_a_session_with_a_stuck_task_is_never_good() {
        let failed = Decision::Skip(Skip::Failed {
            reason: None,
            attempt: 1,
            outlook: Outlook::None,
        });
        let blocked = Decision::Skip(Skip::WaitingFor(Box::new(Waiting {
            procedure: "a".into(),
            session: None,
            sessions_missing: 0,
            blocked: Some(Blocked::NotApplicable),
        })));
        for (last, band) in [
            (Decision::Submit(Due::New), Band::Good),
            (failed, Band::Fair),
            (blocked, Band::Fair),
        ] {
            let mut decisions = vec![Decision::Skip(Skip::Complete); 4];
            decisions.push(last);
            let health = rate(decisions.iter()).unwrap();
            assert_eq!((health.complete, health.of, health.band), (4, 5, band));
        }
    }

    #[test]
    fn the_bands_add_up_to_all_sessions() {
        let complete = rate([Decision::Skip(Skip::Complete)].iter());
        let due = rate([Decision::Submit(Due::New)].iter());
        let summary = summary([complete, due, None].into_iter());
        assert_eq!(
            (summary.good, summary.fair, summary.poor, summary.none),
            (1, 0, 1, 1)
        );
        assert_eq!(summary.mean, Some(0.5));
    }
}
