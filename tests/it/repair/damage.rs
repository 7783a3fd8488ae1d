//! Files that are gone, cut, changed or of another day.

use super::*;

#[test]
fn a_state_that_is_gone_cut_or_changed_comes_back() {
    let (study, slurm) = eventful();
    let wanted = rows(&study);
    let sound = keep_files(&study);
    let length = study.read_bytes("state.parquet").len();
    let generation_before = generation(&study);
    type Case = (&'static str, fn(&Study, usize));
    let cases: [Case; 9] = [
        ("gone", |study, _| remove(study, "state.parquet")),
        ("gone with its copy", |study, _| {
            remove(study, "state.parquet");
            remove(study, "state.parquet.bak");
        }),
        ("all gone: the audit log alone", |study, _| {
            for name in [
                "state.parquet",
                "state.parquet.bak",
                "state.attempts.parquet",
            ] {
                remove(study, name);
            }
        }),
        ("empty", |study, _| {
            damage(study, "state.parquet", |bytes| bytes.clear());
        }),
        ("cut in the middle", |study, length| {
            damage(study, "state.parquet", |bytes| bytes.truncate(length / 2));
        }),
        ("cut by a byte", |study, length| {
            damage(study, "state.parquet", |bytes| bytes.truncate(length - 1));
        }),
        ("cut, and the copy gone", |study, length| {
            damage(study, "state.parquet", |bytes| bytes.truncate(length / 3));
            remove(study, "state.parquet.bak");
        }),
        ("cut, and the copy too", |study, length| {
            damage(study, "state.parquet", |bytes| bytes.truncate(length / 3));
            damage(study, "state.parquet.bak", |bytes| {
                bytes.truncate(length / 3)
            });
        }),
        ("everything cut", |study, _| {
            for name in [
                "state.parquet",
                "state.parquet.bak",
                "state.attempts.parquet",
            ] {
                damage(study, name, |bytes| bytes.truncate(100));
            }
        }),
    ];
    for (what, change) in cases {
        change(&study, length);
        repaired(&study, &slurm, &wanted, what);
        if !what.contains("gone") && what != "everything cut" && what != "cut, and the copy too" {
            assert!(generation(&study) > generation_before - 1, "{what}");
        }
        restore_files(&study, &sound);
    }
}

#[test]
fn a_state_with_any_byte_changed_comes_back() {
    let (study, slurm) = eventful();
    let wanted = rows(&study);
    let sound = keep_files(&study);
    let bytes = study.read_bytes("state.parquet");
    let mut broken = 0;
    for at in (3..bytes.len()).step_by(bytes.len() / 12) {
        let mut changed = bytes.clone();
        changed[at] ^= 0xff;
        fs::write(study.at("state.parquet"), &changed).unwrap();
        if study.call(&["status"]).code != 0 {
            broken += 1;
            repaired(&study, &slurm, &wanted, &format!("byte {at}"));
            assert_eq!(
                fs::read(kept(&study).first().unwrap()).unwrap(),
                changed,
                "the damaged file was kept"
            );
        }
        restore_files(&study, &sound);
    }
    assert!(broken >= 6, "{broken}");
}

#[test]
fn damaged_attempts_are_written_anew_and_the_rows_stay() {
    let (study, slurm) = eventful();
    let wanted = rows(&study);
    damage(&study, "state.attempts.parquet", |bytes| bytes.truncate(50));
    repaired(&study, &slurm, &wanted, "attempts");
    assert_eq!(kept(&study).len(), 1);
}

#[test]
fn a_state_that_was_rolled_back_or_made_anew_gets_its_rows_back() {
    let (study, slurm) = eventful();
    let wanted = rows(&study);
    // Someone deleted the state, and cron made a new one: living jobs are adopted, the rest is
    // forgotten.
    for name in ["state.parquet", "state.attempts.parquet"] {
        remove(&study, name);
    }
    study.ok(&["run", "--max-jobs", "0"]);
    let findings = study.findings(&VERIFY);
    assert!(
        findings.contains(&"warning submissions".to_owned()),
        "{findings:?}"
    );
    study.ok(&["state", "repair", "--yes"]);
    let ids = |rows: &[TaskRow]| -> Vec<(String, Option<JobId>, TaskStatus)> {
        rows.iter()
            .map(|row| (row.key.to_string(), row.job_id.clone(), row.status))
            .collect()
    };
    let found = rows(&study);
    assert_eq!(ids(&found.0), ids(&wanted.0));
    assert_eq!(ids(&found.1), ids(&wanted.1));
    let calls = slurm.calls("sbatch");
    study.ok(&["run"]);
    assert_eq!(slurm.calls("sbatch"), calls);
}
