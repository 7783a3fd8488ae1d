//! `completions`: prints a shell script that completes commands, subjects, sessions and procedures.
//! ([`crate::gather::completion`] is about outputs.)
//!
//! The script only starts the program again ([`super::complete`]), so it stays valid when the study changes.

use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};

use super::args::{CompletionsArgs, ShellName};
use super::complete::VARIABLE;
use super::error::Result;
use super::output::Printer;
use crate::base::exit::Exit;

const PROGRAM: &str = "snbb-scheduler";

pub(super) fn run(args: &CompletionsArgs, printer: &mut Printer) -> Result<Exit> {
    let shell: &dyn EnvCompleter = match args.shell {
        ShellName::Bash => &Bash,
        ShellName::Zsh => &Zsh,
        ShellName::Fish => &Fish,
    };
    let mut script = Vec::new();
    // Writing to memory cannot fail.
    let _ = shell.write_registration(VARIABLE, PROGRAM, PROGRAM, &completer(), &mut script);
    printer.data(&script);
    Ok(Exit::Done)
}

/// The program that the script starts: its name if it was found on `PATH`, else its absolute path.
fn completer() -> String {
    let called = std::env::args_os().next().unwrap_or_default();
    let is_path = called.as_encoded_bytes().contains(&b'/');
    let path = std::path::absolute(&called).ok().filter(|_| is_path);
    path.map_or_else(
        || PROGRAM.to_owned(),
        |path| path.to_string_lossy().into_owned(),
    )
}
