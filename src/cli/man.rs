//! `man`: the manual pages.

use super::args::ManArgs;
use super::error::{Exit, Failure};
use super::output::Printer;

pub fn run(_args: &ManArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    printer.error("not built yet");
    Ok(Exit::Error)
}
