//! Which job is a task's own.

use super::*;

fn ended(change: impl FnOnce(&mut JobReport)) -> Case {
    let mut record = report(Phase::Failed(Reason::Timeout));
    change(&mut record);
    Case::new().with(|c| c.accounting = Answer::Got(vec![record]))
}

fn other_tag(job: &mut JobReport) {
    job.tag = tagged("another", job.phase).tag;
}

#[test]
fn another_job_with_the_same_id_is_ignored() {
    const DAY: i64 = 24 * 60;
    for minute in [-DAY - 1, DAY + 1] {
        let far = ended(|r| r.submitted_at = Some(at(minute)));
        assert_eq!(far.verdict(), "running unaccounted", "{minute}");
    }
    assert_eq!(ended(other_tag).verdict(), "running unaccounted");
    let mut live = report(Phase::Running);
    other_tag(&mut live);
    let verdict = ended(|_| ()).with(|c| c.queue = Answer::Got(vec![live]));
    assert_eq!(
        verdict.verdict(),
        "failed timeout",
        "another live job does not keep ours alive"
    );
}

/// A plugin puts letters before the name and replaces the comment; a script renames its job.
#[test]
fn e1_e2_job_names_are_not_evidence() {
    let renamed = |job: &mut JobReport| job.name = "u_a_sub-01_ses-01".into();
    assert_eq!(ended(renamed).verdict(), "failed timeout");
    let mut live = report(Phase::Running);
    renamed(&mut live);
    let alive = Case::new().with(|c| c.queue = Answer::Got(vec![live]));
    assert_eq!(alive.verdict(), "running running");
}

/// Slurm begins to count anew, and a user's own job gets the id of one whose end is known.
#[test]
fn a_recycled_id_does_not_bring_an_ended_job_back() {
    let verdict = |name: &str, ended: Option<i64>| {
        let mut live = report(Phase::Queued);
        live.name = name.into();
        let case = Case::new().with(|c| {
            (c.row.status, c.row.reason) = (TaskStatus::Complete, Some(Reason::Verified));
            c.row.facts.ended_at = ended.map(at);
            c.queue = Answer::Got(vec![live]);
        });
        case.disk(HERE).verdict()
    };
    assert_eq!(verdict("notebook", Some(5)), "complete verified");
    assert_eq!(verdict("a_sub-01_ses-01", Some(5)), "pending queued");
    assert_eq!(verdict("u_a_sub-01_ses-01", None), "pending queued");
}

/// The same while the row is in flight: its submit line shows whose job the queue has.
#[test]
fn a_recycled_id_does_not_keep_a_job_alive_whose_end_accounting_shows() {
    let mut live = report(Phase::Queued);
    live.submitted_at = Some(at(6));
    live.has_submit_line = true;
    let case = ended(|own| own.tag = tagged("0123456789abcdef", own.phase).tag).with(|c| {
        c.queue = Answer::Got(vec![live]);
    });
    assert_eq!(case.verdict(), "failed timeout");
}

/// The login node's clock was wrong when the job was submitted.
#[test]
fn e5_the_clock_of_this_host_is_not_evidence() {
    for minutes in [-60, -10, 0, 10, 60] {
        let untagged = ended(|r| r.submitted_at = Some(at(minutes)));
        assert_eq!(untagged.disk(HERE).verdict(), "failed timeout", "{minutes}");
    }
    for days in [-100, 100] {
        let own = ended(|r| {
            r.submitted_at = Some(at(0) + Duration::days(days));
            r.tag = tagged("0123456789abcdef", r.phase).tag;
        });
        assert_eq!(own.verdict(), "failed timeout", "{days}");
    }
}

#[test]
fn the_tag_identifies_a_job_despite_a_new_name_and_id() {
    let marked = |id: &str, name: &str| JobReport {
        id: JobId::new(id),
        name: name.into(),
        ..tagged("0123456789abcdef", Phase::Running)
    };
    for (job, id) in [
        (marked("100", "urgent"), "100"),
        (marked("100_1", "a_sub-01_ses-01"), "100"),
        (marked("100+1", "a_sub-01_ses-01"), "100"),
        (marked("7", "other"), "7"),
    ] {
        let verdict = Case::new()
            .with(|c| {
                c.queue = Answer::Got(vec![job.clone()]);
                c.row.missing_since = Some(at(0));
                c.now = 1000;
            })
            .pass();
        let row = &verdict.0.rows()[0];
        assert_eq!(row.status, TaskStatus::Running, "{job:?}");
        assert_eq!(row.job_id, Some(JobId::new(id)), "the tag wins over the id");
    }
}

/// sbatch printed another job's id; accounting, which is searched for an unaccounted job, shows the tag.
#[test]
fn e7_the_tag_in_accounting_corrects_the_id() {
    let accounting = |reason| {
        Case::new().with(|c| {
            c.row.reason = Some(reason);
            let real = tagged("0123456789abcdef", Phase::Failed(Reason::ExitCode));
            let mut wrong = report(Phase::Completed);
            (wrong.has_submit_line, wrong.submitted_at) = (true, Some(at(1)));
            c.accounting = Answer::Got(vec![wrong]);
            if reason == Reason::Unaccounted
                && let Answer::Got(records) = &mut c.accounting
            {
                records.push(real);
            }
        })
    };
    let first = accounting(Reason::Running).disk(HERE);
    assert_eq!(first.verdict(), "running unaccounted", "it lacks our tag");
    let (state, _) = accounting(Reason::Unaccounted).disk(HERE).pass();
    let row = state.rows()[0].clone();
    assert_eq!(row.job_id, Some(JobId::new("7")));
    let case = accounting(Reason::Unaccounted).with(|c| c.row = row);
    assert_eq!(case.verdict(), "failed exit_code");
}

