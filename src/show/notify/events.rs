//! The events that a digest reports. Each has a name, so that it is reported only once. Pure.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest as _, Sha256};

use super::{Invocation, Memory};
use crate::base::exit::Exit;
use crate::base::hex::hex_of_first;
use crate::base::sys::local_time;
use crate::base::text::{maybe, plural};
use crate::decide::manifest::retry;
use crate::decide::safety;
use crate::model::config::Config;
use crate::model::config::notify::Occasion;
use crate::model::state::{Reason, State, TaskRow, TaskStatus};
use crate::show::tables::failure_text;
use crate::store::control::{Control, PauseCause};

/// One problem that somebody should know about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    pub occasion: Occasion,
    /// Stays the same while the problem lasts.
    pub name: String,
    /// Empty if it concerns no single procedure.
    pub procedure: String,
    /// The row's reason, or empty.
    pub reason: &'static str,
    /// One line.
    pub text: String,
}

/// The sources of events.
#[derive(Debug, Clone, Copy)]
pub struct Situation<'a> {
    pub config: &'a Config,
    /// `None` if it could not be read.
    pub state: Option<&'a State>,
    pub control: Option<&'a Control>,
    pub call: &'a Invocation,
    /// Already includes this invocation.
    pub memory: &'a Memory,
}

/// Consecutive invocations without an answer from Slurm that make an event.
const UNREACHABLE_CALLS: u32 = 3;
/// Consecutive runs without the lock that make an event.
const LOCKED_RUNS: u32 = 4;
/// A submission in doubt is usually resolved within minutes.
const LONG_DOUBT: TimeDelta = TimeDelta::hours(1);

/// All events, the worst first.
pub fn events(situation: &Situation<'_>) -> Vec<Event> {
    let mut list = Vec::new();
    add_invocation_events(situation, &mut list);
    if situation.call.exit != Exit::Locked {
        add_state_events(situation, &mut list);
    }
    list.sort_by(|a, b| {
        let order = a.occasion.cmp(&b.occasion);
        order.then_with(|| (&a.procedure, &a.text).cmp(&(&b.procedure, &b.text)))
    });
    list
}

/// Names of events that still hold: those in the list, and earlier ones that this invocation could not check.
pub fn ongoing<'a>(
    situation: &Situation<'_>,
    list: impl IntoIterator<Item = &'a Event>,
    reported: &BTreeSet<String>,
) -> BTreeSet<String> {
    let kept = reported.iter().filter(|name| !is_checked(situation, name));
    list.into_iter()
        .map(|event| &event.name)
        .chain(kept)
        .cloned()
        .collect()
}

/// True if this invocation would have found an event of this name if it still held.
fn is_checked(situation: &Situation<'_>, name: &str) -> bool {
    let call = situation.call;
    if call.exit == Exit::Locked {
        return false;
    }
    let word = name.split(':').next().unwrap_or_default();
    match word.parse().ok() {
        Some(Occasion::Error) => name.starts_with(&format!("error:{}:", call.command)),
        Some(Occasion::Unreachable) => true,
        Some(Occasion::Paused) => situation.control.is_some(),
        Some(Occasion::Refused) => call.figures.as_ref().is_some_and(|figures| figures.whole),
        Some(
            Occasion::SafetyStop
            | Occasion::Failed
            | Occasion::Lost
            | Occasion::Held
            | Occasion::InDoubt,
        ) => situation.state.is_some(),
        // From another version of this program.
        None => true,
    }
}

fn add_invocation_events(situation: &Situation<'_>, list: &mut Vec<Event>) {
    let call = situation.call;
    let error_or = |default: &str| call.error.clone().unwrap_or_else(|| default.to_owned());
    match call.exit {
        Exit::Done => {}
        Exit::Locked => {
            if situation.memory.locked_in_a_row >= LOCKED_RUNS {
                let text = format!(
                    "{} consecutive runs could not start: {}",
                    situation.memory.locked_in_a_row,
                    error_or("another invocation holds the lock")
                );
                let name = format!("{}:locked", call.command);
                list.push(event(Occasion::Error, name, text));
            }
        }
        Exit::Unreachable => {
            let count = situation.memory.unreachable_in_a_row;
            if count >= UNREACHABLE_CALLS {
                let text = format!(
                    "Slurm did not respond in {count} consecutive invocations: {}",
                    error_or("its queue or accounting does not respond")
                );
                list.push(event(Occasion::Unreachable, "slurm".to_owned(), text));
            }
        }
        // `add_safety_stop` adds this event.
        Exit::Safety => {}
        Exit::Refused if call.error.is_none() => {}
        exit => {
            let text = error_or(&format!(
                "'{}' ended with exit code {}; see its output",
                call.command,
                exit.code()
            ));
            let occasion = match exit {
                Exit::Refused => Occasion::Refused,
                _ => Occasion::Error,
            };
            let name = format!("{}:{}", call.command, short(&without_numbers(&text)));
            list.push(event(occasion, name, text));
        }
    }
    for (cause, count) in call.figures.iter().flat_map(|figures| &figures.refused) {
        let tasks = plural(*count, "task");
        list.push(event(
            Occasion::Refused,
            short(&without_numbers(cause)),
            format!("{tasks}: {cause}"),
        ));
    }
    add_safety_stop(situation, list);
}

