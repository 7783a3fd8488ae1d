//! Looking again and again: `run --watch`, and the loop that it shares with `wait` and with the `--watch` of `monitor`.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::error::Failure;
use super::output::Printer;
use crate::base::exit::Exit;
use crate::base::sys;
use crate::show::notify::Figures;
use crate::show::tables::TaskState;

/// Slurm is not asked more often.
pub const SHORTEST: Duration = Duration::from_secs(1);
/// How soon a signal is noticed between two looks.
const SLICE: Duration = Duration::from_millis(100);

/// Looks until a look says that it was the last one, with the pause between two that the look says. SIGINT and SIGTERM
/// end it after the look at work. Calls `meanwhile` several times per second of a pause.
pub fn repeat(
    mut look: impl FnMut() -> Result<ControlFlow<Exit, Duration>, Failure>,
    meanwhile: impl Fn(),
) -> Result<Exit, Failure> {
    sys::catch_interrupts();
    loop {
        let mut pause = match look()? {
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

/// Makes passes, each like a call from cron, until nothing is due or in flight. `pass` returns what the pass found, as
/// far as it came.
pub fn run(
    interval: Duration,
    printer: &mut Printer,
    mut pass: impl FnMut(&mut Printer) -> (Result<Exit, Failure>, Option<Figures>),
) -> Result<Exit, Failure> {
    if !printer.is_quiet() {
        printer.tell_once();
    }
    let bar = printer.watch();
    let draw_again = || {
        if let Some(bar) = &bar {
            bar.tick();
        }
    };
    let look = || {
        let started = Instant::now();
        let (result, figures) = pass(printer);
        let exit = match result {
            Err(failure) if is_tried_again(failure.exit()) => {
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
        Ok(if goes_on(exit, figures.moving) {
            let pause = interval.saturating_sub(started.elapsed());
            ControlFlow::Continue(pause.max(SHORTEST))
        } else {
            let has_failed = figures.count(TaskState::Failed) > 0;
            ControlFlow::Break(exit.unless(exit == Exit::Done && has_failed, Exit::Error))
        })
    };
    let ended = repeat(look, draw_again);
    let is_interrupted = matches!(ended, Ok(Exit::Interrupted));
    printer.stop_watching(is_interrupted);
    if is_interrupted {
        printer.note("stopped watching; jobs go on, and the next `snbb-scheduler run` continues");
    }
    ended
}

/// True if another pass may find something changed. `moving`: how many tasks this one left that need no person.
pub fn goes_on(exit: Exit, moving: usize) -> bool {
    is_tried_again(exit)
        || moving > 0 && matches!(exit, Exit::Done | Exit::Refused | Exit::Unreadable)
}

fn is_tried_again(exit: Exit) -> bool {
    matches!(exit, Exit::Locked | Exit::Unreachable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_later_pass_cannot_change_ends_it() {
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
                (goes_on(exit, 1), goes_on(exit, 0)),
                (with_moving, without),
                "{exit:?}"
            );
        }
    }

    #[test]
    fn a_look_is_repeated_until_it_says_that_it_was_the_last() {
        let mut looks = 0;
        let look = || {
            looks += 1;
            Ok(match looks {
                3 => ControlFlow::Break(Exit::Refused),
                _ => ControlFlow::Continue(Duration::from_millis(1)),
            })
        };
        let exit = repeat(look, || {});
        assert_eq!((exit.unwrap(), looks), (Exit::Refused, 3));
    }
}
