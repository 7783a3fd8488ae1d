//! `status`: counts and rows of the state. Reads only: no Slurm, no data trees.

use super::args::StatusArgs;
use super::context::Context;
use super::error::{Exit, Failure};
use super::failed;
use super::output::Printer;
use super::pause::tell_what_is_paused;
use super::views;
use crate::safety;
use crate::state::{TaskRow, TaskStatus};

pub fn run(context: &Context, args: &StatusArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let state = context.read_state(printer)?;
    let stopped = safety::stopped_by(&state.meta.baselines);
    if !stopped.is_empty() {
        printer.warning(&format!(
            "the last run submitted nothing (safety stop: {})",
            stopped.join(", ")
        ));
        printer.hint("'snbb-scheduler run --dry-run' says what is wrong, and changes nothing");
    }
    let selection = context.selection_among(&args.select, Some(&state))?;
    tell_what_is_paused(context, &state, printer);
    let rows: Vec<TaskRow> = state
        .rows()
        .iter()
        .filter(|row| {
            selection.contains(&row.key.subject, &row.key.session, &row.key.procedure)
                && (args.statuses.is_empty() || args.statuses.contains(&row.status))
                && (!args.failed || row.status == TaskStatus::Failed)
                && (args.reasons.is_empty()
                    || row
                        .reason
                        .is_some_and(|reason| args.reasons.contains(&reason)))
        })
        .cloned()
        .collect();
    if args.failed {
        failed::print(context, &rows, &state, args.format, printer)?;
        return Ok(Exit::Done);
    }
    views::print_status(
        printer,
        &rows,
        &context.config.procedures,
        context.config.slurm.log_dir.as_deref(),
        rows.len() < state.len(),
        args.format,
    )?;
    Ok(Exit::Done)
}
