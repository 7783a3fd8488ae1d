//! The command line: options, commands and their help texts.

#[cfg(test)]
mod hint_tests;
mod inspect;
mod modify;
mod values;

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, ColorChoice, CommandFactory as _, Parser, Subcommand, ValueEnum};
pub use inspect::*;
pub use modify::*;
pub use values::MIN_INTERVAL;
use values::whole;

use super::output::Verbosity;
use crate::base::exit::Exit;
use crate::config::duration;
use crate::model::procedure::MemSize;

/// Schedule BIDS processing pipelines on Slurm
///
/// Each `run` scans the data, finds the procedures that are due for each session, submits their
/// jobs and exits. Start it from cron.
#[derive(Debug, Parser)]
#[command(name = "snbb-scheduler", version, after_help = exit_codes(), max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

fn exit_codes() -> String {
    let codes = Exit::ALL.iter();
    let codes = codes.map(|exit| format!("{} {}", exit.code(), exit.meaning()));
    format!("Exit codes:\n  {}", codes.collect::<Vec<_>>().join("\n  "))
}

/// Options of every command, before or after its name.
#[derive(Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Read the configuration from this YAML file; without one, use the built-in defaults
    ///
    /// The environment variable SNBB_CONFIG can also name the file
    #[arg(long, global = true, value_name = "PATH")]
    pub config: Option<PathBuf>,
    /// Request this much memory for every job, overriding the configuration
    #[arg(long, global = true, value_name = "SIZE", value_parser = MemSize::parse)]
    pub slurm_mem: Option<MemSize>,
    /// Request this many CPUs for every job, overriding the configuration
    #[arg(long, global = true, value_name = "N", value_parser = whole::<u32>)]
    pub slurm_cpus: Option<u32>,
    /// Write the jobs' output and error files to this directory
    #[arg(long, global = true, value_name = "DIR")]
    pub slurm_log_dir: Option<PathBuf>,
    /// Show more detail; repeat to show every step
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub verbose: u8,
    /// Print only problems; `run`, `monitor` and `retry` print an unchanged warning at most once a day
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// Use colour in the output
    #[arg(long, global = true, value_enum, default_value_t = ColorChoice::Auto, value_name = "WHEN")]
    pub color: ColorChoice,
    /// Work without a lock; only in debug builds, to test what then happens
    #[cfg(debug_assertions)]
    #[arg(long, global = true, hide = true)]
    pub lock_always_granted_for_tests: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Find the tasks that are due and submit their jobs
    #[command(after_help = exit_codes())]
    Run(RunArgs),
    /// Update the status of the jobs in flight; submit nothing
    Monitor(MonitorArgs),
    /// Cancel the selected jobs; their tasks become failed (cancelled)
    Cancel(CancelArgs),
    /// Wait until the selected tasks have nothing in flight
    ///
    /// Exit codes: 0 all complete, 1 some failed, 2 no selected task was ever submitted, 124 timed out
    Wait(WaitArgs),
    /// Clear failed tasks so that the next run submits them again
    Retry(RetryArgs),
    /// Stop submitting jobs, of one procedure or of the whole study, until `resume`
    ///
    /// Jobs in flight continue. A procedure also pauses automatically after repeated failures
    /// (`pause_after_failures`)
    Pause(PauseArgs),
    /// End a pause
    ///
    /// Without --procedure, ends the pause of the whole study. Earlier failures no longer count
    /// towards the next automatic pause
    Resume(ResumeArgs),
    /// List the tasks that are due now
    Manifest(ManifestArgs),
    /// Show the counts and rows of the state file
    Status(StatusArgs),
    /// Show one row per session and one column per procedure
    SessionStatus(SessionStatusArgs),
    /// Draw the pipeline and the status of its tasks, as Mermaid (GitHub, GitLab, editors) or DOT
    Graph(GraphArgs),
    /// Report on the whole study: outputs, DICOM files, logs, stale jobs, health
    ///
    /// Exit codes: 0, or 7 if something could not be read
    Audit(AuditArgs),
    /// Compare what jobs used with what they requested, the most wasteful first
    Efficiency(EfficiencyArgs),
    /// Print metrics for Prometheus: tasks, failures, pauses, the last run
    ///
    /// With the key `metrics_file`, `run`, `monitor` and `retry` write them to a file automatically
    Metrics(MetricsArgs),
    /// Explain the status of a task and what has to happen next
    ///
    /// Queries Slurm and reads the disk; writes nothing, submits nothing and takes no lock. Shows
    /// every detail of one task, and a few lines for each task of a subject or session
    Explain(ExplainArgs),
    /// Show the last lines of a job's logs
    Logs(LogsArgs),
    /// Show everything that happened to a task, in chronological order
    History(HistoryArgs),
    /// List the output directories or files of complete tasks, for rsync, tar or DataLad
    ///
    /// Prints each path once, in the order of the tasks. Lists only tasks whose outputs are complete on
    /// disk now and that have no job in flight
    Outputs(OutputsArgs),
    /// Remove old records: rows of tasks that no longer exist, logs, events
    ///
    /// Without --rows, --logs and --events, cleans all three. Moves rows to the attempts file and events
    /// to compressed archives beside the audit log; deletes logs of complete tasks. Never touches
    /// anything below the data roots
    Clean(CleanArgs),
    /// Check, rebuild or locate the state file
    #[command(subcommand)]
    State(StateCommand),
    /// Write a commented configuration and job scripts for a site
    Init(InitArgs),
    /// Check the setup: configuration, directories, scripts, Slurm, lock, disk
    ///
    /// Exit codes: 0 no errors, perhaps warnings, 1 errors, 2 the configuration cannot be used
    Check(CheckArgs),
    /// Show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Print a shell script that completes commands, subjects, sessions and procedures
    Completions(CompletionsArgs),
    /// Print a manual page
    Man(ManArgs),
    /// Run one local job (started by `executor: local`)
    #[command(hide = true)]
    LocalSupervise { records: PathBuf, job: u64 },
}

