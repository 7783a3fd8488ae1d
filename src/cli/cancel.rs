//! `cancel`: cancels the selected jobs, in one request.
//!
//! A row becomes failed (cancelled) only when the executor confirms that its job has ended or no longer knows it.

use std::time::Duration;

use super::args::CancelArgs;
use super::monitor::update_or_read;
use super::{
    Access, Context, Exit, Failure, Printer, Reason, Result, Selection, State, TaskRow, TaskStatus,
    maybe, plural, sys,
};
use crate::act::pass::queue_question;
use crate::decide::reconcile::{complete_tags, jobs_to_end};
use crate::executor::{Answer, OtherExecutor};
use crate::model::job::JobRef;
use crate::model::state::transition::{Cause, Change};
use crate::store::audit_log::{Event, EventKind};

/// Number of checks whether the jobs have ended, and the pause between them. Later ends are left to `monitor`.
const CHECKS: usize = 10;
const PAUSE: Duration = Duration::from_secs(1);

pub(super) fn run(context: &Context, args: &CancelArgs, printer: &mut Printer) -> Result<Exit> {
    printer.suppress_repeats();
    let (state, selection) = context.select_rows(&args.select, printer)?;
    if selection.is_everything() && !args.all {
        return Err(Failure::usage(
            "cancel requires a selection",
            "select the jobs, for example with --procedure qsiprep, or use --all",
        ));
    }
    let executor = context.config.executor;
    let (mut jobs, mut exit) = (Vec::new(), Exit::Done);
    for row in in_flight(&state, &selection) {
        match OtherExecutor::of(row, executor) {
            _ if row.job_id.is_none() => printer.warning(&format!(
                "{}: not cancelled: it is not yet known whether Slurm accepted its job; `monitor` finds the job or releases \
                 the task",
                row.key
            )),
            Some(other) => {
                printer.error(&format!("{other}; it was not cancelled"));
                printer.hint(&other.remedy());
            }
            None => {
                jobs.push(row);
                continue;
            }
        }
        exit = Exit::Error;
    }
    if jobs.is_empty() && exit == Exit::Done {
        printer.info("no selected task has a job in flight: nothing to cancel");
    }
    if args.dry_run {
        for row in &jobs {
            let job = maybe(" job ", row.job_id.as_ref(), "");
            printer.line(&format!("{}{job}", row.key));
        }
    }
    if jobs.is_empty() || args.dry_run {
        return Ok(exit);
    }
    // Before any query: Slurm may hide the owner's jobs from this user.
    context.check_ours(&state, &args.write)?;
    let mut question = queue_question(&context.config, &state);
    question.jobs = jobs.iter().filter_map(|row| row.job()).collect();
    question.since = jobs.iter().filter_map(|row| row.submitted_at).min();
    question.search_from = question.since;
    // Read-only, because a local executor with write access starts waiting jobs, perhaps one to be cancelled.
    let mut executor = context.executor(Access::ReadOnly, &state)?;
    executor.preflight()?;
    executor.set_deadline(context.config.deadline);
    let mut observation = executor.observe(&question);
    complete_tags(&mut observation, &state);
    if let Answer::Failed(message) = observation.queue {
        return Err(Failure::queue_unknown(&message));
    }
    // Ids are reused, and the output of `sbatch` may have been misread.
    let mut own = Vec::new();
    for &row in &jobs {
        match jobs_to_end(row, &observation) {
            Some(references) => own.push((row, references)),
            None => {
                exit = Exit::Error;
                printer.warning(&format!(
                    "{}: not cancelled:{} is a different job by now; `monitor` finds out what happened to the task's own",
                    row.key,
                    maybe(" job ", row.job_id.as_ref(), "")
                ));
            }
        }
    }
    // Requests the end of the jobs and records the request.
    let references: Vec<JobRef> = own.iter().flat_map(|(_, jobs)| jobs.clone()).collect();
    let mut asked = Ok(());
    if !references.is_empty() {
        let mut executor = context.executor(Access::ReadWrite, &state)?;
        executor.set_deadline(context.config.deadline);
        // If one of several clusters failed, the jobs of the others were still requested to end.
        asked = executor.cancel(&references);
        let failed = asked.as_ref().err().map(ToString::to_string);
        let by = sys::user_name();
        // The error does not name the cluster.
        let failed = maybe(", may have failed: ", failed, "");
        // The status changes when Slurm confirms the end.
        let events = own.iter().map(|(row, _)| Event {
            detail: Some(format!("asked for by {by}{failed}")),
            extra: vec![("by", by.clone().into())],
            ..Event::of(row, sys::now(), EventKind::Cancelled)
        });
        context.open_audit()?.append(&events.collect::<Vec<_>>())?;
    }
    // Without an accepted request there is nothing to wait for.
    let checks = if asked.is_ok() { CHECKS } else { 1 };
    // Updates the rows repeatedly, each time under the lock, but never sleeps while it holds the lock.
    let mut ending = 0;
    for check in 0..checks {
        if check > 0 {
            std::thread::sleep(PAUSE);
        }
        let (looked, state) =
            update_or_read(context, "cancel", &args.write, printer, |state, looked| {
                // Nothing will ever confirm the end of jobs that Slurm has forgotten.
                let now = sys::now();
                let forgotten = in_flight(state, &selection)
                    .filter(|row| looked.has_forgotten(row, &context.config, now));
                let (failed, why) = (TaskStatus::Failed, Reason::Cancelled);
                let changes = forgotten.map(|row| Change::of(row, Cause::Verdict, failed, why));
                for change in changes.collect::<Vec<_>>() {
                    looked.apply(state, change, now);
                }
            })?;
        let own = in_flight(&state, &selection).filter(|row| row.job_id.is_some());
        let own = own.filter(|row| OtherExecutor::of(row, context.config.executor).is_none());
        ending = own.count();
        // If the queue is not responding, repeating the query does not help.
        if ending == 0 || looked.is_some_and(|looked| looked.queue_failed.is_some()) {
            break;
        }
    }
    printer.info(&format!(
        "{} of {} cancelled",
        jobs.len().saturating_sub(ending),
        plural(jobs.len(), "job")
    ));
    asked?;
    if ending > 0 && exit == Exit::Done {
        printer.note("the others are still ending; `monitor` reports when they have ended");
    }
    Ok(exit)
}

/// The selected rows in flight.
fn in_flight<'a>(state: &'a State, selection: &'a Selection) -> impl Iterator<Item = &'a TaskRow> {
    state
        .in_flight()
        .filter(|row| selection.contains_key(&row.key))
}
