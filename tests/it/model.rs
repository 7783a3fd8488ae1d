//! A model of the whole pass: random bad days in a small world, and what must hold all the same.
//!
//! The world (`world`) is a cluster with queue and accounting, a disk and clocks; `hand` shows it to the
//! scheduler; `rig` drives the scheduler's own pass with real files; `steps` are what can happen;
//! `invariants` hold after every step, and `quiet` says how every story must end.
//! `SNBB_TEST_LONG=1` tells many more stories. A failure prints the shortest story that shows it.

mod hand;
mod invariants;
mod quiet;
mod rig;
mod steps;
mod stories;
mod world;

use proptest::prelude::*;

use rig::Rig;
use steps::{Step, accounting, step};

fn cases(default: u32) -> ProptestConfig {
    let long = snbb_scheduler::base::sys::env("SNBB_TEST_LONG").is_some();
    ProptestConfig {
        cases: if long { default * 20 } else { default },
        max_shrink_iters: 2000,
        max_shrink_time: 60_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn no_job_is_lost_and_none_is_doubled(
        accounting in accounting(),
        submit_line: bool,
        steps in prop::collection::vec(step(), 1..40),
    ) {
        tell(accounting, submit_line, &steps);
    }
}

proptest! {
    #![proptest_config(cases(25))]

    /// All steps are submitted as arrays, of two tasks at most or of all.
    #[test]
    fn no_task_of_an_array_is_lost_and_none_is_doubled(
        accounting in accounting(),
        submit_line: bool,
        limit in prop::sample::select(vec![2usize, 1000]),
        steps in prop::collection::vec(step(), 1..40),
    ) {
        tell_of(Rig::new(accounting, submit_line, Some(limit)), &steps);
    }
}

proptest! {
    #![proptest_config(cases(20))]

    /// The lock grants itself to everybody: no row is lost, and doubled jobs are shown at the next pass.
    #[test]
    fn a_lock_that_lies_loses_no_job(
        steps in prop::collection::vec(
            prop_oneof![3 => step(), 2 => steps::two_calls()],
            1..25,
        ),
    ) {
        tell(world::Accounting::Up, true, &steps);
    }
}

/// Tells a story to its end.
fn tell(accounting: world::Accounting, submit_line: bool, story: &[Step]) {
    tell_of(Rig::new(accounting, submit_line, None), story);
}

fn tell_of(mut rig: Rig, story: &[Step]) {
    for step in story {
        step.happen(&mut rig);
        invariants::always(&rig);
        let files = rig.files();
        rig.kept.push(files);
    }
    quiet::down(&mut rig);
}