/// A selection of tasks; without any option, all of them.
#[derive(Debug, Args, Default)]
pub struct SelectArgs {
    /// Select this subject, with or without `sub-`; globs allowed; repeatable
    #[arg(long = "subject", value_name = "LABEL")]
    pub subjects: Vec<String>,
    /// Select this session, with or without `ses-`; globs allowed; repeatable
    #[arg(long = "session", value_name = "LABEL")]
    pub sessions: Vec<String>,
    /// Select this procedure; globs allowed; repeatable
    #[arg(long = "procedure", value_name = "NAME")]
    pub procedures: Vec<String>,
}

/// Options of commands that write the state.
#[derive(Debug, Args)]
pub struct WriteArgs {
    /// Wait this long for another invocation to finish, such as 2m [default: lock_timeout in the configuration, or 10s]
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub lock_timeout: Option<Duration>,
    /// Write the state even if it belongs to another user
    #[arg(long)]
    pub as_owner: bool,
}

/// Words that name tasks, in any order.
#[derive(Debug, Args)]
pub struct TaskArgs {
    /// Subject, with or without `sub-`
    #[arg(value_name = "SUBJECT")]
    pub subject: String,
    /// Session, with or without `ses-`
    #[arg(value_name = "SESSION")]
    pub session: Option<String>,
    /// Procedure
    #[arg(value_name = "PROCEDURE")]
    pub procedure: Option<String>,
}

impl TaskArgs {
    /// The words as they were given.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        let all = [
            Some(&self.subject),
            self.session.as_ref(),
            self.procedure.as_ref(),
        ];
        all.into_iter().flatten().map(String::as_str)
    }
}

/// Output formats of commands that print no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TextFormat {
    /// Human-readable text
    Text,
    /// JSON array of objects
    Json,
}

/// How closely outputs are checked.
#[derive(Debug, Args, Clone, Copy)]
pub struct OutputCheckArgs {
    /// Check the outputs of all complete tasks, even those that `recheck` in the configuration would skip
    #[arg(long)]
    pub recheck: bool,
}

/// The order and length of a list.
#[derive(Debug, Args, Clone, Copy, Default)]
pub struct LengthArgs {
    /// Reverse the order
    #[arg(long)]
    pub reverse: bool,
    /// Show at most N rows, or all with 0 [default: 50 on a terminal, otherwise all]
    #[arg(long, value_name = "N", value_parser = whole::<usize>)]
    pub limit: Option<usize>,
}

