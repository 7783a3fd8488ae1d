//! The options of sbatch: how each is spelled, whether it takes a value, and who may pass it. Source: sbatch(1).

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
    /// After `=` only: the next word is another option, or the script.
    Maybe,
    Value,
}

/// Who may pass an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Anybody.
    Free,
    /// Anybody, but there is a key for it.
    Key(&'static str),
    /// No configuration, because of this.
    Refused(&'static str),
    /// No configuration and no script, because of this.
    Unfit(&'static str),
}

const NOTHING: &str = "sbatch would submit nothing";
const LOGS: &str = "'slurm_log_dir' says where logs go";
const VARIABLES: &str = "the script's SNBB_* variables travel by it";
const OWN: &str = "jobs are looked for among the user's own";

/// All options. An abbreviation stands for the first one that begins with it: sbatch takes it only where that is the
/// only one. Those that are refused come first.
#[rustfmt::skip]
static OPTIONS: &[SbatchOption] = &[
    option("job-name", 'J', Value, Refused("jobs are found by their name")),
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

    option("acctg-freq", '-', Value, Free),
    option("batch", '-', Value, Free),
    option("bb", '-', Value, Free),
    option("bbf", '-', Value, Free),
    option("begin", 'b', Value, Free),
    option("chdir", 'D', Value, Free),
    option("clusters", 'M', Value, Free),
    option("cluster-constraint", '-', Value, Free),
    option("comment", '-', Value, Free),
    option("constraint", 'C', Value, Free),
    option("consolidate-segments", '-', Nothing, Free),
    option("container", '-', Value, Free),
    option("container-id", '-', Value, Free),
    option("contiguous", '-', Nothing, Free),
    option("core-spec", 'S', Value, Free),
    option("cores-per-socket", '-', Value, Free),
    option("cpu-freq", '-', Value, Free),
    option("cpus-per-gpu", '-', Value, Free),
    option("deadline", '-', Value, Free),
    option("delay-boot", '-', Value, Free),
    option("dependency", 'd', Value, Free),
    option("distribution", 'm', Value, Free),
    option("exclusive", '-', Maybe, Free),
    option("exclude", 'x', Value, Free),
    option("extra", '-', Value, Free),
    option("extra-node-info", 'B', Value, Free),
    option("get-user-env", '-', Maybe, Free),
    option("gpu-bind", '-', Value, Free),
    option("gpu-freq", '-', Value, Free),
    option("gpus", 'G', Value, Free),
    option("gpus-per-node", '-', Value, Free),
    option("gpus-per-socket", '-', Value, Free),
    option("gpus-per-task", '-', Value, Free),
    option("gres-flags", '-', Value, Free),
    option("hint", '-', Value, Free),
    option("hold", 'H', Nothing, Free),
    option("ignore-pbs", '-', Nothing, Free),
    option("input", 'i', Value, Free),
    option("kill-on-invalid-dep", '-', Value, Free),
    option("licenses", 'L', Value, Free),
    option("mail-type", '-', Value, Free),
    option("mail-user", '-', Value, Free),
    option("mcs-label", '-', Value, Free),
    option("mem-bind", '-', Value, Free),
    option("mem-per-cpu", '-', Value, Free),
    option("mem-per-gpu", '-', Value, Free),
    option("mincpus", '-', Value, Free),
    option("network", '-', Value, Free),
    option("nice", '-', Maybe, Free),
    option("no-kill", 'k', Maybe, Free),
    option("no-requeue", '-', Nothing, Free),
    option("nodefile", 'F', Value, Free),
    option("nodelist", 'w', Value, Free),
    option("nodes", 'N', Value, Free),
    option("ntasks", 'n', Value, Free),
    option("ntasks-per-core", '-', Value, Free),
    option("ntasks-per-gpu", '-', Value, Free),
    option("ntasks-per-node", '-', Value, Free),
    option("ntasks-per-socket", '-', Value, Free),
    option("oom-kill-step", '-', Maybe, Free),
    option("open-mode", '-', Value, Free),
    option("overcommit", 'O', Nothing, Free),
    option("oversubscribe", 's', Maybe, Free),
    option("power", '-', Value, Free),
    option("prefer", '-', Value, Free),
    option("priority", '-', Value, Free),
    option("profile", '-', Value, Free),
    option("propagate", '-', Maybe, Free),
    option("reboot", '-', Nothing, Free),
    option("requeue", '-', Nothing, Free),
    option("reservation", '-', Value, Free),
    option("resv-ports", '-', Maybe, Free),
    option("segment", '-', Value, Free),
    option("share", '-', Maybe, Free),
    option("signal", '-', Value, Free),
    option("sockets-per-node", '-', Value, Free),
    option("spread-job", '-', Nothing, Free),
    option("stepmgr", '-', Nothing, Free),
    option("switches", '-', Value, Free),
    option("tasks-per-node", '-', Value, Free),
    option("thread-spec", '-', Value, Free),
    option("threads-per-core", '-', Value, Free),
    option("time-min", '-', Value, Free),
    option("tmp", '-', Value, Free),
    option("tres-bind", '-', Value, Free),
    option("tres-per-task", '-', Value, Free),
    option("use-min-nodes", '-', Nothing, Free),
    option("verbose", 'v', Nothing, Free),
    option("wait-all-nodes", '-', Value, Free),
    option("wckey", '-', Value, Free),
];

/// `letter`: `-` for none.
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

/// Finds an option by its long name, or by the beginning of it, as getopt_long(3) does.
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
