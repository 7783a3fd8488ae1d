//! `clean`: removes old rows of tasks that no longer exist, old logs of complete tasks, and old events.
//!
//! Rows go to the attempts file and events to archives beside the audit log; only logs are deleted.
//! `--dry-run` reports the same and writes nothing.

use std::time::Duration;

use chrono::{DateTime, Utc};

use super::args::CleanArgs;
use super::context::Context;
use super::error::{Failure, Result};
use super::output::Printer;
use crate::act::clean::{LogsError, OldLogs, find_logs, log_names, obsolete_rows};
use crate::base::exit::Exit;
use crate::base::sys;
use crate::base::text::{plural, size};
use crate::config::duration;
use crate::decide::safety;
use crate::decide::safety::{Counts, drop, roots};
use crate::gather::sessions::lists;
use crate::model::bids::SubjectLabel;
use crate::model::state::{State, TaskRow};
use crate::store::audit_log::archive::{Archived, OldEvents};
use crate::store::audit_log::{Event, EventKind};
use crate::store::purge::{Purge, SubjectData};

/// What can be cleaned.
struct Found {
    rows: Vec<TaskRow>,
    logs: Vec<OldLogs>,
    archives: Vec<Archived>,
}

pub(super) fn run(context: &Context, args: &CleanArgs, printer: &mut Printer) -> Result<Exit> {
    let Some(older_than) = args.older_than else {
        return purge(context, args, printer);
    };
    let age = chrono::Duration::from_std(older_than).unwrap_or(chrono::Duration::MAX);
    let now = sys::now();
    let before = now - age;
    let is_all = !(args.rows || args.logs || args.events);
    let (locked, mut state) =
        context.lock_or_read_state("clean", args.dry_run, &args.write, printer)?;
    let mut exit = Exit::Done;
    let rows = match args.rows || is_all {
        true => rows(context, &state, before, &mut exit, printer)?,
        false => Vec::new(),
    };
    let logs = match args.logs || is_all {
        true => old_logs(context, &state, before)?,
        false => Vec::new(),
    };
    if let Some(locked) = &locked {
        let events: Vec<Event> = rows
            .iter()
            .map(|row| Event {
                detail: Some("its session or procedure no longer exists".to_owned()),
                ..Event::of(row, now, EventKind::Pruned)
            })
            .collect();
        append(context, &events)?;
        for row in &rows {
            state.clear(&row.key);
        }
        locked.save(&mut state)?;
        for old in &logs {
            old.remove().map_err(unremoved)?;
        }
    }
    // Only now, after the events of the rows were appended to the log.
    let events = match args.events || is_all {
        true => OldEvents::find(&context.config.log_file, before)?,
        false => None,
    };
    let archives = events.iter().flat_map(OldEvents::archives).collect();
    let found = Found {
        rows,
        logs,
        archives,
    };
    if let Some(locked) = &locked {
        if let Some(events) = &events {
            events.archive(|| Ok(locked.check_lock()?))?;
        }
        append(context, summary_event(&found, now).as_slice())?;
    }
    report(context, (args.dry_run, older_than), &found, printer);
    Ok(exit)
}

/// The rows of tasks that no longer exist. A task whose data cannot be seen may still exist.
fn rows(
    context: &Context,
    state: &State,
    before: DateTime<Utc>,
    exit: &mut Exit,
    printer: &mut Printer,
) -> Result<Vec<TaskRow>> {
    let config = &context.config;
    let mut stops = roots::safety_stops(config, state, roots::observe);
    let found = context.discover(printer)?;
    let counts = Counts {
        sessions: Some(found.sessions.len() as u64),
        ..Counts::default()
    };
    if found.unreadable.is_empty() {
        stops.extend(drop::safety_stops(config, &counts, &state.meta.baselines));
    } else {
        printer.warning("rows are not cleaned: not all sessions can be read");
        *exit = Exit::Unreadable;
        return Ok(Vec::new());
    }
    if !stops.is_empty() {
        printer.warning(&format!(
            "rows are not cleaned: {}",
            safety::message(&stops)
        ));
        printer.hint(&safety::hints(&stops));
        *exit = Exit::Safety;
        return Ok(Vec::new());
    }
    let gone = obsolete_rows(state, &found.sessions, &config.procedures, before);
    Ok(gone.into_iter().cloned().collect())
}

