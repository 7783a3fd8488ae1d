//! Repetition: `--watch` of `run`, and the loop that it shares with `wait` and `monitor`.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::args::MIN_INTERVAL;
use super::{Exit, Printer, Result, TaskState, sys};
use crate::show::notify::Figures;

/// How soon a signal is noticed during a pause.
const SLICE: Duration = Duration::from_millis(100);

/// Repeats `step` until it breaks, with the pause that it returns between two steps. SIGINT and SIGTERM end the loop
/// after the current step. Calls `meanwhile` several times per second of a pause.
pub(super) fn repeat(
    mut step: impl FnMut() -> Result<ControlFlow<Exit, Duration>>,
    meanwhile: impl Fn(),
) -> Result<Exit> {
    sys::catch_interrupts();
    loop {
        let mut pause = match step()? {
            ControlFlow::Break(exit) => return Ok(exit),
            ControlFlow::Continue(pause) => pause,
        };
        loop {
            if sys::is_interrupted() {
                return Ok(Exit::Interrupted);
            }
            if pause.is_zero() {
                break;
            }
            meanwhile();
            let slice = pause.min(SLICE);
            std::thread::sleep(slice);
            pause -= slice;
        }
    }
}

/// Makes passes, each like a `run` from cron, until nothing is due or in flight. `pass` also returns the figures of
/// the pass, as far as it got.
pub(super) fn run(
    interval: Duration,
    printer: &mut Printer,
    mut pass: impl FnMut(&mut Printer) -> (Result<Exit>, Option<Figures>),
) -> Result<Exit> {
    if !printer.is_quiet() {
        printer.suppress_repeats();
    }
    let bar = printer.watch();
    let step = || {
        let started = Instant::now();
        let (result, figures) = pass(printer);
        let exit = match result {
            Err(failure) if is_retried(failure.exit()) => {
                printer.warning(&format!(
                    "{}; the next pass tries again",
                    failure.sentence()
                ));
                printer.hints(failure.hint());
                failure.exit()
            }
            result => result?,
        };
        let figures = figures.unwrap_or_default();
        Ok(if continues(exit, figures.moving) {
            let pause = interval.saturating_sub(started.elapsed());
            ControlFlow::Continue(pause.max(MIN_INTERVAL))
        } else {
            let has_failed = figures.count(TaskState::Failed) > 0;
            ControlFlow::Break(exit.unless(exit == Exit::Done && has_failed, Exit::Error))
        })
    };
    let ended = repeat(step, || bar.tick());
    let is_interrupted = matches!(ended, Ok(Exit::Interrupted));
    printer.stop_watching(is_interrupted);
    if is_interrupted {
        printer
            .note("stopped watching; jobs continue, and the next `snbb-scheduler run` takes over");
    }
    ended
}

/// True if another pass may find a change. `moving`: number of tasks that will proceed automatically.
pub(super) fn continues(exit: Exit, moving: usize) -> bool {
    is_retried(exit) || moving > 0 && matches!(exit, Exit::Done | Exit::Refused | Exit::Unreadable)
}

fn is_retried(exit: Exit) -> bool {
    matches!(exit, Exit::Locked | Exit::Unreachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watching_ends_when_later_passes_cannot_change_anything() {
        for (exit, with_moving, without) in [
            (Exit::Done, true, false),
            (Exit::Refused, true, false),
            (Exit::Unreadable, true, false),
            (Exit::Locked, true, true),
            (Exit::Unreachable, true, true),
            (Exit::Error, false, false),
            (Exit::Usage, false, false),
            (Exit::Safety, false, false),
        ] {
            assert_eq!(
                (continues(exit, 1), continues(exit, 0)),
                (with_moving, without),
                "{exit:?}"
            );
        }
    }

    #[test]
    fn a_step_is_repeated_until_it_breaks() {
        let mut steps = 0;
        let step = || {
            steps += 1;
            Ok(match steps {
                3 => ControlFlow::Break(Exit::Refused),
                _ => ControlFlow::Continue(Duration::from_millis(1)),
            })
        };
        let exit = repeat(step, || {});
        assert_eq!((exit.unwrap(), steps), (Exit::Refused, 3));
    }
}
