//! `pause` and `resume`: `run` submits nothing, or nothing of a procedure, until a person says so.
//!
//! Also the words for what is paused, which `run`, `monitor` and the commands that only look share.

use std::sync::Arc;

use super::args::{PauseArgs, ResumeArgs};
use super::context::Context;
use super::error::Failure;
use super::failed::hint_at_failures;
use super::output::Printer;
use crate::act::pass::Pauses;
use crate::act::pass::pauses::event;
use crate::base::exit::Exit;
use crate::base::sys;
use crate::base::text::{maybe, plural};
use crate::decide::manifest::breaker::Streak;
use crate::decide::manifest::{Decision, Manifest, Selection, Skip, breaker};
use crate::model::procedure::ProcedureDag;
use crate::model::state::State;
use crate::store::audit_log::{Event, EventKind};
use crate::store::control::{Control, Pause, PauseCause};
use crate::store::state_file::LockedStore;

pub fn pause(context: &Context, args: &PauseArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let (locked, _) = context.lock_beside_state("pause", &args.write, printer)?;
    let mut control = context.store.read_control()?;
    let names = chosen(context, &args.procedures, &control)?;
    let note = args.note.as_deref().map(str::trim);
    let note = note.filter(|note| !note.is_empty()).map(str::to_owned);
    let now = sys::now();
    let mut events = Vec::new();
    for name in &names {
        let switch = control.switch_mut(name.as_ref());
        let cause = PauseCause::Person {
            by: sys::user_name(),
            note: note.clone(),
        };
        let since = switch.paused.as_ref().map(|pause| pause.since);
        match &switch.paused {
            // What it says stays, unless there is something new to say.
            Some(old) if note.is_none() || note.as_deref() == note_of(old) => {
                printer.talk(&format!("{} was paused already", title(name.as_ref())));
                continue;
            }
            _ => {
                let since = since.unwrap_or(now);
                let pause = switch.paused.insert(Pause { since, cause });
                let kind = EventKind::Paused;
                events.push(event(now, kind, name.as_ref(), Some(pause)));
            }
        }
    }
    save(context, &locked, &mut control, &events)?;
    let pauses = Pauses {
        control,
        ..Pauses::default()
    };
    tell_pauses(context, &pauses, None, Tense::NextRun, printer);
    Ok(Exit::Done)
}

pub fn resume(
    context: &Context,
    args: &ResumeArgs,
    printer: &mut Printer,
) -> Result<Exit, Failure> {
    let (locked, state) = context.lock_beside_state("resume", &args.write, printer)?;
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
        // A procedure that the next run would pause need not wait for that.
        let is_about_to = name
            .as_ref()
            .is_some_and(|name| found.tripped.contains(name));
        let switch = control.switch_mut(name.as_ref());
        if switch.paused.take().is_none() && !is_about_to {
            printer.talk(&format!("{title} is not paused"));
            continue;
        }
        if has_failures {
            switch.resumed_at = Some(now);
        }
        let mut event = event(now, EventKind::Resumed, name.as_ref(), None);
        event.extra.push(("by", sys::user_name().into()));
        events.push(event);
        printer.talk(&format!("{title} is resumed: the next `run` submits again"));
    }
    save(context, &locked, &mut control, &events)?;
    let was_resumed = !events.is_empty();
    let pauses = Pauses {
        control,
        ..Pauses::default()
    };
    tell_pauses(context, &pauses, None, Tense::NextRun, printer);
    if was_resumed {
        hint_at_failures(&state, context, printer);
    }
    Ok(Exit::Done)
}

/// Writes the events and then the control file: a crash in between repeats an event, and loses none.
fn save(
    context: &Context,
    locked: &LockedStore,
    control: &mut Control,
    events: &[Event],
) -> Result<(), Failure> {
    if events.is_empty() {
        return Ok(());
    }
    context.open_audit()?.append(events)?;
    control.forget_before(breaker::horizon(sys::now()));
    locked.save_control(control)?;
    Ok(())
}

