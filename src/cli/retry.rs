//! `retry`: clears failed rows, so that the next run submits their tasks again.
//!
//! Never clears a task whose job may still run or whose submission is in doubt. Updates the rows first, so that the
//! result of an attempt that has ended is kept, and a requeued job is noticed.

use serde_json::Value;

use super::args::{RetryArgs, RetryStatus};
use super::context::{Access, Context};
use super::error::Result;
use super::failed::keep_alike;
use super::monitor;
use super::output::{Printer, Verbosity};
use super::pause::report_current_pauses;
use crate::act::pass::{Disk, Looked};
use crate::base::exit::Exit;
use crate::base::sys;
use crate::base::text::{maybe, plural, plural_of};
use crate::decide::manifest::newest::proves_nothing;
use crate::decide::reconcile::{OutputSource as _, Outputs};
use crate::executor::{OtherExecutor, may_live_again};
use crate::gather::completion::Completions;
use crate::model::config::Config;
use crate::model::state::transition::{Cause, Change, Outcome};
use crate::model::state::{JobFacts, Reason, State, TaskRow, TaskStatus, transition};
use crate::store::audit_log;
use crate::store::audit_log::{Event, EventKind};

pub(super) fn run(context: &Context, args: &RetryArgs, printer: &mut Printer) -> Result<Exit> {
    let (locked, mut state) =
        context.lock_or_read_state("retry", args.dry_run, &args.write, printer)?;
    let chosen = chosen(context, args, &state)?;
    context.refuse_off_record(&state, &args.select)?;
    if chosen.is_empty() {
        let status = match args.status {
            RetryStatus::Failed => "failed",
            RetryStatus::Pending => "pending",
            RetryStatus::Running => "running",
            RetryStatus::All => "failed, pending or running",
        };
        printer.info(&format!("no {status} task matches: nothing to clear"));
        return Ok(Exit::Done);
    }
    let outputs = context.outputs(&state, printer)?;
    let disk = Disk::new(&context.config, outputs.as_ref());
    let looked = update(context, &mut state, outputs.as_ref(), printer)?;
    let outcome = clear(&mut state, &chosen, &looked, &disk, args.accept_outputs);
    for why in &outcome.kept {
        printer.warning(why);
    }
    if let Some(locked) = locked {
        context.open_audit()?.append(&outcome.events)?;
        locked.save(&mut state)?;
    }
    if args.accept_outputs {
        report_accepted(printer, args.dry_run, outcome.accepted, outcome.left);
    }
    let cleared = outcome.cleared.len();
    if !args.accept_outputs || cleared > 0 {
        report_cleared(printer, args.dry_run, cleared, &outcome);
    }
    if args.dry_run {
        list_cleared(printer, &outcome.cleared);
    }
    if outcome.succeeded > 0 {
        printer.note(&format!(
            "{} complete by now: nothing to clear",
            plural_of(outcome.succeeded, "selected task is", "selected tasks are")
        ));
    }
    if cleared > 0 {
        report_current_pauses(context, &state, printer);
    }
    Ok(Exit::Done.unless(!outcome.kept.is_empty(), Exit::Error))
}

/// The rows that the options select.
fn chosen(context: &Context, args: &RetryArgs, state: &State) -> Result<Vec<TaskRow>> {
    let selection = context.selection_among(&args.select, Some(state))?;
    let is_meant = |reason: Option<Reason>| args.reasons.iter().any(|one| reason == Some(*one));
    let rows = state.rows().iter().filter(|row| {
        has_status(args.status, row.status)
            && (args.reasons.is_empty() || is_meant(row.reason))
            && selection.contains_key(&row.key)
    });
    let mut rows: Vec<TaskRow> = rows.cloned().collect();
    if !args.like.is_empty() {
        keep_alike(context, &args.like, state, &mut rows)?;
    }
    Ok(rows)
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
    /// Why rows were not cleared.
    kept: Vec<String>,
    /// Includes the events of the update.
    events: Vec<Event>,
}

