//! The events that a digest reports, and its text. Each event has a name, so that it is reported only once. Pure.

use std::collections::BTreeSet;
use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};
use itertools::Itertools as _;
use sha2::{Digest as _, Sha256};

use super::{Invocation, Study};
use crate::base::exit::Exit;
use crate::base::shell::quote;
use crate::base::sys::local_time;
use crate::base::text::{capital, hex_of_first, maybe, plural};
use crate::decide::manifest::retry;
use crate::decide::safety;
use crate::model::config::{Config, Occasion};
use crate::model::state::{Reason, TaskRow, TaskStatus};
use crate::show::mail::Message;
use crate::show::tables::failure_text;
use crate::store::control::PauseCause;

/// One problem that somebody should know about. The worst is first in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    pub occasion: Occasion,
    /// Empty if it concerns no single procedure.
    pub procedure: String,
    /// One line.
    pub text: String,
    /// Stays the same while the problem lasts.
    pub name: String,
    /// For a task, the reason of its row.
    pub reason: Option<&'static str>,
}

/// Consecutive invocations without an answer from Slurm that make an event.
const UNREACHABLE_CALLS: u32 = 3;
/// Consecutive runs without the lock that make an event.
const LOCKED_RUNS: u32 = 4;
/// A submission in doubt is usually resolved within minutes.
const LONG_DOUBT: TimeDelta = TimeDelta::hours(1);

/// All events, the worst first.
pub fn events(study: &Study<'_>, call: &Invocation) -> Vec<Event> {
    let mut list: Vec<Event> = result(study, call).into_iter().collect();
    let refused = call.figures.iter().flat_map(|figures| &figures.refused);
    list.extend(refused.map(|(cause, count)| {
        let text = format!("{}: {cause}", plural(*count, "task"));
        event(Occasion::Refused, &short(&without_numbers(cause)), text)
    }));
    list.extend(safety_stop(study, call));
    if call.exit != Exit::Locked {
        list.extend(pauses(study));
        if let Some(state) = study.state {
            let owner = state.meta.owner_uid;
            let rows = state.rows().iter();
            list.extend(rows.filter_map(|row| row_event(study.config, owner, row, call.ended_at)));
        }
    }
    list.sort();
    list
}

/// Names of events that still hold: those in the list, and earlier ones that this invocation could not check.
pub fn ongoing<'a>(
    study: &Study<'_>,
    call: &Invocation,
    list: impl IntoIterator<Item = &'a Event>,
    reported: &BTreeSet<String>,
) -> BTreeSet<String> {
    let kept = reported
        .iter()
        .filter(|name| !is_checked(study, call, name));
    let names = list.into_iter().map(|event| &event.name);
    names.chain(kept).cloned().collect()
}

/// True if this invocation would have found an event of this name if it still held.
fn is_checked(study: &Study<'_>, call: &Invocation, name: &str) -> bool {
    if call.exit == Exit::Locked {
        return false;
    }
    let word = name.split(':').next().unwrap_or_default();
    match word.parse().ok() {
        Some(Occasion::Error) => name.starts_with(&format!("error:{}:", call.command)),
        Some(Occasion::Paused) => study.control.is_some(),
        Some(Occasion::Refused) => call.figures.as_ref().is_some_and(|figures| figures.whole),
        // Without a word, it is from another version of this program.
        Some(Occasion::Unreachable) | None => true,
        Some(
            Occasion::SafetyStop
            | Occasion::Failed
            | Occasion::Lost
            | Occasion::Held
            | Occasion::InDoubt,
        ) => study.state.is_some(),
    }
}

