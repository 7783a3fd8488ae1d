//! `status`: counts and rows of the state. Reads neither Slurm nor the data trees.

use super::args::StatusArgs;
use super::failed;
use super::pause::report_current_pauses;
use super::views::{self, RowsView};
use super::{Context, Exit, Printer, Result};
use crate::base::text::and_more;
use crate::decide::manifest::{Selection, stale_rows};
use crate::decide::safety;
use crate::gather::sessions::lists;
use crate::model::state::{State, TaskRow, TaskStatus};
use crate::show::explain::awaiting;

pub(super) fn run(context: &Context, args: &StatusArgs, printer: &mut Printer) -> Result<Exit> {
    let (state, selection) = context.select_rows(&args.select, printer)?;
    let stopped = safety::stopped_by(&state.meta.baselines);
    if !stopped.is_empty() {
        printer.warning(&format!(
            "the last run submitted nothing (safety stop: {})",
            stopped.join(", ")
        ));
        printer.hint("`snbb-scheduler run --dry-run` shows the cause and changes nothing");
    }
    report_current_pauses(context, &state, printer);
    note_stale(context, &state, &selection, printer);
    let rows: Vec<&TaskRow> = state
        .rows()
        .iter()
        .filter(|row| {
            selection.contains_key(&row.key)
                && (args.statuses.is_empty() || args.statuses.contains(&row.status))
                && (!args.failed || row.status == TaskStatus::Failed)
                && (args.reasons.is_empty()
                    || row
                        .reason
                        .is_some_and(|reason| args.reasons.contains(&reason)))
                && args
                    .since
                    .is_none_or(|since| row.submitted_at.max(row.updated_at) >= Some(since))
        })
        .collect();
    if let Some(text) = awaiting(&context.config, rows.iter().copied()) {
        printer.note(&text);
    }
    let view = RowsView {
        log_dir: context.config.slurm.log_dir.as_deref(),
        is_selection: rows.len() < state.len(),
        is_filtered: !selection.is_everything()
            || !args.statuses.is_empty()
            || !args.reasons.is_empty()
            || args.failed
            || args.since.is_some(),
        shows_changes: args.since.is_some(),
        columns: &args.columns,
        order: args.sort,
        is_reversed: args.length.reverse,
        limit: args.length.limit,
        format: args.format,
    };
    if args.failed && args.columns.is_empty() {
        failed::print(context, rows, &state, &view, printer)?;
        return Ok(Exit::Done);
    }
    views::print_status(printer, rows, &context.config.procedures, &view)?;
    Ok(Exit::Done)
}

/// Notes complete tasks with newer sessions, as far as the rows show.
fn note_stale(context: &Context, state: &State, selection: &Selection, printer: &mut Printer) {
    let config = &context.config;
    // Commands that decide report a list that cannot be read.
    let Ok(cohort) = lists::load(&config.cohort) else {
        return;
    };
    let mut rows = stale_rows(state, &config.procedures, &cohort);
    rows.retain(|row| selection.contains_key(&row.key));
    let Some(first) = rows.first() else {
        return;
    };
    let more = and_more(rows.len(), 1);
    printer.note(&format!(
        "complete but possibly stale: {}{more}: new sessions arrived after it ran (`snbb-scheduler session-status` checks \
         the data, `rerun_when_stale` runs such tasks again)",
        first.key
    ));
}
