//! How long a task waits for the outputs of a finished job. Pure.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::base::sys::local_time;
use crate::config::duration;
use crate::model::config::Config;
use crate::model::state::{Reason, TaskRow};

/// A sentence about the wait for this task's outputs. `None` if the task is not waiting.
pub fn awaiting(config: &Config, row: &TaskRow) -> Option<String> {
    (row.reason == Some(Reason::AwaitingOutput))
        .then(|| format!("its job finished; {}", waiting_text(until(config, row))))
}

/// The same for several rows.
pub fn all_awaiting<'a>(
    config: &Config,
    rows: impl IntoIterator<Item = &'a TaskRow>,
) -> Option<String> {
    let mut waiting: Vec<&TaskRow> = rows.into_iter().collect();
    waiting.retain(|row| row.reason == Some(Reason::AwaitingOutput));
    let what = match &waiting[..] {
        [] => return None,
        [one] => format!("the job of {} finished", one.key),
        all => format!("{} jobs finished", all.len()),
    };
    let last = waiting.iter().filter_map(|row| until(config, row)).max();
    Some(format!("{what}; {}", waiting_text(last)))
}

fn waiting_text(until: Option<(DateTime<Utc>, Duration)>) -> String {
    match until {
        Some((at, grace)) => format!(
            "waiting for outputs until {} (output_grace {})",
            local_time(at),
            duration::format(grace)
        ),
        None => "the outputs could not be checked yet".to_owned(),
    }
}

/// End and length of the wait. `None` if the outputs could not be read yet.
fn until(config: &Config, row: &TaskRow) -> Option<(DateTime<Utc>, Duration)> {
    let since = row.missing_since?;
    let since = row.facts.ended_at.unwrap_or(since);
    let procedures = &config.procedures;
    let own = procedures.find(&row.key.procedure);
    let own = own.and_then(|id| procedures.get(id).output_grace);
    let grace = own.unwrap_or(config.output_grace);
    let at = since.checked_add_signed(chrono::Duration::from_std(grace).ok()?)?;
    Some((at, grace))
}
