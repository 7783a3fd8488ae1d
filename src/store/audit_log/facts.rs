//! What an event tells of its row, so that a lost row can be made of the log again. Pure.
//!
//! The keys are the columns of the state file.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};

use super::timestamp;
use crate::model::state::{RetryState, TaskRow};
use crate::store::journal::Intent;

/// Returns what is known of a row beside task, job and status.
pub fn extras_of(row: &TaskRow) -> Vec<(&'static str, Value)> {
    let text = |text: &Option<std::sync::Arc<str>>| text.as_deref().map(Value::from);
    let time = |time: Option<DateTime<Utc>>| time.map(|at| Value::from(timestamp(at)));
    let facts = &row.facts;
    [
        ("reason", row.reason.map(|reason| reason.as_str().into())),
        ("submission_id", text(&row.submission_id)),
        ("attempt", row.attempt.map(Value::from)),
        ("submitted_at", time(row.submitted_at)),
        ("replaces_outputs", row.replaces_outputs.map(Value::from)),
        ("missing_since", time(row.missing_since)),
        ("slurm_state", text(&facts.slurm_state)),
        ("exit_code", text(&facts.exit_code)),
        ("started_at", time(facts.started_at)),
        ("ended_at", time(facts.ended_at)),
        ("node_list", text(&facts.node_list)),
        ("req_mem_mb", facts.req_mem_mb.map(Value::from)),
        ("max_rss_mb", facts.max_rss_mb.map(Value::from)),
        ("time_limit_s", facts.time_limit_s.map(Value::from)),
        ("elapsed_s", facts.elapsed_s.map(Value::from)),
        ("cpu_time_s", facts.cpu_time_s.map(Value::from)),
        ("alloc_cpus", facts.alloc_cpus.map(Value::from)),
        ("cluster", text(&facts.cluster)),
        ("retry_state", retry(&row.retry)),
        (
            "input_sessions",
            row.input_sessions.as_deref().map(Value::from),
        ),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
    .collect()
}

/// Returns what is known of an attempt that is being submitted.
pub fn extras_of_intent(intent: &Intent) -> Vec<(&'static str, Value)> {
    [
        ("submission_id", Some((*intent.submission_id).into())),
        ("attempt", Some(intent.attempt.into())),
        ("submitted_at", Some(timestamp(intent.submitted_at).into())),
        ("replaces_outputs", Some(intent.replaces_outputs.into())),
        ("req_mem_mb", intent.req_mem_mb.map(Value::from)),
        ("time_limit_s", intent.time_limit_s.map(Value::from)),
        ("retry_state", retry(&intent.retry)),
        (
            "input_sessions",
            intent.input_sessions.as_deref().map(Value::from),
        ),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some((key, value?)))
    .collect()
}

/// Fills in what an event says of its row; what it does not say stays. `missing_since` is the
/// exception: it is null again once the job is found.
pub fn fill(row: &mut TaskRow, fields: &Map<String, Value>) {
    let text = |key: &str| fields.get(key).and_then(Value::as_str);
    let number = |key: &str| fields.get(key).and_then(Value::as_i64);
    let facts = &mut row.facts;
    macro_rules! take {
        ($get:ident: $($place:expr => $key:literal),*) => {$(
            if let Some(value) = $get($key) { $place = Some(value.into()); }
        )*};
    }
    let time = |key: &str| text(key).and_then(parse_time);
    take!(text:
        row.submission_id => "submission_id", facts.slurm_state => "slurm_state",
        facts.exit_code => "exit_code", facts.node_list => "node_list", facts.cluster => "cluster");
    take!(number:
        facts.req_mem_mb => "req_mem_mb", facts.max_rss_mb => "max_rss_mb",
        facts.time_limit_s => "time_limit_s", facts.elapsed_s => "elapsed_s",
        facts.cpu_time_s => "cpu_time_s", facts.alloc_cpus => "alloc_cpus");
    take!(time:
        row.submitted_at => "submitted_at", facts.started_at => "started_at",
        facts.ended_at => "ended_at");
    if let Some(attempt) = number("attempt").and_then(|count| i32::try_from(count).ok()) {
        row.attempt = Some(attempt);
    }
    if let Some(flag) = fields.get("replaces_outputs").and_then(Value::as_bool) {
        row.replaces_outputs = Some(flag);
    }
    if let Some(sessions) = fields.get("input_sessions").and_then(Value::as_str) {
        row.input_sessions = Some(sessions.into());
    }
    if let Some(retry) = fields.get("retry_state") {
        row.retry = serde_json::from_value(retry.clone()).unwrap_or_default();
    }
    row.missing_since = time("missing_since");
}

/// An attempt that is no retry says nothing.
fn retry(state: &RetryState) -> Option<Value> {
    (*state != RetryState::default())
        .then(|| serde_json::to_value(state).ok())
        .flatten()
}

/// Reads a time as the log writes it.
pub(super) fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    DateTime::parse_from_rfc3339(text)
        .ok()
        .map(|time| time.with_timezone(&Utc))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::state::testing::{at, row};
    use crate::model::state::{JobFacts, Reason, TaskStatus};

    #[test]
    fn what_is_written_of_a_row_makes_it_again() {
        let mut full = row("a", TaskStatus::Failed, Reason::NoOutput);
        full.missing_since = Some(at(9));
        full.retry.retries = 1;
        full.input_sessions = Some("ses-01 ses-02".into());
        full.facts = JobFacts {
            slurm_state: Some("COMPLETED".into()),
            exit_code: Some("0:0".into()),
            started_at: Some(at(1)),
            ended_at: Some(at(2)),
            node_list: Some("n[1-2]".into()),
            req_mem_mb: Some(1),
            max_rss_mb: Some(2),
            time_limit_s: Some(3),
            elapsed_s: Some(4),
            cpu_time_s: Some(5),
            alloc_cpus: Some(6),
            cluster: Some("alpha".into()),
        };
        let mut bare = TaskRow {
            submitted_at: None,
            attempt: None,
            submission_id: None,
            replaces_outputs: None,
            missing_since: None,
            retry: RetryState::default(),
            input_sessions: None,
            facts: JobFacts::default(),
            ..full.clone()
        };
        let fields: Map<String, Value> = extras_of(&full)
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect();
        assert_eq!(fields.len(), 20);
        fill(&mut bare, &fields);
        assert_eq!(bare, full);
    }
}
