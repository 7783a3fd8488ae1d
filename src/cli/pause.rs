//! `pause` and `resume`: stop and restart submission, of one procedure or of the whole study.
//!
//! Also the report of current pauses, shared by `run`, `monitor` and the commands that only read.

use std::sync::Arc;

use itertools::Itertools as _;

use super::args::{PauseArgs, ResumeArgs};
use super::failed::hint_at_failures;
use super::{Context, Exit, Printer, Result, Selection, State, maybe, plural, sys};
use crate::act::pass::Pauses;
use crate::act::pass::decide::event;
use crate::decide::manifest::breaker::Streak;
use crate::decide::manifest::{Decision, Manifest, Skip, breaker};
use crate::store::audit_log::{Event, EventKind};
use crate::store::control::{Control, Pause, PauseCause};
use crate::store::state_file::LockedStore;

pub(super) fn pause(context: &Context, args: &PauseArgs, printer: &mut Printer) -> Result<Exit> {
    let (locked, _) = context.lock_state("pause", &args.write, printer)?;
    let mut control = context.store.read_control()?;
    let names = chosen(context, &args.procedures, &control)?;
    let note = args.note.as_deref().map(str::trim);
    let note = note.filter(|note| !note.is_empty()).map(str::to_owned);
    let now = sys::now();
    let mut events = Vec::new();
    for name in &names {
        let switch = control.switch_mut(name.as_ref());
        // An earlier note stays unless there is a new one.
        if let Some(old) = &switch.paused
            && (note.is_none()
                || matches!(&old.cause, PauseCause::Person { note: old, .. } if *old == note))
        {
            printer.info(&format!("{} is already paused", title(name.as_ref())));
            continue;
        }
        let since = switch.paused.as_ref().map_or(now, |pause| pause.since);
        let cause = PauseCause::Person {
            by: sys::user_name(),
            note: note.clone(),
        };
        let pause = switch.paused.insert(Pause { since, cause });
        events.push(event(now, EventKind::Paused, name.as_ref(), Some(pause)));
    }
    save(context, &locked, control, &events, printer)
}

pub(super) fn resume(context: &Context, args: &ResumeArgs, printer: &mut Printer) -> Result<Exit> {
    let (locked, state) = context.lock_state("resume", &args.write, printer)?;
    let mut control = context.store.read_control()?;
    let names = chosen(context, &args.procedures, &control)?;
    let now = sys::now();
    let attempts = context.store.read_attempts()?;
    let found = Pauses::evaluate(&context.config, &control, &attempts, &state, now);
    let mut events = Vec::new();
    for name in &names {
        let title = title(name.as_ref());
        let has_failures = match name {
            None => !found.streaks.is_empty(),
            Some(name) => found.streaks.contains_key(name),
        };
        // A procedure that the next run would pause can be resumed already.
        let is_about_to = (name.as_ref()).is_some_and(|name| found.tripped.contains(name));
        let switch = control.switch_mut(name.as_ref());
        if switch.paused.take().is_none() && !is_about_to {
            printer.info(&format!("{title} is not paused"));
            continue;
        }
        if has_failures {
            switch.resumed_at = Some(now);
        }
        let mut event = event(now, EventKind::Resumed, name.as_ref(), None);
        event.extra.push(("by", sys::user_name().into()));
        events.push(event);
        printer.info(&format!(
            "{title} is resumed: the next `run` submits its tasks"
        ));
    }
    let exit = save(context, &locked, control, &events, printer)?;
    if !events.is_empty() {
        hint_at_failures(&state, context, printer);
    }
    Ok(exit)
}

/// Writes the events before the control file, so that a crash in between repeats an event and loses none. Reports all
/// pauses.
fn save(
    context: &Context,
    locked: &LockedStore,
    mut control: Control,
    events: &[Event],
    printer: &mut Printer,
) -> Result<Exit> {
    if !events.is_empty() {
        context.open_audit()?.append(events)?;
        control.forget_before(sys::now() - breaker::MEMORY);
        locked.save_control(&mut control)?;
    }
    let pauses = Pauses {
        control,
        ..Pauses::default()
    };
    report_pauses(context, &pauses, None, printer);
    Ok(Exit::Done)
}

