//! Options of the commands that set a site up.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::TextFormat;
use crate::cli::output::Format;

#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Show every effective value and where it comes from
    ///
    /// That is a line of the configuration file, a default, an option of the command line or an environment variable.
    /// `man config` says what each key means
    Show(ConfigShowArgs),
}

#[derive(Debug, Args)]
pub struct ConfigShowArgs {
    /// Only the values of this procedure, also those that it takes from the site; globs allowed; repeatable
    #[arg(long = "procedure", value_name = "NAME")]
    pub procedures: Vec<String>,
    #[arg(long, value_enum, default_value_t = TextFormat::Text)]
    pub format: TextFormat,
}

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Where the configuration and the job scripts are written; made if it is missing
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Where DICOM files arrive, in `sub-*/ses-*` or `sub-*`
    #[arg(long, value_name = "DIR", help_heading = DATA)]
    pub dicom_root: Option<PathBuf>,
    /// A CSV or TSV file that lists sessions and their DICOM directories, where those are named otherwise
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    pub sessions_file: Option<PathBuf>,
    /// The column of --sessions-file that holds the subject
    #[arg(long, value_name = "NAME", default_value = "UID", requires = "sessions_file", help_heading = DATA)]
    pub subject_col: String,
    /// The column of --sessions-file that holds the session
    #[arg(long, value_name = "NAME", default_value = "ScanID", requires = "sessions_file", help_heading = DATA)]
    pub session_col: String,
    /// The BIDS dataset; given without the two above, it is one that arrives converted
    #[arg(long, value_name = "DIR", help_heading = DATA)]
    pub bids_root: Option<PathBuf>,
    /// Where procedures write; by default `derivatives` in the BIDS dataset if it is there, else beside it
    #[arg(long, value_name = "DIR", help_heading = DATA)]
    pub derivatives_root: Option<PathBuf>,
    /// The state file [default: state/scheduler_state.parquet in DIR]
    #[arg(long, value_name = "FILE", help_heading = STUDY)]
    pub state_file: Option<PathBuf>,
    /// Where jobs write their output and error files [default: logs in DIR]
    #[arg(long, value_name = "DIR", help_heading = STUDY)]
    pub log_dir: Option<PathBuf>,
    /// A short name that tells two studies of one user apart in Slurm's queue
    #[arg(long, value_name = "NAME", help_heading = STUDY)]
    pub project: Option<String>,
    /// Apps of the catalogue, such as fmriprep,mriqc; without any, a small example is written
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = STUDY)]
    pub procedures: Option<Vec<String>>,
    /// What runs jobs; by default Slurm where there is one
    #[arg(long, value_enum, help_heading = JOBS)]
    pub executor: Option<ExecutorWord>,
    /// Slurm's partition; empty for your default one
    #[arg(long, value_name = "NAME", help_heading = JOBS)]
    pub partition: Option<String>,
    /// Slurm's account; empty for your default one
    #[arg(long, value_name = "NAME", help_heading = JOBS)]
    pub account: Option<String>,
    /// Ask nothing: take defaults for what is not given
    #[arg(short, long, visible_alias = "no-input")]
    pub yes: bool,
    /// Print the configuration and name what would be written; write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Add apps of the catalogue and their scripts to the configuration that is there, which keeps its lines
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with_all = ["procedures", "list", "yes"])]
    pub add: Option<Vec<String>>,
    /// List the catalogue of procedures and leave
    #[arg(long)]
    pub list: bool,
}

const DATA: &str = "Where the data is";
const STUDY: &str = "The study";
const JOBS: &str = "What runs the jobs";

/// Names the executors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExecutorWord {
    Slurm,
    /// Child processes on this machine
    Local,
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
    /// A command such as run, or config for all keys of the configuration; without it the main page
    #[arg(value_name = "PAGE", conflicts_with = "output")]
    pub page: Option<String>,
    /// Write all pages into this directory
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}
