//! `history`: everything that happened to a task, from the audit log, the attempts file and the row. Reads only.

use chrono::{DateTime, Utc};
use itertools::Itertools as _;
use serde_json::{Map, Value};

use super::args::HistoryArgs;
use super::context::all_attempts;
use super::{
    Context, Exit, Format, Printer, Result, TableError, TaskRow, TaskStatus, maybe, plural, sys,
};
use crate::base::regular::FileError;
use crate::model::state::TaskKey;
use crate::show::tables::{failure_text, frame, numbers, texts, used_text, utc_time};
use crate::store::audit_log::{self, EventKind, Record, fill};

/// Columns of the table. The task's name is shown only if there are several.
const COLUMNS: &str = "time procedure session event attempt job_id new_status by detail";

pub(super) fn run(context: &Context, args: &HistoryArgs, printer: &mut Printer) -> Result<Exit> {
    let state = context.read_state(printer)?;
    let named = context.named(args.task.words(), &state)?;
    let earlier = context.store.read_attempts()?;
    let log = &context.config.log_file;
    let contents = audit_log::read(log).map_err(FileError::of("read", log))?;
    let mut contents = contents.unwrap_or_default();
    contents.remove_other_studies(&context.project(&state));
    if !contents.bad_lines.is_empty() {
        let lines = plural(contents.bad_lines.len(), "line");
        printer.warning(&format!(
            "{lines} of {} cannot be read and will be omitted",
            log.display()
        ));
    }
    let is_named = |key: &TaskKey| named.contains(key);
    let attempts = all_attempts(&earlier, &state);
    let records = contents.records.iter();
    let known = records.map(|record| &record.key);
    let known = known.chain(attempts.clone().map(|row| &row.key));
    let rows: Vec<&TaskRow> = attempts.filter(|row| is_named(&row.key)).collect();
    let records = contents.records.iter();
    let records: Vec<Record> = records.filter(|r| is_named(&r.key)).cloned().collect();
    let entries = entries_of(&records, &rows);
    if entries.is_empty() {
        context.refuse_unknown(known, named.labels())?;
    }
    let time = match args.format {
        Format::Table => sys::local_time,
        Format::Csv | Format::Json => utc_time,
    };
    let text = |name: &str, get: fn(&Entry) -> Option<&str>| {
        texts(name, entries.iter().map(|entry| get(entry)))
    };
    let attempts = entries.iter().map(|e| e.row.attempt.map(i64::from));
    let frame = frame(vec![
        texts("time", entries.iter().map(|entry| entry.at.map(time))),
        text("subject", |e| Some(&e.row.key.subject)),
        text("session", |e| Some(&e.row.key.session)),
        text("procedure", |e| Some(&e.row.key.procedure)),
        text("event", |e| Some(e.event.as_str())),
        numbers("attempt", attempts),
        text("job_id", |e| e.row.job_id.as_ref().map(|id| id.as_str())),
        text("old_status", |e| e.old_status.map(|status| status.as_str())),
        text("new_status", |e| e.new_status.map(|status| status.as_str())),
        text("reason", |e| e.row.reason.map(|reason| reason.as_str())),
        text("by", |e| e.by.as_deref()),
        text("detail", |e| e.detail.as_deref()),
        text("source", |e| Some(if e.from_row { "state" } else { "log" })),
    ])?;
    if args.format != Format::Table {
        printer.frame(&frame, args.format, &[], &[])?;
        return Ok(Exit::Done);
    }
    if entries.is_empty() {
        printer.note(&format!("{named}: no events are on record yet"));
        printer.hint(&format!(
            "`snbb-scheduler explain {named}` shows what comes next"
        ));
        return Ok(Exit::Done);
    }
    let keys = entries.iter().map(|entry| &entry.row.key);
    let hidden = [
        (
            "procedure",
            keys.clone().map(|key| &key.procedure).all_equal(),
        ),
        ("session", keys.map(|key| &key.session).all_equal()),
        ("by", entries.iter().all(|entry| entry.by.is_none())),
    ];
    let columns = COLUMNS
        .split(' ')
        .filter(|name| !hidden.contains(&(*name, true)));
    let shown = frame.select(columns).map_err(TableError::from)?;
    printer.frame(&shown, args.format, &["new_status"], &["job_id", "attempt"])?;
    Ok(Exit::Done)
}

