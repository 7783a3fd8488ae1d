//! The program `snbb-scheduler`.

use std::process::ExitCode;

fn main() -> ExitCode {
    snbb_scheduler::cli::main()
}
