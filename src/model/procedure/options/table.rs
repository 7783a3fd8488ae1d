//! The options of sbatch: spelling, whether they take a value, and who may pass them. Source: sbatch(1).

use Class::{Free, Key, Refused, Unfit};
use Takes::{Maybe, Nothing, Value};

/// One option of sbatch.
#[derive(Debug, PartialEq, Eq)]
pub struct SbatchOption {
    pub long: &'static str,
    pub letter: Option<char>,
    pub takes: Takes,
    pub class: Class,
}

/// Whether an option has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    /// Only after `=`: the next word is another option, or the script.
    Maybe,
    Value,
}

/// Who may pass an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    Free,
    /// Allowed, but there is a key for it.
    Key(&'static str),
    /// Not allowed in the configuration, for this reason.
    Refused(&'static str),
    /// Not allowed in the configuration and in scripts, for this reason.
    Unfit(&'static str),
}

const NOTHING: &str = "sbatch would submit nothing";
const LOGS: &str = "'slurm_log_dir' determines where logs go";
const VARIABLES: &str = "it passes the SNBB_* variables to the script";
const OWN: &str = "only the user's own jobs are found again";

/// The options of sbatch, without free ones that take a value and have no letter. An abbreviation means
/// the first option that starts with it (sbatch accepts only unique ones), so the refused options come
/// first.
#[rustfmt::skip]
static OPTIONS: &[SbatchOption] = &[
    option("job-name", 'J', Value, Refused("jobs are found by name")),
    option("parsable", '-', Nothing, Refused("it is always passed")),
    option("array", 'a', Value, Refused("one job is submitted per task")),
    option("wait", 'W', Nothing, Unfit("sbatch would wait for the job's end")),
    option("wrap", '-', Value, Refused("the script is the procedure's 'script'")),
    option("test-only", '-', Nothing, Unfit(NOTHING)),
    option("export", '-', Value, Refused(VARIABLES)),
    option("export-file", '-', Value, Refused(VARIABLES)),
    option("output", 'o', Value, Refused(LOGS)),
    option("error", 'e', Value, Refused(LOGS)),
    option("quiet", 'Q', Nothing, Unfit("sbatch would not print the job id")),
    option("uid", '-', Value, Unfit(OWN)),
    option("gid", '-', Value, Unfit(OWN)),
    option("help", 'h', Nothing, Unfit(NOTHING)),
    option("usage", '-', Nothing, Unfit(NOTHING)),
    option("version", 'V', Nothing, Unfit(NOTHING)),

    option("partition", 'p', Value, Key("partition")),
    option("account", 'A', Value, Key("account")),
    option("qos", 'q', Value, Key("qos")),
    option("time", 't', Value, Key("time")),
    option("mem", '-', Value, Key("mem")),
    option("cpus-per-task", 'c', Value, Key("cpus_per_task")),
    option("gres", '-', Value, Key("gres")),

    option("begin", 'b', Value, Free),
    option("chdir", 'D', Value, Free),
    option("clusters", 'M', Value, Free),
    option("comment", '-', Value, Free),
    option("constraint", 'C', Value, Free),
    option("consolidate-segments", '-', Nothing, Free),
    option("contiguous", '-', Nothing, Free),
    option("core-spec", 'S', Value, Free),
    option("dependency", 'd', Value, Free),
    option("distribution", 'm', Value, Free),
    option("exclusive", '-', Maybe, Free),
    option("exclude", 'x', Value, Free),
    option("extra-node-info", 'B', Value, Free),
    option("get-user-env", '-', Maybe, Free),
    option("gpus", 'G', Value, Free),
    option("hold", 'H', Nothing, Free),
    option("ignore-pbs", '-', Nothing, Free),
    option("input", 'i', Value, Free),
    option("licenses", 'L', Value, Free),
    option("mem-per-cpu", '-', Value, Free),
    option("mem-per-gpu", '-', Value, Free),
    option("nice", '-', Maybe, Free),
    option("no-kill", 'k', Maybe, Free),
    option("no-requeue", '-', Nothing, Free),
    option("nodefile", 'F', Value, Free),
    option("nodelist", 'w', Value, Free),
    option("nodes", 'N', Value, Free),
    option("ntasks", 'n', Value, Free),
    option("oom-kill-step", '-', Maybe, Free),
    option("overcommit", 'O', Nothing, Free),
    option("oversubscribe", 's', Maybe, Free),
    option("propagate", '-', Maybe, Free),
    option("reboot", '-', Nothing, Free),
    option("requeue", '-', Nothing, Free),
    option("resv-ports", '-', Maybe, Free),
    option("share", '-', Maybe, Free),
    option("spread-job", '-', Nothing, Free),
    option("stepmgr", '-', Nothing, Free),
    option("use-min-nodes", '-', Nothing, Free),
    option("verbose", 'v', Nothing, Free),
];

/// `letter` is `-` if there is none.
const fn option(long: &'static str, letter: char, takes: Takes, class: Class) -> SbatchOption {
    let letter = match letter {
        '-' => None,
        letter => Some(letter),
    };
    SbatchOption {
        long,
        letter,
        takes,
        class,
    }
}

/// Finds an option by its long name or an abbreviation of it, like getopt_long(3).
pub(super) fn by_name(name: &str) -> Option<&'static SbatchOption> {
    let exact = OPTIONS.iter().find(|option| option.long == name);
    let mut begun = OPTIONS
        .iter()
        .filter(|option| !name.is_empty() && option.long.starts_with(name));
    exact.or_else(|| begun.next())
}

pub(super) fn by_letter(letter: char) -> Option<&'static SbatchOption> {
    OPTIONS.iter().find(|option| option.letter == Some(letter))
}