/// A wrapper that drops our tag from the command line: then the id has to do, once it was searched for.
#[test]
fn a_command_line_without_our_tag_counts_if_no_other_job_has_the_tag() {
    let of = |reason| ended(|r| r.has_submit_line = true).with(|c| c.row.reason = Some(reason));
    assert_eq!(of(Reason::Running).verdict(), "running unaccounted");
    assert_eq!(of(Reason::Unaccounted).verdict(), "failed timeout");
}

#[test]
fn a_line_with_only_a_readable_id_is_not_an_end() {
    let mut unread = report(Phase::Unknown);
    unread.name = String::new();
    unread.submitted_at = None;
    let verdict = Case::new()
        .with(|c| {
            c.queue = Answer::Got(vec![unread]);
            c.row.missing_since = Some(at(0));
            c.now = 1000;
        })
        .verdict();
    assert_eq!(verdict, "running running");
}

/// A heterogeneous job, a job that a wrapper submitted twice, and an array that a script made of itself.
#[test]
fn e16_e22_a_submission_is_alive_while_any_of_its_jobs_is() {
    let job = |id: &str, phase| JobReport {
        id: JobId::new(id),
        ..tagged("0123456789abcdef", phase)
    };
    let failed = Phase::Failed(Reason::ExitCode);
    for second in ["100+1", "101", "100_2"] {
        for (phases, expected) in [
            ([Phase::Completed, Phase::Running], "running running"),
            ([failed, Phase::Running], "running running"),
            ([Phase::Running, failed], "running running"),
            ([Phase::Completed, failed], "failed exit_code"),
            ([failed, Phase::Completed], "failed exit_code"),
            ([Phase::Completed, Phase::Completed], "complete verified"),
        ] {
            let jobs = vec![job("100", phases[0]), job(second, phases[1])];
            let queue = Case::new()
                .with(|c| c.queue = Answer::Got(jobs.clone()))
                .disk(HERE);
            assert_eq!(queue.verdict(), expected, "queue: {second} {phases:?}");
            let is_live = phases.iter().any(|phase| phase.is_live());
            let recorded = if is_live {
                "running unaccounted"
            } else {
                expected
            };
            let accounting = Case::new()
                .with(|c| c.accounting = Answer::Got(jobs))
                .disk(HERE);
            assert_eq!(accounting.verdict(), recorded, "sacct: {second} {phases:?}");
        }
    }
    // Where comments are replaced, a part is known by the id.
    let untagged = |id: &str, phase| JobReport {
        id: JobId::new(id),
        ..report(phase)
    };
    let parts = vec![
        untagged("100", Phase::Completed),
        untagged("100+1", Phase::Running),
    ];
    let case = Case::new().with(|c| c.queue = Answer::Got(parts));
    assert_eq!(case.disk(HERE).verdict(), "running running");
}

/// sbatch was misunderstood, or the id was recycled: a person who cancels the task does not mean that job.
#[test]
fn attack_cancel_ends_only_jobs_with_the_tasks_tag() {
    let to_end = |jobs: &[(&str, Option<&str>, &str)], has_submit_line| {
        let job = |(id, tag, name): &(&str, Option<&str>, &str)| {
            let mut job = report(Phase::Running);
            job.id = JobId::new(id);
            job.name = (*name).into();
            job.tag = tag.and_then(|tag| tagged(tag, job.phase).tag);
            job.has_submit_line = has_submit_line;
            job
        };
        let observation = Observation {
            queue: Answer::Got(jobs.iter().map(job).collect()),
            accounting: Answer::Got(vec![]),
            ..Observation::default()
        };
        let jobs = jobs_to_end(&Case::new().row, &observation);
        jobs.map(|jobs| {
            jobs.iter()
                .map(|job| job.id.to_string())
                .collect::<Vec<_>>()
        })
    };
    let ids = |ids: &[&str]| Some(ids.iter().map(ToString::to_string).collect::<Vec<_>>());
    let own = Some("0123456789abcdef");
    let mine = ("100", None, "mine");
    assert_eq!(to_end(&[], false), ids(&["100"]));
    assert_eq!(to_end(&[mine], false), None);
    let of_name = ("100", None, "a_sub-01_ses-01");
    assert_eq!(to_end(&[of_name], false), ids(&["100"]));
    assert_eq!(to_end(&[of_name], true), None, "a command line without tag");
    assert_eq!(to_end(&[("100", Some("another"), "mine")], false), None);
    assert_eq!(to_end(&[mine, ("5", own, "x")], false), ids(&["5"]));
    let twice = [("100", own, "x"), ("101", own, "x")];
    assert_eq!(to_end(&twice, false), ids(&["100", "101"]));
    let parts = [("100", own, "x"), ("100+1", own, "x")];
    assert_eq!(to_end(&parts, false), ids(&["100"]));
}