/// Clears rows or accepts their outputs, in memory.
fn clear(
    state: &mut State,
    chosen: &[TaskRow],
    looked: &Looked,
    disk: &Disk<'_>,
    accept_outputs: bool,
) -> Cleared {
    let mut outcome = Cleared {
        events: looked.events.clone(),
        ..Cleared::default()
    };
    for chosen in chosen {
        // A submission that never became a job no longer has a row.
        let Some(row) = state.get(&chosen.key).cloned() else {
            continue;
        };
        if row.status == TaskStatus::Complete {
            outcome.succeeded += 1;
            continue;
        }
        let found = disk.outputs(&row.key, false);
        let on_disk = matches!(found, Outputs::Complete { .. });
        let may_be_requeued = match looked.queue_failed {
            Some(_) => {
                let counts = accept_outputs && on_disk || may_live_again(&row, sys::now());
                counts && !row.is_in_flight()
            }
            None => of_failed(&row, disk.config).is_some(),
        };
        let is_gone = looked.queue_failed.is_none() && is_gone(&row, looked, disk.config);
        if may_be_requeued {
            let warning = requeue_warning(&row, disk.config, accept_outputs);
            outcome.kept.push(warning);
        } else if row.is_in_flight() && !is_gone {
            outcome.kept.push(still_running(&row, disk.config));
        } else if row.is_in_flight() && matches!(found, Outputs::Unreadable) {
            outcome.kept.push(format!(
                "{}: not cleared: its job has ended, but its outputs cannot be read now",
                row.key
            ));
        } else if row.status == TaskStatus::Failed && accept_outputs {
            match on_disk {
                true => outcome.accepted += usize::from(accept(state, &row, &mut outcome.events)),
                false => outcome.left += 1,
            }
        } else {
            outcome.cleared.push(row.key.to_string());
            let rules = disk.rules(&row.key);
            let accepts = rules.is_some_and(|rules| rules.accept_outputs);
            let is_believed = !proves_nothing(&row) || accepts;
            outcome.complete += usize::from(on_disk && is_believed);
            outcome.disproved += usize::from(on_disk && !is_believed);
            state.clear(&row.key);
            outcome.events.push(cleared_event(&row));
        }
    }
    outcome
}

/// Lists the rows that would be cleared, many only with `-v`.
fn list_cleared(printer: &mut Printer, names: &[String]) {
    const SHOWN: usize = 10;
    let shown = match printer.verbosity() >= Verbosity::Verbose {
        true => names.len(),
        false => SHOWN,
    };
    for name in names.iter().take(shown) {
        printer.line(name);
    }
    if names.len() > shown {
        printer.info(&format!("and {} more (-v lists all)", names.len() - shown));
    }
}

fn report_accepted(printer: &mut Printer, dry_run: bool, accepted: usize, left: usize) {
    let (accept, leave) = match dry_run {
        true => ("would accept", "would leave"),
        false => ("accepted", "left"),
    };
    let rest = match left {
        0 => String::new(),
        _ => format!(
            "; {leave} {left} failed, because their outputs are missing; `retry` without --accept-outputs clears these tasks too"
        ),
    };
    printer.info(&format!(
        "{accept} the outputs of {} as complete{rest}",
        plural(accepted, "task")
    ));
}

fn report_cleared(printer: &mut Printer, dry_run: bool, cleared: usize, outcome: &Cleared) {
    let clear = if dry_run { "would clear" } else { "cleared" };
    let next = (!dry_run && cleared > 0).then_some("the next `run` decides again");
    let next = maybe(": ", next, "");
    printer.info(&format!("{clear} {}{next}", plural(cleared, "task")));
    if outcome.complete > 0 {
        printer.note(&format!(
            "{} of the cleared tasks are complete on disk and will not run again; \
             `run --force` with a selection runs them anyway",
            outcome.complete
        ));
    }
    if outcome.disproved > 0 {
        let (are, instead) = match dry_run {
            true => ("would", "`retry --accept-outputs` accepts them instead"),
            false => (
                "will",
                "next time, `retry --accept-outputs` accepts such outputs",
            ),
        };
        printer.note(&format!(
            "{} of the cleared tasks {are} run again although their outputs look complete, because a failed attempt left them; \
             {instead}",
            outcome.disproved
        ));
    }
}

fn has_status(chosen: RetryStatus, status: TaskStatus) -> bool {
    match chosen {
        RetryStatus::Failed => status == TaskStatus::Failed,
        RetryStatus::Pending => status == TaskStatus::Pending,
        RetryStatus::Running => status == TaskStatus::Running,
        RetryStatus::All => status != TaskStatus::Complete,
    }
}

