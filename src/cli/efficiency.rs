//! `efficiency`: what jobs asked for and used. Reads the state and the attempts file only.

use polars::prelude::DataFrame;

use super::args::{By, EfficiencyArgs};
use super::context::Context;
use super::error::Failure;
use super::output::{Format, Printer};
use super::views::Cut;
use crate::base::exit::Exit;
use crate::model::state::TaskRow;
use crate::show::efficiency::{
    Job, Resource, by_waste, efficiency, jobs_frame, resources, resources_frame, resources_table,
};
use crate::show::tables::TableError;

/// What the table of jobs shows, and what a narrow terminal does without.
const COLUMNS: &str = "procedure subject session job_id status reason queue_wait_s elapsed_s time_pct cpu_pct mem_pct waste_h";
const OPTIONAL: &str = "queue_wait_s reason elapsed_s job_id";

pub fn run(
    context: &Context,
    args: &EfficiencyArgs,
    printer: &mut Printer,
) -> Result<Exit, Failure> {
    let state = context.read_state(printer)?;
    let selection = context.selection_among(&args.select, Some(&state))?;
    context.refuse_off_record(&state, &args.select)?;
    let earlier = context.store.read_attempts()?;
    let attempts: Vec<&TaskRow> = earlier
        .iter()
        .chain(state.superseded())
        .chain(state.rows())
        .filter(|row| selection.contains_key(&row.key))
        .collect();
    let is_table = args.format == Format::Table;
    let cut = match args.by {
        By::Job => {
            let mut jobs: Vec<Job<'_>> = attempts.iter().filter_map(|row| Job::new(row)).collect();
            jobs.retain(|job| job.waste_h.is_some() || job.row.facts.elapsed_s.is_some());
            by_waste(&mut jobs, |job| job.waste_h);
            if args.length.reverse {
                jobs.reverse();
            }
            let cut = Cut::of(jobs.len(), args.length.limit, args.format, printer);
            jobs.truncate(cut.map_or(usize::MAX, |cut| cut.shown));
            let all = jobs_frame(&jobs)?;
            let shown = match is_table {
                true => all.select(COLUMNS.split(' ')).map_err(TableError::from)?,
                false => all,
            };
            let optional: Vec<&str> = OPTIONAL.split(' ').collect();
            let painted = ["status", "time_pct", "cpu_pct", "mem_pct"];
            show(&shown, args.format, &painted, &optional, printer)?;
            cut
        }
        By::Procedure => {
            let dag = &context.config.procedures;
            let mut found = efficiency(attempts.into_iter(), dag);
            by_waste(&mut found, |one| Some(one.waste_h));
            if args.length.reverse {
                found.reverse();
            }
            let mut rows: Vec<Resource<'_>> = resources(&found).collect();
            let cut = Cut::of(rows.len(), args.length.limit, args.format, printer);
            rows.truncate(cut.map_or(usize::MAX, |cut| cut.shown));
            let shown = match is_table {
                true => resources_table(&rows)?,
                false => resources_frame(&rows)?,
            };
            show(
                &shown,
                args.format,
                &["verdict"],
                &["p90", "p95", "over", "short"],
                printer,
            )?;
            cut
        }
    };
    if let Some(cut) = cut {
        cut.tell(
            printer,
            "rows",
            ", the most wasteful first",
            "--procedure and --subject choose",
        );
    }
    Ok(Exit::Done)
}

fn show(
    frame: &DataFrame,
    format: Format,
    painted: &[&str],
    optional: &[&str],
    printer: &mut Printer,
) -> Result<(), TableError> {
    if format == Format::Table && frame.height() == 0 {
        printer.note("no job has been measured yet (needs Slurm's accounting)");
        return Ok(());
    }
    printer.frame(frame, format, painted, optional)
}
