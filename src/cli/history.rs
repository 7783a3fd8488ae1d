//! `history`: everything that happened to a task, from the audit log, the attempts file and the row. Reads only.

use super::args::HistoryArgs;
use super::context::all_attempts;
use super::{Context, Exit, Failure, Format, Printer, Result};
use crate::base::sys;
use crate::base::text::plural;
use crate::model::state::{TaskKey, TaskRow};
use crate::show::history;
use crate::show::history::history_frame;
use crate::show::tables::{TableError, utc_time};
use crate::store::audit_log;
use crate::store::audit_log::Record;

/// Columns of the table. The task's name is shown only if there are several.
const COLUMNS: &str = "time procedure session event attempt job_id new_status by detail";

pub(super) fn run(context: &Context, args: &HistoryArgs, printer: &mut Printer) -> Result<Exit> {
    let state = context.read_state(printer)?;
    let named = context.named(args.task.words(), &state)?;
    let earlier = context.store.read_attempts()?;
    let log = &context.config.log_file;
    let contents = audit_log::read(log).map_err(Failure::read(log))?;
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
    let entries = history::entries(&records, &rows);
    if entries.is_empty() {
        context.refuse_unknown(known, named.labels())?;
    }
    let time = match args.format {
        Format::Table => sys::local_time,
        Format::Csv | Format::Json => utc_time,
    };
    let frame = history_frame(&entries, time)?;
    if args.format != Format::Table {
        printer.frame(&frame, args.format, &[], &[])?;
        return Ok(Exit::Done);
    }
    if entries.is_empty() {
        printer.note(&format!("{named}: no events are on record yet"));
        printer.hint(&format!(
            "`snbb-scheduler explain {named}` shows what has to happen next"
        ));
        return Ok(Exit::Done);
    }
    let is_one = |get: fn(&history::Entry) -> &str| {
        let mut values = entries.iter().map(get);
        let first = values.next();
        values.all(|value| Some(value) == first)
    };
    let hidden = [
        ("procedure", is_one(|entry| &entry.key.procedure)),
        ("session", is_one(|entry| &entry.key.session)),
        ("by", entries.iter().all(|entry| entry.by.is_none())),
    ];
    let columns = COLUMNS
        .split(' ')
        .filter(|name| !hidden.contains(&(*name, true)));
    let shown = frame.select(columns).map_err(TableError::from)?;
    printer.frame(
        &shown,
        Format::Table,
        &["new_status"],
        &["job_id", "attempt"],
    )?;
    Ok(Exit::Done)
}