/// Returns the procedures that were asked for, also those that are paused and have left the
/// configuration; the study (none) if none was asked for.
fn chosen(
    context: &Context,
    wanted: &[String],
    control: &Control,
) -> Result<Vec<Option<Arc<str>>>, Failure> {
    let mut known: Vec<Arc<str>> = context
        .config
        .procedures
        .iter()
        .map(|(_, procedure)| Arc::clone(&procedure.name))
        .collect();
    for (name, _) in control.pauses() {
        if let Some(name) = name.filter(|name| !known.contains(name)) {
            known.push(Arc::clone(name));
        }
    }
    let names: Vec<&str> = known.iter().map(|name| &**name).collect();
    let selection = Selection::new(&[], &[], wanted, &names)?;
    if selection.is_everything() {
        return Ok(vec![None]);
    }
    known.retain(|name| selection.contains_procedure(name));
    Ok(known.into_iter().map(Some).collect())
}

fn note_of(pause: &Pause) -> Option<&str> {
    match &pause.cause {
        PauseCause::Person { note, .. } => note.as_deref(),
        PauseCause::Failures { .. } => None,
    }
}

fn title(name: Option<&Arc<str>>) -> String {
    name.map_or_else(|| "the study".to_owned(), ToString::to_string)
}

/// Says when a procedure that has just failed too often is paused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tense {
    /// By this call.
    Now,
    /// By a call that is no dry run.
    Would,
    NextRun,
}

/// Tells what is paused and what to do about it, one line each. With a manifest also how many due tasks
/// that holds back.
pub fn tell_pauses(
    context: &Context,
    pauses: &Pauses,
    manifest: Option<&Manifest>,
    tense: Tense,
    printer: &mut Printer,
) {
    let dag = &context.config.procedures;
    for (name, pause) in pauses.control.pauses() {
        let held = manifest.map(|manifest| held_back(manifest, dag, name));
        let held = held.filter(|count| *count > 0);
        let held = held.map(|count| plural(count, "due task"));
        let held = maybe("; ", held, " held back");
        let title = title(name);
        let resume = format!("snbb-scheduler resume{}", maybe(" --procedure ", name, ""));
        match &pause.cause {
            PauseCause::Person { by, note } => {
                let note = maybe(": ", note.as_deref(), "");
                printer.note(&format!(
                    "{title} is paused by {by} since {}{note}{held}; `{resume}` goes on",
                    sys::local_time(pause.since)
                ));
            }
            PauseCause::Failures { count } => {
                let is_new = name.is_some_and(|name| pauses.tripped.contains(name));
                let paused = match (is_new, tense) {
                    (false, _) => format!("is paused since {}", sys::local_time(pause.since)),
                    (true, Tense::Now) => "is paused from now on".to_owned(),
                    (true, Tense::Would) => "would be paused now".to_owned(),
                    (true, Tense::NextRun) => "will be paused by the next `run`".to_owned(),
                };
                let streak = name.and_then(|name| pauses.streaks.get(name));
                printer.warning(&format!(
                    "{title} {paused}: {count} jobs in a row failed{}{held}; look at {}, mend the cause, \
                     then `{resume}`",
                    streak.map_or_else(String::new, reasons),
                    logs(context, name),
                ));
            }
        }
    }
}

/// Tells what is paused, by the files, for commands that do not decide. There, a control file that
/// cannot be read is a warning.
pub fn tell_what_is_paused(context: &Context, state: &State, printer: &mut Printer) {
    match Pauses::read(&context.config, &context.store, state, sys::now()) {
        Ok(pauses) => tell_pauses(context, &pauses, None, Tense::NextRun, printer),
        Err(error) => {
            printer.warning(&error.to_string());
            printer.hints(error.hint());
        }
    }
}

/// Counts the due tasks that a pause holds back; none: the study's.
fn held_back(manifest: &Manifest, dag: &ProcedureDag, name: Option<&Arc<str>>) -> usize {
    manifest
        .tasks
        .iter()
        .filter(|task| {
            matches!(task.decision, Decision::Skip(Skip::Paused(_)))
                && name.is_none_or(|name| dag.get(task.procedure).name == *name)
        })
        .count()
}

/// Names the reasons, and the failure that ended last.
fn reasons(streak: &Streak) -> String {
    let counts: Vec<String> = streak
        .reasons
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    format!(" ({}; the last one: {})", counts.join(", "), streak.newest)
}

fn logs(context: &Context, name: Option<&Arc<str>>) -> String {
    match (&context.config.slurm.log_dir, name) {
        (Some(dir), Some(name)) => format!("the logs below {}", dir.join(&**name).display()),
        _ => "their logs".to_owned(),
    }
}
