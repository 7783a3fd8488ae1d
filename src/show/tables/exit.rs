//! Attempts and failures in words: exit codes, signals, memory, time, who cancelled. Pure.
//!
//! The reason decides; the exit code only adds detail, because 137 may be a time limit, a cancel or memory.

use crate::base::sys;
use crate::base::text::maybe;
use crate::model::procedure::{MemSize, TimeLimit};
use crate::model::state::{JobFacts, Reason, TaskRow, TaskStatus};

/// Exit codes that Slurm before 25.11 also prints for that code plus 128 (137 as 9). Only the most common signals.
const AMBIGUOUS: [u8; 4] = [6, 9, 11, 15];

const SIGKILL: u8 = 9;

/// Memory use above this share of the request suggests that memory ran out. Slurm samples and may miss the peak.
const NEAR_PERCENT: i64 = 90;

/// The state of an attempt: `running`, `pending (held)`, `failed (timeout): reached its time limit`.
pub fn row_text(row: &TaskRow) -> String {
    let mut text = row.status.to_string();
    match row.reason {
        None | Some(Reason::Running | Reason::Verified) => {}
        Some(Reason::Submitting) => text.push_str(" (submission in doubt)"),
        Some(reason) => text.push_str(&format!(" ({reason})")),
    }
    if let Some(failure) = failure_text(row) {
        text.push_str(&format!(": {failure}"));
    }
    text
}

/// Slurm's time limit of a job without one, in seconds: a year.
const NO_LIMIT: i64 = 365 * 86_400;

