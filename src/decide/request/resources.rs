//! The resources of one attempt: the procedure's, raised by the retry rules, then reduced to the site's ceiling.

use std::fmt;

use crate::decide::manifest::retry::{asked_mem, asked_time};
use crate::model::config::Ceiling;
use crate::model::procedure::options::Arguments;
use crate::model::procedure::{MemSize, Procedure, Resources, TimeLimit, options};
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
        let own = &procedure.resources;
        let rules = procedure.rules.retry.as_ref();
        let rule = row.reason.and_then(|reason| rules?.on.get(&reason));
        let is_raised = |factor: Option<f64>| factor.is_some_and(|factor| factor > 1.0);
        let raises_mem = is_raised(rule.and_then(|rule| rule.mem_factor));
        let raises_time = is_raised(rule.and_then(|rule| rule.time_factor));
        let (mem, time) = (asked_mem(row, own), asked_time(row, own));
        if raises_mem && is_mem_shared {
            changes.push(
                "mem_factor has no effect: the script requests memory per CPU or GPU (#SBATCH)"
                    .to_owned(),
            );
        } else if raises_mem && mem.is_none() {
            changes.push(
                "mem_factor has no effect: the memory request of the last attempt is unknown; set mem"
                    .to_owned(),
            );
        }
        if raises_time && time.is_none() {
            changes.push(
                "time_factor has no effect: the time limit of the last attempt is unknown or unlimited; set time"
                    .to_owned(),
            );
        }
        let print_mem = |megabytes| MemSize::of_megabytes(megabytes).to_string();
        let to_mem = options::mem(&resources).and_then(|mem| mem.bound());
        changes.extend(change("--mem", mem, to_mem, print_mem));
        let print_time = |seconds| TimeLimit::of_seconds(seconds).to_string();
        let to_time = options::time(&resources).and_then(|time| time.bound());
        changes.extend(change("--time", time, to_time, print_time));
        changes.extend(avoided.map(|is_avoided| match is_avoided {
            true => format!("--exclude {}", state.exclude.join(",")),
            false => "exclude_node has no effect: sbatch_args use a file of nodes".to_owned(),
        }));
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

/// How a value of the next attempt differs from the last one's: `--mem 32G -> 48G`.
fn change(
    option: &str,
    from: Option<u64>,
    to: Option<u64>,
    print: impl Fn(u64) -> String,
) -> Option<String> {
    let (from, to) = from.zip(to).filter(|(from, to)| from != to)?;
    Some(format!("{option} {} -> {}", print(from), print(to)))
}

#[cfg(test)]
mod tests;
