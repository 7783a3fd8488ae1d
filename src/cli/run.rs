//! `run`: a complete pass that finds the sessions, updates the rows, decides and submits.
//!
//! A dry run does the same up to the submission, but takes no lock and writes nothing.

mod notes;
mod report;

pub(super) use notes::report_strays;
use notes::{note_abandoned_rows, note_reduced_requests, print_preview, warn_missing_scripts};
pub use report::print_run_summary;
use report::report;

use super::args::RunArgs;
use super::context::exit_of;
use super::decide::subjects_progress;
use super::failed::hint_at_failures;
use super::monitor::{report_changes, report_new_failures};
use super::pause::report_pauses;
use super::status::{unreadable, warn_unreadable};
use super::watch::continues;
use super::{Access, Context, Exit, Failure, Printer, Result, State, Verbosity, sys};
use crate::act::clean::clean_arrays;
use crate::act::pass::{Decided, Looked, Pass, RunOptions};
use crate::decide::manifest::{Policy, moving};
use crate::decide::safety::{self, Blind, SafetyStop, drop, roots};
use crate::executor::{Answer, Executor};
use crate::show::notify::Figures;
use crate::show::tables::tallies;
use crate::store::state_file::LockedStore;

/// `figures`: for notifications, filled in as far as the run gets.
pub(super) fn run(
    context: &Context,
    args: &RunArgs,
    figures: &mut Option<Figures>,
    printer: &mut Printer,
) -> Result<Exit> {
    let selection = context.selection(&args.select)?;
    let is_everything = selection.is_everything();
    if args.force && is_everything {
        // A forgotten option must not rerun the whole study.
        return Err(Failure::usage(
            "--force requires a selection",
            "select the tasks to run again, for example --procedure qsiprep --subject 0001",
        ));
    }
    let recheck = args.check.recheck || args.accept_drop;
    let policy = Policy {
        force: args.force,
        reports_late_input: false,
        ..context.policy(selection, recheck)?
    };
    let started = sys::now();
    let (locked, mut state) =
        context.lock_or_read_state("run", args.dry_run, &args.write, printer)?;
    let access = match locked {
        Some(_) => Access::ReadWrite,
        None => Access::ReadOnly,
    };
    if args.accept_cluster {
        state.meta.cluster = None;
    }
    let mut executor = context.executor(access, &state)?;
    match executor.preflight() {
        Err(error) if args.dry_run => printer.warning(&error.to_string()),
        ready => ready?,
    }
    let mut guard = Guard {
        context,
        args,
        locked: locked.as_ref(),
        accepted: Vec::new(),
    };
    guard.before_scan(executor.as_mut(), &mut state, printer)?;
    let found = context.discover(printer)?;
    context.report_unusual_names(&found, printer);
    context.refuse_no_task(&found, &args.select)?;
    context.warn_unmatched(&policy, &found, printer);
    let probe = context.probe()?;
    let project = context.project(&state);
    let mut pass = context.pass(executor.as_mut(), &probe, &project);

    let mut looked = match args.skip_monitor {
        true => pass.look_at_queue(&mut state),
        false => pass.look(&mut state),
    };
    if let Some(message) = looked.queue_failed.clone() {
        if !args.dry_run {
            return Err(Failure::queue_unknown(&message));
        }
        looked.observation.queue = Answer::Got(Vec::new());
    }
    report_changes(&looked, printer);
    if printer.is_quiet() || args.watch.is_some() {
        report_new_failures(&looked, &state, context, printer);
    }
    let options = RunOptions {
        policy,
        max_jobs: args.max_jobs,
        control: context.store.read_control()?,
        is_preview: args.dry_run,
    };
    let (store, sessions) = (&context.store, &found.sessions);
    let progress = subjects_progress(sessions, printer);
    let tick = || progress.inc(1);
    let decided = pass.decide(store, &mut state, sessions, &looked, &options, &tick);
    progress.finish_and_clear();
    let mut decided = decided?;
    decided.counts.count_sessions(&found);
    report_strays(&decided.strays, &state, context, printer);
    note_abandoned_rows(context, &state, &found, printer);
    guard.before_submission(&pass, &mut state, (&looked, &mut decided), printer)?;

    let figures = figures.insert(Figures::from_manifest(
        is_everything,
        found.sessions.len(),
        &decided.manifest,
        &context.config.procedures,
    ));
    let manifest = &decided.manifest;
    report_pauses(context, &decided.pauses, Some(manifest), printer);
    let mut exit = warn_unreadable(unreadable(manifest), &found, printer);
    if warn_missing_scripts(&decided.missing_scripts, figures, printer) {
        exit = Exit::Refused;
    }
    note_reduced_requests(decided.tasks(), printer);
    if let Some(locked) = &locked {
        let progress = printer.progress(Some(decided.tasks().count() as u64), "submitting");
        let tick = || progress.inc(1);
        let submitted = pass.carry_out(locked, &mut state, &decided, started, &tick);
        progress.finish_and_clear();
        // Nothing was submitted if this is an error.
        exit = report(&submitted?, &decided, figures, printer, exit);
        let arrays = &locked.store.paths.arrays;
        clean_arrays(arrays, &state, &looked.observation, started);
    } else {
        figures.submitted = decided.tasks().count() - figures.refused();
        let executor = (&*pass.executor, context.config.executor);
        print_preview(&decided.batches, executor, args.format, printer)?;
    }
    // Slurm would refuse refused tasks again.
    figures.moving = moving(&decided.manifest, &state).saturating_sub(figures.refused());
    if exit == Exit::Done {
        // Jobs were submitted or previewed, but the status of earlier ones may be unknown.
        exit = exit_of(&looked);
    }
    printer.show_progress(|| tallies(&decided.manifest, &state, &context.config.procedures));
    let is_last = args.watch.is_none() || !continues(exit, figures.moving);
    if is_last || printer.verbosity() > Verbosity::Normal {
        print_run_summary(printer, figures, args.dry_run);
        hint_at_failures(&state, context, printer);
    }
    Ok(exit)
}

/// Checks that keep a run from acting on data that looks wrong.
struct Guard<'a> {
    context: &'a Context,
    args: &'a RunArgs,
    /// `None` in a dry run, which writes nothing.
    locked: Option<&'a LockedStore>,
    /// Stops that the user accepts with `--accept-drop`.
    accepted: Vec<SafetyStop>,
}

impl Guard<'_> {
    /// Stops a run before the scan if a root is missing that had results. The status of jobs is still saved, without
    /// checking outputs.
    fn before_scan(
        &mut self,
        executor: &mut dyn Executor,
        state: &mut State,
        printer: &mut Printer,
    ) -> Result<()> {
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
        report_changes(&looked, printer);
        Err(self.stop(&pass, state, (&looked, None), &stops, printer))
    }

    /// Stops a run before it submits, or keeps its numbers as the baseline of later runs.
    fn before_submission(
        &mut self,
        pass: &Pass<'_>,
        state: &mut State,
        (looked, decided): (&Looked, &mut Decided),
        printer: &mut Printer,
    ) -> Result<()> {
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
        Failure::safety(&safety::message(stops), safety::hints(stops))
    }
}
