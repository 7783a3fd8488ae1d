//! `monitor` and `wait`: update the status of the jobs in flight; never submit.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use itertools::Itertools as _;

use super::args::{MonitorArgs, WaitArgs, WriteArgs};
use super::context::{exit_of, warn_silence};
use super::failed::hint_at_failures;
use super::pause::report_current_pauses;
use super::watch::repeat;
use super::{
    Access, Context, Exit, Failure, Printer, Result, Selection, State, TaskRow, TaskStatus,
    Verbosity, few, maybe, plural, sys, views,
};
use crate::act::pass::Looked;
use crate::base::text::plural_of;
use crate::show::audit::attention::orphan_jobs;
use crate::show::explain::awaiting;
use crate::show::notify::events::is_retried;
use crate::show::tables::{failure_text, row_text};

pub(super) fn run(context: &Context, args: &MonitorArgs, printer: &mut Printer) -> Result<Exit> {
    let Some(pause) = args.watch else {
        let (looked, state) = update(context, "monitor", &args.write, printer, |_, _| {})?;
        report(&looked, &state, context, printer)?;
        return Ok(exit_of(&looked));
    };
    let redraws = printer.is_terminal();
    if !redraws {
        printer.suppress_repeats();
    }
    let watch = || {
        if printer.is_closed() {
            return Ok(ControlFlow::Break(Exit::Done));
        }
        let looked = update(context, "monitor", &args.write, printer, |_, _| {});
        // Cleared only now, so that the old table stays visible while Slurm is queried.
        if redraws {
            // ECMA-48: erase the display, cursor home.
            printer.data(b"\x1b[2J\x1b[H");
        }
        printer.line(&sys::local_time(sys::now()));
        match looked {
            Ok((looked, state)) => report(&looked, &state, context, printer)?,
            // Another invocation is at work, perhaps for minutes; this one only watches.
            Err(failure) if failure.exit() == Exit::Locked => {
                let state = context.read_state(printer)?;
                printer.note(&format!("{failure}; these are the rows on record"));
                report(&Looked::default(), &state, context, printer)?;
            }
            Err(failure) => return Err(failure),
        }
        Ok(ControlFlow::Continue(pause))
    };
    repeat(watch, || {})
}

fn report(looked: &Looked, state: &State, context: &Context, printer: &mut Printer) -> Result<()> {
    report_changes(looked, printer);
    if printer.is_quiet() {
        report_new_failures(looked, state, context, printer);
    }
    report_current_pauses(context, state, printer);
    if printer.verbosity() > Verbosity::Quiet {
        views::print_counts(printer, state.rows(), &context.config.procedures, false)?;
        hint_at_failures(state, context, printer);
    }
    Ok(())
}

/// Updates the rows and prints the changes; `then` may change them further before they are saved. While another
/// invocation is at work, returns the rows on record and queries nothing.
pub(super) fn update_or_read(
    context: &Context,
    command: &str,
    args: &WriteArgs,
    printer: &mut Printer,
    then: impl FnOnce(&mut State, &mut Looked),
) -> Result<(Option<Looked>, State)> {
    match update(context, command, args, printer, then) {
        Ok((looked, state)) => {
            report_changes(&looked, printer);
            Ok((Some(looked), state))
        }
        Err(failure) if failure.exit() == Exit::Locked => {
            printer.note(&failure.to_string());
            Ok((None, context.read_state(printer)?))
        }
        Err(failure) => Err(failure),
    }
}

fn update(
    context: &Context,
    command: &str,
    args: &WriteArgs,
    printer: &mut Printer,
    then: impl FnOnce(&mut State, &mut Looked),
) -> Result<(Looked, State)> {
    let (locked, mut state) = context.lock_state(command, args, printer)?;
    let outputs = context.outputs(&state, printer)?;
    let mut executor = context.executor(Access::ReadWrite, &state)?;
    let project = context.project(&state);
    let mut pass = context.pass(executor.as_mut(), outputs.as_ref(), &project);
    let mut looked = pass.look(&mut state);
    then(&mut state, &mut looked);
    pass.save(&locked, &mut state, &looked.events)?;
    Ok((looked, state))
}

/// Reports what a look at queue and accounting found: each change in one line with `-v`.
pub(super) fn report_changes(looked: &Looked, printer: &mut Printer) {
    warn_silence(looked, printer);
    printer.warnings(&looked.warnings);
    for ((status, reason), row) in &looked.changed {
        let before = maybe(" (", *reason, ")");
        let job = maybe(", job ", row.job_id.as_ref(), "");
        let (key, now) = (&row.key, row_text(row));
        printer.detail(&format!("{key}: {status}{before} -> {now}{job}"));
    }
    // Grouped, so that a thousand held jobs take one line.
    let mut held: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key, id, reason) in &looked.held {
        let jobs = held.entry(reason).or_default();
        jobs.push(format!("{key} (job {id})"));
    }
    for (reason, jobs) in held {
        printer.warning(&format!(
            "{} will not start unless someone intervenes (Slurm: {reason}): {}",
            plural(jobs.len(), "job"),
            few(&jobs, 3)
        ));
    }
    for row in &looked.released {
        printer.note(&format!(
            "{}: the submission in doubt never became a job; the task can be submitted again",
            row.key
        ));
    }
}

