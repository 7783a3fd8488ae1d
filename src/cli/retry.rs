//! `retry`: clears failed rows, so that the next run submits their tasks again.
//!
//! Never clears a task whose job may still run or whose submission is in doubt. Updates the rows first, so that the
//! result of an attempt that has ended is kept, and a requeued job is noticed.

use super::args::{RetryArgs, RetryStatus};
use super::failed::keep_alike;
use super::monitor::report_changes;
use super::pause::report_current_pauses;
use super::{
    Access, Config, Context, Exit, Printer, Reason, Result, State, TaskRow, TaskStatus, maybe,
    plural, sys,
};
use crate::act::pass::{Disk, Looked};
use crate::decide::manifest::newest::proves_nothing;
use crate::decide::reconcile::{OutputSource as _, Outputs};
use crate::executor::{OtherExecutor, may_live_again};
use crate::model::state::transition::{self, Cause, Change, Outcome};
use crate::show::explain::options;
use crate::store::audit_log::{self, Event, EventKind};

pub(super) fn run(context: &Context, args: &RetryArgs, printer: &mut Printer) -> Result<Exit> {
    let (locked, mut state) =
        context.lock_or_read_state("retry", args.dry_run, &args.write, printer)?;
    let selection = context.selection_among(&args.select, Some(&state))?;
    let has_status = |status| match args.status {
        RetryStatus::Failed => status == TaskStatus::Failed,
        RetryStatus::Pending => status == TaskStatus::Pending,
        RetryStatus::Running => status == TaskStatus::Running,
        RetryStatus::All => status != TaskStatus::Complete,
    };
    let rows = state.rows().iter().filter(|row| {
        has_status(row.status)
            && (args.reasons.is_empty() || row.reason.is_some_and(|it| args.reasons.contains(&it)))
            && selection.contains_key(&row.key)
    });
    let mut chosen: Vec<TaskRow> = rows.cloned().collect();
    if !args.like.is_empty() {
        keep_alike(context, &args.like, &state, &mut chosen)?;
    }
    context.refuse_off_record(&state, &args.select)?;
    if chosen.is_empty() {
        printer.info("no task matches: nothing to clear");
        return Ok(Exit::Done);
    }
    let outputs = context.outputs(&state, printer)?;
    let disk = Disk::new(&context.config, outputs.as_ref());
    // In memory, including failed rows, whose jobs may have been requeued.
    let mut executor = context.executor(Access::ReadOnly, &state)?;
    let project = context.project(&state);
    let mut pass = context.pass(executor.as_mut(), outputs.as_ref(), &project);
    let looked = pass.look(&mut state);
    report_changes(&looked, printer);
    // Clears rows or accepts their outputs, in memory. The events include those of the update.
    let accept_outputs = args.accept_outputs;
    let (mut outcome, mut exit) = (Cleared::default(), Exit::Done);
    let mut events = looked.events.clone();
    for chosen in &chosen {
        // A submission that never became a job no longer has a row.
        let Some(row) = state.get(&chosen.key).cloned() else {
            continue;
        };
        let found = disk.outputs(&row.key, false);
        let on_disk = matches!(found, Outputs::Complete { .. });
        if row.status == TaskStatus::Complete {
            outcome.succeeded += 1;
        } else if let Some(why) = why_kept(&row, &looked, disk.config, &found, accept_outputs) {
            printer.warning(&format!("{}: not cleared: {why}", row.key));
            exit = Exit::Error;
        } else if row.status == TaskStatus::Failed && accept_outputs {
            match on_disk {
                true => outcome.accepted += usize::from(accept(&mut state, &row, &mut events)),
                false => outcome.left += 1,
            }
        } else {
            outcome.cleared.push(row.key.to_string());
            let accepts = disk.rules(&row.key).is_some_and(|it| it.accept_outputs);
            let is_believed = !proves_nothing(&row) || accepts;
            outcome.complete += usize::from(on_disk && is_believed);
            outcome.disproved += usize::from(on_disk && !is_believed);
            state.clear(&row.key);
            events.push(event(&row, &row, EventKind::RetryCleared));
        }
    }
    if let Some(locked) = locked {
        context.open_audit()?.append(&events)?;
        locked.save(&mut state)?;
    }
    report(&outcome, args, printer);
    if !outcome.cleared.is_empty() {
        report_current_pauses(context, &state, printer);
    }
    Ok(exit)
}

/// What happened to the chosen rows.
#[derive(Default)]
struct Cleared {
    /// Tasks of the cleared rows.
    cleared: Vec<String>,
    /// Number of these whose complete outputs are trusted, or not trusted.
    complete: usize,
    disproved: usize,
    accepted: usize,
    /// Number of rows without outputs to accept.
    left: usize,
    /// Number of rows that are complete by now.
    succeeded: usize,
}

