//! The health of sessions.

use super::super::*;
use crate::decide::manifest::{Blocked, Due, Outlook, Waiting};
use crate::model::state::TaskStatus;
use crate::show::audit::percent;

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
    let summary = health([complete, due, None].into_iter());
    assert_eq!(
        (summary.good, summary.fair, summary.poor, summary.none),
        (1, 0, 1, 1)
    );
    assert_eq!(summary.mean, Some(0.5));
}
