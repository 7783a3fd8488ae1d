//! A limit on the size of files (`ulimit -f`), wherever it strikes: it is told, and nothing is lost or doubled.

use super::is_long;
use super::world::World;

/// So many that the journal of a run grows larger than a state.
const SESSIONS: usize = 24;

#[test]
fn a_limit_on_the_size_of_files_is_told_and_loses_nothing() {
    let mut struck = Vec::new();
    let step = if is_long() { 128 } else { 2048 };
    for limit in (step..=22 * 1024).step_by(step) {
        for begun in [false, true] {
            // One of both, where time matters.
            if is_long() || begun == (limit / step % 2 == 0) {
                struck.push(strike(limit, begun));
            }
        }
    }
    for place in [
        "state.parquet",
        "state.journal.jsonl",
        "audit.jsonl",
        "none",
    ] {
        assert!(
            struck.iter().any(|hit| hit == place),
            "{place} was not struck: {struck:?}"
        );
    }
}

/// Runs with the limit, then without it, and returns which file it struck.
fn strike(limit: usize, begun: bool) -> String {
    let world = World::fresh();
    for number in 3..SESSIONS {
        world.study.scan(&[&format!("sub-{number:02}/ses-01")]);
    }
    if begun {
        world.study.ok(&["run", "--subject", "02"]);
    }
    let what = format!("{limit} bytes, begun {begun}");
    let said = world.limited(&["run"], limit);
    for wrong in ["panicked", "os error", "another call", "damaged"] {
        assert!(!said.err.contains(wrong), "{what}: {}", said.err);
    }
    let struck = match said.code {
        0 => {
            assert_eq!(world.slurm.jobs().len(), SESSIONS, "{what}: {}", said.err);
            "none"
        }
        code => {
            let told = format!("ulimit -f: {limit} bytes");
            assert!(
                code == 1 && said.err.contains(&told) && world.names_a_path(&said),
                "{what}: {code}: {}",
                said.err
            );
            let line = said.err.lines().find(|line| line.contains(&told));
            let places = ["state.parquet", "state.journal.jsonl", "audit.jsonl"];
            let mut places = places.into_iter();
            places
                .find(|place| line.is_some_and(|line| line.contains(place)))
                .unwrap_or("another")
        }
    };
    let said = world.call(&["status", "--format", "json"]);
    assert_eq!(said.code, 0, "{what}: {}", said.err);
    world.every_job_has_its_intent(&what);

    let found = world.settle_somehow(&["run"]).unwrap();
    assert_eq!(found.rows.len(), SESSIONS, "{what}");
    let mut names = found.jobs.clone();
    names.dedup();
    assert_eq!(names.len(), found.jobs.len(), "{what}: {:?}", found.jobs);
    assert_eq!(names.len(), SESSIONS, "{what}");
    struck.to_owned()
}
