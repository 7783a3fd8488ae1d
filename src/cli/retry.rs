//! `retry`: clears failed rows, so that the next run submits their tasks again.
//!
//! Never clears a task whose job may live or whose submission is in doubt. The rows are brought up to date first, so that
//! an attempt that has ended is kept with its end, and a job that was requeued is seen.

use super::args::{RetryArgs, RetryStatus};
use super::context::{Access, Context};
use super::error::Failure;
use super::failed::keep_alike;
use super::monitor;
use super::output::{Printer, Verbosity};
use super::pause::tell_what_is_paused;
use crate::act::pass::{Disk, Looked};
use crate::base::exit::Exit;
use crate::base::sys;
use crate::decide::manifest::newest::proves_nothing;
use crate::decide::reconcile::{OutputSource as _, Outputs};
use crate::executor::{OtherExecutor, may_live_again};
use crate::gather::completion::Completions;
use crate::model::config::Config;
use crate::model::state::transition::{Cause, Change, Outcome};
use crate::model::state::{JobFacts, Reason, State, TaskRow, TaskStatus, transition};
use crate::store::audit_log;
use crate::store::audit_log::{Event, EventKind};

/// Says what `retry` does to a row.
enum Verdict {
    Clear,
    /// Complete on disk, and `--accept-outputs` was given.
    Accept,
    /// `--accept-outputs` was given, and there is nothing to accept.
    Leave,
    /// The job lives, or nobody can tell.
    MayLive,
    /// The job has ended, and nobody can tell how well: its outputs cannot be read now.
    Unread,
    /// Without an answer about its job nobody can tell whether it was requeued.
    Unasked,
}

pub fn run(context: &Context, args: &RetryArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let (locked, mut state) = if args.dry_run {
        (None, context.read_state(printer)?)
    } else {
        let (locked, state) = context.lock_state("retry", &args.write, printer)?;
        (Some(locked), state)
    };
    let chosen = chosen(context, args, &state)?;
    context.refuse_off_record(&state, &args.select)?;
    if chosen.is_empty() {
        printer.talk("no matching rows: nothing to clear");
        return Ok(Exit::Done);
    }
    let outputs = context.outputs(&state, printer)?;
    let disk = Disk {
        config: &context.config,
        completions: outputs.as_ref(),
    };
    let looked = look(context, &mut state, outputs.as_ref(), printer)?;
    let done = clear(&mut state, &chosen, &looked, &disk, args.accept_outputs);
    for why in &done.kept {
        printer.warning(why);
    }
    if let Some(locked) = locked {
        context
            .open_audit()?
            .append(&done.events)
            .map_err(|(path, source)| Failure::Write { path, source })?;
        locked.save(&mut state)?;
    }
    if args.accept_outputs {
        tell_accepted(printer, args.dry_run, done.accepted, done.left);
    }
    let cleared = done.cleared.len();
    if !args.accept_outputs || cleared > 0 {
        tell(printer, args.dry_run, cleared, &done);
    }
    if args.dry_run {
        tell_which(printer, &done.cleared);
    }
    if done.succeeded > 0 {
        printer.note(&format!(
            "{} of the selected tasks have become complete; there was nothing to clear",
            done.succeeded
        ));
    }
    if cleared > 0 {
        tell_what_is_paused(context, &state, printer);
    }
    Ok(Exit::Done.unless(!done.kept.is_empty(), Exit::Error))
}

/// Finds the rows that are meant.
fn chosen(context: &Context, args: &RetryArgs, state: &State) -> Result<Vec<TaskRow>, Failure> {
    let selection = context.selection_among(&args.select, Some(state))?;
    let is_meant = |reason: Option<Reason>| args.reasons.iter().any(|one| reason == Some(*one));
    let rows = state.rows().iter().filter(|row| {
        wanted(args.status, row.status)
            && (args.reasons.is_empty() || is_meant(row.reason))
            && selection.contains_key(&row.key)
    });
    let mut rows: Vec<TaskRow> = rows.cloned().collect();
    if !args.like.is_empty() {
        keep_alike(context, &args.like, state, &mut rows)?;
    }
    Ok(rows)
}

