//! `wait`: blocks until the selected tasks have nothing in flight. The exit code is the outcome.

use std::ops::ControlFlow;
use std::time::Duration;

use super::args::WaitArgs;
use super::context::Context;
use super::error::{Failure, Result};
use super::monitor::{no_more, update_or_read};
use super::output::Printer;
use super::watch::repeat;
use crate::base::exit::Exit;
use crate::base::sys;
use crate::base::text::plural_of;
use crate::decide::manifest::Selection;
use crate::model::state::{Reason, State, TaskRow, TaskStatus};
use crate::show::audit::attention::orphan_jobs;
use crate::show::explain::awaiting;

pub(super) fn run(context: &Context, args: &WaitArgs, printer: &mut Printer) -> Result<Exit> {
    // Problems are reported once, not every half minute.
    printer.suppress_repeats();
    let (state, selection) = context.select_rows(&args.select, printer)?;
    let started = sys::now();
    let mut before = Counts::of(&state, &selection);
    if before.all() == 0 && selection.is_everything() {
        printer.warning("no tasks on record: nothing to wait for");
    } else if before.all() == 0 {
        return Err(Failure::usage(
            "no job of a selected task was ever submitted: there is nothing to wait for",
            "`snbb-scheduler session-status` shows the status of the tasks",
        ));
    }
    let ended = |counts: &Counts| (counts.all() - counts.in_flight) as u64;
    let progress = printer.progress(Some(before.all() as u64), "waiting");
    progress.inc(ended(&before));
    printer.detail(&before.text());
    let step = || {
        let (looked, state) = update_or_read(context, "wait", &args.write, printer, no_more)?;
        let counts = Counts::of(&state, &selection);
        if counts.in_flight == 0 {
            progress.finish();
            let queue = looked
                .as_ref()
                .and_then(|looked| looked.observation.queue.got());
            let project = context.project(&state);
            let without_row =
                queue.map_or(0, |queue| orphan_jobs(queue, state.rows(), &project).len());
            if without_row > 0 && selection.is_everything() {
                printer.warning(&format!(
                    "{without_row} jobs of this study are in the queue but have no row: the state was lost or rolled back"
                ));
                printer.hint(
                    "`snbb-scheduler run` or `snbb-scheduler state repair --yes` adopts them",
                );
                return Ok(ControlFlow::Break(Exit::Error));
            }
            printer.info(&format!(
                "{} complete, {} failed",
                counts.complete, counts.failed
            ));
            let exit = Exit::Done.unless(counts.failed > 0, Exit::Error);
            return Ok(ControlFlow::Break(exit));
        }
        progress.inc(ended(&counts).saturating_sub(ended(&before)));
        let awaited: Vec<_> = selected(&state, &selection)
            .filter(|row| row.is_in_flight())
            .collect();
        // Only outputs are still awaited: report how long that can take.
        if awaited
            .iter()
            .all(|row| row.reason == Some(Reason::AwaitingOutput))
            && let Some(text) = awaiting(&context.config, awaited)
        {
            printer.note(&text);
        }
        if counts != before {
            printer.detail(&counts.text());
        }
        let waited = (sys::now() - started).to_std().unwrap_or(Duration::ZERO);
        let pause = match args.timeout {
            Some(timeout) if waited >= timeout => {
                progress.finish();
                printer.warning(&format!(
                    "{} still in flight after {} s",
                    plural_of(counts.in_flight, "task is", "tasks are"),
                    waited.as_secs()
                ));
                return Ok(ControlFlow::Break(Exit::TimeOut));
            }
            Some(timeout) => args.interval.min(timeout - waited),
            None => args.interval,
        };
        before = counts;
        Ok(ControlFlow::Continue(pause))
    };
    repeat(step, || {})
}

#[derive(Default, PartialEq, Eq)]
struct Counts {
    in_flight: usize,
    complete: usize,
    failed: usize,
}

impl Counts {
    fn of(state: &State, selection: &Selection) -> Self {
        let mut counts = Self::default();
        for row in selected(state, selection) {
            match row.status {
                TaskStatus::Complete => counts.complete += 1,
                TaskStatus::Failed => counts.failed += 1,
                TaskStatus::Pending | TaskStatus::Running => counts.in_flight += 1,
            }
        }
        counts
    }

    fn all(&self) -> usize {
        self.in_flight + self.complete + self.failed
    }

    fn text(&self) -> String {
        format!(
            "{} in flight, {} complete, {} failed",
            self.in_flight, self.complete, self.failed
        )
    }
}

fn selected<'a>(state: &'a State, selection: &'a Selection) -> impl Iterator<Item = &'a TaskRow> {
    let rows = state.rows().iter();
    rows.filter(|row| selection.contains_key(&row.key))
}
