//! `efficiency`: the resources that jobs requested and used. Reads only the state and the attempts file.

use super::args::{By, EfficiencyArgs};
use super::context::all_attempts;
use super::views::Cut;
use super::{Context, Exit, Format, Printer, Result};
use crate::show::efficiency::{
    Job, Resource, by_waste, efficiency, jobs_frame, no_measurement, resources, resources_frame,
    resources_table,
};
use crate::show::tables::TableError;

/// Columns of the table of jobs.
const COLUMNS: &str = "procedure subject session job_id status reason queue_wait_s elapsed_s time_pct cpu_pct mem_pct waste_h";

pub(super) fn run(context: &Context, args: &EfficiencyArgs, printer: &mut Printer) -> Result<Exit> {
    let (state, selection) = context.select_rows(&args.select, printer)?;
    let earlier = context.store.read_attempts()?;
    let attempts = all_attempts(&earlier, &state).filter(|row| selection.contains_key(&row.key));
    let is_table = args.format == Format::Table;
    let (frame, cut, painted, optional) = match args.by {
        By::Job => {
            let mut jobs: Vec<Job<'_>> = attempts.filter_map(Job::new).collect();
            jobs.retain(|job| job.waste_h.is_some() || job.row.facts.elapsed_s.is_some());
            by_waste(&mut jobs, |job| job.waste_h);
            if args.length.reverse {
                jobs.reverse();
            }
            let cut = truncate(&mut jobs, args, printer);
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
            let cut = truncate(&mut rows, args, printer);
            let frame = match is_table {
                true => resources_table(&rows)?,
                false => resources_frame(&rows)?,
            };
            (frame, cut, "verdict", "p90 p95 over short")
        }
    };
    if is_table && frame.height() == 0 {
        printer.note(no_measurement(context.config.executor));
    } else {
        let painted: Vec<&str> = painted.split(' ').collect();
        let optional: Vec<&str> = optional.split(' ').collect();
        printer.frame(&frame, args.format, &painted, &optional)?;
    }
    Cut::report(cut, printer, "rows");
    Ok(Exit::Done)
}

fn truncate<T>(rows: &mut Vec<T>, args: &EfficiencyArgs, printer: &Printer) -> Option<Cut> {
    let cut = Cut::of(rows.len(), args.length.limit, args.format, printer);
    rows.truncate(cut.map_or(usize::MAX, |cut| cut.shown));
    cut
}
