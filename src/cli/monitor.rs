//! `monitor`: asks about the jobs in flight and updates their rows. Never submits.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::time::Duration;

use super::args::{MonitorArgs, WriteArgs};
use super::context::{Access, Context};
use super::error::Failure;
use super::failed::hint_at_failures;
use super::output::{Printer, Verbosity};
use super::pause::tell_what_is_paused;
use super::views;
use super::watch::repeat;
use crate::act::pass::Looked;
use crate::base::exit::Exit;
use crate::base::sys;
use crate::base::text::few;
use crate::executor::accounting_hint;
use crate::model::job::JobId;
use crate::model::state::{Reason, State, TaskKey, TaskRow, TaskStatus};
use crate::show::notify::events::is_retried;
use crate::show::tables::failure_text;

pub fn run(context: &Context, args: &MonitorArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let Some(seconds) = args.watch else {
        let (looked, state) = look(context, "monitor", &args.write, printer, no_more)?;
        tell_all(&looked, &state, context, printer)?;
        let is_silent = looked.queue_failed.is_some() || looked.accounting_failed.is_some();
        return Ok(if is_silent {
            Exit::Unreachable
        } else {
            Exit::Done
        });
    };
    let redraws = printer.clears_screen();
    if !redraws {
        printer.tell_once();
    }
    let look_again = || {
        if printer.is_closed() {
            return Ok(ControlFlow::Break(Exit::Done));
        }
        let looked = look(context, "monitor", &args.write, printer, no_more);
        // Cleared only now: the old picture stands while Slurm is asked.
        if redraws {
            printer.clear_screen();
        }
        printer.line(&sys::local_time(sys::now()));
        match looked {
            Ok((looked, state)) => tell_all(&looked, &state, context, printer)?,
            // Another call is at work and may be for minutes; this one only watches.
            Err(failure) if failure.exit() == Exit::Locked => {
                let state = context.read_state(printer)?;
                printer.note(&format!("{failure}; these are the rows on record"));
                tell_all(&Looked::default(), &state, context, printer)?;
            }
            Err(failure) => return Err(failure),
        }
        Ok(ControlFlow::Continue(Duration::from_secs(
            seconds.get().into(),
        )))
    };
    repeat(look_again, || {})
}

fn tell_all(
    looked: &Looked,
    state: &State,
    context: &Context,
    printer: &mut Printer,
) -> Result<(), Failure> {
    tell_queue(looked, printer);
    if printer.is_quiet() {
        tell_newly_failed(looked, state, context, printer);
    }
    tell_what_is_paused(context, state, printer);
    if printer.verbosity() > Verbosity::Quiet {
        views::print_counts(printer, state.rows(), &context.config.procedures, false)?;
        hint_at_failures(state, context, printer);
    }
    Ok(())
}

/// Brings the rows up to date and prints what changed; `then` may change them further before they are saved. While
/// another invocation is at work, returns the rows on record, and asks nothing.
pub fn update_or_read(
    context: &Context,
    command: &str,
    args: &WriteArgs,
    printer: &mut Printer,
    then: impl FnOnce(&mut State, &mut Looked),
) -> Result<(Option<Looked>, State), Failure> {
    match look(context, command, args, printer, then) {
        Ok((looked, state)) => {
            tell_queue(&looked, printer);
            Ok((Some(looked), state))
        }
        Err(failure) if failure.exit() == Exit::Locked => {
            printer.note(&failure.to_string());
            Ok((None, context.read_state(printer)?))
        }
        Err(failure) => Err(failure),
    }
}

/// For [`update_or_read`]: changes nothing more.
pub fn no_more(_: &mut State, _: &mut Looked) {}

fn look(
    context: &Context,
    command: &str,
    args: &WriteArgs,
    printer: &mut Printer,
    then: impl FnOnce(&mut State, &mut Looked),
) -> Result<(Looked, State), Failure> {
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

pub fn tell_queue(looked: &Looked, printer: &mut Printer) {
    if let Some(message) = &looked.queue_failed {
        printer.warning(&format!(
            "the queue does not answer: {message}; statuses stay as they are"
        ));
    }
    tell(looked, printer);
}

/// Tells what changed, one line each, and whether accounting is silent.
pub fn tell(looked: &Looked, printer: &mut Printer) {
    for warning in &looked.warnings {
        printer.warning(warning);
    }
    if let Some(message) = &looked.accounting_failed
        && looked.queue_failed.is_none()
    {
        printer.warning(&format!(
            "accounting does not answer: {message}; nothing is concluded from its silence"
        ));
        printer.hint(accounting_hint(message));
    }
    for ((status, reason), row) in &looked.changed {
        let word = |status: &dyn std::fmt::Display, reason: Option<crate::model::state::Reason>| {
            match reason {
                Some(reason) => format!("{status} ({reason})"),
                None => status.to_string(),
            }
        };
        let job = row
            .job_id
            .as_ref()
            .map_or_else(String::new, |id| format!(", job {id}"));
        let why = failure_text(row).map_or_else(String::new, |text| format!(": {text}"));
        printer.detail(&format!(
            "{}: {} -> {}{job}{why}",
            row.key,
            word(status, *reason),
            word(&row.status, row.reason),
        ));
    }
    for (reason, jobs) in by_reason(&looked.held) {
        printer.warning(&format!(
            "{} job(s) will not start by themselves, Slurm says {reason}: {}",
            jobs.len(),
            few(&jobs, 3)
        ));
    }
    for row in &looked.released {
        printer.note(&format!(
            "{}: the submission in doubt never became a job; the task is free again",
            row.key
        ));
    }
}

/// Says in one line which tasks this call is the first to see failed, for calls that nothing else tells of them. Those that the retry rules try again are no news yet.
pub fn tell_newly_failed(looked: &Looked, state: &State, context: &Context, printer: &mut Printer) {
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
    let why = failure_text(first).map_or_else(String::new, |text| format!(": {text}"));
    let have = match failed.len() {
        1 => "1 task has failed".to_owned(),
        count => format!("{count} tasks have failed"),
    };
    printer.news(&format!(
        "{have}: {}; the first, {}{why}",
        groups.join(", "),
        first.key
    ));
    printer.hint("`snbb-scheduler status --failed` tells more of each");
}

/// Groups held jobs by Slurm's word, so that a thousand of them are one line.
fn by_reason(held: &[(TaskKey, JobId, String)]) -> BTreeMap<&str, Vec<String>> {
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (key, id, reason) in held {
        groups
            .entry(reason)
            .or_default()
            .push(format!("{key} (job {id})"));
    }
    groups
}