/// One event of a task.
#[derive(Debug, Clone, PartialEq)]
struct Entry {
    at: Option<DateTime<Utc>>,
    event: EventKind,
    /// The attempt, as far as the event describes it.
    row: TaskRow,
    old_status: Option<TaskStatus>,
    new_status: Option<TaskStatus>,
    /// The user who requested it, if any.
    by: Option<String>,
    /// A text for people, not stable.
    detail: Option<String>,
    /// True if only a row knows it, because the audit log was lost or is the Python program's.
    from_row: bool,
}

/// The events of the selected tasks in order. `attempts` includes the row, which is the newest attempt.
fn entries_of(records: &[Record], attempts: &[&TaskRow]) -> Vec<Entry> {
    let logged = records.iter().map(|record| entry_of(record, attempts));
    let mut entries: Vec<Entry> = logged.collect();
    for row in attempts {
        let own = || records.iter().filter(|record| is_of(record, row));
        let begun = [EventKind::Submitted, EventKind::Adopted];
        if !own().any(|record| begun.contains(&record.kind)) {
            entries.push(begin_of(row));
        }
        let has_ended = own().any(|record| record.new_status == Some(row.status));
        if !row.is_in_flight() && !has_ended {
            entries.push(end_of(row));
        }
    }
    // The sort is stable, so events with the same time stay in the order of the log.
    entries.sort_by_key(|entry| entry.at);
    entries
}

fn entry_of(record: &Record, attempts: &[&TaskRow]) -> Entry {
    let text = |key: &str| record.fields.get(key).and_then(Value::as_str);
    let mut row = TaskRow::new(record.key.clone(), TaskStatus::Pending);
    row.status = record.new_status.unwrap_or(row.status);
    row.reason = text("reason").and_then(|word| word.parse().ok());
    row.job_id.clone_from(&record.job_id);
    fill(&mut row, &record.fields);
    let known = attempts.iter().find(|attempt| is_of(record, attempt));
    row.attempt = row.attempt.or(known.and_then(|row| row.attempt));
    let detail = text("detail").map(str::to_owned);
    // Older logs have the user only in the detail.
    let by = text("by").map(str::to_owned).or_else(|| {
        let user = detail.as_deref()?.strip_prefix("asked for by ")?;
        Some(user.to_owned())
    });
    let detail = detail.filter(|text| !text.starts_with("asked for by "));
    let facts = match (record.kind, record.new_status) {
        (
            EventKind::StatusChange | EventKind::ReasonChange,
            Some(TaskStatus::Failed | TaskStatus::Complete),
        ) => failure_and_use(&row),
        (EventKind::Submitted, _) => cause(&record.fields),
        _ => None,
    };
    let detail = [facts, detail].into_iter().flatten().join("; ");
    Entry {
        at: Some(record.at),
        event: record.kind,
        row,
        old_status: record.old_status,
        new_status: record.new_status,
        by,
        detail: Some(detail).filter(|detail| !detail.is_empty()),
        from_row: false,
    }
}

/// Why a task was submitted again.
fn cause(fields: &Map<String, Value>) -> Option<String> {
    let text = |key: &str| fields.get(key).and_then(Value::as_str);
    if let Some(reason) = text("retry_of") {
        let changes = fields.get("changes").and_then(Value::as_array);
        let changes = changes.map(|changes| changes.iter().filter_map(Value::as_str).join(", "));
        return Some(format!("retry after {reason}{}", maybe(": ", changes, "")));
    }
    Some(text("cause")?.replace('_', " "))
}

/// True if an event is about this attempt.
fn is_of(record: &Record, row: &TaskRow) -> bool {
    if record.key != row.key {
        return false;
    }
    let submission = record.fields.get("submission_id").and_then(Value::as_str);
    match (submission, row.submission_id.as_deref()) {
        (Some(a), Some(b)) => a == b,
        _ => record.job_id.is_some() && record.job_id == row.job_id,
    }
}

fn begin_of(row: &TaskRow) -> Entry {
    Entry {
        at: row.submitted_at,
        event: EventKind::Submitted,
        row: TaskRow {
            reason: None,
            ..row.clone()
        },
        old_status: None,
        new_status: Some(TaskStatus::Pending),
        by: None,
        detail: None,
        from_row: true,
    }
}

fn end_of(row: &TaskRow) -> Entry {
    Entry {
        // Slurm rounds times to seconds, so a job could seem to end before its submission.
        at: row.facts.ended_at.or(row.updated_at).max(row.submitted_at),
        event: EventKind::StatusChange,
        row: row.clone(),
        new_status: Some(row.status),
        detail: failure_and_use(row),
        ..begin_of(row)
    }
}

