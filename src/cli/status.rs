//! `status`: counts and rows of the state. Reads neither Slurm nor the data trees.

use super::args::{SessionStatusArgs, StatusArgs};
use super::manifest::{unreadable, warn_of};
use super::pause::report_current_pauses;
use super::views::{self, RowsView, SessionsView};
use super::{Context, Exit, Printer, Result, Selection, State, TaskRow, TaskStatus, failed, few};
use crate::decide::manifest::stale_rows;
use crate::decide::safety;
use crate::gather::sessions::lists;
use crate::model::bids::Session;
use crate::show::explain::awaiting;
use crate::show::tables;

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
    let is_shown = |row: &&TaskRow| {
        let changed = row.submitted_at.max(row.updated_at);
        selection.contains_key(&row.key)
            && (args.statuses.is_empty() || args.statuses.contains(&row.status))
            && (!args.failed || row.status == TaskStatus::Failed)
            && (args.reasons.is_empty() || row.reason.is_some_and(|it| args.reasons.contains(&it)))
            && (args.since.is_none() || changed >= args.since)
    };
    let rows: Vec<&TaskRow> = state.rows().iter().filter(is_shown).collect();
    if let Some(text) = awaiting(&context.config, rows.iter().copied()) {
        printer.note(&text);
    }
    let view = RowsView {
        log_dir: context.config.slurm.log_dir.as_deref(),
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
    let rows = stale_rows(state, &config.procedures, &cohort).into_iter();
    let rows = rows.filter(|row| selection.contains_key(&row.key));
    let keys: Vec<String> = rows.map(|row| row.key.to_string()).collect();
    if !keys.is_empty() {
        printer.note(&format!(
            "complete but possibly stale: {}: new sessions arrived after it ran (`snbb-scheduler session-status` checks \
             the data, `rerun_when_stale` runs such tasks again)",
            few(&keys, 1)
        ));
    }
}

/// `session-status`: one row per session, one column per procedure. Writes nothing.
pub(super) fn of_sessions(
    context: &Context,
    args: &SessionStatusArgs,
    printer: &mut Printer,
) -> Result<Exit> {
    let selection = context.selection(&args.select)?;
    // The sessions are selected by the rows that are shown, because a subject-scoped task has none.
    let by_subject = Selection::new(
        &args.select.subjects,
        &[],
        &args.select.procedures,
        &context.procedure_names(None),
    )?;
    let (found, manifest) = context.plan(by_subject, args.check.recheck, printer)?;
    let is_shown = |session: &&Session| {
        selection.contains_subject(session.subject.as_str())
            && selection.contains_session(session.session.as_str())
    };
    let mut shown: Vec<Session> = found.sessions.iter().filter(is_shown).cloned().collect();
    context.refuse_unknown_in(&found, &args.select)?;
    let dag = &context.config.procedures;
    let unreadable = unreadable(&manifest);
    let (chosen, hidden) = tables::selected(manifest, dag, &selection);
    let mut tasks = tables::in_sessions(&shown, chosen, dag);
    if !args.statuses.is_empty() {
        shown = tables::with_words(&shown, &tasks, dag, &args.statuses);
        tasks = tables::in_sessions(&shown, tasks, dag);
    }
    let view = SessionsView {
        hidden: &hidden,
        order: args.sort,
        is_reversed: args.length.reverse,
        limit: args.length.limit,
        format: args.format,
    };
    views::print_session_status(printer, shown, &tasks, dag, &view)?;
    Ok(warn_of(unreadable, &found, printer))
}