/// Updates the rows in memory, including failed ones, whose jobs may have been requeued.
fn update(
    context: &Context,
    state: &mut State,
    outputs: &dyn Completions,
    printer: &mut Printer,
) -> Result<Looked> {
    let mut executor = context.executor(Access::ReadOnly, state)?;
    let project = context.project(state);
    let looked = context
        .pass(executor.as_mut(), outputs, &project)
        .look(state);
    monitor::report_queue(&looked, printer);
    Ok(looked)
}

/// True if the job of a row in flight is known to have ended, if queue and accounting both respond without it, or if a
/// pass would give it up for being missing from the queue too long but accounting is not responding.
fn is_gone(row: &TaskRow, looked: &Looked, config: &Config) -> bool {
    let has_waited = |since: chrono::DateTime<chrono::Utc>| {
        (sys::now() - since)
            .to_std()
            .is_ok_and(|time| time >= config.lost_grace)
    };
    row.job_id.is_some()
        && OtherExecutor::of(row, config.executor).is_none()
        && match row.reason {
            Some(Reason::AwaitingOutput) => true,
            Some(Reason::Unaccounted) if row.missing_since.is_some_and(has_waited) => true,
            _ => looked.has_forgotten(row, config, sys::now()),
        }
}

fn still_running(row: &TaskRow, config: &Config) -> String {
    if let Some(other) = OtherExecutor::of(row, config.executor) {
        return format!("{}: not cleared: {other}: {}", row.key, other.remedy());
    }
    match &row.job_id {
        Some(id) if row.reason == Some(Reason::Unaccounted) => format!(
            "{}: not cleared: job {id} is not in the queue, but accounting has not confirmed its end, or it was submitted a \
             moment ago (it counts as lost after `lost_grace`)",
            row.key
        ),
        Some(id) => format!(
            "{}: not cleared: job {id} may still be running; cancel it first: snbb-scheduler cancel --procedure {} --subject {}{}",
            row.key,
            row.key.procedure,
            row.key.subject,
            maybe(
                " --session ",
                Some(&row.key.session).filter(|session| !session.is_empty()),
                ""
            )
        ),
        None => format!(
            "{}: not cleared: its submission is in doubt; `monitor` finds the job or releases the task",
            row.key
        ),
    }
}

fn of_failed<'a>(row: &'a TaskRow, config: &Config) -> Option<OtherExecutor<'a>> {
    OtherExecutor::of_failed(row, config.executor, sys::now())
}

fn requeue_warning(row: &TaskRow, config: &Config, accept_outputs: bool) -> String {
    let key = &row.key;
    let left = match accept_outputs {
        true => "its outputs were not accepted",
        false => "it was not cleared",
    };
    match of_failed(row, config) {
        Some(other) => format!(
            "{key}: {other} again; {left}: set `executor: {}` again, or wait a day",
            other.owner
        ),
        None => format!(
            "{key}: Slurm is not responding, so its job may have been requeued; {left}: repeat the command when Slurm responds"
        ),
    }
}

fn accept(state: &mut State, row: &TaskRow, events: &mut Vec<Event>) -> bool {
    let change = Change {
        key: row.key.clone(),
        about: row.job_id.clone(),
        cause: Cause::Accepted,
        to: TaskStatus::Complete,
        reason: Reason::Verified,
        facts: JobFacts::default(),
        missing_since: None,
    };
    let now = sys::now();
    let Outcome::Changed { row: accepted, .. } = transition::apply(state, change, now) else {
        return false;
    };
    events.push(Event {
        at: now,
        kind: EventKind::StatusChange,
        new_status: Some(TaskStatus::Complete),
        detail: Some("outputs accepted by `retry --accept-outputs`".to_owned()),
        extra: with_user(audit_log::extras_of(&accepted)),
        ..cleared_event(row)
    });
    true
}

fn cleared_event(row: &TaskRow) -> Event {
    Event {
        extra: with_user(audit_log::extras_of(row)),
        ..Event::of(row, sys::now(), EventKind::RetryCleared)
    }
}

/// Adds the user.
fn with_user(mut extra: Vec<(&'static str, Value)>) -> Vec<(&'static str, Value)> {
    extra.push(("by", sys::user_name().into()));
    extra
}