/// The failure and the used resources, unless the failure already mentions them.
fn failure_and_use(row: &TaskRow) -> Option<String> {
    match (failure_text(row), used_text(row)) {
        (Some(failure), Some(used))
            if !failure.contains("(ran ") && !failure.contains(" used)") =>
        {
            Some(format!("{failure}; {used}"))
        }
        (Some(failure), _) => Some(failure),
        (None, used) => used,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Reason;
    use crate::model::job::JobId;
    use crate::model::state::JobFacts;
    use crate::model::state::testing::row;
    use crate::store::audit_log::parse;

    fn words(entries: &[Entry]) -> Vec<String> {
        let entries = entries.iter().map(|entry| {
            format!(
                "{} {} {:?} {:?} {}",
                entry
                    .at
                    .map_or("-".to_owned(), |at| at.format("%H:%M").to_string()),
                entry.event.as_str(),
                entry.row.attempt,
                entry.by,
                entry.detail.as_deref().unwrap_or("-"),
            )
        });
        entries.collect()
    }

    #[test]
    fn a_later_submission_has_its_cause() {
        let detail = |extra: &str| {
            let log = format!(
                r#"{{"timestamp":"2026-03-01T04:00:00+00:00","event":"submitted","subject":"sub-1","session":"","procedure":"a","job_id":"12"{extra}}}"#
            );
            entries_of(&parse(log.as_bytes()).records, &[])[0]
                .detail
                .clone()
                .unwrap_or_default()
        };
        assert_eq!(detail(""), "");
        for (extra, expected) in [
            (r#","cause":"outputs_gone""#, "outputs gone"),
            (r#","cause":"forced""#, "forced"),
            (
                r#","cause":"retry","retry_of":"timeout""#,
                "retry after timeout",
            ),
            (
                r#","retry_of":"timeout","changes":["--time 1 -> 2","--mem 1 -> 2"]"#,
                "retry after timeout: --time 1 -> 2, --mem 1 -> 2",
            ),
            (r#","cause":"of_a_later_version""#, "of a later version"),
        ] {
            assert_eq!(detail(extra), expected);
        }
    }

    #[test]
    fn rows_add_events_that_the_log_lacks() {
        let log = r#"
{"timestamp":"2026-03-01T04:00:00+00:00","event":"submitted","subject":"sub-1","session":"","procedure":"a","job_id":"12","submission_id":"s12","attempt":2}
{"timestamp":"2026-03-01T05:00:00+00:00","event":"cancelled","subject":"sub-1","session":"","procedure":"a","job_id":"12","detail":"asked for by anna"}
{"timestamp":"2026-03-01T05:01:00+00:00","event":"status_change","subject":"sub-1","session":"","procedure":"a","job_id":"12","submission_id":"s12","old_status":"running","new_status":"failed","reason":"cancelled","attempt":2,"slurm_state":"CANCELLED by 4000000007"}
{"timestamp":"2026-03-01T06:00:00+00:00","event":"retry_cleared","subject":"sub-1","session":"","procedure":"a","job_id":"12","old_status":"failed","by":"ben"}
"#;
        let records = parse(log.as_bytes()).records;
        let key = records[0].key.clone();
        let attempt = |number: i32, id: &str, hour: u32| {
            let mut row = row("a", TaskStatus::Failed, Reason::ExitCode);
            row.key = key.clone();
            row.attempt = Some(number);
            row.job_id = Some(JobId::new(id));
            row.submission_id = Some(format!("s{id}").into());
            row.submitted_at = format!("2026-03-01T0{hour}:00:00Z").parse().ok();
            row.facts = JobFacts {
                exit_code: Some("3:0".into()),
                ended_at: format!("2026-03-01T0{hour}:30:00Z").parse().ok(),
                ..JobFacts::default()
            };
            row
        };
        let (first, second) = (attempt(1, "11", 2), attempt(2, "12", 4));
        assert_eq!(
            words(&entries_of(&records, &[&first, &second])),
            [
                "02:00 submitted Some(1) None -",
                "02:30 status_change Some(1) None exit code 3",
                "04:00 submitted Some(2) None -",
                "05:00 cancelled Some(2) Some(\"anna\") -",
                "05:01 status_change Some(2) None cancelled by uid 4000000007",
                "06:00 retry_cleared Some(2) Some(\"ben\") -",
            ]
        );
    }
}
