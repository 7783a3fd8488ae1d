//! Stores the values of a row in an event, so that a lost row can be rebuilt from the log. Pure.
//!
//! The keys are the columns of the state file.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::timestamp;
use crate::model::state::TaskRow;
use crate::model::state::columns::{self, COLUMNS, Column, Kind};
use crate::store::journal::Intent;

/// Columns that events have under other keys, or that follow from others.
const ELSEWHERE: [&str; 7] = [
    "subject",
    "session",
    "procedure",
    "status",
    "job_id",
    "job_name",
    "updated_at",
];

/// The values of a row except task, job and status.
pub fn extras_of(row: &TaskRow) -> Vec<(&'static str, Value)> {
    logged()
        .filter_map(|column| Some((column.name, to_json(column.kind, (column.get)(row)?)?)))
        .collect()
}

/// The values of an attempt that is being submitted.
pub fn extras_of_intent(intent: &Intent) -> Vec<(&'static str, Value)> {
    let mut extras = extras_of(&intent.row());
    extras.retain(|(name, _)| *name != "reason");
    extras
}

/// Fills the values of an event into its row and keeps the others, except `missing_since`, which
/// becomes null again once the job is found.
pub fn fill(row: &mut TaskRow, fields: &Map<String, Value>) {
    row.missing_since = None;
    // A reason is valid only together with its status.
    for column in logged().filter(|column| column.kind != Kind::Reason) {
        if let Some(json) = fields.get(column.name)
            && let Some(value) = from_json(column.kind, json)
        {
            (column.set)(row, &value);
        }
    }
}

fn logged() -> impl Iterator<Item = &'static Column> {
    COLUMNS
        .iter()
        .filter(|column| !ELSEWHERE.contains(&column.name))
}

fn to_json(kind: Kind, value: columns::Value<'_>) -> Option<Value> {
    match kind {
        Kind::Time => value.time().map(|at| timestamp(at).into()),
        Kind::Int32 | Kind::Int64 => value.number().map(Value::from),
        Kind::Flag => value.flag().map(Value::from),
        Kind::Json => serde_json::from_str(value.text()?).ok(),
        _ => value.text().map(Value::from),
    }
}

fn from_json(kind: Kind, json: &Value) -> Option<columns::Value<'_>> {
    match kind {
        Kind::Time => json.as_str().and_then(parse_time).map(columns::Value::Time),
        Kind::Int32 | Kind::Int64 => json.as_i64().map(columns::Value::Number),
        Kind::Flag => json.as_bool().map(columns::Value::Flag),
        Kind::Json => Some(columns::Value::Text(json.to_string().into())),
        _ => json.as_str().map(|text| columns::Value::Text(text.into())),
    }
}

pub(super) fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text)
        .ok()
        .map(|time| time.with_timezone(&Utc))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::state::columns::tests::full_row;

    #[test]
    fn a_row_is_rebuilt_from_its_event() {
        let full = full_row();
        let fields: Map<String, Value> = extras_of(&full)
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        assert_eq!(fields.len(), COLUMNS.len() - ELSEWHERE.len());
        assert_eq!(fields["retry_state"]["retries"], 1);
        let mut bare = TaskRow {
            job_id: full.job_id.clone(),
            reason: full.reason,
            updated_at: full.updated_at,
            job_name: full.job_name.clone(),
            ..TaskRow::new(full.key.clone(), full.status)
        };
        fill(&mut bare, &fields);
        assert_eq!(bare, full);
    }
}
