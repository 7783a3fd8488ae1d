//! `completions`: what makes a shell complete commands, subjects, sessions and procedures.

use super::args::CompletionsArgs;
use super::error::{Exit, Failure};
use super::output::Printer;

pub fn run(_args: &CompletionsArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    printer.error("not built yet");
    Ok(Exit::Error)
}
