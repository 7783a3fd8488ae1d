//! `check`: says whether the set-up is sound.

use super::args::{CheckArgs, Global};
use super::error::{Exit, Failure};
use super::output::Printer;

pub fn run(_global: &Global, _args: &CheckArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    printer.error("not built yet");
    Ok(Exit::Error)
}
