//! The resources of one attempt: the procedure's, raised by the retry rules, then reduced to the site's ceiling.

use std::fmt;

use crate::base::text::maybe;
use crate::decide::manifest::retry::{asked_mem, asked_time};
use crate::model::config::Ceiling;
use crate::model::procedure::options::Arguments;
use crate::model::procedure::{MemSize, Procedure, Resources, RetryRule, TimeLimit, options};
use crate::model::state::{RetryState, TaskRow};

/// An attempt's resources, and how they differ from the configuration.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    pub resources: Resources,
    /// How they differ from the previous attempt.
    pub changes: Vec<String>,
    pub reduced: Vec<Reduced>,
}

/// A request above the site's ceiling.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reduced {
    /// In sbatch: `--mem`.
    pub option: &'static str,
    pub from: String,
    pub to: String,
    /// In the configuration: `max_mem`.
    pub key: &'static str,
}

impl fmt::Display for Reduced {
    /// `--mem 256G reduced to 128G (max_mem)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            option,
            from,
            to,
            key,
        } = self;
        write!(f, "{option} {from} reduced to {to} ({key})")
    }
}

/// The basis of an automatic retry.
#[derive(Clone, Copy)]
pub(super) struct RetryBase<'a> {
    /// The previous attempt.
    pub row: &'a TaskRow,
    /// The result of the rules.
    pub state: &'a RetryState,
    /// The options in the script's `#SBATCH` lines.
    pub script: &'a Arguments,
}

/// `failed` is given for an automatic retry.
pub(super) fn ask(
    procedure: &Procedure,
    ceiling: &Ceiling,
    failed: Option<RetryBase<'_>>,
) -> Asked {
    let mut resources = procedure.resources.clone();
    let mut changes = Vec::new();
    let mut avoided = None;
    let is_mem_shared = failed.is_some_and(|failed| {
        options::mem(&procedure.resources).is_none() && options::is_mem_shared(failed.script)
    });
    if let Some(RetryBase { state, script, .. }) = failed {
        raise(&mut resources, state, is_mem_shared);
        if !state.exclude.is_empty() {
            avoided = Some(options::exclude(&mut resources, script, &state.exclude));
        }
    }
    let reduced = reduce(&mut resources, ceiling);
    if let Some(RetryBase { row, state, .. }) = failed {
        let rules = procedure.rules.retry.as_ref();
        let rule = row.reason.and_then(|reason| rules?.on.get(&reason));
        let [mem, time] = self::changes(row, rule, &procedure.resources, &resources);
        if is_mem_shared && rule.is_some_and(|rule| rule.mem_factor.is_some()) {
            changes.push(
                "mem_factor has no effect: the script requests memory per CPU or GPU (#SBATCH)"
                    .to_owned(),
            );
        } else {
            changes.extend(mem);
        }
        changes.extend(time);
        changes.extend(node_change(state, avoided));
    }
    Asked {
        resources,
        changes,
        reduced,
    }
}

/// Applies the values raised by retries, unless the configuration now requests more.
fn raise(resources: &mut Resources, state: &RetryState, is_mem_shared: bool) {
    // Nothing is more than unlimited (all memory of a node, no time limit).
    let is_more = |raised: u64, configured: Option<Option<u64>>| {
        configured.is_none_or(|bound| bound.is_some_and(|bound| bound < raised))
    };
    if let Some(raised) = state.mem_mb
        && !is_mem_shared
        && is_more(raised, options::mem(resources).map(|mem| mem.bound()))
    {
        options::set_mem(resources, MemSize::of_megabytes(raised));
    }
    if let Some(raised) = state.time_s
        && is_more(raised, options::time(resources).map(|time| time.bound()))
    {
        options::set_time(resources, TimeLimit::of_seconds(raised));
    }
}

/// Reduces the request to the site's ceiling. Values that are not requested stay unset, because the values
/// of partition and script are unknown here.
fn reduce(resources: &mut Resources, ceiling: &Ceiling) -> Vec<Reduced> {
    let mut reduced = Vec::new();
    let mut note = |option, from: String, to: &dyn fmt::Display, key| {
        reduced.push(Reduced {
            option,
            from,
            to: to.to_string(),
            key,
        });
    };
    if let (Some(most), Some(mem)) = (&ceiling.mem, options::mem(resources))
        && let Some(bound) = most.bound()
        && mem.bound().is_none_or(|asked| asked > bound)
    {
        note("--mem", mem.to_string(), most, "max_mem");
        options::set_mem(resources, most.clone());
    }
    if let (Some(most), Some(time)) = (&ceiling.time, options::time(resources))
        && let Some(bound) = most.bound()
        && time.bound().is_none_or(|asked| asked > bound)
    {
        note("--time", time.to_string(), most, "max_time");
        options::set_time(resources, most.clone());
    }
    if let (Some(most), Some(cpus)) = (ceiling.cpus, options::cpus(resources))
        && cpus > most
    {
        note("--cpus-per-task", cpus.to_string(), &most, "max_cpus");
        options::set_cpus(resources, most);
    }
    reduced
}

/// How memory and time of the next attempt differ from the last one's.
fn changes(
    row: &TaskRow,
    rule: Option<&RetryRule>,
    configured: &Resources,
    next: &Resources,
) -> [Option<String>; 2] {
    let mem = Change {
        option: "--mem",
        factor: ("mem_factor", rule.and_then(|rule| rule.mem_factor)),
        most: rule.and_then(|rule| rule.mem_max.as_ref().map(|_| "mem_max")),
        unknown: "the memory request of the last attempt is unknown; set mem",
        print: |megabytes| MemSize::of_megabytes(megabytes).to_string(),
    };
    let time = Change {
        option: "--time",
        factor: ("time_factor", rule.and_then(|rule| rule.time_factor)),
        most: rule.and_then(|rule| rule.time_max.as_ref().map(|_| "time_max")),
        unknown: "the time limit of the last attempt is unknown or unlimited; set time",
        print: |seconds| TimeLimit::of_seconds(seconds).to_string(),
    };
    let to_mem = options::mem(next).and_then(|mem| mem.bound());
    let to_time = options::time(next).and_then(|time| time.bound());
    [
        mem.text(asked_mem(row, configured), to_mem),
        time.text(asked_time(row, configured), to_time),
    ]
}

/// How one value of the next attempt may differ from the last one's.
struct Change {
    option: &'static str,
    factor: (&'static str, Option<f64>),
    /// The key that bounds the factor, if it is set.
    most: Option<&'static str>,
    unknown: &'static str,
    print: fn(u64) -> String,
}

impl Change {
    /// `to` is `None` if nothing is requested, or no limit.
    fn text(&self, from: Option<u64>, to: Option<u64>) -> Option<String> {
        let (option, print) = (self.option, self.print);
        let is_raised = self.factor.1.is_some_and(|factor| factor > 1.0);
        match (from, to) {
            (Some(from), Some(to)) if from != to => {
                Some(format!("{option} {} -> {}", print(from), print(to)))
            }
            (Some(from), _) if is_raised => {
                let most = maybe(" (", self.most, ")");
                Some(format!("{option} stays {}{most}", print(from)))
            }
            (None, _) if is_raised => {
                Some(format!("{} has no effect: {}", self.factor.0, self.unknown))
            }
            _ => None,
        }
    }
}

fn node_change(state: &RetryState, avoided: Option<bool>) -> Option<String> {
    match avoided? {
        true => Some(format!("--exclude {}", state.exclude.join(","))),
        false => Some("exclude_node has no effect: sbatch_args use a file of nodes".to_owned()),
    }
}

#[cfg(test)]
mod tests;
