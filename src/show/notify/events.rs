//! What is worse than it should be, each with a name by which it is told once. Pure.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use sha2::{Digest as _, Sha256};

use super::{Call, Memory};
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

/// Is one thing that somebody should know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matter {
    pub occasion: Occasion,
    /// The same while it is the same matter.
    pub name: String,
    /// The procedure that it is about, or empty.
    pub procedure: String,
    /// The reason of a failure, or empty.
    pub reason: &'static str,
    /// One line.
    pub text: String,
}

/// Holds what is looked at.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    pub config: &'a Config,
    /// None: it could not be read.
    pub state: Option<&'a State>,
    pub control: Option<&'a Control>,
    pub call: &'a Call,
    /// With this call in it.
    pub memory: &'a Memory,
}

/// So many calls in a row without an answer of Slurm's are worth a word; one is not.
const UNREACHABLE_CALLS: u32 = 3;
/// So many runs in a row may find another call at work.
const LOCKED_RUNS: u32 = 4;
/// A submission is usually found or given up within minutes.
const LONG_DOUBT: TimeDelta = TimeDelta::hours(1);

/// Lists what is wrong, the worst first.
pub fn matters(world: &World<'_>) -> Vec<Matter> {
    let mut list = Vec::new();
    of_call(world, &mut list);
    if world.call.exit != Exit::Locked {
        of_state(world, &mut list);
    }
    list.sort_by(|a, b| (a.occasion, &a.procedure).cmp(&(b.occasion, &b.procedure)));
    list
}

/// Returns the names of what is so now: those of the list, and those that were told before and that
/// this call could not look at.
pub fn standing<'a>(
    world: &World<'_>,
    list: impl IntoIterator<Item = &'a Matter>,
    told: &BTreeSet<String>,
) -> BTreeSet<String> {
    let kept = told.iter().filter(|name| !is_seen(world, name)).cloned();
    list.into_iter()
        .map(|matter| matter.name.clone())
        .chain(kept)
        .collect()
}

/// True if the call would have found a matter of this name if it still were one.
fn is_seen(world: &World<'_>, name: &str) -> bool {
    let call = world.call;
    if call.exit == Exit::Locked {
        return false;
    }
    let word = name.split(':').next().unwrap_or_default();
    match word.parse().ok() {
        Some(Occasion::Error) => name.starts_with(&format!("error:{}:", call.command)),
        Some(Occasion::Unreachable) => true,
        Some(Occasion::Paused) => world.control.is_some(),
        Some(Occasion::Refused) => call.figures.as_ref().is_some_and(|figures| figures.whole),
        Some(
            Occasion::SafetyStop
            | Occasion::Failed
            | Occasion::Lost
            | Occasion::Held
            | Occasion::InDoubt,
        ) => world.state.is_some(),
        // Of another version of this program.
        None => true,
    }
}

fn of_call(world: &World<'_>, list: &mut Vec<Matter>) {
    let call = world.call;
    let says = |otherwise: &str| call.error.clone().unwrap_or_else(|| otherwise.to_owned());
    match call.exit {
        Exit::Done => {}
        Exit::Locked => {
            if world.memory.locked_in_a_row >= LOCKED_RUNS {
                let text = format!(
                    "{} runs in a row found another call at work: {}",
                    world.memory.locked_in_a_row,
                    says("it holds the lock")
                );
                let name = format!("{}:locked", call.command);
                list.push(matter(Occasion::Error, name, text));
            }
        }
        Exit::Unreachable => {
            let count = world.memory.unreachable_in_a_row;
            if count >= UNREACHABLE_CALLS {
                let text = format!(
                    "Slurm did not answer in {count} calls in a row: {}",
                    says("its queue or accounting is silent")
                );
                list.push(matter(Occasion::Unreachable, "slurm".to_owned(), text));
            }
        }
        // The state tells which one; see below.
        Exit::Safety => {}
        Exit::Refused if call.error.is_none() => {}
        exit => {
            let text = says(&format!(
                "'{}' ended with exit code {}; its output says why",
                call.command,
                exit.code()
            ));
            let occasion = match exit {
                Exit::Refused => Occasion::Refused,
                _ => Occasion::Error,
            };
            let name = format!("{}:{}", call.command, short(&without_numbers(&text)));
            list.push(matter(occasion, name, text));
        }
    }
    for (cause, count) in call.figures.iter().flat_map(|figures| &figures.refused) {
        let tasks = plural(*count, "task");
        list.push(matter(
            Occasion::Refused,
            short(&without_numbers(cause)),
            format!("{tasks}: {cause}"),
        ));
    }
    of_safety(world, list);
}

