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
fn a_submission_in_doubt_is_adopted_only_by_its_id_where_ids_are_shown() {
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

#[test]
fn attack_a_first_answer_in_the_future_counts_from_now() {
    let late = |now: i64, since: i64| {
        in_doubt().with(|c| {
            c.row.missing_since = Some(at(since));
            c.now = now;
        })
    };
    let (state, out) = late(6, 5000).pass();
    assert!(out.released.is_empty());
    assert_eq!(state.rows()[0].missing_since, Some(at(6)));
}

/// A job that the user submitted by hand has the task's name, and accounting shows its command line.
#[test]
fn a2_a_record_whose_command_line_lacks_our_tag_is_not_adopted() {
    let by_hand = |has_submit_line| {
        let case = in_doubt().accounting(Phase::Completed).with(|c| {
            if let Answer::Got(jobs) = &mut c.accounting {
                jobs[0].has_submit_line = has_submit_line;
            }
        });
        case.pass().0.rows()[0].job_id.clone()
    };
    assert_eq!(by_hand(true), None);
    assert_eq!(
        by_hand(false),
        Some(JobId::new("100")),
        "Slurm before 21.08"
    );
}

#[test]
fn e23_accounting_without_any_job_releases_nothing() {
    let released = |proven, accounting| {
        let case = in_doubt().with(|c| {
            (c.canary, c.accounting) = (proven, accounting);
            c.row.missing_since = Some(at(0));
            c.now = 10_000;
        });
        case.pass().1.released.len()
    };
    assert_eq!(released(false, Answer::Got(vec![])), 0);
    assert_eq!(released(true, Answer::Got(vec![])), 1);
    assert_eq!(released(false, Answer::Off), 1);
}

/// Where accounting shows no marks, the name has to do: then nothing that is known to be somebody's is taken.
#[test]
fn a_record_found_by_name_is_adopted_only_without_an_owner() {
    let adopted = |case: Case| case.pass().0.rows()[0].job_id.clone();
    let of_name = || in_doubt().accounting(Phase::Completed);
    assert_eq!(adopted(of_name()), Some(JobId::new("100")));

    // The queue shows marks: a job without one there is not ours, whatever accounting says of it.
    let queued = || vec![report(Phase::Completed)];
    let beside = of_name().with(|c| c.queue = Answer::Got(queued()));
    assert_eq!(adopted(beside), None);
    let of_another_id = of_name().with(|c| {
        let mut jobs = queued();
        jobs[0].id = JobId::new("101");
        c.queue = Answer::Got(jobs);
    });
    assert_eq!(adopted(of_another_id), Some(JobId::new("100")));
    let of_another_cluster = of_name().with(|c| {
        let mut jobs = queued();
        jobs[0].facts.cluster = Some("east".into());
        c.queue = Answer::Got(jobs);
    });
    assert_eq!(adopted(of_another_cluster), Some(JobId::new("100")));
}

/// Another row's job has the same name after a procedure's rename, say.
#[test]
fn another_rows_job_is_not_adopted_by_its_name() {
    let owner = |name: Option<&str>| {
        let mut row = row("b", TaskStatus::Failed, Reason::ExitCode);
        row.job_name = name.map(Into::into);
        row
    };
    for (name, expected) in [
        (Some("a_sub-01_ses-01"), None),
        (None, None),
        (Some("recycled"), Some(JobId::new("100"))),
    ] {
        let mut state = State::default();
        let doubted = in_doubt().row;
        state.put(doubted.clone());
        state.put(owner(name));
        let observation = Observation {
            queue: Answer::Got(vec![]),
            accounting: Answer::Got(vec![report(Phase::Completed)]),
            ..Observation::default()
        };
        let disk = Disk(Outputs::Missing);
        let out = reconcile(&state, &observation, &disk, &patience(), at(6));
        for change in out.changes {
            transition::apply(&mut state, change, at(6));
        }
        assert_eq!(
            state.get(&doubted.key).unwrap().job_id,
            expected,
            "{name:?}"
        );
    }
}
