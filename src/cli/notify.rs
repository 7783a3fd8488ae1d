//! Notifications after `run`, `monitor` and `retry`: heartbeat, metrics and digest. The lock is free again, and every
//! failure here is only a warning.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::time::Duration;

use super::args::{Command, MetricsArgs};
use super::context::{refuse_data, refuse_foreign};
use super::{Config, Context, Exit, Failure, Printer, Result, sys};
use crate::base::durable::{self, ReplaceError};
use crate::base::regular::FileError;
use crate::show::mail::Message;
use crate::show::notify::events::{Event, events, message, ongoing};
use crate::show::notify::{Invocation, Memory, Study, metrics};
use crate::show::{mail, notify};
use crate::store::state_file::StateError;

/// Time limit of the program in `notify.command`.
const MESSENGER_LIMIT: Duration = Duration::from_secs(60);
/// After this time, a quiet invocation repeats an unchanged warning.
const REMINDER: chrono::TimeDelta = chrono::TimeDelta::hours(24);
/// Another invocation may write at the same time.
const TRIES: usize = 5;

/// Notification channels.
const EMAIL: &str = "email";
const COMMAND: &str = "command";

/// The invocation to notify about; `None` for commands that only read, and for dry runs.
pub(super) fn begin(command: &Command) -> Option<Invocation> {
    let command = match command {
        Command::Run(args) if !args.dry_run => notify::Command::Run,
        Command::Monitor(args) if args.watch.is_none() => notify::Command::Monitor,
        Command::Retry(args) if !args.dry_run => notify::Command::Retry,
        _ => return None,
    };
    Some(Invocation::begin(command, sys::now()))
}

/// The warnings that a quiet invocation of this command printed in the last day.
pub(super) fn recent_warnings(context: &Context, call: &Invocation) -> HashSet<String> {
    let (mut memory, _) = Memory::read(&context.store.paths.calls);
    let warned = memory.warned.remove(call.command.as_str());
    let is_recent = |at: &chrono::DateTime<chrono::Utc>| {
        *at <= call.started_at && call.started_at - *at < REMINDER
    };
    warned
        .into_iter()
        .flatten()
        .filter(|(_, at)| is_recent(at))
        .map(|(text, _)| text)
        .collect()
}

/// Sends notifications of the result of an invocation.
pub(super) fn after(
    context: &Context,
    call: &mut Invocation,
    result: &Result<Exit>,
    printer: &mut Printer,
) {
    if let Err(Failure::State(StateError::OtherOwner { .. })) = result {
        // Files of another user's study are not touched.
        return;
    }
    call.ended_at = sys::now();
    call.exit = result.as_ref().map_or_else(Failure::exit, |exit| *exit);
    if let Err(failure) = result {
        call.error = Some(failure.sentence());
        call.hint = failure.hint();
    }
    let config = &context.config;
    if records_runs(config) {
        let memory = remember(context, printer, |memory| memory.add(call));
        let state = context.store.read().ok();
        let control = context.store.read_control().ok();
        let project = match &state {
            Some(state) => context.project(state),
            None => context.default_project(),
        };
        let study = Study {
            config,
            project: &project,
            state: state.as_ref(),
            control: control.as_ref(),
            memory: &memory,
        };
        if let Some(path) = &config.heartbeat_file
            && call.command == notify::Command::Run
        {
            let (bytes, mark) = (metrics::heartbeat(&study, call), metrics::HEARTBEAT_MARK);
            put("heartbeat_file", path, &bytes, mark, printer);
        }
        if let Some(path) = &config.metrics_file {
            let bytes = metrics::render(&study, true).into_bytes();
            put("metrics_file", path, &bytes, metrics::MARK, printer);
        }
        if config.notify.is_on() && call.command != notify::Command::Retry {
            notify(context, call, &study, printer);
        }
    }
    if printer.is_quiet() {
        note_warnings(context, call, printer);
    }
}

/// True if runs record their results for later notifications.
pub(super) fn records_runs(config: &Config) -> bool {
    config.notify.is_on() || config.heartbeat_file.is_some() || config.metrics_file.is_some()
}

fn put(key: &str, path: &Path, bytes: &[u8], mark: &str, printer: &mut Printer) {
    if let Err(error) = durable::overwrite(path, bytes, mark) {
        printer.warning(&format!("{key}: {error}"));
    }
}

