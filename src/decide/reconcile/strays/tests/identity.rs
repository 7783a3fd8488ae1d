//! Jobs whose names and tags were changed.

use super::*;

/// The state is gone, and the name proves nothing.
#[test]
fn attack_a_renamed_job_is_found_in_the_audit_log_or_all_tasks_wait() {
    let task = TaskKey::new("sub-01", "ses-01", "a");
    let none = State::default();
    for name in ["step 2 of 7", "c_sub-01", "a_b_sub-01", "u_a_sub-01_ses-01"] {
        for tag in [Some("p"), None] {
            let queue = [job("1", name, tag, 0)];
            let found = strays(&queue, &none, &["1"]);
            assert_eq!(
                found.adopt,
                [(task.clone(), queue[0].clone())],
                "{name} {tag:?}"
            );
        }
    }
    for name in ["step 2 of 7", "c_sub-01"] {
        let found = strays(&[job("1", name, Some("p"), 0)], &none, &[]);
        let held =
            [task.clone(), TaskKey::new("sub-01", "", "a_b")].map(|key| (key, JobId::new("1")));
        assert_eq!(found.waiting, HashMap::from(held), "{name}");
        assert_eq!(found.unknown.len(), 1, "{name}");
        assert!(found.orphans.is_empty() && found.adopt.is_empty(), "{name}");
    }
    // Of a task that no longer exists.
    let gone = |_: &JobReport| Some(TaskKey::new("sub-01", "ses-01", "gone"));
    let found = strays_with(&[job("1", "x", Some("p"), 0)], &none, &gone, false);
    assert_eq!((found.orphans.len(), found.waiting.len()), (1, 0));
    // A user's own job, by its command line: the id was recycled.
    let mut notebook = job("1", "notebook", None, 0);
    notebook.has_submit_line = true;
    assert_eq!(strays(&[notebook], &none, &["1"]), Strays::default());
}

#[test]
fn attack_a_job_with_the_name_of_another_task_blocks_no_task() {
    let mut rows = State::default();
    let mut own = row("a", TaskStatus::Running, Reason::Running);
    own.submission_id = Some("100".into());
    rows.put(own);
    let queue = [job("100", "a_b_sub-01", Some("p"), 5)];
    assert_eq!(strays(&queue, &rows, &["100"]), Strays::default());
}

#[test]
fn attack_a_rows_own_job_is_never_a_second_job() {
    let mut rows = State::default();
    rows.put(row("a", TaskStatus::Running, Reason::Running));
    for name in ["a_sub-01_ses-01", "renamed"] {
        let altered = job("100", name, Some("p"), 5);
        assert_eq!(strays(&[altered], &rows, &[]), Strays::default(), "{name}");
    }
}

#[test]
fn attack_a_truncated_tag_of_an_array_is_completed_by_its_name() {
    let queue = [part("7_1", "array-0123")];
    let task = TaskKey::new("sub-01", "ses-01", "a");
    let found = strays(&queue, &State::default(), &[]);
    assert_eq!(found.adopt, [(task, queue[0].clone())]);
}
