//! Options of the commands that set up a site.

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
    /// Show every effective value and its source
    ///
    /// The source is a line of the configuration file, a default, a command-line option or an environment variable.
    /// `man config` describes every key
    Show(ConfigShowArgs),
}

#[derive(Debug, Args)]
pub struct ConfigShowArgs {
    /// Show only the values of this procedure, including those from the site's keys; globs allowed; repeatable
    #[arg(long = "procedure", value_name = "NAME")]
    pub procedures: Vec<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = TextFormat::Text)]
    pub format: TextFormat,
}

#[derive(Debug, Args)]
pub struct InitArgs {
    /// Directory for the configuration and the job scripts; created if missing
    #[arg(value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Directory where DICOM files arrive, as `sub-*/ses-*` or `sub-*`
    #[arg(long, value_name = "DIR", help_heading = DATA)]
    pub dicom_root: Option<PathBuf>,
    /// CSV or TSV file that lists the sessions and their DICOM directories, for directories that are not named sub-*/ses-*
    #[arg(long, value_name = "FILE", help_heading = DATA)]
    pub sessions_file: Option<PathBuf>,
    /// Column of --sessions-file with the subject
    #[arg(long, value_name = "NAME", default_value = "UID", requires = "sessions_file", help_heading = DATA)]
    pub subject_col: String,
    /// Column of --sessions-file with the session
    #[arg(long, value_name = "NAME", default_value = "ScanID", requires = "sessions_file", help_heading = DATA)]
    pub session_col: String,
    /// BIDS dataset. Without --dicom-root and --sessions-file, its sessions are those of the study
    #[arg(long, value_name = "DIR", help_heading = DATA)]
    pub bids_root: Option<PathBuf>,
    /// Directory for outputs [default: derivatives in the BIDS dataset if it exists, otherwise beside it]
    #[arg(long, value_name = "DIR", help_heading = DATA)]
    pub derivatives_root: Option<PathBuf>,
    /// State file [default: state/scheduler_state.parquet in DIR]
    #[arg(long, value_name = "FILE", help_heading = STUDY)]
    pub state_file: Option<PathBuf>,
    /// Directory for the jobs' output and error files [default: logs in DIR]
    #[arg(long, value_name = "DIR", help_heading = STUDY)]
    pub log_dir: Option<PathBuf>,
    /// Short name that distinguishes this study from your others in Slurm's queue
    #[arg(long, value_name = "NAME", help_heading = STUDY)]
    pub project: Option<String>,
    /// Apps of the catalogue, such as fmriprep,mriqc; omit for a small example
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = STUDY)]
    pub procedures: Option<Vec<String>>,
    /// How to run jobs [default: slurm if it is available]
    #[arg(long, value_enum, help_heading = JOBS)]
    pub executor: Option<ExecutorWord>,
    /// Slurm partition; empty for your default
    #[arg(long, value_name = "NAME", help_heading = JOBS)]
    pub partition: Option<String>,
    /// Slurm account; empty for your default
    #[arg(long, value_name = "NAME", help_heading = JOBS)]
    pub account: Option<String>,
    /// Ask no questions; use defaults for everything not given
    #[arg(short, long, visible_alias = "no-input")]
    pub yes: bool,
    /// Print the configuration and list the files; write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Add apps of the catalogue and their scripts to the existing configuration, keeping its lines
    #[arg(long, value_name = "NAMES", value_delimiter = ',', conflicts_with_all = ["procedures", "list", "yes"])]
    pub add: Option<Vec<String>>,
    /// List the catalogue and exit
    #[arg(long)]
    pub list: bool,
}

const DATA: &str = "Data";
const STUDY: &str = "Study";
const JOBS: &str = "Jobs";

/// Executors that `init` can set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ExecutorWord {
    Slurm,
    /// Child processes on this machine
    Local,
}

#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Repeat the Slurm checks in the environment that cron provides
    ///
    /// That environment contains only PATH=/usr/bin:/bin, HOME, SHELL and LOGNAME. For each check that fails there, the
    /// lines that your crontab needs are shown
    #[arg(long)]
    pub cron: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Shell that runs the script
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: ShellName,
}

/// Shells with completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ShellName {
    Bash,
    Zsh,
    Fish,
}

#[derive(Debug, Args)]
pub struct ManArgs {
    /// Command such as run, or config for all configuration keys; omit for the main page
    #[arg(value_name = "PAGE", conflicts_with = "output")]
    pub page: Option<String>,
    /// Write all pages to this directory
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}