/// Tells what became of the chosen rows.
#[derive(Default)]
struct Done {
    /// Their tasks.
    cleared: Vec<String>,
    /// How many of these have complete outputs that are believed, and that are not.
    complete: usize,
    disproved: usize,
    accepted: usize,
    /// Without outputs that could be accepted.
    left: usize,
    /// Complete by now.
    succeeded: usize,
    /// Why rows were not cleared.
    kept: Vec<String>,
    /// What the look found, too.
    events: Vec<Event>,
}

/// Clears rows or accepts their outputs, in memory.
fn clear(
    state: &mut State,
    chosen: &[TaskRow],
    looked: &Looked,
    disk: &Disk<'_>,
    accept_outputs: bool,
) -> Done {
    let mut done = Done {
        events: looked.events.clone(),
        ..Done::default()
    };
    for chosen in chosen {
        // A submission that never became a job has no row any more.
        let Some(row) = state.get(&chosen.key).cloned() else {
            continue;
        };
        if row.status == TaskStatus::Complete {
            done.succeeded += 1;
            continue;
        }
        let found = disk.outputs(&row.key, false);
        let on_disk = matches!(found, Outputs::Complete { .. });
        let verdict = match looked.queue_failed {
            Some(_)
                if !row.is_in_flight()
                    && (accept_outputs && on_disk || may_live_again(&row, sys::now())) =>
            {
                Verdict::Unasked
            }
            None if of_failed(&row, disk.config).is_some() => Verdict::Unasked,
            Some(_) => judge(&row, found, accept_outputs, false),
            None => {
                let is_gone = is_gone(&row, looked, disk.config);
                judge(&row, found, accept_outputs, is_gone)
            }
        };
        match verdict {
            Verdict::MayLive => done.kept.push(may_live(&row, disk.config)),
            Verdict::Unread => done.kept.push(format!(
                "{}: its job has ended, its outputs cannot be read now, and it was not cleared",
                row.key
            )),
            Verdict::Unasked => done
                .kept
                .push(may_be_requeued(&row, disk.config, accept_outputs)),
            Verdict::Accept => {
                done.accepted += usize::from(accept(state, &row, &mut done.events));
            }
            Verdict::Leave => done.left += 1,
            Verdict::Clear => {
                done.cleared.push(row.key.to_string());
                let is_believed = !proves_nothing(&row) || accepts_outputs(&row, disk);
                done.complete += usize::from(on_disk && is_believed);
                done.disproved += usize::from(on_disk && !is_believed);
                state.clear(&row.key);
                done.events.push(cleared_event(&row));
            }
        }
    }
    done
}

/// Names the rows that would be cleared; many only with `-v`.
fn tell_which(printer: &mut Printer, names: &[String]) {
    const SHOWN: usize = 10;
    let shown = match printer.verbosity() >= Verbosity::Verbose {
        true => names.len(),
        false => SHOWN,
    };
    for name in names.iter().take(shown) {
        printer.line(name);
    }
    if names.len() > shown {
        printer.talk(&format!("and {} more (-v names all)", names.len() - shown));
    }
}

fn tell_accepted(printer: &mut Printer, dry_run: bool, accepted: usize, left: usize) {
    let (accept, leave) = if dry_run {
        ("would accept", "would leave")
    } else {
        ("accepted", "left")
    };
    let rest = match left {
        0 => String::new(),
        _ => format!(
            "; {leave} {left} failed (outputs missing; retry without --accept-outputs clears them)"
        ),
    };
    printer.talk(&format!(
        "{accept} the outputs of {accepted} task(s) as complete{rest}"
    ));
}

fn tell(printer: &mut Printer, dry_run: bool, cleared: usize, done: &Done) {
    let clear = if dry_run { "would clear" } else { "cleared" };
    printer.talk(&format!("{clear} {cleared} row(s)"));
    if done.complete > 0 {
        printer.note(&format!(
            "{} of the cleared tasks are complete on disk and will not run again; \
             `run --force` with a selection runs them anyway",
            done.complete
        ));
    }
    if done.disproved > 0 {
        let (are, instead) = match dry_run {
            true => ("would", "`retry --accept-outputs` accepts them instead"),
            false => (
                "will",
                "next time, `retry --accept-outputs` accepts such outputs",
            ),
        };
        printer.note(&format!(
            "{} of the cleared tasks {are} run again although their outputs look complete: a failed attempt left them; {instead}",
            done.disproved
        ));
    }
}