/// The event of the invocation's own result.
fn result(study: &Study<'_>, call: &Invocation) -> Option<Event> {
    let locked = study.memory.locked_in_a_row;
    let silent = study.memory.unreachable_in_a_row;
    let (command, code) = (call.command, call.exit.code());
    let error = call.error.clone();
    let error =
        error.unwrap_or_else(|| format!("'{command}' ended with exit code {code}; see its output"));
    Some(match call.exit {
        Exit::Locked if locked >= LOCKED_RUNS => {
            let text = format!("{locked} consecutive runs could not start: {error}");
            event(Occasion::Error, &format!("{command}:locked"), text)
        }
        Exit::Unreachable if silent >= UNREACHABLE_CALLS => {
            let text =
                format!("Slurm did not respond in {silent} consecutive invocations: {error}");
            event(Occasion::Unreachable, "slurm", text)
        }
        // `safety_stop` adds the event of a safety stop.
        Exit::Done | Exit::Locked | Exit::Unreachable | Exit::Safety => return None,
        Exit::Refused if call.error.is_none() => return None,
        exit => {
            let occasion = match exit {
                Exit::Refused => Occasion::Refused,
                _ => Occasion::Error,
            };
            let name = format!("{command}:{}", short(&without_numbers(&error)));
            event(occasion, &name, error)
        }
    })
}

fn safety_stop(study: &Study<'_>, call: &Invocation) -> Option<Event> {
    let is_now = call.exit == Exit::Safety;
    let state = study.state.iter();
    let mut names: Vec<String> = state
        .flat_map(|state| safety::stopped_by(&state.meta.baselines))
        .collect();
    if names.is_empty() && is_now {
        // On a full disk, the stop could not be recorded in the state.
        names.push("data".to_owned());
    }
    let name = short(&names.join("\n"));
    let what = names.join(", ");
    let text = call.error.clone().filter(|_| is_now);
    let text = text.unwrap_or_else(|| format!("the last run submitted nothing because of {what}"));
    (!names.is_empty()).then(|| event(Occasion::SafetyStop, &name, text))
}

/// Pauses by the circuit breaker. A pause by a user needs no notification.
fn pauses(study: &Study<'_>) -> impl Iterator<Item = Event> {
    let pauses = study.control.iter().flat_map(|control| control.pauses());
    pauses.filter_map(|(procedure, pause)| {
        let (Some(procedure), PauseCause::Failures { count }) = (procedure, &pause.cause) else {
            return None;
        };
        let name = format!("{procedure}:{}", pause.since.timestamp());
        let since = local_time(pause.since);
        let text =
            format!("{procedure} has been paused since {since}: {count} consecutive jobs failed");
        Some(Event {
            procedure: procedure.to_string(),
            ..event(Occasion::Paused, &name, text)
        })
    })
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
        let occasion = match row.reason {
            Some(Reason::Lost) => Occasion::Lost,
            _ => Occasion::Failed,
        };
        let text = failure_text(row).unwrap_or_else(|| "failed".to_owned());
        (occasion, text)
    } else if row.reason == Some(Reason::Held) && row.is_in_flight() {
        let text = "its job is held and will not start automatically";
        (Occasion::Held, text.to_owned())
    } else if row.is_in_doubt() && row.submitted_at.is_some_and(|at| at < now - LONG_DOUBT) {
        let text = "it is not known whether Slurm accepted its job";
        (Occasion::InDoubt, text.to_owned())
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
    let text = format!("{}: {text}{job}", row.key.labels_text());
    Some(Event {
        procedure: row.key.procedure.to_string(),
        reason: Some(row.reason_word()),
        ..event(occasion, &name, text)
    })
}

/// True for failures that are retried automatically.
pub fn is_retried(config: &Config, owner: Option<u32>, row: &TaskRow, now: DateTime<Utc>) -> bool {
    let own = config.procedures.named(&row.key.procedure);
    let rules = own.and_then(|own| own.rules.retry.as_ref());
    retry::outlook(rules, row, owner, now).is_retry()
}