fn old_logs(context: &Context, state: &State, before: DateTime<Utc>) -> Result<Vec<OldLogs>> {
    let config = &context.config;
    let Some(log_dir) = &config.slurm.log_dir else {
        return Ok(Vec::new());
    };
    let names = log_names(state, &context.store.read_attempts()?, before);
    let mut old = find_logs(log_dir, &names, &config.roots(), before).map_err(unremoved)?;
    old.retain(|old| !old.files.is_empty());
    Ok(old)
}

fn unremoved(error: LogsError) -> Failure {
    match error {
        LogsError::BelowData { .. } => Failure::usage(
            format!("logs are not cleaned: {error}"),
            "`--rows --events` cleans the rest; delete logs in the data directories yourself",
        ),
        LogsError::Io(error) => Failure::State(error.into()),
    }
}

fn append(context: &Context, events: &[Event]) -> Result<()> {
    if events.is_empty() {
        return Ok(());
    }
    Ok(context.open_audit()?.append(events)?)
}

/// The event for what other events do not cover; `None` for nothing.
fn summary_event(found: &Found, at: DateTime<Utc>) -> Option<Event> {
    let (files, bytes) = logs_of(found);
    let archives = &found.archives;
    let events: usize = archives.iter().map(|archived| archived.events).sum();
    let mut extra = Vec::new();
    if files > 0 {
        extra.push(("logs", files.into()));
        extra.push(("log_bytes", bytes.into()));
    }
    if events > 0 {
        let paths = archives.iter().map(|archived| archived.path.display());
        let names: Vec<String> = paths.map(|path| path.to_string()).collect();
        extra.push(("events", events.into()));
        extra.push(("archives", names.into()));
    }
    (!extra.is_empty()).then(|| Event {
        extra,
        ..Event::new(at, EventKind::Pruned)
    })
}

fn logs_of(found: &Found) -> (usize, u64) {
    let files = found.logs.iter().map(|old| old.files.len()).sum();
    (files, found.logs.iter().map(OldLogs::size).sum())
}

fn report(
    context: &Context,
    (is_dry_run, older_than): (bool, Duration),
    found: &Found,
    printer: &mut Printer,
) {
    let (files, bytes) = logs_of(found);
    let verb = |would: &'static str, did: &'static str| if is_dry_run { would } else { did };
    if found.rows.is_empty() && files == 0 && found.archives.is_empty() {
        let age = duration::format(older_than);
        printer.info(&format!("nothing to clean: nothing is older than {age}"));
        return;
    }
    if !found.rows.is_empty() {
        printer.info(&format!(
            "{} {} of sessions or procedures that no longer exist to {}",
            verb("would move", "moved"),
            plural(found.rows.len(), "row"),
            context.store.paths.attempts.display()
        ));
        for row in &found.rows {
            printer.detail_line(&format!(
                "{}: {} ({})",
                row.key,
                row.status,
                row.reason_word()
            ));
        }
    }
    if files > 0 {
        printer.info(&format!(
            "{} {} of complete tasks, {}",
            verb("would remove", "removed"),
            plural(files, "log"),
            size(bytes)
        ));
        for old in &found.logs {
            for (name, bytes) in &old.files {
                let path = old.directory.join(name);
                printer.detail_line(&format!("{}, {}", path.display(), size(*bytes)));
            }
        }
    }
    for archived in &found.archives {
        printer.info(&format!(
            "{} {}, {}, in {}",
            verb("would archive", "archived"),
            plural(archived.events, "event"),
            size(archived.bytes),
            archived.path.display()
        ));
    }
}

/// `--purge --subject X`: removes a subject who withdrew consent from all files of the state.
fn purge(context: &Context, args: &CleanArgs, printer: &mut Printer) -> Result<Exit> {
    let subject = label(args.subject.as_deref().unwrap_or_default())?;
    let purge = Purge {
        log: &context.config.log_file,
        subject: &subject,
    };
    let (locked, mut state) =
        context.lock_or_read_state("clean", args.dry_run, &args.write, printer)?;
    let held = purge.find(&context.store, &state)?;
    check_removable(context, &subject, &held, &state, printer)?;
    if let Some(locked) = locked {
        purge.carry_out(&locked, &mut state, &held)?;
        if !held.is_nothing() {
            append(context, &[purge_event(&held)])?;
        }
    }
    report_purge(&subject, &held, args.dry_run, printer);
    Ok(Exit::Done)
}

