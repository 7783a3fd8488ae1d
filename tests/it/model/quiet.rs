//! Quiescence: when all trouble is over, enough passes bring every task to its end.

use snbb_scheduler::decide::manifest::{Decision, Manifest, Skip};
use snbb_scheduler::executor::Phase;
use snbb_scheduler::model::state::{Reason, State, TaskStatus};

use super::rig::{Call, Ended, Rig};
use super::world::{Accounting, World};

/// More passes than anything needs: three levels of tasks, patience of an hour, two retries.
const PASSES: usize = 40;

/// Ends all trouble, calls the program until nothing moves, and judges what is left. Then retries
/// what failed: now everything must become complete.
pub fn down(rig: &mut Rig) {
    end_trouble(&mut rig.world.get());
    let (manifest, state) = settle(rig);
    judge(&manifest, &state, rig);
    for _ in 0..2 {
        for row in state.rows() {
            rig.retry(&row.key);
        }
    }
    let (manifest, state) = settle(rig);
    if is_stuck(&state, rig) {
        return;
    }
    for task in &manifest.tasks {
        assert_eq!(
            task.decision,
            Decision::Skip(Skip::Complete),
            "{:?}: rows {:#?}",
            task,
            state.rows()
        );
    }
}

fn end_trouble(world: &mut World) {
    world.settle();
    world.skew = 0;
    world.queue_up = true;
    world.queue_blinks = false;
    world.ends_between = false;
    world.fates.clear();
    if world.accounting != Accounting::Off {
        world.accounting = Accounting::Up;
    }
}

/// Calls the program until a pass submits nothing and nothing is in flight.
fn settle(rig: &mut Rig) -> (Manifest, State) {
    for pass in 0..PASSES {
        end_jobs_well(&mut rig.world.get());
        // First as often as cron, then with more patience than any grace.
        let pause = if pass < PASSES / 2 { 900 } else { 4000 };
        rig.world.get().wait(pause);
        let told = match rig.call(Call::default()) {
            Ended::Done(told) => told,
            other => panic!("a calm pass ended with {other:?}"),
        };
        super::invariants::always(rig);
        let state = rig.read();
        let in_flight = state.rows().iter().any(|row| row.is_in_flight());
        let live = rig.world.get().jobs.iter().any(|job| job.is_live());
        let decided = told.decided.expect("it was a run");
        let foreign = !decided.strays.without_row.is_empty();
        let done = told.submitted.accepted.is_empty() && !in_flight && !live && !foreign;
        // Outputs that were late need two more passes.
        if done && pass > 3 || pass + 1 == PASSES && is_stuck(&state, rig) {
            return (decided.manifest, state);
        }
    }
    panic!(
        "not quiet after {PASSES} passes: {:#?}\n{:#?}",
        rig.read().rows(),
        rig.world.get()
    );
}

/// Nothing is concluded while no job that accounting knows proves that it answers.
fn is_stuck(state: &State, rig: &Rig) -> bool {
    let world = rig.world.get();
    let unknown = [Some(Reason::Unaccounted), Some(Reason::Submitting)];
    world.jobs.iter().all(|job| job.record_lost)
        && state
            .rows()
            .iter()
            .filter(|row| row.is_in_flight())
            .all(|row| unknown.contains(&row.reason))
}

fn end_jobs_well(world: &mut World) {
    for at in 0..world.jobs.len() {
        if world.jobs[at].is_live() {
            world.end(at, Phase::Completed, Some(0));
        }
    }
}

/// Every task is complete, or failed for a reason that the steps before have checked, or waits for
/// one that failed; and there is one decision per task.
fn judge(manifest: &Manifest, state: &State, rig: &Rig) {
    assert_eq!(manifest.tasks.len(), Rig::tasks().len());
    if is_stuck(state, rig) {
        return;
    }
    let failed = state
        .rows()
        .iter()
        .filter(|row| row.status == TaskStatus::Failed)
        .count();
    let mut skipped_as_failed = 0;
    for task in &manifest.tasks {
        match &task.decision {
            Decision::Skip(Skip::Complete) => {}
            Decision::Skip(Skip::Failed { .. }) => skipped_as_failed += 1,
            Decision::Skip(Skip::WaitingFor(waiting)) if waiting.blocked.is_some() => {}
            other => panic!("{task:?}: {other:?}; rows: {:#?}", state.rows()),
        }
    }
    assert_eq!(skipped_as_failed, failed, "the counts do not add up");
}
