//! `session-status`: one row per session, one column per procedure. Writes nothing.

use super::args::SessionStatusArgs;
use super::manifest::{unreadable, warn_of};
use super::views::{self, SessionsView};
use super::{Context, Exit, Printer, Result};
use crate::decide::manifest::Selection;
use crate::model::bids::Session;
use crate::show::tables;

pub(super) fn run(
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
    let mut shown: Vec<Session> = found
        .sessions
        .iter()
        .filter(|session| {
            selection.contains_subject(session.subject.as_str())
                && selection.contains_session(session.session.as_str())
        })
        .cloned()
        .collect();
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
        is_selection: shown.len() < found.sessions.len(),
        order: args.sort,
        is_reversed: args.length.reverse,
        limit: args.length.limit,
        format: args.format,
    };
    views::print_session_status(printer, shown, &tasks, dag, &view)?;
    Ok(warn_of(unreadable, &found, printer))
}