/// Warns in one line of the tasks that this invocation is the first to see failed, unless the retry rules submit them
/// again: for invocations with no other report of failures.
pub(super) fn report_new_failures(
    looked: &Looked,
    state: &State,
    context: &Context,
    printer: &mut Printer,
) {
    let (config, owner, now) = (&context.config, state.meta.owner_uid, sys::now());
    let changed = looked.changed.iter();
    let new = changed.filter(|((before, _), row)| {
        *before != TaskStatus::Failed
            && row.status == TaskStatus::Failed
            && !is_retried(config, owner, row, now)
    });
    let failed: Vec<&TaskRow> = new.map(|(_, row)| row).collect();
    let Some(first) = failed.first() else {
        return;
    };
    let group = |row: &&TaskRow| (row.key.procedure.clone(), row.reason_word());
    let groups = failed.iter().counts_by(group).into_iter().sorted();
    let mut groups =
        groups.map(|((procedure, why), count)| format!("{count} of {procedure} ({why})"));
    let why = maybe(": ", failure_text(first), "");
    let have = plural_of(failed.len(), "task has failed", "tasks have failed");
    printer.new_warning(&format!(
        "{have}: {}; the first, {}{why}",
        groups.join(", "),
        first.key
    ));
    printer.hint("`snbb-scheduler status --failed` shows the cause of each failure");
}

/// `wait`: blocks until the selected tasks have nothing in flight. The exit code is the outcome.
pub(super) fn wait(context: &Context, args: &WaitArgs, printer: &mut Printer) -> Result<Exit> {
    // Problems are reported once, not every half minute.
    printer.suppress_repeats();
    let (state, selection) = context.select_rows(&args.select, printer)?;
    let started = sys::now();
    let mut before = counts_of(&state, &selection);
    let all: usize = before.iter().sum();
    if all == 0 && selection.is_everything() {
        printer.warning("no tasks on record: nothing to wait for");
    } else if all == 0 {
        return Err(Failure::usage(
            "no job of a selected task was ever submitted: there is nothing to wait for",
            "`snbb-scheduler session-status` shows the status of the tasks",
        ));
    }
    let ended = |[_, complete, failed]: [usize; 3]| (complete + failed) as u64;
    let text = |[in_flight, complete, failed]: [usize; 3]| {
        format!("{in_flight} in flight, {complete} complete, {failed} failed")
    };
    let progress = printer.progress(Some(all as u64), "waiting");
    progress.inc(ended(before));
    printer.detail(&text(before));
    let step = || {
        let (looked, state) = update_or_read(context, "wait", &args.write, printer, |_, _| {})?;
        let counts = counts_of(&state, &selection);
        let [in_flight, complete, failed] = counts;
        if in_flight == 0 {
            progress.finish_and_clear();
            let queue = looked.as_ref().and_then(|it| it.observation.queue.got());
            let project = context.project(&state);
            let without_row = queue.map(|queue| orphan_jobs(queue, state.rows(), &project).len());
            if let Some(jobs @ 1..) = without_row.filter(|_| selection.is_everything()) {
                printer.warning(&format!(
                    "{jobs} jobs of this study are in the queue but have no row: the state was lost or rolled back"
                ));
                printer.hint("`snbb-scheduler run` or `state repair --yes` adopts them");
                return Ok(ControlFlow::Break(Exit::Error));
            }
            printer.info(&format!("{complete} complete, {failed} failed"));
            let exit = Exit::Done.unless(failed > 0, Exit::Error);
            return Ok(ControlFlow::Break(exit));
        }
        progress.inc(ended(counts).saturating_sub(ended(before)));
        printer.notes(awaiting(&context.config, selected(&state, &selection)));
        if counts != before {
            printer.detail(&text(counts));
        }
        let waited = (sys::now() - started).to_std().unwrap_or(Duration::ZERO);
        let pause = match args.timeout {
            Some(timeout) if waited >= timeout => {
                progress.finish_and_clear();
                printer.warning(&format!(
                    "{} still in flight after {} s",
                    plural_of(in_flight, "task is", "tasks are"),
                    timeout.as_secs()
                ));
                return Ok(ControlFlow::Break(Exit::TimeOut));
            }
            Some(timeout) => args.interval.min(timeout - waited),
            None => args.interval,
        };
        before = counts;
        Ok(ControlFlow::Continue(pause))
    };
    repeat(step, || {})
}

/// The numbers of rows in flight, complete and failed.
fn counts_of(state: &State, selection: &Selection) -> [usize; 3] {
    let mut counts = [0; 3];
    let [in_flight, complete, failed] = &mut counts;
    for row in selected(state, selection) {
        match row.status {
            TaskStatus::Complete => *complete += 1,
            TaskStatus::Failed => *failed += 1,
            TaskStatus::Pending | TaskStatus::Running => *in_flight += 1,
        }
    }
    counts
}

fn selected<'a>(state: &'a State, selection: &'a Selection) -> impl Iterator<Item = &'a TaskRow> {
    let rows = state.rows().iter();
    rows.filter(|row| selection.contains_key(&row.key))
}