/// An event of the whole study.
fn event(occasion: Occasion, name: &str, text: String) -> Event {
    Event {
        occasion,
        name: format!("{occasion}:{name}"),
        procedure: String::new(),
        reason: None,
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

/// Lines shown per procedure; the rest is counted.
const SHOWN: usize = 5;

/// Reports the `fresh` events, and the number of `ongoing` ones, which were reported before and still hold.
pub fn message(study: &Study<'_>, call: &Invocation, fresh: &[&Event], ongoing: usize) -> Message {
    let (config, state_file) = (study.config.file.as_deref(), &study.config.state_file);
    let of_occasions = || fresh.chunk_by(|a, b| a.occasion == b.occasion);
    let headings: Vec<String> = of_occasions().map(heading).collect();
    let subject = format!(
        "[snbb-scheduler] {}: {}",
        config.unwrap_or(state_file).display(),
        headings.join(", ")
    );
    let mut lines = vec![
        format!(
            "snbb-scheduler {} on {}, {}, exit code {}",
            call.command,
            call.host,
            local_time(call.ended_at),
            call.exit.code()
        ),
        match config {
            Some(file) => format!("configuration: {}", file.display()),
            None => format!("state: {}", state_file.display()),
        },
    ];
    for (events, heading) in of_occasions().zip(headings) {
        lines.push(format!("\n{}", capital(&heading)));
        for group in events.chunk_by(|a, b| a.procedure == b.procedure) {
            add_group(&mut lines, group);
        }
    }
    if let Some(hint) = &call.hint {
        lines.push(format!("\nhint: {}", one_line(hint)));
    }
    if ongoing > 0 {
        lines.push(format!("\nReported before and unchanged: {ongoing}"));
    }
    if let Some(state) = study.state {
        let counts = TaskStatus::ALL.map(|status| format!("{} {status}", state.count(status)));
        lines.push(format!("\nTasks on record: {}", counts.join(", ")));
    }
    lines.push(String::new());
    lines.extend(remedies(config, fresh));
    Message {
        subject: one_line(&subject),
        text: lines.join("\n") + "\n",
    }
}

/// Adds the events of one procedure.
fn add_group(lines: &mut Vec<String>, group: &[&Event]) {
    let mut indent = "  ";
    let reasons = group.iter().filter_map(|event| event.reason).counts();
    if let Some(first) = group.first()
        && !reasons.is_empty()
    {
        let reasons = reasons.iter().sorted();
        let why = reasons
            .map(|(reason, n)| format!("{n} {reason}"))
            .join(", ");
        let procedure = one_line(&first.procedure);
        lines.push(format!("  {procedure}: {} ({why})", group.len()));
        indent = "    ";
    }
    let shown = group.iter().take(SHOWN);
    lines.extend(shown.map(|event| format!("{indent}{}", one_line(&event.text))));
    if let more @ 1.. = group.len().saturating_sub(SHOWN) {
        lines.push(format!("{indent}and {more} more"));
    }
}

/// The heading of events of the same occasion.
fn heading(events: &[&Event]) -> String {
    let (word, what) = match events.first().map(|event| event.occasion) {
        Some(Occasion::Error) | None => return "the scheduler could not run".to_owned(),
        Some(Occasion::Unreachable) => return "Slurm is not responding".to_owned(),
        Some(Occasion::SafetyStop) => return "safety stop, nothing submitted".to_owned(),
        Some(Occasion::Refused) => return "submissions refused".to_owned(),
        Some(Occasion::Paused) => ("procedure", "paused"),
        Some(Occasion::Failed) => ("task", "failed"),
        Some(Occasion::Lost) => ("task", "lost"),
        Some(Occasion::Held) => ("job", "held"),
        Some(Occasion::InDoubt) => ("submission", "in doubt"),
    };
    format!("{} {what}", plural(events.len(), word))
}

/// The commands that help with the new events.
fn remedies(config: Option<&Path>, fresh: &[&Event]) -> Vec<String> {
    let config = config.map(|file| quote(&file.to_string_lossy()));
    let program = format!("snbb-scheduler{}", maybe(" --config ", config, ""));
    let commands = fresh.iter().flat_map(|event| match event.occasion {
        Occasion::Failed | Occasion::Lost => {
            &["status --failed", "retry      # once the cause is fixed"][..]
        }
        Occasion::Paused => &["resume --procedure NAME      # once the cause is fixed"],
        Occasion::Held | Occasion::InDoubt => &["status --status pending"],
        Occasion::SafetyStop | Occasion::Refused => &["run --dry-run"],
        Occasion::Error => &["state verify"],
        Occasion::Unreachable => &[],
    });
    let commands = commands.unique();
    commands
        .map(|command| format!("{program} {command}"))
        .collect()
}

/// Texts come from servers and programs; a line of theirs must not look like one of ours.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

#[cfg(test)]
mod tests;
