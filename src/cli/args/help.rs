//! Help of each command: its own options, examples, and a pointer to the global options.

use clap::{Command, CommandFactory as _};

use super::Cli;

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
pub fn command() -> Command {
    let mut root = Cli::command();
    root.build();
    root.mut_subcommands(with_own_help)
}

/// Hides global options, which the program's own help describes, and adds examples. Needs a built command.
pub fn with_own_help(command: Command) -> Command {
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
    fn d20_each_command_has_examples_that_can_be_typed() {
        for line in EXAMPLES.lines() {
            let line = line.split(" | ").next().unwrap();
            let words = shell_words::split(line).unwrap();
            let words = std::iter::once("snbb-scheduler".to_owned()).chain(words);
            assert!(command().try_get_matches_from(words).is_ok(), "{line}");
        }
        let mut stack: Vec<Command> = command().get_subcommands().cloned().collect();
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
