//! The text of a digest: new events, ongoing events, and what to do. Pure.

use std::collections::BTreeMap;
use std::path::Path;

use super::events::Event;
use super::{Invocation, Study};
use crate::base::shell::quote;
use crate::base::sys::local_time;
use crate::base::text::{capital, maybe, plural};
use crate::model::config::Occasion;
use crate::model::state::TaskStatus;
use crate::show::mail::Message;

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
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for event in group {
        if let Some(reason) = event.reason {
            *reasons.entry(reason).or_default() += 1;
        }
    }
    if let Some(first) = group.first()
        && !reasons.is_empty()
    {
        let reasons = reasons.iter().map(|(reason, n)| format!("{n} {reason}"));
        let why = reasons.collect::<Vec<_>>().join(", ");
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
    text.replace(char::is_control, " ")
}