/// The selected procedures, including paused ones that left the configuration, or the study (`None`).
fn chosen(
    context: &Context,
    wanted: &[String],
    control: &Control,
) -> Result<Vec<Option<Arc<str>>>> {
    let dag = context.config.procedures.iter();
    let configured = dag.map(|(_, procedure)| &procedure.name);
    let paused = control.pauses().filter_map(|(name, _)| name);
    let known: Vec<&Arc<str>> = configured.chain(paused).unique().collect();
    let names: Vec<&str> = known.iter().map(|name| &***name).collect();
    let selection = Selection::new(&[], &[], wanted, &names)?;
    if selection.is_everything() {
        return Ok(vec![None]);
    }
    let chosen = known
        .into_iter()
        .filter(|name| selection.contains_procedure(name));
    Ok(chosen.cloned().map(Some).collect())
}

fn title(name: Option<&Arc<str>>) -> String {
    name.map_or_else(|| "the study".to_owned(), ToString::to_string)
}

/// Reports each pause and its remedy in one line; with a manifest, also the number of due tasks that it holds back.
pub(super) fn report_pauses(
    context: &Context,
    pauses: &Pauses,
    manifest: Option<&Manifest>,
    printer: &mut Printer,
) {
    let dag = &context.config.procedures;
    for (name, pause) in pauses.control.pauses() {
        let tasks = manifest.map_or(&[][..], |manifest| &manifest.tasks).iter();
        let held = tasks.filter(|task| {
            matches!(task.decision, Decision::Skip(Skip::Paused(_)))
                && name.is_none_or(|name| dag.get(task.procedure).name == *name)
        });
        let held = Some(held.count()).filter(|count| *count > 0);
        let held = held.map(|count| plural(count, "due task"));
        let held = maybe("; ", held, " held back");
        let title = title(name);
        let since = sys::local_time(pause.since);
        let resume = format!("snbb-scheduler resume{}", maybe(" --procedure ", name, ""));
        match &pause.cause {
            PauseCause::Person { by, note } => {
                let note = maybe(": ", note.as_deref(), "");
                printer.note(&format!(
                    "{title} has been paused by {by} since {since}{note}{held}; run `{resume}` to continue"
                ));
            }
            PauseCause::Failures { count } => {
                // Reading commands and dry runs show it, the next run records it.
                let paused = match name.is_some_and(|name| pauses.tripped.contains(name)) {
                    true => "is paused now".to_owned(),
                    false => format!("has been paused since {since}"),
                };
                let streak = name.and_then(|name| pauses.streaks.get(name));
                let log_dir = context.config.slurm.log_dir.as_ref().zip(name);
                let log_dir = log_dir.map(|(dir, name)| dir.join(&**name));
                printer.warning(&format!(
                    "{title} {paused}: {count} consecutive jobs failed{}{held}; see the logs{}, fix the cause, then run `{resume}`",
                    maybe(" (", streak.map(reasons), ")"),
                    maybe(" in ", log_dir.as_ref().map(|dir| dir.display()), ""),
                ));
            }
        }
    }
}

/// Reports current pauses from the files, for commands that do not decide and for which an unreadable control file is
/// only a warning.
pub(super) fn report_current_pauses(context: &Context, state: &State, printer: &mut Printer) {
    match Pauses::read(&context.config, &context.store, state, sys::now()) {
        Ok(pauses) => report_pauses(context, &pauses, None, printer),
        Err(error) => {
            printer.warning(&error.to_string());
            printer.hints(error.hint());
        }
    }
}

/// The reasons of the failures, and the most recent one.
fn reasons(streak: &Streak) -> String {
    let counts = streak.reasons.iter();
    let mut counts = counts.map(|(reason, count)| format!("{count} {reason}"));
    format!("{}; most recent: {}", counts.join(", "), streak.newest)
}
