//! `status --failed`: what is known of each failure, with the line of its log that tells most.

use std::path::PathBuf;

use super::blocks::Block;
use super::context::Context;
use super::error::Failure;
use super::output::{Format, Printer};
use super::views;
use crate::logs;
use crate::manifest::retry;
use crate::state::{State, TaskRow};
use crate::sys;
use crate::tables::tasks::{FailureNote, sorted};
use crate::tables::words::outlook_text;
use crate::tables::{failure_text, failures_frame, used_text};

/// Prints failed rows; as text, first the counts per procedure and status.
pub fn print(
    context: &Context,
    rows: &[TaskRow],
    state: &State,
    format: Format,
    printer: &mut Printer,
) -> Result<(), Failure> {
    let dag = &context.config.procedures;
    let noted: Vec<(TaskRow, FailureNote)> = sorted(rows, dag)
        .into_iter()
        .map(|row| (row.clone(), note(context, row, state)))
        .collect();
    if format != Format::Table {
        let log_dir = context.config.slurm.log_dir.as_deref();
        let frame = failures_frame(&noted, dag, log_dir)?;
        return Ok(printer.frame(&frame, format, &[], &[])?);
    }
    if rows.is_empty() {
        printer.note("no task has failed");
        return Ok(());
    }
    views::print_counts(printer, rows, dag)?;
    for (row, note) in &noted {
        let mut block = Block::new(printer.width(), printer.is_colored());
        block.gap();
        tell(&mut block, row, note);
        printer.data(block.finish().as_bytes());
    }
    Ok(())
}

fn tell(block: &mut Block, row: &TaskRow, note: &FailureNote) {
    let reason = row
        .reason
        .map_or("reason unknown", |reason| reason.as_str());
    let attempt = row.attempt.unwrap_or(1);
    let job = row.job_id.as_ref();
    let job = job.map_or_else(String::new, |id| format!(", job {id}"));
    block.title(
        &row.key.to_string(),
        &format!("failed ({reason}), attempt {attempt}{job}"),
    );
    if let Some(why) = failure_text(row) {
        block.entry("why", &why);
    }
    if let Some(used) = used_text(row) {
        block.entry("used", &used);
    }
    let ended = row.facts.ended_at.or(row.updated_at);
    if let Some(ended) = ended {
        block.entry("ended", &ended.format("%Y-%m-%d %H:%M UTC").to_string());
    }
    if let Some(line) = &note.line {
        block.entry("log says", line);
    }
    if let Some(path) = &note.line_path {
        block.verbatim("log", path);
    }
    block.entry("next", &note.outlook);
}

fn note(context: &Context, row: &TaskRow, state: &State) -> FailureNote {
    let dag = &context.config.procedures;
    let rules = dag
        .find(&row.key.procedure)
        .and_then(|id| dag.get(id).rules.retry.as_ref());
    let outlook = retry::outlook(rules, row, state.meta.owner_uid, sys::now());
    let files = logs::of(&context.config, &context.store, row);
    let telling = files.as_ref().and_then(logs::telling);
    let path = |path: PathBuf| path.to_string_lossy().into_owned();
    let (line, line_path) = match telling {
        Some((path, line)) => (Some(line), Some(path)),
        // Where it should be, for whoever looks.
        None => (None, files.map(|files| files.error)),
    };
    FailureNote {
        outlook: outlook_text(outlook),
        line,
        line_path: line_path.map(path),
    }
}
