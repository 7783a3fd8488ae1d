//! `init`: writes a commented configuration and job scripts for a site.

use super::args::InitArgs;
use super::error::{Exit, Failure};
use super::output::Printer;

pub fn run(_args: &InitArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    printer.error("not built yet");
    Ok(Exit::Error)
}
