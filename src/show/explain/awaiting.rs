//! Until when the outputs of jobs that ended well are waited for. Pure.

use std::time::Duration;

use chrono::{DateTime, Utc};

use crate::base::sys::local_time;
use crate::config::duration;
use crate::model::config::Config;
use crate::model::state::{Reason, TaskRow};

/// Says of a row whose job ended well what is waited for, and until when. None: it is not such a row.
pub fn awaiting(config: &Config, row: &TaskRow) -> Option<String> {
    if row.reason != Some(Reason::AwaitingOutput) {
        return None;
    }
    Some(match until(config, row) {
        Some((at, grace)) => format!(
            "its job ended well; its outputs are waited for until {} (output_grace {})",
            local_time(at),
            duration::format(grace)
        ),
        None => "its job ended well; its outputs could not be looked at so far".to_owned(),
    })
}

/// Says the same of many rows in one sentence, with the first one's time. None: none of them waits so.
pub fn all_awaiting<'a>(
    config: &Config,
    rows: impl IntoIterator<Item = &'a TaskRow>,
) -> Option<String> {
    let waiting: Vec<&TaskRow> = rows
        .into_iter()
        .filter(|row| row.reason == Some(Reason::AwaitingOutput))
        .collect();
    let ends = waiting.iter().filter_map(|row| until(config, row)).max();
    let first = waiting.first()?;
    let what = match waiting.len() {
        1 => format!(
            "the job of {} ended well; its outputs are waited for",
            first.key
        ),
        count => format!("{count} jobs ended well; their outputs are waited for"),
    };
    Some(match (ends, waiting.len()) {
        (Some((at, grace)), 1) => format!(
            "{what} until {} (output_grace {})",
            local_time(at),
            duration::format(grace)
        ),
        (Some((at, _)), _) => format!("{what} until {} at most (output_grace)", local_time(at)),
        (None, _) => format!("{what}, and could not be looked at so far"),
    })
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
