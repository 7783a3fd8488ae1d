//! `retry`: clears failed rows, so that the next run submits their tasks again.
//!
//! Never clears a task whose job may live or whose submission is in doubt.

use std::collections::HashSet;

use super::args::{RetryArgs, RetryStatus};
use super::context::{Access, Context};
use super::error::{Exit, Failure};
use super::monitor::open_audit;
use super::output::Printer;
use super::pause::tell_what_is_paused;
use crate::executor::JobId;
use crate::pass::{Disk, queue_question};
use crate::reconcile::{OutputSource as _, Outputs};
use crate::state::audit_log::{self, Event, EventKind};
use crate::state::transition::{self, Cause, Change, Outcome};
use crate::state::{JobFacts, Reason, State, TaskKey, TaskRow, TaskStatus};
use crate::sys;

/// Says what `retry` does to a row.
enum Verdict {
    Clear,
    /// Complete on disk, and `--accept-outputs` was given.
    Accept,
    /// The job lives, or nobody can tell.
    MayLive,
}

pub fn run(context: &Context, args: &RetryArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let locked = if args.dry_run {
        None
    } else {
        Some(context.lock_state("retry", &args.write, printer)?)
    };
    let (locked, mut state) = match locked {
        Some((locked, state)) => (Some(locked), state),
        None => (None, context.read_state(printer)?),
    };
    let selection = context.selection_among(&args.select, Some(&state))?;
    let chosen: Vec<TaskRow> = state
        .rows()
        .iter()
        .filter(|row| {
            wanted(args.status, row.status)
                && (args.reasons.is_empty()
                    || row
                        .reason
                        .is_some_and(|reason| args.reasons.contains(&reason)))
                && selection.contains(&row.key.subject, &row.key.session, &row.key.procedure)
        })
        .cloned()
        .collect();
    if chosen.is_empty() {
        printer.talk("no matching rows: nothing to clear");
        return Ok(Exit::Done);
    }
    let probe = context.probe()?;
    let disk = Disk {
        config: &context.config,
        completions: &probe,
    };
    let live = live_jobs(context, &state, &chosen)?;
    let mut events = Vec::new();
    let (mut cleared, mut accepted, mut complete, mut kept) = (0, 0, 0, Vec::new());
    for row in &chosen {
        let on_disk = matches!(disk.outputs(&row.key, false), Outputs::Complete { .. });
        match judge(row, on_disk, args.accept_outputs, live.as_ref()) {
            Verdict::MayLive => kept.push(row),
            Verdict::Accept => {
                accepted += usize::from(accept(&mut state, row, &mut events));
            }
            Verdict::Clear => {
                cleared += 1;
                complete += usize::from(on_disk);
                state.clear(&row.key);
                events.push(cleared_event(row));
            }
        }
    }
    for row in &kept {
        printer.warning(&may_live(row));
    }
    if let Some(locked) = locked {
        open_audit(context)?
            .append(&events)
            .map_err(|(path, source)| Failure::Write { path, source })?;
        locked.save(&mut state)?;
    }
    tell(printer, args.dry_run, cleared, accepted, complete);
    if cleared > 0 {
        tell_what_is_paused(context, &state, printer);
    }
    Ok(if kept.is_empty() {
        Exit::Done
    } else {
        Exit::Error
    })
}

fn tell(printer: &mut Printer, dry_run: bool, cleared: usize, accepted: usize, complete: usize) {
    let (clear, accept) = if dry_run {
        ("would clear", "would take over")
    } else {
        ("cleared", "took over")
    };
    printer.talk(&format!("{clear} {cleared} row(s)"));
    if accepted > 0 {
        printer.talk(&format!(
            "{accept} the outputs of {accepted} task(s) as complete"
        ));
    }
    if complete > 0 {
        printer.note(&format!(
            "{complete} of the cleared tasks are complete on disk and will not run again; \
             `run --force` with a selection runs them anyway"
        ));
    }
}

fn wanted(chosen: RetryStatus, status: TaskStatus) -> bool {
    match chosen {
        RetryStatus::Failed => status == TaskStatus::Failed,
        RetryStatus::Pending => status == TaskStatus::Pending,
        RetryStatus::Running => status == TaskStatus::Running,
        RetryStatus::All => status != TaskStatus::Complete,
    }
}

/// Asks the queue which jobs live; only needed if rows in flight are to be cleared.
/// None: nobody can tell.
fn live_jobs(
    context: &Context,
    state: &State,
    chosen: &[TaskRow],
) -> Result<Option<HashSet<JobId>>, Failure> {
    if !chosen.iter().any(TaskRow::is_in_flight) {
        return Ok(Some(HashSet::new()));
    }
    let mut executor = context.executor(Access::ReadOnly)?;
    executor.set_deadline(context.config.deadline);
    let observation = executor.observe(&queue_question(&context.config, state));
    Ok(observation.queue.got().map(|jobs| {
        jobs.iter()
            .filter(|job| job.phase.is_live())
            .map(|job| job.id.clone())
            .collect()
    }))
}

fn judge(
    row: &TaskRow,
    on_disk: bool,
    accept_outputs: bool,
    live: Option<&HashSet<JobId>>,
) -> Verdict {
    if row.is_in_flight() {
        let dead = match (live, &row.job_id) {
            (Some(live), Some(id)) => !live.contains(id),
            _ => false,
        };
        if !dead {
            return Verdict::MayLive;
        }
    }
    if on_disk && accept_outputs && row.status == TaskStatus::Failed {
        Verdict::Accept
    } else {
        Verdict::Clear
    }
}

fn may_live(row: &TaskRow) -> String {
    match &row.job_id {
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
    let key: TaskKey = row.key.clone();
    Event {
        at: sys::now(),
        kind: EventKind::RetryCleared,
        key: Some(key),
        job_id: row.job_id.clone(),
        old_status: Some(row.status),
        new_status: None,
        detail: None,
        extra: with_user(audit_log::extras_of(row)),
    }
}

/// Adds who did it.
fn with_user(
    mut extra: Vec<(&'static str, serde_json::Value)>,
) -> Vec<(&'static str, serde_json::Value)> {
    extra.push(("by", sys::user_name().into()));
    extra
}
