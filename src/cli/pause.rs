//! `pause` and `resume`: stop and restart submission, of one procedure or of the whole study.
//!
//! Also the report of current pauses, shared by `run`, `monitor` and the commands that only read.

use std::sync::Arc;

use super::args::{PauseArgs, ResumeArgs};
use super::context::Context;
use super::error::Result;
use super::failed::hint_at_failures;
use super::output::Printer;
use crate::act::pass::Pauses;
use crate::act::pass::decide::event;
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
    save(context, &locked, control, &events, printer)?;
    Ok(Exit::Done)
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
        let is_about_to = name
            .as_ref()
            .is_some_and(|name| found.tripped.contains(name));
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
            "{title} is resumed: the next `run` submits its due tasks"
        ));
    }
    save(context, &locked, control, &events, printer)?;
    if !events.is_empty() {
        hint_at_failures(&state, context, printer);
    }
    Ok(Exit::Done)
}

/// Writes the events before the control file, so that a crash in between repeats an event and loses none. Reports all
/// pauses.
fn save(
    context: &Context,
    locked: &LockedStore,
    mut control: Control,
    events: &[Event],
    printer: &mut Printer,
) -> Result<()> {
    if !events.is_empty() {
        context.open_audit()?.append(events)?;
        control.forget_before(breaker::horizon(sys::now()));
        locked.save_control(&mut control)?;
    }
    let pauses = Pauses {
        control,
        ..Pauses::default()
    };
    report_pauses(context, &pauses, None, Tense::NextRun, printer);
    Ok(())
}

/// The selected procedures, including paused ones that left the configuration, or the study (`None`).
fn chosen(
    context: &Context,
    wanted: &[String],
    control: &Control,
) -> Result<Vec<Option<Arc<str>>>> {
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

fn title(name: Option<&Arc<str>>) -> String {
    name.map_or_else(|| "the study".to_owned(), ToString::to_string)
}

/// When a procedure pauses that has just failed too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tense {
    /// By this invocation.
    Now,
    /// By this invocation if it were not a dry run.
    Would,
    NextRun,
}

/// Reports each pause and its remedy in one line; with a manifest, also the number of due tasks that it holds back.
pub(super) fn report_pauses(
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
                    "{title} has been paused by {by} since {}{note}{held}; run `{resume}` to continue",
                    sys::local_time(pause.since)
                ));
            }
            PauseCause::Failures { count } => {
                let is_new = name.is_some_and(|name| pauses.tripped.contains(name));
                let paused = match (is_new, tense) {
                    (false, _) => format!("has been paused since {}", sys::local_time(pause.since)),
                    (true, Tense::Now) => "is now paused".to_owned(),
                    (true, Tense::Would) => "would be paused now".to_owned(),
                    (true, Tense::NextRun) => "will be paused by the next `run`".to_owned(),
                };
                let streak = name.and_then(|name| pauses.streaks.get(name));
                printer.warning(&format!(
                    "{title} {paused}: {count} consecutive jobs failed{}{held}; see {}, fix the cause, then run `{resume}`",
                    streak.map_or_else(String::new, reasons),
                    logs(context, name),
                ));
            }
        }
    }
}

/// Reports current pauses from the files, for commands that do not decide and for which an unreadable control file is
/// only a warning.
pub(super) fn report_current_pauses(context: &Context, state: &State, printer: &mut Printer) {
    match Pauses::read(&context.config, &context.store, state, sys::now()) {
        Ok(pauses) => report_pauses(context, &pauses, None, Tense::NextRun, printer),
        Err(error) => {
            printer.warning(&error.to_string());
            printer.hints(error.hint());
        }
    }
}

/// The number of due tasks that a pause holds back; `None`: the pause of the study.
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

/// The reasons of the failures, and the most recent one.
fn reasons(streak: &Streak) -> String {
    let counts: Vec<String> = streak
        .reasons
        .iter()
        .map(|(reason, count)| format!("{count} {reason}"))
        .collect();
    format!(" ({}; most recent: {})", counts.join(", "), streak.newest)
}

fn logs(context: &Context, name: Option<&Arc<str>>) -> String {
    match (&context.config.slurm.log_dir, name) {
        (Some(dir), Some(name)) => format!("the logs in {}", dir.join(&**name).display()),
        _ => "their logs".to_owned(),
    }
}