/// Sends each channel the events that it has not received yet.
fn notify(context: &Context, call: &Invocation, study: &Study<'_>, printer: &mut Printer) {
    let Study { config, memory, .. } = *study;
    let mut list = events(study, call);
    list.retain(|event| config.notify.on.contains(&event.occasion));
    let none = BTreeSet::new();
    let channels = [
        (EMAIL, config.notify.email),
        (COMMAND, config.notify.command.is_some()),
    ];
    let mut reported = memory.reported.clone();
    reported.retain(|channel, _| channels.contains(&(channel.as_str(), true)));
    let mut undelivered = 0;
    for (channel, _) in channels.iter().filter(|(_, is_on)| *is_on) {
        let before = memory.reported.get(*channel).unwrap_or(&none);
        let (old, fresh): (Vec<&Event>, Vec<&Event>) =
            list.iter().partition(|event| before.contains(&event.name));
        let is_delivered = fresh.is_empty() || {
            let message = message(study, call, &fresh, old.len());
            deliver(config, channel, &message, printer)
        };
        undelivered += u64::from(!is_delivered);
        // Undelivered events are sent again.
        let known = old
            .into_iter()
            .chain(fresh.into_iter().filter(|_| is_delivered));
        reported.insert((*channel).to_owned(), ongoing(study, call, known, before));
    }
    if reported != memory.reported || undelivered > 0 {
        remember(context, printer, |memory| {
            memory.reported.clone_from(&reported);
            memory.sums.undelivered += undelivered;
        });
    }
}

/// Delivers a digest; true on success.
fn deliver(config: &Config, channel: &str, message: &Message, printer: &mut Printer) -> bool {
    let sent = match (channel, &config.notify.command) {
        (COMMAND, Some(path)) => mail::run_program(path, message, MESSENGER_LIMIT),
        _ => mail::send(&config.audit, message, mail::LIMITS),
    };
    if let Err(error) = &sent {
        printer.warning(&format!(
            "cannot send the digest: {error}; the next invocation tries again"
        ));
        printer.hint(error.hint);
    }
    sent.is_ok()
}

/// Changes the memory and returns the result. A failure to write it is a warning, and the change is lost.
fn remember(
    context: &Context,
    printer: &mut Printer,
    mut change: impl FnMut(&mut Memory),
) -> Memory {
    let path = &context.store.paths.calls;
    let mut tries = TRIES;
    loop {
        let (mut memory, warning) = Memory::read(path);
        change(&mut memory);
        tries -= 1;
        match memory.save(path) {
            Err(ReplaceError::Changed(_)) if tries > 0 => {
                std::thread::sleep(Duration::from_millis(20));
            }
            outcome => {
                printer.warnings(warning);
                if let Err(error) = outcome {
                    printer.warning(&format!(
                        "cannot write the notes for later invocations: {error}"
                    ));
                }
                return memory;
            }
        }
    }
}

/// Records the warnings of a quiet invocation, so that the next one prints only new ones.
fn note_warnings(context: &Context, call: &Invocation, printer: &mut Printer) {
    let command = call.command.as_str();
    let path = &context.store.paths.calls;
    let warnings: Vec<(String, bool)> = printer
        .warned()
        .map(|(text, was_known)| (text.to_owned(), was_known))
        .collect();
    let (memory, _) = Memory::read(path);
    if warnings.is_empty() && !memory.warned.contains_key(command) {
        return;
    }
    remember(context, printer, |memory| {
        let before = memory.warned.remove(command).unwrap_or_default();
        let now = warnings.iter().map(|(text, was_known)| {
            let at = before.get(text).filter(|_| *was_known);
            (text.clone(), at.copied().unwrap_or(call.ended_at))
        });
        let now: std::collections::BTreeMap<_, _> = now.collect();
        if !now.is_empty() {
            memory.warned.insert(command.to_owned(), now);
        }
    });
}

/// `metrics`: metrics for Prometheus, printed or written to a file.
pub(super) fn print_metrics(
    context: &Context,
    args: &MetricsArgs,
    printer: &mut Printer,
) -> Result<Exit> {
    if let Some(path) = &args.output {
        refuse_data(&context.config, path, "metrics_file")?;
        refuse_foreign(path, metrics::MARK)?;
    }
    let state = context.read_state(printer)?;
    let control = context.store.read_control()?;
    let (memory, warning) = Memory::read(&context.store.paths.calls);
    printer.warnings(warning);
    let is_recorded = records_runs(&context.config) || memory.last_run.is_some();
    if !is_recorded {
        printer.note(
            "the metrics about runs are missing: runs record them only if `metrics_file`, `heartbeat_file` or `notify` is set",
        );
    }
    let project = context.project(&state);
    let study = Study {
        config: &context.config,
        project: &project,
        state: Some(&state),
        control: Some(&control),
        memory: &memory,
    };
    let text = metrics::render(&study, is_recorded);
    match &args.output {
        None => printer.data(text.as_bytes()),
        Some(path) => durable::overwrite(path, text.as_bytes(), metrics::MARK)
            .map_err(|error| FileError::of("write", path)(error.source))?,
    }
    Ok(Exit::Done)
}
