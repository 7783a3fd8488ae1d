//! Options of the commands that set a site up.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::cli::output::Format;

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Where the configuration and the job scripts are written; made if it is missing
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Repeat the part about Slurm with the surroundings that cron gives
    ///
    /// An empty environment but for PATH=/usr/bin:/bin, HOME, SHELL and LOGNAME; what then fails comes with the lines
    /// that a crontab needs
    #[arg(long)]
    pub cron: bool,
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
    /// Take this file for /proc/self/mountinfo
    #[arg(long, hide = true, value_name = "FILE")]
    pub mountinfo_for_tests: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell that is to complete
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: ShellName,
}

/// Names the shells that can be made to complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ShellName {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Write all pages into this directory instead of the main one to stdout
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}
