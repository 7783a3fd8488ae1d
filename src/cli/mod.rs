//! The command line: the only part that depends on clap, colour and the terminal.
//!
//! One file per command; [`context`] contains what they share, [`error`] turns every error into a message, a hint and
//! an exit code.

pub mod args;
mod blocks;
pub mod context;
mod decide;
pub mod error;
pub mod output;
pub mod progress;
pub mod views;

mod audit;
mod cancel;
mod check;
mod clean;
mod complete;
mod config;
mod explain;
mod failed;
mod history;
mod init;
mod logs;
mod man;
mod monitor;
mod naming;
mod notify;
mod outputs;
mod pause;
mod retry;
pub mod run;
mod state;
mod status;
mod watch;

use std::process::ExitCode;

use clap::FromArgMatches as _;
use tracing_subscriber::filter::LevelFilter;

use crate::show::notify::Figures;
use args::{Cli, Command};

// What most commands use.
use crate::base::exit::Exit;
use crate::base::sys;
use crate::base::text::{few, maybe, plural};
use crate::decide::manifest::Selection;
use crate::model::config::Config;
use crate::model::state::{Reason, State, TaskRow, TaskStatus};
use crate::show::tables::{TableError, TaskState};
use context::{Access, Context};
use error::{Failure, Result};
use output::{Format, Printer, Verbosity};

/// Runs the program and returns its exit code. Called by `main` only.
pub fn main() -> ExitCode {
    sys::survive_file_size_limit();
    if complete::answer() {
        return ExitCode::from(Exit::Done.code());
    }
    let matches = args::command().try_get_matches();
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => {
            // clap writes help to stdout and errors to stderr; a closed pipe needs no report.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(Exit::Usage.code()));
        }
    };
    if let Command::LocalSupervise { records, job } = &cli.command {
        return crate::executor::local::supervise(records, *job);
    }
    let mut printer = Printer::stdio(cli.global.color, cli.global.verbosity());
    // `-v` and `-vv` show the library's log on stderr.
    let level = match cli.global.verbosity() {
        Verbosity::Debug => LevelFilter::DEBUG,
        Verbosity::Verbose => LevelFilter::INFO,
        _ => LevelFilter::WARN,
    };
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(printer.options().err_color)
        .with_target(false)
        .without_time()
        .init();
    let exit = dispatch(&cli, &mut printer).unwrap_or_else(|failure| {
        failure.print(&mut printer);
        failure.exit()
    });
    let finished = printer.finish();
    if exit == Exit::Interrupted {
        sys::end_by_interrupt();
    }
    match finished {
        Ok(()) => ExitCode::from(exit.code()),
        Err(error) => {
            let mut printer = Printer::stdio(cli.global.color, cli.global.verbosity());
            printer.error(&format!("cannot write to stdout: {error}"));
            ExitCode::from(Exit::Error.code())
        }
    }
}

fn dispatch(cli: &Cli, printer: &mut Printer) -> Result<Exit> {
    // These need no configuration, or report its errors themselves.
    match &cli.command {
        Command::Init(args) => return init::run(&cli.global, args, printer),
        Command::Check(args) => return check::run(&cli.global, args, printer),
        Command::Completions(args) => return complete::run(args, printer),
        Command::Man(args) => return man::run(&cli.global, args, printer),
        Command::Config(args) => return config::run(&cli.global, args, printer),
        Command::Run(args) if let Some(interval) = args.watch => {
            return watch::run(interval, printer, |printer| invoke(cli, printer));
        }
        _ => {}
    }
    invoke(cli, printer).0
}

/// Carries out a command, from reading the configuration to notifications. Also returns the figures of a run, as far
/// as it got.
fn invoke(cli: &Cli, printer: &mut Printer) -> (Result<Exit>, Option<Figures>) {
    let mut call = notify::begin(&cli.command);
    let context = match Context::load(&cli.global) {
        Ok(context) => context,
        Err(failure) => return (Err(failure), None),
    };
    if let Some(call) = call.as_ref().filter(|_| printer.is_quiet()) {
        printer.suppress_known(notify::recent_warnings(&context, call));
    }
    context.report_configuration(printer);
    let figures = match &mut call {
        Some(call) => &mut call.figures,
        None => &mut None,
    };
    let result = match &cli.command {
        Command::Run(args) => run::run(&context, args, figures, printer),
        Command::Monitor(args) => monitor::run(&context, args, printer),
        Command::Cancel(args) => cancel::run(&context, args, printer),
        Command::Wait(args) => monitor::wait(&context, args, printer),
        Command::Retry(args) => retry::run(&context, args, printer),
        Command::Pause(args) => pause::pause(&context, args, printer),
        Command::Resume(args) => pause::resume(&context, args, printer),
        Command::Manifest(args) => status::manifest(&context, args, printer),
        Command::Status(args) => status::run(&context, args, printer),
        Command::SessionStatus(args) => status::of_sessions(&context, args, printer),
        Command::Graph(args) => status::graph(&context, args, printer),
        Command::Audit(args) => audit::run(&context, args, printer),
        Command::Efficiency(args) => status::of_resources(&context, args, printer),
        Command::Metrics(args) => notify::print_metrics(&context, args, printer),
        Command::Explain(args) => explain::run(&context, args, printer),
        Command::Logs(args) => logs::run(&context, args, printer),
        Command::History(args) => history::run(&context, args, printer),
        Command::Outputs(args) => outputs::run(&context, args, printer),
        Command::Clean(args) => clean::run(&context, args, printer),
        Command::State(args) => state::run(&context, args, printer),
        // Handled by `dispatch`.
        Command::Init(_)
        | Command::Check(_)
        | Command::Completions(_)
        | Command::Man(_)
        | Command::Config(_)
        | Command::LocalSupervise { .. } => Ok(Exit::Done),
    };
    // Even after an error, which notifications report.
    if let Some(call) = &mut call {
        notify::after(&context, call, &result, printer);
    }
    (result, call.and_then(|call| call.figures))
}
