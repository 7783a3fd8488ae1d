//! The command line: the only part that knows clap, colour and the terminal.
//!
//! One file per command; [`context`] gathers what they share, [`error`] turns every error into
//! words, a hint and an exit code.

pub mod args;
pub mod context;
pub mod error;
mod guard;
pub mod layout;
pub mod output;
pub mod progress;
pub mod views;

mod cancel;
mod clean;
mod manifest;
mod monitor;
mod outputs;
mod pause;
mod profile;
mod retry;
mod run;
mod session_status;
mod state;
mod status;
mod wait;

use std::process::ExitCode;

use clap::Parser as _;

use args::{Cli, Command};
use context::Context;
use error::{Exit, Failure};
use output::Printer;

/// Runs the program and returns its exit code. Called by `main` only.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap writes help to stdout and errors to stderr; a closed pipe is nobody's fault.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage as u8));
        }
    };
    if let Command::LocalSupervise { records, job } = &cli.command {
        return crate::local::supervise(records, *job);
    }
    let mut printer = Printer::stdio(cli.global.color, cli.global.verbosity());
    start_tracing(&cli);
    let result = dispatch(&cli, &mut printer);
    let exit = match result {
        Ok(exit) => exit,
        Err(failure) => {
            failure.print(&mut printer);
            failure.exit()
        }
    };
    match printer.finish() {
        Ok(()) => ExitCode::from(exit as u8),
        Err(error) => {
            let mut printer = Printer::stdio(cli.global.color, cli.global.verbosity());
            printer.error(&format!("cannot write to stdout: {error}"));
            ExitCode::from(Exit::Error as u8)
        }
    }
}

fn dispatch(cli: &Cli, printer: &mut Printer) -> Result<Exit, Failure> {
    let context = Context::load(&cli.global, printer)?;
    let result = carry_out(cli, &context, printer);
    // Also after an error: it may be the slow or broken directory that is looked for.
    if let Some(account) = &context.account {
        profile::tell(account, &cli.global, printer);
    }
    result
}

fn carry_out(cli: &Cli, context: &Context, printer: &mut Printer) -> Result<Exit, Failure> {
    match &cli.command {
        Command::Run(args) => run::run(context, args, printer),
        Command::Monitor(args) => monitor::run(context, args, printer),
        Command::Cancel(args) => cancel::run(context, args, printer),
        Command::Wait(args) => wait::run(context, args, printer),
        Command::Retry(args) => retry::run(context, args, printer),
        Command::Pause(args) => pause::pause(context, args, printer),
        Command::Resume(args) => pause::resume(context, args, printer),
        Command::Manifest(args) => manifest::run(context, args, printer),
        Command::Status(args) => status::run(context, args, printer),
        Command::SessionStatus(args) => session_status::run(context, args, printer),
        Command::Outputs(args) => outputs::run(context, args, printer),
        Command::Clean(args) => clean::run(context, args, printer),
        Command::State(args) => state::run(context, args, printer),
        Command::LocalSupervise { .. } => Ok(Exit::Done),
    }
}

/// `-vv` shows what the library tells about its own steps, on stderr.
fn start_tracing(cli: &Cli) {
    use tracing_subscriber::filter::LevelFilter;
    let level = match cli.global.verbosity() {
        output::Verbosity::Debug => LevelFilter::DEBUG,
        output::Verbosity::Verbose => LevelFilter::INFO,
        _ => LevelFilter::WARN,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        .init();
}
