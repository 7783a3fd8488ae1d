//! What `run` does about the safety stop: judges, tells, saves what is known, submits nothing.

use super::args::RunArgs;
use super::context::Context;
use super::error::Failure;
use super::monitor::tell;
use super::output::Printer;
use crate::executor::Executor;
use crate::pass::{Decided, Looked, Pass};
use crate::safety::{self, Blind, Stop, drop, roots, space};
use crate::state::State;
use crate::state::store::LockedStore;

/// Stops a run before the scan if a root is gone that the state knows results of. What became of
/// the jobs is saved all the same, without a look at outputs. Returns what a person accepts.
pub fn before_scan(
    context: &Context,
    args: &RunArgs,
    executor: &mut dyn Executor,
    locked: Option<&LockedStore>,
    state: &mut State,
    printer: &mut Printer,
) -> Result<Vec<Stop>, Failure> {
    let stops = roots::judge(&context.config, state, roots::look);
    let (accepted, stops) = accepted(stops, args);
    if stops.is_empty() {
        return Ok(accepted);
    }
    let blind = Blind::because(&stops);
    let project = context.project(state);
    let mut pass = context.pass(executor, &blind, &project);
    let looked = if args.skip_monitor {
        Looked::default()
    } else {
        pass.look(state)
    };
    tell(&looked, printer);
    Err(stop(&pass, locked, state, &looked, None, &stops, printer))
}

/// Stops a run before it submits, or takes its figures as those to compare with from now on.
pub fn before_submission(
    context: &Context,
    args: &RunArgs,
    pass: &Pass<'_>,
    locked: Option<&LockedStore>,
    state: &mut State,
    (looked, decided): (&Looked, &mut Decided),
    accepted_before: Vec<Stop>,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let config = &context.config;
    let mut stops = space::judge(config, &space::look(config));
    stops.extend(drop::judge(
        config,
        &decided.standing,
        &state.meta.baselines,
    ));
    let (mut accepted, stops) = accepted(stops, args);
    if !stops.is_empty() {
        return Err(stop(
            pass,
            locked,
            state,
            looked,
            Some(decided),
            &stops,
            printer,
        ));
    }
    let mut baselines = state.meta.baselines.clone();
    roots::settle(config, &mut baselines, roots::look, args.accept_drop);
    drop::settle(config, &decided.standing, &mut baselines, args.accept_drop);
    if baselines != state.meta.baselines {
        state.meta.baselines = baselines;
        state.mark_changed();
    }
    safety::note_stops(state, &[]);
    accepted.splice(0..0, accepted_before);
    if !accepted.is_empty() {
        decided.note_accepted(&accepted, (pass.clock)());
        printer.note(&format!("accepted: {}", safety::message(&accepted)));
    }
    Ok(())
}

/// Takes apart what a person accepts, and what stops the run all the same.
fn accepted(stops: Vec<Stop>, args: &RunArgs) -> (Vec<Stop>, Vec<Stop>) {
    stops
        .into_iter()
        .partition(|stop| args.accept_drop && stop.can_be_accepted)
}

fn stop(
    pass: &Pass<'_>,
    locked: Option<&LockedStore>,
    state: &mut State,
    looked: &Looked,
    decided: Option<&Decided>,
    stops: &[Stop],
    printer: &mut Printer,
) -> Failure {
    // A dry run writes nothing.
    if let Some(locked) = locked
        && let Err(error) = pass.stop(locked, state, looked, decided, stops)
    {
        printer.warning(&format!("what became of jobs could not be saved: {error}"));
    }
    Failure::Safety {
        message: safety::message(stops),
        hint: safety::hints(stops),
    }
}
