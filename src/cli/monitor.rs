//! `monitor`: updates the status of the jobs in flight; never submits.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use super::args::{MonitorArgs, WriteArgs};
use super::context::{Access, Context};
use super::error::Result;
use super::failed::hint_at_failures;
use super::output::{Printer, Verbosity};
use super::pause::report_current_pauses;
use super::views;
use super::watch::repeat;
use crate::act::pass::Looked;
use crate::base::exit::Exit;
use crate::base::sys;
use crate::base::text::{few, maybe, plural, plural_of};
use crate::executor::accounting_hint;
use crate::model::state::{Reason, State, TaskRow, TaskStatus};
use crate::show::notify::events::is_retried;
use crate::show::tables::failure_text;

pub(super) fn run(context: &Context, args: &MonitorArgs, printer: &mut Printer) -> Result<Exit> {
    let Some(seconds) = args.watch else {
        let (looked, state) = update(context, "monitor", &args.write, printer, no_more)?;
        report(&looked, &state, context, printer)?;
        let is_silent = looked.queue_failed.is_some() || looked.accounting_failed.is_some();
        return Ok(Exit::Done.unless(is_silent, Exit::Unreachable));
    };
    let redraws = printer.is_terminal();
    if !redraws {
        printer.suppress_repeats();
    }
    let watch = || {
        if printer.is_closed() {
            return Ok(ControlFlow::Break(Exit::Done));
        }
        let looked = update(context, "monitor", &args.write, printer, no_more);
        // Cleared only now, so that the old table stays visible while Slurm is queried.
        if redraws {
            printer.clear_screen();
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
        Ok(ControlFlow::Continue(Duration::from_secs(
            seconds.get().into(),
        )))
    };
    repeat(watch, || {})
}

fn report(looked: &Looked, state: &State, context: &Context, printer: &mut Printer) -> Result<()> {
    report_queue(looked, printer);
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
            report_queue(&looked, printer);
            Ok((Some(looked), state))
        }
        Err(failure) if failure.exit() == Exit::Locked => {
            printer.note(&failure.to_string());
            Ok((None, context.read_state(printer)?))
        }
        Err(failure) => Err(failure),
    }
}

/// For [`update_or_read`]: no further change.
pub(super) fn no_more(_: &mut State, _: &mut Looked) {}

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

pub(super) fn report_queue(looked: &Looked, printer: &mut Printer) {
    if let Some(message) = &looked.queue_failed {
        printer.warning(&format!(
            "the queue is not responding: {message}; the status of jobs stays as recorded"
        ));
    }
    report_changes(looked, printer);
}

/// Reports every change in one line, and whether accounting is not responding.
pub(super) fn report_changes(looked: &Looked, printer: &mut Printer) {
    for warning in &looked.warnings {
        printer.warning(warning);
    }
    if let Some(message) = &looked.accounting_failed
        && looked.queue_failed.is_none()
    {
        printer.warning(&format!(
            "accounting is not responding: {message}; jobs that left the queue stay as recorded until it does"
        ));
        printer.hint(accounting_hint(message));
    }
    for ((status, reason), row) in &looked.changed {
        let word = |status: TaskStatus, reason: Option<Reason>| {
            format!("{status}{}", maybe(" (", reason, ")"))
        };
        let job = maybe(", job ", row.job_id.as_ref(), "");
        let why = maybe(": ", failure_text(row), "");
        printer.detail(&format!(
            "{}: {} -> {}{job}{why}",
            row.key,
            word(*status, *reason),
            word(row.status, row.reason),
        ));
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
    let failed: Vec<&TaskRow> = changed
        .filter(|((before, _), row)| {
            *before != TaskStatus::Failed
                && row.status == TaskStatus::Failed
                && !is_retried(config, owner, row, now)
        })
        .map(|(_, row)| row)
        .collect();
    let Some(first) = failed.first() else {
        return;
    };
    let mut groups: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for row in &failed {
        let reason = row.reason.map_or("unknown", Reason::as_str);
        *groups.entry((&row.key.procedure, reason)).or_default() += 1;
    }
    let groups: Vec<String> = groups
        .into_iter()
        .map(|((procedure, reason), count)| format!("{count} of {procedure} ({reason})"))
        .collect();
    let why = maybe(": ", failure_text(first), "");
    let have = plural_of(failed.len(), "task has failed", "tasks have failed");
    printer.new_warning(&format!(
        "{have}: {}; the first, {}{why}",
        groups.join(", "),
        first.key
    ));
    printer.hint("`snbb-scheduler status --failed` shows the cause of each failure");
}