/// Why a row must stay, perhaps until its job has ended. `None` if it may be cleared.
fn why_kept(
    row: &TaskRow,
    looked: &Looked,
    config: &Config,
    found: &Outputs,
    accept_outputs: bool,
) -> Option<String> {
    let now = sys::now();
    if !row.is_in_flight() {
        let of_other = OtherExecutor::of_failed(row, config.executor, now);
        if let Some(other) = of_other {
            let owner = other.owner;
            return Some(format!(
                "{other} again: restore `executor: {owner}`, or wait a day"
            ));
        }
        let is_accepted = accept_outputs && matches!(found, Outputs::Complete { .. });
        let may_live = looked.queue_failed.is_some() && (is_accepted || may_live_again(row, now));
        return may_live.then(|| {
            "Slurm is not responding, so its job may have been requeued: repeat the command when Slurm responds".to_owned()
        });
    }
    if let Some(other) = OtherExecutor::of(row, config.executor) {
        return Some(format!("{other}: {}", other.remedy()));
    }
    let Some(id) = &row.job_id else {
        return Some(
            "its submission is in doubt; `monitor` finds the job or releases the task".to_owned(),
        );
    };
    let missing = row
        .missing_since
        .and_then(|since| (now - since).to_std().ok());
    // Known to have ended, missing from the queue for so long that a pass would give it up, or unknown to Slurm.
    let is_gone = match row.reason {
        _ if looked.queue_failed.is_some() => false,
        Some(Reason::AwaitingOutput) => true,
        Some(Reason::Unaccounted) if missing >= Some(config.lost_grace) => true,
        _ => looked.has_forgotten(row, config, now),
    };
    match (is_gone, row.reason) {
        (true, _) => matches!(found, Outputs::Unreadable)
            .then(|| "its job has ended, but its outputs cannot be read now".to_owned()),
        (_, Some(Reason::Unaccounted)) => Some(format!(
            "job {id} is not in the queue, but accounting has not confirmed its end, or it was submitted a moment ago (it \
             counts as lost after `lost_grace`)"
        )),
        _ => Some(format!(
            "job {id} may still be running; cancel it first: snbb-scheduler cancel{}",
            options(&row.key)
        )),
    }
}

fn report(outcome: &Cleared, args: &RetryArgs, printer: &mut Printer) {
    let verb = |would: &'static str, did: &'static str| if args.dry_run { would } else { did };
    let cleared = outcome.cleared.len();
    if args.accept_outputs {
        printer.info(&format!(
            "{} the outputs of {} as complete",
            verb("would accept", "accepted"),
            plural(outcome.accepted, "task")
        ));
    }
    if !args.accept_outputs || cleared > 0 {
        let next = (!args.dry_run && cleared > 0).then_some("the next `run` decides again");
        printer.info(&format!(
            "{} {}{}",
            verb("would clear", "cleared"),
            plural(cleared, "task"),
            maybe(": ", next, "")
        ));
    }
    for (count, whose, what) in [
        (
            outcome.left,
            "task",
            "left failed, because outputs are missing; use `retry` without --accept-outputs to clear",
        ),
        (
            outcome.complete,
            "cleared task",
            "complete on disk, will not run again; use `run --force` with a selection to force a run",
        ),
        (
            outcome.disproved,
            "cleared task",
            "will run again although its outputs look complete, because a failed attempt left them; \
             `retry --accept-outputs` accepts such outputs",
        ),
        (
            outcome.succeeded,
            "selected task",
            "complete by now, nothing to clear",
        ),
    ] {
        if count > 0 {
            printer.note(&format!("{}: {what}", plural(count, whose)));
        }
    }
    if args.dry_run {
        for name in &outcome.cleared {
            printer.line(name);
        }
    }
}

fn accept(state: &mut State, row: &TaskRow, events: &mut Vec<Event>) -> bool {
    let change = Change::of(row, Cause::Accepted, TaskStatus::Complete, Reason::Verified);
    let now = sys::now();
    let Outcome::Changed { row: accepted, .. } = transition::apply(state, change, now) else {
        return false;
    };
    events.push(Event {
        at: now,
        new_status: Some(TaskStatus::Complete),
        detail: Some("outputs accepted by `retry --accept-outputs`".to_owned()),
        ..event(row, &accepted, EventKind::StatusChange)
    });
    true
}

/// An event about a row, with its columns after the change and the user.
fn event(row: &TaskRow, after: &TaskRow, kind: EventKind) -> Event {
    let mut extra = audit_log::extras_of(after);
    extra.push(("by", sys::user_name().into()));
    Event {
        extra,
        ..Event::of(row, sys::now(), kind)
    }
}