/// One complete label: a pattern could remove more than intended.
fn label(text: &str) -> Result<SubjectLabel> {
    let label = match text.starts_with(SubjectLabel::PREFIX) {
        true => text.to_owned(),
        false => format!("{}{text}", SubjectLabel::PREFIX),
    };
    SubjectLabel::new(&label).map_err(|error| {
        let message = format!("--subject '{text}': {error}");
        Failure::usage(
            message,
            "--purge requires the complete label of one subject",
        )
    })
}

/// Refuses if the subject would reappear, or if its jobs still need its records.
fn check_removable(
    context: &Context,
    subject: &SubjectLabel,
    held: &SubjectData,
    state: &State,
    printer: &mut Printer,
) -> Result<()> {
    let refuse = |message: String, hint: &str| Err(Failure::usage(message, hint));
    if !state.is_stored() {
        let file = context.store.paths.state.display();
        return refuse(
            format!("the state file {file} does not exist, only copies beside it"),
            "rebuild it with `snbb-scheduler state repair --yes`, then purge",
        );
    }
    let rows = state.rows().iter();
    let rows = rows.filter(|row| *row.key.subject == *subject.as_str() && row.is_in_flight());
    if let in_flight @ 1.. = rows.count() {
        return Err(Failure::usage(
            format!("{} of {subject} in flight", plural(in_flight, "task")),
            format!(
                "run `snbb-scheduler cancel --subject {subject}`, and purge when `snbb-scheduler monitor` has recorded \
                 the end of the jobs"
            ),
        ));
    }
    if let Some(file) = held.in_use(&context.store, state) {
        let file = file.display();
        return refuse(
            format!(
                "{subject} appears in {file}, which other jobs in flight still need (an array's task list or a job's script)"
            ),
            "purge when they have ended",
        );
    }
    let cohort = lists::load(&context.config.cohort)?;
    let found = context.discover(printer)?;
    if let Some(unseen) = found.unreadable.first() {
        let path = unseen.path.display();
        return refuse(
            format!("not all sessions can be read ({path}), so {subject} may still have some"),
            "purge when everything is mounted and readable",
        );
    }
    let mut sessions = found.sessions.iter();
    if sessions.any(|session| session.subject == *subject && !cohort.excludes(session)) {
        return refuse(
            format!("{subject} still has sessions: its tasks would be submitted again"),
            "remove its data, or list it in `exclude`; then purge",
        );
    }
    Ok(())
}

fn purge_event(held: &SubjectData) -> Event {
    Event {
        detail: Some("a subject was removed (clean --purge)".to_owned()),
        extra: vec![
            ("rows", held.rows.into()),
            ("attempts", held.attempts.into()),
            ("events", held.events.into()),
        ],
        ..Event::new(sys::now(), EventKind::Pruned)
    }
}

fn report_purge(
    subject: &SubjectLabel,
    held: &SubjectData,
    is_dry_run: bool,
    printer: &mut Printer,
) {
    if held.is_nothing() {
        printer.info(&format!("no file of the state mentions {subject}"));
        return;
    }
    let (removed, deleted) = match is_dry_run {
        true => ("would remove", "would delete"),
        false => ("removed", "deleted"),
    };
    printer.info(&format!(
        "{removed} {}, {}, {} of {subject}, and its name from {}; {deleted} {}",
        plural(held.rows, "row"),
        plural(held.attempts, "earlier attempt"),
        plural(held.events, "event"),
        plural(held.texts.len(), "other file"),
        plural(held.copies.len(), "left-over file"),
    ));
    let texts = held.texts.iter().map(|(path, ..)| path);
    for path in texts.chain(&held.copies) {
        printer.detail_line(&path.display().to_string());
    }
    printer.hint(
        "data, job logs and Slurm's accounting are not part of this: see docs/cron.md for what else to check",
    );
}
