//! The text of a digest: new events, ongoing events, and what to do. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::Invocation;
use crate::base::sys::local_time;
use crate::base::text::{capital, maybe, plural};
use crate::model::config::notify::Occasion;
use crate::model::state::{State, TaskStatus};
use crate::show::mail::Message;
use crate::show::notify::events::Event;

/// The parts of a digest.
#[derive(Debug, Clone, Copy)]
pub struct Digest<'a> {
    /// Events that were not reported before.
    pub fresh: &'a [&'a Event],
    /// Number of events that were reported before and still hold.
    pub ongoing: usize,
    pub call: &'a Invocation,
    pub state: Option<&'a State>,
    /// `None` for the built-in configuration.
    pub config: Option<&'a Path>,
    pub state_file: &'a Path,
    pub host: &'a str,
}

/// Lines shown per procedure; the rest is counted.
const SHOWN: usize = 5;

pub fn message(digest: &Digest<'_>) -> Message {
    Message {
        subject: subject(digest),
        text: text(digest),
        html: None,
    }
}

fn subject(digest: &Digest<'_>) -> String {
    let mut counts: BTreeMap<Occasion, usize> = BTreeMap::new();
    for event in digest.fresh {
        *counts.entry(event.occasion).or_default() += 1;
    }
    let parts: Vec<String> = counts
        .iter()
        .map(|(occasion, count)| heading(*occasion, *count))
        .collect();
    let study = digest.config.unwrap_or(digest.state_file).display();
    one_line(&format!("[snbb-scheduler] {study}: {}", parts.join(", ")))
}

fn text(digest: &Digest<'_>) -> String {
    let call = digest.call;
    let mut out = String::new();
    // Writing to a `String` cannot fail.
    let _ = writeln!(
        out,
        "snbb-scheduler {} on {}, {}, exit code {}",
        call.command,
        digest.host,
        local_time(call.ended_at),
        call.exit.code()
    );
    match digest.config {
        Some(file) => _ = writeln!(out, "configuration: {}", file.display()),
        None => _ = writeln!(out, "state: {}", digest.state_file.display()),
    }
    for of_kind in digest.fresh.chunk_by(|a, b| a.occasion == b.occasion) {
        let Some(first) = of_kind.first() else {
            continue;
        };
        let _ = writeln!(
            out,
            "\n{}",
            capital(&heading(first.occasion, of_kind.len()))
        );
        for group in of_kind.chunk_by(|a, b| a.procedure == b.procedure) {
            write_group(&mut out, first.occasion, group);
        }
    }
    if let Some(hint) = &call.hint {
        let _ = writeln!(out, "\nhint: {}", one_line(hint));
    }
    if digest.ongoing > 0 {
        let _ = writeln!(out, "\nReported before and unchanged: {}", digest.ongoing);
    }
    if let Some(state) = digest.state {
        let counts = TaskStatus::ALL.map(|status| format!("{} {status}", state.count(status)));
        let _ = writeln!(out, "\nTasks on record: {}", counts.join(", "));
    }
    out.push('\n');
    for line in remedies(digest) {
        let _ = writeln!(out, "{line}");
    }
    out
}

fn write_group(out: &mut String, occasion: Occasion, group: &[&Event]) {
    let is_of_tasks = matches!(
        occasion,
        Occasion::Failed | Occasion::Lost | Occasion::Held | Occasion::InDoubt
    );
    let mut indent = "  ";
    if is_of_tasks && let Some(first) = group.first() {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for event in group.iter().filter(|event| !event.reason.is_empty()) {
            *reasons.entry(event.reason).or_default() += 1;
        }
        let reasons = reasons.iter();
        let reasons: Vec<String> = reasons.map(|(reason, n)| format!("{n} {reason}")).collect();
        let reasons = Some(reasons.join(", ")).filter(|reasons| !reasons.is_empty());
        let why = maybe(" (", reasons, ")");
        let _ = writeln!(
            out,
            "  {}: {}{why}",
            one_line(&first.procedure),
            group.len()
        );
        indent = "    ";
    }
    for event in group.iter().take(SHOWN) {
        let _ = writeln!(out, "{indent}{}", one_line(&event.text));
    }
    if let more @ 1.. = group.len().saturating_sub(SHOWN) {
        let _ = writeln!(out, "{indent}and {more} more");
    }
}

fn heading(occasion: Occasion, count: usize) -> String {
    let (word, what) = match occasion {
        Occasion::Error => return "the scheduler could not run".to_owned(),
        Occasion::Unreachable => return "Slurm is not responding".to_owned(),
        Occasion::SafetyStop => return "safety stop, nothing submitted".to_owned(),
        Occasion::Refused => return "submissions refused".to_owned(),
        Occasion::Paused => ("procedure", "paused"),
        Occasion::Failed => ("task", "failed"),
        Occasion::Lost => ("task", "lost"),
        Occasion::Held => ("job", "held"),
        Occasion::InDoubt => ("submission", "in doubt"),
    };
    format!("{} {what}", plural(count, word))
}

/// The commands that help with the new events.
fn remedies(digest: &Digest<'_>) -> Vec<String> {
    let config = digest.config.map(Path::to_string_lossy);
    let config = config.map(|file| crate::base::shell::quote(&file));
    let program = format!("snbb-scheduler{}", maybe(" --config ", config, ""));
    let commands = digest.fresh.iter().flat_map(|event| match event.occasion {
        Occasion::Failed | Occasion::Lost => {
            &["status --failed", "retry      # once the cause is fixed"][..]
        }
        Occasion::Paused => &["resume --procedure NAME      # once the cause is fixed"],
        Occasion::Held | Occasion::InDoubt => &["status --status pending"],
        Occasion::SafetyStop | Occasion::Refused => &["run --dry-run"],
        Occasion::Error => &["state verify"],
        Occasion::Unreachable => &[],
    });
    let mut lines: Vec<String> = Vec::new();
    for command in commands {
        let line = format!("{program} {command}");
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

/// Texts come from servers and programs; a line of theirs must not look like one of ours.
fn one_line(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
