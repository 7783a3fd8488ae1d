//! A limit on the size of files (`ulimit -f`), wherever it strikes: it is told, and nothing is lost or doubled.

use super::is_long;
use super::world::World;

#[test]
fn a_limit_on_the_size_of_files_is_told_and_loses_nothing() {
    let mut codes = Vec::new();
    let step = if is_long() { 64 } else { 512 };
    for limit in (step..=8192).step_by(step) {
        for begun in [false, true] {
            let world = World::fresh();
            if begun {
                world.study.ok(&["run", "--subject", "02"]);
            }
            let before = world.slurm.jobs().len();
            let what = format!("{limit} bytes, begun {begun}");
            let said = world.limited(&["run"], limit);
            codes.push(said.code);
            let submitted = world.slurm.jobs().len() - before;
            if said.code == 0 {
                assert_eq!(before + submitted, 3, "{what}: {}", said.err);
            } else {
                let is_told = said.err.contains(&format!("ulimit -f: {limit} bytes"))
                    // What stops Slurm's own programs is told in their words.
                    || said.err.contains("ended by signal 25");
                assert!(
                    said.code == 1 && is_told && world.names_a_path(&said),
                    "{what}: {}: {}",
                    said.code,
                    said.err
                );
            }
            for wrong in ["panicked", "os error", "another call", "damaged"] {
                assert!(!said.err.contains(wrong), "{what}: {}", said.err);
            }
            let said = world.call(&["status", "--format", "json"]);
            assert_eq!(said.code, 0, "{what}: {}", said.err);
            world.every_job_has_its_intent(&what);

            let found = world.settle_somehow(&["run"]).unwrap();
            assert_eq!(found.rows.len(), 3, "{what}");
            let mut names = found.jobs.clone();
            names.dedup();
            assert_eq!(names.len(), found.jobs.len(), "{what}: {:?}", found.jobs);
            assert_eq!(names.len(), 3, "{what}");
        }
    }
    assert!(codes.contains(&0) && codes.contains(&1), "{codes:?}");
}
