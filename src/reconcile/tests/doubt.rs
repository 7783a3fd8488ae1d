//! Submissions in doubt: adopted, waited for, released.

use super::*;

pub(super) fn in_doubt() -> Case {
    Case::new().with(|c| {
        c.row.status = TaskStatus::Pending;
        c.row.reason = Some(Reason::Submitting);
        c.row.job_id = None;
    })
}

pub(super) fn tagged(id: &str, phase: Phase) -> JobReport {
    JobReport {
        id: JobId::new("7"),
        tag: Some(JobTag {
            project: "p".into(),
            submission_id: id.into(),
        }),
        ..report(phase)
    }
}

#[test]
fn a_submission_in_doubt_is_adopted_by_its_id_and_by_nothing_less_where_ids_are_shown() {
    let found = tagged("0123456789abcdef", Phase::Running);
    let (state, _) = in_doubt()
        .with(|c| c.queue = Answer::Got(vec![found.clone()]))
        .pass();
    assert_eq!(state.rows()[0].job_id, Some(JobId::new("7")));
    assert_eq!(state.rows()[0].status, TaskStatus::Running);
    let (state, _) = in_doubt()
        .with(|c| c.accounting = Answer::Got(vec![found]))
        .pass();
    assert_eq!(state.rows()[0].job_id, Some(JobId::new("7")));

    let other = tagged("another", Phase::Running);
    let (state, _) = in_doubt()
        .with(|c| c.queue = Answer::Got(vec![other]))
        .pass();
    assert_eq!(
        state.rows()[0].job_id,
        None,
        "another study's job of the same name"
    );
    let (state, _) = in_doubt().queue(Phase::Running).pass();
    assert_eq!(
        state.rows()[0].job_id,
        None,
        "an untagged job in the queue is not ours"
    );
    let (state, _) = in_doubt().accounting(Phase::Completed).pass();
    assert_eq!(
        state.rows()[0].job_id,
        Some(JobId::new("100")),
        "accounting without submit lines"
    );
    let (state, _) = in_doubt()
        .accounting(Phase::Completed)
        .with(|c| {
            if let Answer::Got(jobs) = &mut c.accounting {
                jobs[0].submitted_at = Some(at(-6))
            }
        })
        .pass();
    assert_eq!(state.rows()[0].job_id, None, "submitted before the intent");
}

#[test]
fn a_submission_in_doubt_is_released_only_after_two_clean_answers_apart() {
    let (state, out) = in_doubt().pass();
    assert!(out.released.is_empty());
    assert_eq!(state.rows()[0].missing_since, Some(at(6)));
    let again = |now: i64| {
        in_doubt().with(|c| {
            c.row = state.rows()[0].clone();
            c.now = now;
        })
    };
    assert!(again(7).pass().1.released.is_empty());
    assert_eq!(again(8).pass().1.released.len(), 1);
    assert!(
        again(500)
            .with(|c| c.queue = failed())
            .pass()
            .1
            .released
            .is_empty()
    );
    assert!(
        again(500)
            .with(|c| c.accounting = failed())
            .pass()
            .1
            .released
            .is_empty()
    );
}