/// Used and requested resources: `ran 24:00:10 of 1-00:00:00, memory 31.5G of 32G used, on n1`.
pub fn used_text(row: &TaskRow) -> Option<String> {
    let facts = &row.facts;
    let elapsed = facts.elapsed_s.filter(|_| !row.is_in_flight());
    let limit = facts.time_limit_s.filter(|limit| *limit < NO_LIMIT);
    let time = time(elapsed, limit);
    let memory = memory(facts).map(|memory| format!("memory {memory}"));
    let node = node(facts).map(|node| format!("on {node}"));
    let parts: Vec<String> = [time, memory, node].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The cause of a failed row's failure in one line. `None` if it did not fail or the cause is unknown.
pub fn failure_text(row: &TaskRow) -> Option<String> {
    if row.status != TaskStatus::Failed {
        return None;
    }
    let facts = &row.facts;
    let Some(reason) = row.reason else {
        // Rows of the Python program.
        return Some(exit_text(facts.exit_code.as_deref()?, facts));
    };
    Some(match reason {
        Reason::ExitCode => match facts.exit_code.as_deref() {
            Some(code) => exit_text(code, facts),
            None => "ended with an unknown exit code".to_owned(),
        },
        Reason::OutOfMemory => with_memory("needed more memory than requested", facts),
        Reason::Timeout => {
            let (ran, limit) = (facts.elapsed_s, facts.time_limit_s);
            let of_limit = limit.filter(|_| ran.is_none()).map(clock);
            let used = time(ran, limit).filter(|_| ran.is_some());
            let details = maybe(" of ", of_limit, "") + &maybe(" (", used, ")");
            format!("reached its time limit{details}")
        }
        Reason::Cancelled => cancelled_text(facts),
        Reason::NodeFail => on_node(
            "its node failed, or Slurm lost the job during a restart",
            facts,
        ),
        Reason::BootFail => on_node("its node did not start", facts),
        Reason::Preempted => "preempted by a job with higher priority".to_owned(),
        Reason::LaunchFailed => on_node(
            "did not start: the node could not set up its environment or open its log files, \
             often because a log directory or a mount is missing",
            facts,
        ),
        Reason::Deadline => "could not have finished before its deadline (--deadline)".to_owned(),
        Reason::Dependency => "a job that it depended on failed (--dependency)".to_owned(),
        Reason::NoOutput => {
            "exited without an error, but the expected outputs did not appear in time".to_owned()
        }
        Reason::Lost => "no trace of the job in Slurm or on disk for a long time".to_owned(),
        // Failed rows do not have these reasons.
        Reason::Submitting
        | Reason::Queued
        | Reason::Held
        | Reason::Unaccounted
        | Reason::Running
        | Reason::Suspended
        | Reason::AwaitingOutput
        | Reason::Verified
        | Reason::Unverified => return None,
    })
}

/// Explains `code:signal` as Slurm prints it.
fn exit_text(text: &str, facts: &JobFacts) -> String {
    let numbers = text
        .split_once(':')
        .and_then(|(code, signal)| Some((code.parse::<u8>().ok()?, signal.parse::<u8>().ok()?)));
    match numbers {
        Some((_, 53)) => {
            "did not start: the node could not open its log files (exit code 0:53)".to_owned()
        }
        Some((0, 0)) => {
            "failed with exit code 0 (Slurm before 25.11 also prints exit code 128 as 0)".to_owned()
        }
        // Slurm's own signal for memory.
        Some((_, 125)) => with_memory("out of memory (exit code 0:125)", facts),
        Some((_, signal @ 1..)) => killed("", signal, facts),
        Some((126, 0)) => "exit code 126: the script, or a command in it, is not executable, \
             or exit code 254 (Slurm before 25.11 prints 254 as 126)"
            .to_owned(),
        Some((127, 0)) => {
            "exit code 127: a command was not found (a missing module or container, a wrong PATH), \
             or exit code 255 (Slurm before 25.11 prints 255 as 127)"
                .to_owned()
        }
        Some((code @ 129..=192, 0)) => {
            let text = format!("exit code {code}: a command in the script was ");
            killed(&text, code - 128, facts)
        }
        Some((code, 0)) if AMBIGUOUS.contains(&code) => {
            let text = format!(
                "exit code {code}, or a command killed by {} (Slurm before 25.11 prints {} as {code})",
                signal_name(code),
                u16::from(code) + 128
            );
            if code == SIGKILL && is_near_limit(facts) {
                with_memory(&format!("{text}: probably out of memory"), facts)
            } else {
                text
            }
        }
        Some((code, 0)) => format!("exit code {code}"),
        None => format!("exit code {text}"),
    }
}

/// `text` with the signal. Blames memory only with evidence.
fn killed(text: &str, signal: u8, facts: &JobFacts) -> String {
    let text = format!("{text}killed by {}", signal_name(signal));
    if signal != SIGKILL {
        return text;
    }
    let state = facts.slurm_state.as_deref().unwrap_or_default();
    let is_confirmed = state.starts_with("OUT_OF_ME") || state == "OOM";
    let why = match is_confirmed || is_near_limit(facts) {
        true => "out of memory",
        false => "possibly out of memory, but not confirmed",
    };
    with_memory(&format!("{text}: {why}"), facts)
}

fn with_memory(text: &str, facts: &JobFacts) -> String {
    format!("{text}{}", maybe(" (", memory(facts), ")"))
}

fn is_near_limit(facts: &JobFacts) -> bool {
    let asked = facts.req_mem_mb.filter(|asked| *asked > 0);
    (facts.max_rss_mb.zip(asked))
        .is_some_and(|(used, asked)| used.saturating_mul(100) >= asked.saturating_mul(NEAR_PERCENT))
}

/// `31.5G of 32G used`, or the known part of it.
fn memory(facts: &JobFacts) -> Option<String> {
    let asked = facts.req_mem_mb.filter(|asked| *asked > 0).map(size);
    let used = facts.max_rss_mb.filter(|used| *used > 0).map(about);
    match (used, asked) {
        (Some(used), asked) => Some(format!("{used}{} used", maybe(" of ", asked, ""))),
        (None, asked) => asked.map(|asked| format!("{asked} requested")),
    }
}

/// Megabytes in sbatch's notation.
pub fn size(megabytes: i64) -> String {
    MemSize::of_megabytes(u64::try_from(megabytes).unwrap_or_default()).to_string()
}

/// A measured size with one decimal.
pub(super) fn about(megabytes: i64) -> String {
    match megabytes {
        ..1024 => format!("{megabytes}M"),
        _ => format!("{:.1}G", megabytes as f64 / 1024.0),
    }
}

/// Seconds in sbatch's notation.
pub fn clock(seconds: i64) -> String {
    TimeLimit::of_seconds(u64::try_from(seconds).unwrap_or_default()).to_string()
}

fn cancelled_text(facts: &JobFacts) -> String {
    match facts.cancelled_by() {
        Some(0) => "cancelled by root (an administrator)".to_owned(),
        Some(uid) => {
            let user = u32::try_from(uid).map_or_else(|_| format!("uid {uid}"), sys::user);
            format!("cancelled by {user}")
        }
        None => "cancelled".to_owned(),
    }
}

fn on_node(text: &str, facts: &JobFacts) -> String {
    format!("{text}{}", maybe(" (on ", node(facts), ")"))
}

/// The node, unless Slurm has not assigned one yet.
pub fn node(facts: &JobFacts) -> Option<&str> {
    let node = facts.node_list.as_deref();
    node.filter(|node| !["", "None assigned", "(null)"].contains(node))
}

/// Run time and time limit.
fn time(elapsed_s: Option<i64>, limit_s: Option<i64>) -> Option<String> {
    match (elapsed_s.map(clock), limit_s.map(clock)) {
        (Some(ran), limit) => Some(format!("ran {ran}{}", maybe(" of ", limit, ""))),
        (None, limit) => limit.map(|limit| format!("time limit {limit}")),
    }
}

fn signal_name(signal: u8) -> String {
    let name = signal_hook::low_level::signal_name(signal.into());
    format!("signal {signal}{}", maybe(" (", name, ")"))
}

#[cfg(test)]
mod tests;
