//! What `run` does about the safety stop: judges, tells, saves what is known, submits nothing.

use super::args::RunArgs;
use super::context::Context;
use super::error::Failure;
use super::monitor::tell;
use super::output::Printer;
use crate::act::pass::{Decided, Looked, Pass};
use crate::decide::safety;
use crate::decide::safety::{Blind, SafetyStop, drop, roots};
use crate::executor::Executor;
use crate::model::state::State;
use crate::store::state_file::LockedStore;

/// Stands between a run and what it would do by data that looks wrong.
pub struct Guard<'a> {
    context: &'a Context,
    args: &'a RunArgs,
    /// None: a dry run, which writes nothing.
    locked: Option<&'a LockedStore>,
    /// What a person goes on in spite of.
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

    /// Stops a run before the scan if a root is gone that the state knows results of. What became
    /// of the jobs is saved all the same, without a look at outputs.
    pub fn before_scan(
        &mut self,
        executor: &mut dyn Executor,
        state: &mut State,
        printer: &mut Printer,
    ) -> Result<(), Failure> {
        let stops = roots::safety_stops(&self.context.config, state, roots::observe);
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
        tell(&looked, printer);
        Err(self.stop(&pass, state, (&looked, None), &stops, printer))
    }

    /// Stops a run before it submits, or takes its figures as those to compare with from now on.
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
        roots::settle(config, &mut baselines, roots::observe, accepts);
        drop::settle(config, &decided.counts, &mut baselines, accepts);
        // Sessions that could not be seen were not looked at.
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

    /// Keeps what a person accepts apart, and returns what stops the run all the same.
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
            printer.warning(&format!("what became of jobs could not be saved: {error}"));
        }
        Failure::Safety {
            message: safety::message(stops),
            hint: safety::hints(stops),
        }
    }
}
