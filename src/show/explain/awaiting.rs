//! Until when the outputs of jobs that ended well are waited for. Pure.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::base::sys::local_time;
use crate::config::duration;
use crate::model::config::Config;
use crate::model::state::{Reason, TaskRow};

/// Until when the outputs of a job that ended well are waited for.
pub fn awaiting(config: &Config, row: &TaskRow) -> Option<String> {
    let until = waited(until(config, row));
    (row.reason == Some(Reason::AwaitingOutput))
        .then(|| format!("its job ended well; its outputs {until}"))
}

/// The same for several rows; none if no job is waited for.
pub fn all_awaiting<'a>(
    config: &Config,
    rows: impl IntoIterator<Item = &'a TaskRow>,
) -> Option<String> {
    let mut waiting: Vec<&TaskRow> = rows.into_iter().collect();
    waiting.retain(|row| row.reason == Some(Reason::AwaitingOutput));
    let what = match &waiting[..] {
        [] => return None,
        [one] => format!("the job of {} ended well; its outputs", one.key),
        all => format!("{} jobs ended well; their outputs", all.len()),
    };
    let last = waiting.iter().filter_map(|row| until(config, row)).max();
    Some(format!("{what} {}", waited(last)))
}

fn waited(until: Option<(DateTime<Utc>, Duration)>) -> String {
    match until {
        Some((at, grace)) => format!(
            "are waited for until {} (output_grace {})",
            local_time(at),
            duration::format(grace)
        ),
        None => "could not be looked at so far".to_owned(),
    }
}

/// Returns when the wait ends, and how long it is. None: the outputs could not be read yet.
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