impl Global {
    /// True if a test disables locking.
    pub fn grants_every_lock(&self) -> bool {
        #[cfg(debug_assertions)]
        let is_granted = self.lock_always_granted_for_tests;
        #[cfg(not(debug_assertions))]
        let is_granted = false;
        is_granted
    }

    pub fn verbosity(&self) -> Verbosity {
        Verbosity::from_flags(self.quiet, self.verbose)
    }
}

/// Example commands without the program's name.
const EXAMPLES: &str = "\
run --dry-run
run --procedure fmriprep --subject 0001 --max-jobs 10
run --watch 2m
monitor
monitor --watch 60
cancel --procedure qsiprep --dry-run
wait --procedure qsiprep --timeout 12h
retry --reason timeout
retry --subject 0001 --dry-run
retry --like sub-0001 ses-01 qsiprep
pause --procedure qsiprep --note 'licence server is down'
resume --procedure qsiprep
manifest --procedure 'fmri*'
status --failed
status --since yesterday --sort updated
status --columns subject,session,procedure,partition,elapsed_s
session-status --status failed --status blocked
session-status --format csv
graph
graph --format dot | dot -Tsvg > pipeline.svg
audit --format html --output report.html
audit --subject 0001
efficiency
efficiency --by job --procedure fmriprep --format csv
metrics | grep tasks_failed
metrics --output /var/lib/node_exporter/snbb_scheduler.prom
explain sub-0001 ses-01 qsiprep
logs sub-0001 ses-01 qsiprep --follow
logs --failed
history sub-0001 ses-01 qsiprep
outputs --procedure freesurfer --root derivatives --null
clean --older-than 90d --dry-run -v
clean --purge --subject sub-0001 --dry-run
state verify
state repair
state repair --yes
state path attempts
init study --dicom-root /data/dicom --procedures fmriprep,mriqc
init --add xcp_d study
check
check --cron
config show
config show --procedure fmriprep
config show --format json
completions bash
man config
man --output /usr/local/share/man/man1";

/// The command line with the help texts of this module.
pub fn command() -> clap::Command {
    let mut root = Cli::command();
    root.build();
    root.mut_subcommands(with_own_help)
}

/// Hides global options, which the program's own help describes, and adds examples. Needs a built command.
pub fn with_own_help(command: clap::Command) -> clap::Command {
    let name = command.get_bin_name().unwrap_or_default();
    let name = name.replace("snbb-scheduler ", "").replace("help ", "") + " ";
    let examples = EXAMPLES.lines();
    let examples = examples.filter(|line| format!("{line} ").starts_with(&name));
    let examples: Vec<String> = examples
        .map(|line| format!("  snbb-scheduler {line}\n"))
        .collect();
    let mut after = match &examples[..] {
        [] => String::new(),
        [one] => format!("Example:\n{one}\n"),
        all => format!("Examples:\n{}\n", all.concat()),
    };
    after.push_str("See snbb-scheduler --help for global options such as --config and -v.");
    if let Some(own) = command.get_after_help() {
        after.push_str(&format!("\n\n{own}"));
    }
    let command = command.after_help(after).mut_args(|arg| {
        let is_hidden = arg.is_hide_set() || arg.is_global_set();
        arg.hide(is_hidden)
    });
    command.mut_subcommands(with_own_help)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn d20_each_command_has_examples_that_can_be_typed() {
        for line in EXAMPLES.lines() {
            let line = line.split(" | ").next().unwrap();
            let words = shell_words::split(line).unwrap();
            let words = std::iter::once("snbb-scheduler".to_owned()).chain(words);
            assert!(command().try_get_matches_from(words).is_ok(), "{line}");
        }
        let mut stack: Vec<clap::Command> = command().get_subcommands().cloned().collect();
        while let Some(mut command) = stack.pop() {
            stack.extend(command.get_subcommands().cloned());
            if command.is_hide_set() || command.get_name() == "help" {
                continue;
            }
            let help = command.render_long_help().to_string();
            assert!(help.contains("Example"), "{help}");
            assert!(!help.contains("--slurm-log-dir"), "{help}");
            assert_eq!(help.matches("snbb-scheduler --help").count(), 1, "{help}");
        }
    }
}
