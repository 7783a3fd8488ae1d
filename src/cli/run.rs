//! `run`: the whole pass. Finds the sessions, brings the rows up to date, decides, submits.
//!
//! A dry run goes the same way up to the submission, takes no lock and writes nothing.

mod notes;
mod preview;
mod report;

use chrono::{DateTime, Utc};

use super::args::RunArgs;
use super::context::{Access, Context};
use super::decide::subjects_progress;
use super::error::Failure;
use super::failed::hint_at_failures;
use super::guard::Guard;
use super::manifest::warn_unreadable;
use super::monitor::{tell, tell_newly_failed};
use super::output::{Printer, Verbosity};
use super::pause::{Tense, tell_pauses};
use super::policy::Purpose;
use super::views::{self, RunSummary};
use super::watch::goes_on;
use crate::act::pass::{Decided, Looked, Pass, RunOptions, clean_arrays};
use crate::act::submit::Submitted;
use crate::base::exit::Exit;
use crate::base::sys;
use crate::decide::manifest::Selection;
use crate::decide::manifest::prospects::moving;
use crate::decide::request::{Batch, batch};
use crate::executor::Answer;
use crate::gather::sessions::discover::Discovery;
use crate::model::procedure::{ArrayMode, ProcedureDag};
use crate::model::state::State;
use crate::show::notify::Figures;
use crate::show::tables::tallies;
use crate::store::state_file::LockedStore;
pub use notes::tell_strays;
use notes::{tell_left_over, tell_missing, tell_reduced};
use report::report;

/// More single jobs of one procedure in one run are worth a word about arrays.
const MANY_SINGLES: usize = 100;

/// `figures`: for those who do not watch; filled in as far as the run comes.
pub fn run(
    context: &Context,
    args: &RunArgs,
    figures: &mut Option<Figures>,
    printer: &mut Printer,
) -> Result<Exit, Failure> {
    let selection = wanted(context, args)?;
    let is_everything = selection.is_everything();
    let purpose = Purpose::Run {
        force: args.force,
        recheck: args.look.recheck || args.accept_drop,
    };
    let policy = context.policy(selection.clone(), purpose)?;
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
    let mut guard = Guard::new(context, args, locked.as_ref());
    guard.before_scan(executor.as_mut(), &mut state, printer)?;
    let found = context.discover(printer)?;
    context.tell_odd_names(&found, printer);
    context.refuse_no_task(&found, &args.select, &selection)?;
    context.tell_unmatched(&policy, &found, printer);
    let probe = context.probe()?;
    let project = context.project(&state);
    let mut pass = context.pass(executor.as_mut(), &probe, &project);

    let looked = look(context, args, &mut pass, &mut state, printer)?;
    let options = RunOptions {
        policy,
        max_jobs: args.max_jobs,
        control: context.store.read_control()?,
        is_preview: args.dry_run,
    };
    let world = (&found, &looked);
    let mut decided = decide(context, &mut pass, &mut state, world, &options, printer)?;
    tell_left_over(context, &state, &found, printer);
    guard.before_submission(&pass, &mut state, (&looked, &mut decided), printer)?;

    let mut summary = RunSummary::of(found.sessions.len(), &decided.manifest);
    summary.dry_run = args.dry_run;
    let figures = figures.insert(Figures::from_manifest(
        is_everything,
        found.sessions.len(),
        &decided.manifest,
        &context.config.procedures,
    ));
    let mut exit = tell_decided(context, &found, &decided, &mut summary, printer);
    if let Some(locked) = &locked {
        let submitted = submit(&mut pass, locked, &mut state, &decided, started, printer)?;
        exit = report(&submitted, decided.tasks(), &mut summary, printer, exit);
        let arrays = &locked.store.paths.arrays;
        clean_arrays(arrays, &state, &looked.observation, started);
    } else {
        let refused: usize = summary.refused.iter().map(|(_, count)| count).sum();
        summary.submitted = decided.tasks().count() - refused;
        let executor = (&*pass.executor, context.config.executor);
        preview::print(&decided.batches, executor, args.format, printer)?;
    }
    if pass.executor.takes_arrays() {
        hint_at_arrays(&decided.batches, &context.config.procedures, printer);
    }
    figures.submitted = summary.submitted;
    figures.in_doubt = summary.in_doubt;
    figures.refused.clone_from(&summary.refused);
    // What Slurm refuses, it refuses again.
    figures.moving = moving(&decided.manifest, &state).saturating_sub(figures.refused());
    let is_silent = looked.accounting_failed.is_some() || looked.queue_failed.is_some();
    if is_silent && exit == Exit::Done {
        // Submission, or the preview, went on; what the jobs did is not known.
        exit = Exit::Unreachable;
    }
    printer.show_progress(|| tallies(&decided.manifest, &state, &context.config.procedures));
    let is_last = args.watch.is_none() || !goes_on(exit, figures.moving);
    if is_last || printer.verbosity() > Verbosity::Normal {
        views::print_run_summary(printer, &summary);
        hint_at_failures(&state, context, printer);
    }
    Ok(exit)
}

