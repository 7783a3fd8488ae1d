//! Rules that the rows of a readable state break.

use std::time::Duration;

use snbb_scheduler::model::job::JobId;
use snbb_scheduler::model::state::{Reason, State, TaskKey, TaskRow, TaskStatus};
use snbb_scheduler::store::state_file::Store;

use super::{eventful, ours, rows};
use crate::harness::Study;

/// Rewrites the state with changed rows, as a faulty program might.
fn rewrite(study: &Study, change: impl Fn(&mut Vec<TaskRow>)) {
    let store = Store::at(&study.at("state.parquet")).unwrap();
    let locked = store.lock("test", Duration::from_secs(5)).unwrap();
    let mut state = locked.read().unwrap();
    let mut rows = state.rows().to_vec();
    change(&mut rows);
    for row in rows {
        if state.get(&row.key) != Some(&row) {
            put(&mut state, row);
        }
    }
    locked.save(&mut state).unwrap();
}

fn put(state: &mut State, row: TaskRow) {
    state.forget(&row.key);
    state.put(row);
}

fn row<'a>(
    rows: &'a mut [TaskRow],
    procedure: &str,
    subject: &str,
    session: &str,
) -> &'a mut TaskRow {
    let key = TaskKey::new(subject, session, procedure);
    rows.iter_mut().find(|row| row.key == key).unwrap()
}

#[test]
fn each_broken_rule_is_found_and_what_can_be_mended_is() {
    let (study, slurm) = eventful();
    let wanted = rows(&study);
    type Case = (&'static str, fn(&mut Vec<TaskRow>));
    let cases: [Case; 4] = [
        ("reasons that do not match the status", |rows| {
            row(rows, "convert", "sub-01", "ses-01").reason = Some(Reason::Queued);
        }),
        ("in flight without a job", |rows| {
            row(rows, "convert", "sub-02", "ses-01").job_id = None;
        }),
        ("in flight without a job", |rows| {
            let row = row(rows, "prep", "sub-01", "ses-01");
            row.job_id = None;
            row.status = TaskStatus::Running;
            row.reason = Some(Reason::Running);
        }),
        ("jobs with several rows in flight", |rows| {
            row(rows, "prep", "sub-01", "ses-01").job_id = Some(JobId::new("1003"));
        }),
    ];
    for (finding, change) in cases {
        rewrite(&study, change);
        let before = ours(&study);
        let said = study.call(&["state", "verify"]);
        assert_eq!(said.code, 1, "{finding}: {}", said.out);
        assert!(said.out.contains(finding), "{finding}: {}", said.out);
        study.ok(&["state", "repair"]);
        assert_eq!(before, ours(&study));
        let said = study.ok(&["state", "repair", "--yes"]);
        assert_eq!(rows(&study).0, wanted.0, "{finding}: {}", said.err);
        study.ok(&["state", "verify"]);
    }
    let calls = slurm.calls("sbatch");
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), calls);
}
