//! What one attempt asks for: the procedure's resources, raised by the retry rules, then reduced to
//! the site's ceiling. Pure.

use std::fmt;

use crate::decide::manifest::retry::{asked_mem, asked_time};
use crate::model::config::Ceiling;
use crate::model::procedure::options::Arguments;
use crate::model::procedure::{MemSize, Procedure, Resources, RetryRule, TimeLimit, options};
use crate::model::state::{RetryState, TaskRow};

/// Holds what an attempt asks for, and how that differs from what is configured.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Asked {
    pub resources: Resources,
    /// How it differs from the attempt before.
    pub changes: Vec<String>,
    pub reduced: Vec<Reduced>,
}

/// Describes a request that was above the site's ceiling.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reduced {
    /// sbatch's: `--mem`.
    pub option: &'static str,
    pub from: String,
    pub to: String,
    /// The configuration's: `max_mem`.
    pub key: &'static str,
}

impl fmt::Display for Reduced {
    /// Prints `--mem 256G reduced to 128G (max_mem)`.
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

/// Is what a retry by the rules begins from.
#[derive(Clone, Copy)]
pub(super) struct Failed<'a> {
    /// Of the attempt before.
    pub row: &'a TaskRow,
    /// What the rules have come to.
    pub state: &'a RetryState,
    /// The options in the script's `#SBATCH` lines.
    pub script: &'a Arguments,
}

/// Returns what an attempt asks for. `failed`: if it is a retry by the rules.
pub(super) fn ask(procedure: &Procedure, ceiling: &Ceiling, failed: Option<Failed<'_>>) -> Asked {
    let mut resources = procedure.resources.clone();
    let mut changes = Vec::new();
    let mut avoided = None;
    let is_mem_shared = failed.is_some_and(|failed| {
        options::mem(&procedure.resources).is_none() && options::is_mem_shared(failed.script)
    });
    if let Some(Failed { state, script, .. }) = failed {
        raise(&mut resources, state, is_mem_shared);
        if !state.exclude.is_empty() {
            avoided = Some(options::exclude(&mut resources, script, &state.exclude));
        }
    }
    let reduced = reduce(&mut resources, ceiling);
    if let Some(Failed { row, state, .. }) = failed {
        let rules = procedure.rules.retry.as_ref();
        let rule = row.reason.and_then(|reason| rules?.on.get(&reason));
        let [mem, time] = self::changes(row, rule, &procedure.resources, &resources);
        if is_mem_shared && rule.is_some_and(|rule| rule.mem_factor.is_some()) {
            changes.push(
                "mem_factor cannot act: the script asks for memory per CPU or GPU (#SBATCH)"
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

/// Asks for what retries have raised, unless more is configured by now.
fn raise(resources: &mut Resources, state: &RetryState, is_mem_shared: bool) {
    // Without bound (all memory of a node, no time limit) nothing is more.
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

/// Reduces what is asked for to the site's ceiling. What is not asked for stays so: the partition's
/// or the script's own value is not known here.
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

/// Says how memory and time of the next attempt differ from the last one's.
fn changes(
    row: &TaskRow,
    rule: Option<&RetryRule>,
    configured: &Resources,
    next: &Resources,
) -> [Option<String>; 2] {
    let mem = Words {
        option: "--mem",
        factor: ("mem_factor", rule.and_then(|rule| rule.mem_factor)),
        most: ("mem_max", rule.is_some_and(|rule| rule.mem_max.is_some())),
        unknown: "nobody knows how much memory the last attempt asked for; set mem",
        print: |megabytes| MemSize::of_megabytes(megabytes).to_string(),
    };
    let time = Words {
        option: "--time",
        factor: ("time_factor", rule.and_then(|rule| rule.time_factor)),
        most: ("time_max", rule.is_some_and(|rule| rule.time_max.is_some())),
        unknown: "nobody knows the time limit of the last attempt, or it had none; set time",
        print: |seconds| TimeLimit::of_seconds(seconds).to_string(),
    };
    let to_mem = options::mem(next).and_then(|mem| mem.bound());
    let to_time = options::time(next).and_then(|time| time.bound());
    [
        mem.change(asked_mem(row, configured), to_mem),
        time.change(asked_time(row, configured), to_time),
    ]
}

/// Says how one number of the next attempt differs from the last one's.
struct Words {
    option: &'static str,
    factor: (&'static str, Option<f64>),
    most: (&'static str, bool),
    unknown: &'static str,
    print: fn(u64) -> String,
}

impl Words {
    /// `to` none: not asked for (or without bound).
    fn change(&self, from: Option<u64>, to: Option<u64>) -> Option<String> {
        let option = self.option;
        let is_raised = self.factor.1.is_some_and(|factor| factor > 1.0);
        match (from, to) {
            (Some(from), Some(to)) if from != to => Some(format!(
                "{option} {} -> {}",
                (self.print)(from),
                (self.print)(to)
            )),
            (Some(from), _) if is_raised => Some(format!(
                "{option} stays {}{}",
                (self.print)(from),
                if self.most.1 {
                    format!(" ({})", self.most.0)
                } else {
                    String::new()
                }
            )),
            (None, _) if is_raised => {
                Some(format!("{} cannot act: {}", self.factor.0, self.unknown))
            }
            _ => None,
        }
    }
}

fn node_change(state: &RetryState, avoided: Option<bool>) -> Option<String> {
    match avoided? {
        true => Some(format!("--exclude {}", state.exclude.join(","))),
        false => Some("exclude_node cannot act: sbatch_args name the nodes by a file".to_owned()),
    }
}

#[cfg(test)]
mod tests;
