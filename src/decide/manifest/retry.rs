//! Automatic retries: whether and when a failed task is retried, and what the next attempt requests.
//!
//! The rules come from the configuration, the used budget from the task's row. A failure without a rule, or with an
//! unknown cause, waits for a person.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use crate::model::procedure::{Resources, RetryRule, RetryRules, options};
use crate::model::state::{Reason, RetryState, TaskRow, TaskStatus};

/// Whether a failed task is retried automatically.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outlook {
    /// No rule applies to this failure.
    None,
    Now,
    At(DateTime<Utc>),
    /// The rules allow no more attempts.
    Spent(Budget),
}

/// A budget that is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Budget {
    /// Attempts so far; retries for the infrastructure budget.
    pub used: u32,
    pub allowed: u32,
    /// True for the budget of failures that are not the job's fault.
    pub infrastructure: bool,
}

/// At most this many node lists (one per attempt) are excluded: on a small cluster, more would leave no node.
pub const MAX_EXCLUDED: usize = 8;

/// The pause after a failure of the infrastructure: one bad node can use up all attempts in a minute.
const BACK_OFF: Duration = Duration::from_secs(60);

/// The longest back-off.
const MAX_BACK_OFF: Duration = Duration::from_secs(3600);

impl Outlook {
    /// True if the task is retried automatically.
    pub fn is_retry(self) -> bool {
        matches!(self, Self::Now | Self::At(_))
    }
}

/// `own_uid` is the owner of the jobs, whose own cancel is final.
pub fn outlook(
    rules: Option<&RetryRules>,
    row: &TaskRow,
    own_uid: Option<u32>,
    now: DateTime<Utc>,
) -> Outlook {
    let Some((rules, rule)) = rules.and_then(|rules| Some((rules, rule_of(rules, row, own_uid)?)))
    else {
        return Outlook::None;
    };
    let infrastructure = row.reason.is_some_and(is_infrastructure);
    let (used, allowed) = if infrastructure {
        (row.retry.infrastructure, rules.max_infrastructure)
    } else {
        (row.retry.attempts(), rules.max_attempts)
    };
    if used >= allowed {
        return Outlook::Spent(Budget {
            used,
            allowed,
            infrastructure,
        });
    }
    let delay = match infrastructure {
        false => rule.delay.unwrap_or_default(),
        // Doubles with each earlier retry.
        true => {
            let base = rule.delay.unwrap_or(BACK_OFF);
            let factor = 2u32.saturating_pow(row.retry.infrastructure);
            base.saturating_mul(factor).min(base.max(MAX_BACK_OFF))
        }
    };
    let delay = TimeDelta::from_std(delay).unwrap_or(TimeDelta::MAX);
    let since = row.facts.ended_at.or(row.updated_at);
    let since = since.filter(|_| !delay.is_zero());
    match since.and_then(|since| since.checked_add_signed(delay)) {
        Some(at) if at > now => Outlook::At(at),
        _ => Outlook::Now,
    }
}

/// The retry state of the next attempt after a failed row. `configured` is the request without retries.
pub fn next(rules: &RetryRules, row: &TaskRow, configured: &Resources) -> RetryState {
    let mut state = row.retry.clone();
    let Some(reason) = row.reason else {
        return state;
    };
    if is_infrastructure(reason) {
        state.infrastructure = state.infrastructure.saturating_add(1);
    } else {
        state.retries = state.retries.saturating_add(1);
    }
    let Some(rule) = rules.on.get(&reason) else {
        return state;
    };
    let most = rule.mem_max.as_ref().and_then(|most| most.bound());
    let mem = raised(asked_mem(row, configured), rule.mem_factor, most);
    state.mem_mb = mem.or(state.mem_mb);
    let most = rule.time_max.as_ref().and_then(|most| most.bound());
    let time = raised(asked_time(row, configured), rule.time_factor, most);
    state.time_s = time.or(state.time_s);
    if rule.exclude_node
        && let Some(nodes) = row.facts.node_list.as_deref().filter(|text| is_nodes(text))
    {
        state.exclude.retain(|known| known != nodes);
        state.exclude.push(nodes.to_owned());
        let too_many = state.exclude.len().saturating_sub(MAX_EXCLUDED);
        state.exclude.drain(..too_many);
    }
    state
}

/// The memory in MB that an attempt requested, by Slurm (which includes `#SBATCH` lines) or else by the configuration.
/// `None` if unknown, or all memory of a node.
pub fn asked_mem(row: &TaskRow, configured: &Resources) -> Option<u64> {
    known(row.facts.req_mem_mb).or_else(|| options::mem(configured)?.bound())
}

/// The time limit in seconds that an attempt requested, by Slurm (which includes `#SBATCH` lines) or else by the
/// configuration. `None` if unknown or unlimited.
pub fn asked_time(row: &TaskRow, configured: &Resources) -> Option<u64> {
    known(row.facts.time_limit_s).or_else(|| options::time(configured)?.bound())
}

/// The rule that applies to a failed row.
fn rule_of<'a>(
    rules: &'a RetryRules,
    row: &TaskRow,
    own_uid: Option<u32>,
) -> Option<&'a RetryRule> {
    if row.status != TaskStatus::Failed {
        return None;
    }
    let reason = row.reason?;
    let rule = rules.on.get(&reason)?;
    let facts = &row.facts;
    let applies = match reason {
        // Without a known owner, it may have been the owner.
        Reason::Cancelled => {
            (facts.cancelled_by().zip(own_uid)).is_some_and(|(by, own)| by != i64::from(own))
        }
        Reason::ExitCode if !rule.codes.is_empty() => {
            let code = facts.exit_code.as_deref().and_then(code);
            code.is_some_and(|code| rule.codes.contains(&code))
        }
        _ => true,
    };
    applies.then_some(rule)
}

/// True for failures that are not the job's fault.
fn is_infrastructure(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::NodeFail
            | Reason::BootFail
            | Reason::Preempted
            | Reason::LaunchFailed
            | Reason::Dependency
    )
}

/// A multiple of the requested value, at most `most`. `None` if that is not more than before.
fn raised(asked: Option<u64>, factor: Option<f64>, most: Option<u64>) -> Option<u64> {
    let (asked, factor) = asked.zip(factor)?;
    // Exact: sizes and times are far below 2^53, and larger values saturate.
    let wanted = (asked as f64 * factor).ceil() as u64;
    let to = most.map_or(wanted, |most| wanted.min(most));
    (to > asked).then_some(to)
}

fn known(number: Option<i64>) -> Option<u64> {
    let number = u64::try_from(number?).ok();
    number.filter(|number| *number > 0)
}

/// Parses `code:signal`; as in a shell, a signal is 128 plus its number.
fn code(text: &str) -> Option<u8> {
    let (code, signal) = text.split_once(':')?;
    match signal.parse::<u8>().ok()? {
        0 => code.parse().ok(),
        signal => signal.checked_add(128),
    }
}

/// True for node names as Slurm prints them (`n1`, `n[1-3,7]`), but not for `None assigned`.
fn is_nodes(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_.,[]".contains(&byte))
}

#[cfg(test)]
mod tests;
