//! Which job is a task's own.

use super::*;

#[test]
fn another_job_with_the_same_id_is_not_believed() {
    let other = |change: fn(&mut JobReport)| {
        let mut record = report(Phase::Failed(Reason::Timeout));
        change(&mut record);
        Case::new()
            .with(|c| c.accounting = Answer::Got(vec![record]))
            .verdict()
    };
    assert_eq!(
        other(|r| r.name = "b_sub-01_ses-01".into()),
        "running unaccounted"
    );
    assert_eq!(
        other(|r| r.submitted_at = Some(at(-6))),
        "running unaccounted"
    );
    assert_eq!(
        other(|r| r.submitted_at = Some(at(3))),
        "failed timeout",
        "a requeue moves it"
    );
    let mut live = report(Phase::Running);
    live.name = "someone_else".into();
    let verdict = Case::new()
        .accounting(Phase::Failed(Reason::Timeout))
        .with(|c| c.queue = Answer::Got(vec![live]))
        .verdict();
    assert_eq!(
        verdict, "failed timeout",
        "a stranger's living job does not keep ours alive"
    );
}

#[test]
fn the_mark_names_the_job_whatever_its_name_and_id_became() {
    let marked = |id: &str, name: &str| JobReport {
        id: JobId::new(id),
        name: name.into(),
        ..tagged("0123456789abcdef", Phase::Running)
    };
    for job in [
        marked("100", "urgent"),
        marked("100_1", "a_sub-01_ses-01"),
        marked("7", "other"),
    ] {
        let verdict = Case::new()
            .with(|c| {
                c.queue = Answer::Got(vec![job.clone()]);
                c.row.missing_since = Some(at(0));
                c.now = 1000;
            })
            .pass();
        assert_eq!(verdict.0.rows()[0].status, TaskStatus::Running, "{job:?}");
    }
}

#[test]
fn a_line_of_which_only_the_id_could_be_read_is_a_job_and_no_more() {
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

#[test]
fn names_that_accounting_has_cut_are_recognised() {
    let long = "n".repeat(300);
    let verdict = |told: &str| {
        let mut record = report(Phase::Failed(Reason::Timeout));
        record.name = told.into();
        Case::new()
            .with(|c| {
                c.row.job_name = Some(long.as_str().into());
                c.accounting = Answer::Got(vec![record]);
            })
            .verdict()
    };
    assert_eq!(verdict(&long[..255]), "failed timeout");
    assert_eq!(verdict(&long[..200]), "running unaccounted");
}
