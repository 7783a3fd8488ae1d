//! `wait`: blocks until the selection has nothing in flight. The exit code says how it went.

use std::time::Duration;

use super::args::WaitArgs;
use super::context::Context;
use super::error::{Exit, Failure};
use super::output::Printer;
use crate::manifest::Selection;
use crate::state::{State, TaskStatus};
use crate::sys;

pub fn run(context: &Context, args: &WaitArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let state = context.read_state(printer)?;
    let selection = context.selection_among(&args.select, Some(&state))?;
    let started = sys::now();
    loop {
        let (_, state) = super::monitor::update(context, "wait", &args.write, printer)?;
        let counts = count(&state, &selection);
        if counts.in_flight == 0 {
            printer.talk(&format!(
                "{} complete, {} failed",
                counts.complete, counts.failed
            ));
            return Ok(if counts.failed == 0 {
                Exit::Done
            } else {
                Exit::Error
            });
        }
        let waited = (sys::now() - started).to_std().unwrap_or(Duration::ZERO);
        let pause = match args.timeout {
            Some(timeout) if waited >= timeout => {
                printer.warning(&format!(
                    "{} task(s) are still in flight after {} s",
                    counts.in_flight,
                    waited.as_secs()
                ));
                return Ok(Exit::TimeOut);
            }
            Some(timeout) => args.interval.min(timeout - waited),
            None => args.interval,
        };
        printer.detail(&format!(
            "{} in flight, {} complete, {} failed",
            counts.in_flight, counts.complete, counts.failed
        ));
        std::thread::sleep(pause);
    }
}

struct Counts {
    in_flight: usize,
    complete: usize,
    failed: usize,
}

fn count(state: &State, selection: &Selection) -> Counts {
    let of = |status: fn(TaskStatus) -> bool| {
        state
            .rows()
            .iter()
            .filter(|row| {
                selection.contains(&row.key.subject, &row.key.session, &row.key.procedure)
                    && status(row.status)
            })
            .count()
    };
    Counts {
        in_flight: of(TaskStatus::is_in_flight),
        complete: of(|status| status == TaskStatus::Complete),
        failed: of(|status| status == TaskStatus::Failed),
    }
}