fn accepts_outputs(row: &TaskRow, disk: &Disk<'_>) -> bool {
    disk.rules(&row.key)
        .is_some_and(|rules| rules.accept_outputs)
}

fn wanted(chosen: RetryStatus, status: TaskStatus) -> bool {
    match chosen {
        RetryStatus::Failed => status == TaskStatus::Failed,
        RetryStatus::Pending => status == TaskStatus::Pending,
        RetryStatus::Running => status == TaskStatus::Running,
        RetryStatus::All => status != TaskStatus::Complete,
    }
}

/// Brings the rows up to date, in memory: also those that failed, whose jobs may have been requeued.
fn look(
    context: &Context,
    state: &mut State,
    outputs: &dyn Completions,
    printer: &mut Printer,
) -> Result<Looked, Failure> {
    let mut executor = context.executor(Access::ReadOnly, state)?;
    let project = context.project(state);
    let looked = context
        .pass(executor.as_mut(), outputs, &project)
        .look(state);
    monitor::tell_queue(&looked, printer);
    Ok(looked)
}

/// True if the job of a row in flight is known to have ended, if queue and accounting both answer and do not know it, or
/// if it has been missing from the queue for so long that a pass would give it up, were it not for an accounting that
/// does not answer.
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

fn judge(row: &TaskRow, found: Outputs, accept_outputs: bool, is_gone: bool) -> Verdict {
    if row.is_in_flight() {
        if !is_gone {
            return Verdict::MayLive;
        }
        if matches!(found, Outputs::Unreadable) {
            return Verdict::Unread;
        }
    }
    let on_disk = matches!(found, Outputs::Complete { .. });
    match row.status {
        TaskStatus::Failed if accept_outputs && on_disk => Verdict::Accept,
        TaskStatus::Failed if accept_outputs => Verdict::Leave,
        _ => Verdict::Clear,
    }
}

fn may_live(row: &TaskRow, config: &Config) -> String {
    if let Some(other) = OtherExecutor::of(row, config.executor) {
        return format!(
            "{}: {other}; it was not cleared: {}",
            row.key,
            other.remedy()
        );
    }
    match &row.job_id {
        Some(id) if row.reason == Some(Reason::Unaccounted) => format!(
            "{}: job {id} is not in the queue, but accounting does not confirm its end, or it was submitted a moment ago; \
             it was not cleared (it counts as gone after lost_grace)",
            row.key
        ),
        Some(id) => format!(
            "{}: job {id} may be alive and was not cleared; end it first: snbb-scheduler cancel --procedure {} --subject {}",
            row.key, row.key.procedure, row.key.subject
        ),
        None => format!(
            "{}: its submission is in doubt and was not cleared; `monitor` finds the job or frees the task",
            row.key
        ),
    }
}

fn of_failed<'a>(row: &'a TaskRow, config: &Config) -> Option<OtherExecutor<'a>> {
    OtherExecutor::of_failed(row, config.executor, sys::now())
}

fn may_be_requeued(row: &TaskRow, config: &Config, accept_outputs: bool) -> String {
    let key = &row.key;
    let left = match accept_outputs {
        true => "its outputs were not accepted",
        false => "it was not cleared",
    };
    match of_failed(row, config) {
        Some(other) => format!(
            "{key}: {other} again; {left}: set `executor: {}` again, or wait for a day",
            other.owner()
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
        detail: Some("outputs taken over by `retry --accept-outputs`".to_owned()),
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

/// Adds who did it.
fn with_user(
    mut extra: Vec<(&'static str, serde_json::Value)>,
) -> Vec<(&'static str, serde_json::Value)> {
    extra.push(("by", sys::user_name().into()));
    extra
}
