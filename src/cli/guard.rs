//! The safety stop of `run`: evaluates it, saves what is known and submits nothing.

use super::args::RunArgs;
use super::context::Context;
use super::error::Failure;
use super::monitor::report_changes;
use super::output::Printer;
use crate::act::pass::{Decided, Looked, Pass};
use crate::decide::safety;
use crate::decide::safety::{Blind, SafetyStop, drop, roots};
use crate::executor::Executor;
use crate::model::state::State;
use crate::store::state_file::LockedStore;

/// Checks that keep a run from acting on data that looks wrong.
pub struct Guard<'a> {
    context: &'a Context,
    args: &'a RunArgs,
    /// `None` in a dry run, which writes nothing.
    locked: Option<&'a LockedStore>,
    /// Stops that the user accepts with `--accept-drop`.
    accepted: Vec<SafetyStop>,
}

impl<'a> Guard<'a> {
    pub fn new(context: &'a Context, args: &'a RunArgs, locked: Option<&'a LockedStore>) -> Self {
        Self {
            context,
            args,
            locked,
            accepted: Vec::new(),
        }
    }

    /// Stops a run before the scan if a root is missing that had results. The status of jobs is still saved, without
    /// checking outputs.
    pub fn before_scan(
        &mut self,
        executor: &mut dyn Executor,
        state: &mut State,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        let stops = roots::judge(&self.context.config, state, roots::look);
        let stops = self.without_accepted(stops);
        if stops.is_empty() {
            return Ok(());
        }
        let blind = Blind::because(&stops);
        let project = self.context.project(state);
        let mut pass = self.context.pass(executor, &blind, &project);
        let looked = if self.args.skip_monitor {
            Looked::default()
        } else {
            pass.look(state)
        };
        report_changes(&looked, printer);
        Err(self.stop(&pass, state, (&looked, None), &stops, printer))
    }

    /// Stops a run before it submits, or keeps its numbers as the baseline of later runs.
    pub fn before_submission(
        &mut self,
        pass: &Pass<'_>,
        state: &mut State,
        (looked, decided): (&Looked, &mut Decided),
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        let config = &self.context.config;
        let accepts = self.args.accept_drop;
        let stops = safety::before_submission(config, &decided.counts, state);
        let stops = self.without_accepted(stops);
        if !stops.is_empty() {
            return Err(self.stop(pass, state, (looked, Some(decided)), &stops, printer));
        }
        let mut baselines = state.meta.baselines.clone();
        roots::settle(config, &mut baselines, roots::look, accepts);
        drop::settle(config, &decided.counts, &mut baselines, accepts);
        // Sessions that could not be seen were not checked.
        if decided.counts.sessions.is_some() {
            decided.trust.settle(&mut baselines);
        }
        if baselines != state.meta.baselines {
            state.meta.baselines = baselines;
            state.mark_changed();
        }
        safety::note_stops(state, &[]);
        if !self.accepted.is_empty() {
            decided.note_accepted(&self.accepted, (pass.clock)());
            printer.note(&format!("accepted: {}", safety::message(&self.accepted)));
        }
        Ok(())
    }

    /// Sets the accepted stops aside and returns the others.
    fn without_accepted(&mut self, stops: Vec<SafetyStop>) -> Vec<SafetyStop> {
        let (accepted, stops) = stops
            .into_iter()
            .partition(|stop| self.args.accept_drop && stop.can_be_accepted);
        self.accepted.extend::<Vec<SafetyStop>>(accepted);
        stops
    }

    fn stop(
        &self,
        pass: &Pass<'_>,
        state: &mut State,
        (looked, decided): (&Looked, Option<&Decided>),
        stops: &[SafetyStop],
        printer: &mut Printer,
    ) -> Failure {
        if let Some(locked) = self.locked
            && let Err(error) = pass.stop(locked, state, looked, decided, stops)
        {
            printer.warning(&format!("cannot save the status of the jobs: {error}"));
        }
        Failure::Safety {
            message: safety::message(stops),
            hint: safety::hints(stops),
        }
    }
}