fn add_safety_stop(situation: &Situation<'_>, list: &mut Vec<Event>) {
    let is_now = situation.call.exit == Exit::Safety;
    let mut names = match situation.state {
        Some(state) => safety::stopped_by(&state.meta.baselines),
        None => Vec::new(),
    };
    if names.is_empty() && is_now {
        // On a full disk, the stop could not be recorded in the state.
        names.push("data".to_owned());
    }
    if names.is_empty() {
        return;
    }
    let text = match &situation.call.error {
        Some(error) if is_now => error.clone(),
        _ => format!(
            "the last run submitted nothing because of {}",
            names.join(", ")
        ),
    };
    let name = short(&names.join("\n"));
    list.push(event(Occasion::SafetyStop, name, text));
}

fn add_state_events(situation: &Situation<'_>, list: &mut Vec<Event>) {
    for (procedure, pause) in situation
        .control
        .iter()
        .flat_map(|control| control.pauses())
    {
        let (Some(procedure), PauseCause::Failures { count }) = (procedure, &pause.cause) else {
            // A pause by a user needs no notification.
            continue;
        };
        let name = format!("{procedure}:{}", pause.since.timestamp());
        let since = local_time(pause.since);
        let text =
            format!("{procedure} has been paused since {since}: {count} consecutive jobs failed");
        list.push(Event {
            procedure: procedure.to_string(),
            ..event(Occasion::Paused, name, text)
        });
    }
    let Some(state) = situation.state else {
        return;
    };
    let now = situation.call.ended_at;
    list.extend(
        state
            .rows()
            .iter()
            .filter_map(|row| row_event(situation.config, state.meta.owner_uid, row, now)),
    );
}

fn row_event(
    config: &Config,
    owner: Option<u32>,
    row: &TaskRow,
    now: DateTime<Utc>,
) -> Option<Event> {
    let (occasion, text) = if row.status == TaskStatus::Failed {
        let by_owner = row.reason == Some(Reason::Cancelled)
            && owner.is_some_and(|owner| row.facts.cancelled_by() == Some(i64::from(owner)));
        if by_owner || is_retried(config, owner, row, now) {
            return None;
        }
        let text = failure_text(row).unwrap_or_else(|| "failed".to_owned());
        match row.reason {
            Some(Reason::Lost) => (Occasion::Lost, text),
            _ => (Occasion::Failed, text),
        }
    } else if row.reason == Some(Reason::Held) && row.is_in_flight() {
        let text = "its job is held and will not start automatically".to_owned();
        (Occasion::Held, text)
    } else if row.is_in_doubt() && row.submitted_at.is_some_and(|at| at < now - LONG_DOUBT) {
        let text = "it is not known whether Slurm accepted its job".to_owned();
        (Occasion::InDoubt, text)
    } else {
        return None;
    };
    let attempt = if config.resubmit_failed && occasion == Occasion::Failed {
        // Each run makes a new attempt, so the attempt is not part of the name.
        String::new()
    } else {
        format!("{:?} {:?} {:?}", row.submission_id, row.attempt, row.job_id)
    };
    let job = maybe(" (job ", row.job_id.as_ref(), ")");
    let name = short(&format!("{:?} {attempt}", row.key));
    Some(Event {
        procedure: row.key.procedure.to_string(),
        reason: row.reason.map_or("", Reason::as_str),
        ..event(
            occasion,
            name,
            format!("{}: {text}{job}", row.key.labels_text()),
        )
    })
}

/// True for failures that are retried automatically.
pub fn is_retried(config: &Config, owner: Option<u32>, row: &TaskRow, now: DateTime<Utc>) -> bool {
    let procedures = &config.procedures;
    let id = procedures.find(&row.key.procedure);
    let rules = id.and_then(|id| procedures.get(id).rules.retry.as_ref());
    retry::outlook(rules, row, owner, now).is_retry()
}

/// An event of the whole study.
fn event(occasion: Occasion, name: String, text: String) -> Event {
    Event {
        occasion,
        name: format!("{occasion}:{name}"),
        procedure: String::new(),
        reason: "",
        text,
    }
}

/// Removes digits: the same error with another count is the same event.
fn without_numbers(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

fn short(text: &str) -> String {
    hex_of_first(8, &Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests;
