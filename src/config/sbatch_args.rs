//! `sbatch_args`: which further options of sbatch a procedure may pass.
//!
//! Refused are those that would change what a job is found by, how sbatch answers, how many jobs
//! there are, or what the script sees. Options are recognised as getopt_long(3) does it:
//! `--job-n=x`, `-Jx` and `-QJx` too. Source of names: sbatch(1).

use super::reader::Value;
use crate::model::procedure::clusters;
use crate::model::procedure::options::SHORT_WITH_VALUE;

/// Options that are refused: long name, short letter, and why.
const REFUSED: &[(&str, Option<char>, &str)] = &[
    ("job-name", Some('J'), "jobs are found by their name"),
    ("parsable", None, "it is always passed"),
    ("array", Some('a'), "one job is submitted per task"),
    ("wait", Some('W'), "the scheduler does not wait for jobs"),
    (
        "wait-for-nodes",
        None,
        "the scheduler does not wait for jobs",
    ),
    ("wrap", None, "the script is the procedure's 'script'"),
    ("test-only", None, "nothing would be submitted"),
    ("export", None, "the script's SNBB_* variables travel by it"),
    (
        "export-file",
        None,
        "the script's SNBB_* variables travel by it",
    ),
    ("output", Some('o'), "'slurm_log_dir' says where logs go"),
    ("error", Some('e'), "'slurm_log_dir' says where logs go"),
    ("quiet", Some('Q'), "the job id would not be printed"),
    ("uid", None, "jobs are looked for among the user's own"),
    ("gid", None, "jobs are looked for among the user's own"),
    ("help", Some('h'), "nothing would be submitted"),
    ("usage", None, "nothing would be submitted"),
    ("version", Some('V'), "nothing would be submitted"),
];

/// Options that have a key of their own.
const OWN_KEY: &[(&str, char, &str)] = &[
    ("partition", 'p', "partition"),
    ("account", 'A', "account"),
    ("qos", 'q', "qos"),
    ("time", 't', "time"),
    ("mem", '\0', "mem"),
    ("cpus-per-task", 'c', "cpus_per_task"),
    ("gres", '\0', "gres"),
];

/// Long options that take none, or only one after `=`: what follows them would be the script.
const LONG_WITHOUT_VALUE: &[&str] = &[
    "contiguous",
    "exclusive",
    "get-user-env",
    "hold",
    "ignore-pbs",
    "no-kill",
    "no-requeue",
    "nice",
    "overcommit",
    "oversubscribe",
    "propagate",
    "reboot",
    "requeue",
    "share",
    "spread-job",
    "stepmgr",
    "use-min-nodes",
    "verbose",
];

/// Reads the list.
pub(super) fn read(value: &Value<'_>) -> Option<Vec<String>> {
    if value.is_scalar() {
        let hint = "write one list entry per option, such as [--nice=100, --exclusive]";
        value.problem_with("must be a list, not a single value", hint);
        return None;
    }
    let items = value.items()?;
    let mut arguments: Vec<String> = Vec::new();
    // The option before, if its value is still to come.
    let mut waiting: Option<String> = None;
    for item in &items {
        let Some(argument) = item.text() else {
            waiting = None;
            continue;
        };
        match argument.strip_prefix("--") {
            Some(long) => {
                waiting = None;
                check_long(item, &argument, long, &mut waiting);
            }
            None if argument.len() > 1 && argument.starts_with('-') => {
                waiting = None;
                check_short(item, &argument, &mut waiting);
            }
            None if waiting.take().is_none() || argument == ":" || argument == "-" => {
                item.problem_with(
                    format!("'{argument}' is no option: sbatch would take it for the script"),
                    "write an option and its value as one entry, such as --nice=100",
                );
            }
            None => {}
        }
        arguments.push(argument);
    }
    if let (Some(option), Some(last)) = (waiting, items.last())
        && !option.starts_with("--")
    {
        last.problem(format!(
            "'{option}' has no value: sbatch would take the script for it"
        ));
    }
    // Its answers name no cluster, so that nobody could tell whose job an id is.
    if clusters::named_in(&arguments).contains(&"all") {
        value.problem_with(
            "--clusters=all: the clusters must be named",
            "list them: --clusters=first,second",
        );
    }
    Some(arguments)
}

fn check_long(item: &Value<'_>, argument: &str, long: &str, waiting: &mut Option<String>) {
    let (name, has_value) = match long.split_once('=') {
        Some((name, _)) => (name, true),
        None => (long, false),
    };
    if name.is_empty() {
        item.problem(format!("'{argument}' is no option of sbatch"));
        return;
    }
    // An abbreviation stands for every option that begins with it, unless it is one by itself.
    let own = OWN_KEY.iter().find(|(option, ..)| *option == name);
    let complete = own.is_some() || LONG_WITHOUT_VALUE.contains(&name);
    let refused = REFUSED
        .iter()
        .find(|(option, ..)| *option == name)
        .or_else(|| {
            let mut candidates = REFUSED.iter();
            candidates.find(|(option, ..)| !complete && option.starts_with(name))
        });
    if let Some((option, _, why)) = refused {
        item.problem(format!(
            "'{argument}': --{option} cannot be passed here, {why}"
        ));
    } else if let Some((option, _, key)) = own {
        item.warn(format!("--{option} has a key of its own, '{key}'"));
    }
    if !has_value && !LONG_WITHOUT_VALUE.contains(&name) {
        *waiting = Some(argument.to_owned());
    }
}

fn check_short(item: &Value<'_>, argument: &str, waiting: &mut Option<String>) {
    let letters = argument.get(1..).unwrap_or_default();
    for (index, letter) in letters.char_indices() {
        let refused = REFUSED.iter().find(|(_, short, _)| *short == Some(letter));
        if let Some((option, _, why)) = refused {
            item.problem(format!(
                "'{argument}': -{letter} (--{option}) cannot be passed here, {why}"
            ));
        }
        let own = OWN_KEY.iter().find(|(_, short, _)| *short == letter);
        if let Some((_, _, key)) = own {
            item.warn(format!("-{letter} has a key of its own, '{key}'"));
        }
        if SHORT_WITH_VALUE.contains(letter) {
            if index + letter.len_utf8() == letters.len() {
                *waiting = Some(argument.to_owned());
            }
            return;
        }
    }
}