/// Reads the selection. To run everything again is nothing that one may say by leaving words out.
fn wanted(context: &Context, args: &RunArgs) -> Result<Selection, Failure> {
    let selection = context.selection(&args.select)?;
    if args.force && selection.is_everything() {
        return Err(Failure::usage(
            "--force needs a selection",
            "say which tasks are to run again, such as --procedure qsiprep --subject 0001",
        ));
    }
    Ok(selection)
}

/// Brings the rows up to date, in memory; without the queue's answer a run ends here, unless it is a dry run.
fn look(
    context: &Context,
    args: &RunArgs,
    pass: &mut Pass<'_>,
    state: &mut State,
    printer: &mut Printer,
) -> Result<Looked, Failure> {
    let mut looked = if args.skip_monitor {
        pass.look_at_queue(state)
    } else {
        pass.look(state)
    };
    match looked.queue_failed.clone() {
        Some(message) if args.dry_run => {
            printer.warning(&format!(
                "the queue does not answer: {message}; the preview is made from the state file, and `run` would submit nothing"
            ));
            looked.observation.queue = Answer::Got(Vec::new());
        }
        Some(message) => return Err(Failure::QueueUnknown { message }),
        None => {}
    }
    tell(&looked, printer);
    if printer.is_quiet() || args.watch.is_some() {
        tell_newly_failed(&looked, state, context, printer);
    }
    Ok(looked)
}

fn decide(
    context: &Context,
    pass: &mut Pass<'_>,
    state: &mut State,
    (found, looked): (&Discovery, &Looked),
    options: &RunOptions,
    printer: &mut Printer,
) -> Result<Decided, Failure> {
    let sessions = &found.sessions;
    let progress = subjects_progress(sessions, printer);
    let decided = pass.decide(&context.store, state, sessions, looked, options, &|| {
        progress.inc(1)
    });
    progress.finish();
    let mut decided = decided?;
    decided.counts.count_sessions(found);
    tell_strays(&decided.strays, state, context, printer);
    Ok(decided)
}

/// Tells what is held back or changed, and chooses the exit code if nothing else happens.
fn tell_decided(
    context: &Context,
    found: &Discovery,
    decided: &Decided,
    summary: &mut RunSummary,
    printer: &mut Printer,
) -> Exit {
    let tense = match summary.dry_run {
        true => Tense::Would,
        false => Tense::Now,
    };
    let manifest = &decided.manifest;
    tell_pauses(context, &decided.pauses, Some(manifest), tense, printer);
    let mut exit = warn_unreadable(manifest, found.unreadable.is_empty(), printer);
    if tell_missing(&decided.missing_scripts, summary, printer) {
        exit = Exit::Refused;
    }
    tell_reduced(decided.tasks(), printer);
    exit
}

/// Carries the decision out. Nothing has been submitted if it fails.
fn submit(
    pass: &mut Pass<'_>,
    locked: &LockedStore,
    state: &mut State,
    decided: &Decided,
    started: DateTime<Utc>,
    printer: &mut Printer,
) -> Result<Submitted, Failure> {
    let count = decided.tasks().count() as u64;
    let progress = printer.progress(Some(count), "submitting");
    let submitted = pass.carry_out(locked, state, decided, started, &|| progress.inc(1));
    progress.finish();
    for task in decided.tasks() {
        if let Some(text) = task.notes.retry_text(task.intent.attempt) {
            printer.detail(&format!("{}: {text}", task.intent.key));
        }
    }
    Ok(submitted?)
}

/// Says once that there are arrays, where they would have spared the controller many jobs.
fn hint_at_arrays(batches: &[Batch], dag: &ProcedureDag, printer: &mut Printer) {
    let is_never = |name: &str| {
        dag.find(name)
            .is_some_and(|id| dag.get(id).rules.array == ArrayMode::Never)
    };
    let many: Vec<String> = batch::singles(batches)
        .into_iter()
        .filter(|(procedure, count)| *count > MANY_SINGLES && is_never(procedure))
        .map(|(procedure, count)| format!("{count} of {procedure}"))
        .collect();
    if !many.is_empty() {
        printer.hint(&format!(
            "many single jobs ({}): with 'array: auto' each such group is one job array",
            many.join(", ")
        ));
    }
}
