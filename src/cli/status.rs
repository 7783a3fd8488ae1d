//! Views of the study: `status` and `efficiency` from the rows, `session-status`, `manifest` and `graph` also from the
//! disk. Write nothing.

use std::collections::BTreeSet;

use super::args::{By, EfficiencyArgs, GraphArgs, ManifestArgs, SessionStatusArgs, StatusArgs};
use super::context::all_attempts;
use super::pause::report_current_pauses;
use super::views::{self, Cut, RowsView, SessionsView};
use super::{
    Context, Exit, Format, Printer, Result, Selection, TableError, TaskRow, TaskStatus, failed, few,
};
use crate::decide::manifest::{Decision, Manifest, Skip, stale_rows};
use crate::decide::safety;
use crate::gather::sessions::discover::Discovery;
use crate::gather::sessions::lists;
use crate::model::bids::Session;
use crate::show::efficiency::{
    Job, Resource, by_waste, efficiency, jobs_frame, no_measurement, resources, resources_frame,
    resources_table,
};
use crate::show::explain::awaiting;
use crate::show::graph::Graph;
use crate::show::tables;

/// `status`: counts and rows of the state. Reads neither Slurm nor the data trees.
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
    // Complete tasks with newer sessions, as far as the rows show. Commands that decide report a list that cannot be read.
    if let Ok(cohort) = lists::load(&context.config.cohort) {
        let rows = stale_rows(&state, &context.config.procedures, &cohort).into_iter();
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
    let is_shown = |row: &&TaskRow| {
        let changed = row.submitted_at.max(row.updated_at);
        selection.contains_key(&row.key)
            && (args.statuses.is_empty() || args.statuses.contains(&row.status))
            && (!args.failed || row.status == TaskStatus::Failed)
            && (args.reasons.is_empty() || row.reason.is_some_and(|it| args.reasons.contains(&it)))
            && (args.since.is_none() || changed >= args.since)
    };
    let rows: Vec<&TaskRow> = state.rows().iter().filter(is_shown).collect();
    printer.notes(awaiting(&context.config, rows.iter().copied()));
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
    match args.failed && args.columns.is_empty() {
        true => failed::print(context, rows, &state, &view, printer)?,
        false => views::print_status(printer, rows, &context.config.procedures, &view)?,
    }
    Ok(Exit::Done)
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
    Ok(warn_unreadable(unreadable, &found, printer))
}

pub(super) fn manifest(
    context: &Context,
    args: &ManifestArgs,
    printer: &mut Printer,
) -> Result<Exit> {
    let selection = context.selection(&args.select)?;
    let (found, manifest) = context.plan(selection, args.check.recheck, printer)?;
    context.refuse_no_task(&found, &args.select)?;
    views::print_manifest(printer, &manifest, &context.config.procedures, args.format)?;
    Ok(warn_unreadable(unreadable(&manifest), &found, printer))
}

pub(super) fn graph(context: &Context, args: &GraphArgs, printer: &mut Printer) -> Result<Exit> {
    let selection = context.selection(&args.select)?;
    let (found, manifest) = context.plan(selection, args.check.recheck, printer)?;
    context.refuse_no_task(&found, &args.select)?;
    let graph = Graph::new(manifest.tasks.iter(), &context.config.procedures);
    printer.data(graph.draw(args.format).as_bytes());
    Ok(warn_unreadable(unreadable(&manifest), &found, printer))
}

/// The paths that could not be read.
pub(super) fn unreadable(manifest: &Manifest) -> BTreeSet<String> {
    let tasks = manifest.tasks.iter();
    let paths = tasks.filter_map(|task| match &task.decision {
        Decision::Skip(Skip::Unreadable(what)) => Some(what),
        _ => None,
    });
    paths.map(ToString::to_string).collect()
}

/// Warns of unreadable paths, and returns the exit code for them.
pub(super) fn warn_unreadable(
    unreadable: BTreeSet<String>,
    found: &Discovery,
    printer: &mut Printer,
) -> Exit {
    let texts = Vec::from_iter(unreadable);
    printer.warn_unreadable(&texts);
    let is_partial = !texts.is_empty() || !found.unreadable.is_empty();
    Exit::Done.unless(is_partial, Exit::Unreadable)
}

/// Columns of the table of jobs.
const JOB_COLUMNS: &str = "procedure subject session job_id status reason queue_wait_s elapsed_s time_pct cpu_pct mem_pct waste_h";

/// `efficiency`: the resources that jobs requested and used. Reads only the state and the attempts file.
pub(super) fn of_resources(
    context: &Context,
    args: &EfficiencyArgs,
    printer: &mut Printer,
) -> Result<Exit> {
    let (state, selection) = context.select_rows(&args.select, printer)?;
    let earlier = context.store.read_attempts()?;
    let attempts = all_attempts(&earlier, &state).filter(|row| selection.contains_key(&row.key));
    let is_table = args.format == Format::Table;
    let cut_of = |all| Cut::of(all, args.length.limit, args.format, printer);
    let (frame, cut, painted, optional) = match args.by {
        By::Job => {
            let mut jobs: Vec<Job<'_>> = attempts.filter_map(Job::new).collect();
            jobs.retain(|job| job.waste_h.is_some() || job.row.facts.elapsed_s.is_some());
            by_waste(&mut jobs, |job| job.waste_h);
            let cut = cut_of(jobs.len());
            Cut::apply(cut, &mut jobs, args.length.reverse);
            let all = jobs_frame(&jobs)?;
            let frame = match is_table {
                true => all
                    .select(JOB_COLUMNS.split(' '))
                    .map_err(TableError::from)?,
                false => all,
            };
            let painted = "status time_pct cpu_pct mem_pct";
            (frame, cut, painted, "queue_wait_s reason elapsed_s job_id")
        }
        By::Procedure => {
            let mut procedures = efficiency(attempts, &context.config.procedures);
            by_waste(&mut procedures, |one| Some(one.waste_h));
            if args.length.reverse {
                procedures.reverse();
            }
            let mut rows: Vec<Resource<'_>> = resources(&procedures).collect();
            let cut = cut_of(rows.len());
            Cut::apply(cut, &mut rows, false);
            let frame = match is_table {
                true => resources_table(&rows)?,
                false => resources_frame(&rows)?,
            };
            (frame, cut, "verdict", "p90 p95 over short")
        }
    };
    let painted: Vec<&str> = painted.split(' ').collect();
    let optional: Vec<&str> = optional.split(' ').collect();
    match is_table && frame.height() == 0 {
        true => printer.note(no_measurement(context.config.executor)),
        false => printer.frame(&frame, args.format, &painted, &optional)?,
    }
    Cut::report(cut, printer, "rows");
    Ok(Exit::Done)
}
