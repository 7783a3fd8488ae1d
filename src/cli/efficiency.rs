//! `efficiency`: the resources that jobs requested and used. Reads only the state and the attempts file.

use super::args::{By, EfficiencyArgs};
use super::context::all_attempts;
use super::views::Cut;
use super::{Context, Exit, Format, Printer, Result, TableError};
use crate::show::efficiency::{
    Job, Resource, by_waste, efficiency, jobs_frame, no_measurement, resources, resources_frame,
    resources_table,
};

/// Columns of the table of jobs.
const COLUMNS: &str = "procedure subject session job_id status reason queue_wait_s elapsed_s time_pct cpu_pct mem_pct waste_h";

pub(super) fn run(context: &Context, args: &EfficiencyArgs, printer: &mut Printer) -> Result<Exit> {
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
                true => all.select(COLUMNS.split(' ')).map_err(TableError::from)?,
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