fn of_safety(world: &World<'_>, list: &mut Vec<Matter>) {
    let is_now = world.call.exit == Exit::Safety;
    let mut names = match world.state {
        Some(state) => safety::stopped_by(&state.meta.baselines),
        None => Vec::new(),
    };
    if names.is_empty() && is_now {
        // On a full disk, the state could not be told.
        names.push("data".to_owned());
    }
    if names.is_empty() {
        return;
    }
    let text = match &world.call.error {
        Some(error) if is_now => error.clone(),
        _ => format!(
            "the last run submitted nothing because of {}",
            names.join(", ")
        ),
    };
    let name = short(&names.join("\n"));
    list.push(matter(Occasion::SafetyStop, name, text));
}

fn of_state(world: &World<'_>, list: &mut Vec<Matter>) {
    for (procedure, pause) in world.control.iter().flat_map(|control| control.pauses()) {
        let (Some(procedure), PauseCause::Failures { count }) = (procedure, &pause.cause) else {
            // A person knows what that person did.
            continue;
        };
        let name = format!("{procedure}:{}", pause.since.timestamp());
        let since = local_time(pause.since);
        let text = format!("{procedure} is paused since {since}: {count} jobs in a row failed");
        list.push(Matter {
            procedure: procedure.to_string(),
            ..matter(Occasion::Paused, name, text)
        });
    }
    let Some(state) = world.state else {
        return;
    };
    let now = world.call.ended_at;
    list.extend(
        state
            .rows()
            .iter()
            .filter_map(|row| of_row(world.config, state.meta.owner_uid, row, now)),
    );
}

fn of_row(
    config: &Config,
    owner: Option<u32>,
    row: &TaskRow,
    now: DateTime<Utc>,
) -> Option<Matter> {
    let (occasion, text) = if row.status == TaskStatus::Failed {
        if is_nobodys_concern(config, owner, row, now) {
            return None;
        }
        let text = failure_text(row).unwrap_or_else(|| "failed".to_owned());
        match row.reason {
            Some(Reason::Lost) => (Occasion::Lost, text),
            _ => (Occasion::Failed, text),
        }
    } else if row.reason == Some(Reason::Held) && row.is_in_flight() {
        let text = "its job will not start by itself".to_owned();
        (Occasion::Held, text)
    } else if row.is_in_doubt() && row.submitted_at.is_some_and(|at| at < now - LONG_DOUBT) {
        let text = "nobody knows whether its job was accepted".to_owned();
        (Occasion::InDoubt, text)
    } else {
        return None;
    };
    let attempt = if config.resubmit_failed && occasion == Occasion::Failed {
        // Each run makes a new one.
        String::new()
    } else {
        format!("{:?} {:?} {:?}", row.submission_id, row.attempt, row.job_id)
    };
    let job = maybe(" (job ", row.job_id.as_ref(), ")");
    let name = short(&format!("{:?} {attempt}", row.key));
    Some(Matter {
        procedure: row.key.procedure.to_string(),
        reason: row.reason.map_or("", Reason::as_str),
        ..matter(
            occasion,
            name,
            format!("{}: {text}{job}", row.key.labels_text()),
        )
    })
}

/// True for failures that are tried again by themselves.
pub fn is_tried_again(
    config: &Config,
    owner: Option<u32>,
    row: &TaskRow,
    now: DateTime<Utc>,
) -> bool {
    let procedures = &config.procedures;
    let id = procedures.find(&row.key.procedure);
    let rules = id.and_then(|id| procedures.get(id).rules.retry.as_ref());
    retry::outlook(rules, row, owner, now).is_retry()
}

/// True for failures that are tried again by themselves, and for jobs that the owner has cancelled.
fn is_nobodys_concern(
    config: &Config,
    owner: Option<u32>,
    row: &TaskRow,
    now: DateTime<Utc>,
) -> bool {
    if is_tried_again(config, owner, row, now) {
        return true;
    }
    let by = row.facts.cancelled_by();
    row.reason == Some(Reason::Cancelled)
        && by
            .zip(owner)
            .is_some_and(|(by, owner)| by == i64::from(owner))
}

/// A matter of the whole study.
fn matter(occasion: Occasion, name: String, text: String) -> Matter {
    Matter {
        occasion,
        name: format!("{occasion}:{name}"),
        procedure: String::new(),
        reason: "",
        text,
    }
}

/// Takes numbers out: the same error with another count is the same matter.
fn without_numbers(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// Returns a short name for a long one.
fn short(text: &str) -> String {
    hex_of_first(8, &Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests;
