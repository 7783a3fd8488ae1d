//! `clean`: removes old rows of tasks that no longer exist, old logs of complete tasks, and old events.
//!
//! Rows go to the attempts file and events to archives beside the audit log; only logs are deleted.
//! `--dry-run` reports the same and writes nothing.

use chrono::{DateTime, Utc};

use super::args::CleanArgs;
use super::{Context, Exit, Failure, Printer, Result, State, TaskRow, maybe, plural, sys};
use crate::act::clean::{LogsError, OldLogs, find_logs, log_names, obsolete_rows};
use crate::base::text::size;
use crate::config::duration;
use crate::decide::safety::{self, Counts, drop, roots};
use crate::gather::sessions::lists;
use crate::model::bids::{SubjectLabel, with_prefix};
use crate::store::audit_log::archive::{Archived, OldEvents};
use crate::store::audit_log::{Event, EventKind};
use crate::store::purge::SubjectData;

pub(super) fn run(context: &Context, args: &CleanArgs, printer: &mut Printer) -> Result<Exit> {
    let Some(older_than) = args.older_than else {
        return purge(context, args, printer);
    };
    let age = chrono::Duration::from_std(older_than).unwrap_or(chrono::Duration::MAX);
    let now = sys::now();
    let before = now - age;
    let is_meant = |part: bool| part || !(args.rows || args.logs || args.events);
    let (locked, mut state) =
        context.lock_or_read_state("clean", args.dry_run, &args.write, printer)?;
    let mut exit = Exit::Done;
    let rows = match is_meant(args.rows) {
        true => rows(context, &state, before, &mut exit, printer)?,
        false => Vec::new(),
    };
    let mut logs = Vec::new();
    if let Some(log_dir) = &context.config.slurm.log_dir
        && is_meant(args.logs)
    {
        let names = log_names(&state, &context.store.read_attempts()?, before);
        logs = find_logs(log_dir, &names, &context.config.roots(), before).map_err(unremoved)?;
        logs.retain(|old| !old.files.is_empty());
    }
    if let Some(locked) = &locked {
        let events = rows.iter().map(|row| Event {
            detail: Some("its session or procedure no longer exists".to_owned()),
            ..Event::of(row, now, EventKind::Pruned)
        });
        context.open_audit()?.append(&events.collect::<Vec<_>>())?;
        for row in &rows {
            state.clear(&row.key);
        }
        locked.save(&mut state)?;
        for old in &logs {
            old.remove().map_err(unremoved)?;
        }
    }
    // Only now, after the events of the rows were appended to the log.
    let events = match is_meant(args.events) {
        true => OldEvents::find(&context.config.log_file, before)?,
        false => None,
    };
    let archives: Vec<Archived> = events.iter().flat_map(OldEvents::archives).collect();
    if let Some(locked) = &locked {
        if let Some(events) = &events {
            events.archive(|| Ok(locked.check_lock()?))?;
        }
        // What other events do not cover.
        let mut extra = Vec::new();
        if let (files @ 1.., bytes) = sizes(&logs) {
            extra.extend([("logs", files.into()), ("log_bytes", bytes.into())]);
        }
        if !archives.is_empty() {
            let count: usize = archives.iter().map(|archived| archived.events).sum();
            let paths = archives.iter().map(|archived| archived.path.display());
            let paths: Vec<String> = paths.map(|path| path.to_string()).collect();
            extra.extend([("events", count.into()), ("archives", paths.into())]);
        }
        if !extra.is_empty() {
            let event = Event::new(now, EventKind::Pruned);
            context.open_audit()?.append(&[Event { extra, ..event }])?;
        }
    }
    report(context, args, (&rows, &logs, &archives), printer);
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
    if !found.unreadable.is_empty() {
        printer.warning("rows are not cleaned: not all sessions can be read");
        *exit = Exit::Unreadable;
        return Ok(Vec::new());
    }
    let counts = Counts {
        sessions: Some(found.sessions.len() as u64),
        ..Counts::default()
    };
    stops.extend(drop::safety_stops(config, &counts, &state.meta.baselines));
    if !stops.is_empty() {
        let why = safety::message(&stops);
        printer.warning(&format!("rows are not cleaned: {why}"));
        printer.hint(&safety::hints(&stops));
        *exit = Exit::Safety;
        return Ok(Vec::new());
    }
    let gone = obsolete_rows(state, &found.sessions, &config.procedures, before);
    Ok(gone.into_iter().cloned().collect())
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

/// Number and bytes of the logs.
fn sizes(logs: &[OldLogs]) -> (usize, u64) {
    let files = logs.iter().map(|old| old.files.len()).sum();
    (files, logs.iter().map(OldLogs::size).sum())
}

fn report(
    context: &Context,
    args: &CleanArgs,
    (rows, logs, archives): (&[TaskRow], &[OldLogs], &[Archived]),
    printer: &mut Printer,
) {
    let mut done = Vec::new();
    if !rows.is_empty() {
        let (rows, attempts) = (plural(rows.len(), "row"), &context.store.paths.attempts);
        let to = attempts.display();
        let what = format!("{rows} of sessions or procedures that no longer exist to {to}");
        done.push(("would move", "moved", what));
    }
    if let (files @ 1.., bytes) = sizes(logs) {
        let what = format!(
            "{} of complete tasks, {}",
            plural(files, "log"),
            size(bytes)
        );
        done.push(("would remove", "removed", what));
    }
    for Archived {
        path,
        events,
        bytes,
    } in archives
    {
        let (events, bytes, path) = (plural(*events, "event"), size(*bytes), path.display());
        let what = format!("{events}, {bytes}, in {path}");
        done.push(("would archive", "archived", what));
    }
    if done.is_empty() {
        let age = maybe(" than ", args.older_than.map(duration::format), "");
        printer.info(&format!("nothing to clean: nothing is older{age}"));
    }
    for (would, did, what) in done {
        let verb = if args.dry_run { would } else { did };
        printer.info(&format!("{verb} {what}"));
    }
    for row in rows {
        let reason = row.reason_word();
        printer.detail_line(&format!("{}: {} ({reason})", row.key, row.status));
    }
    for old in logs {
        for (name, bytes) in &old.files {
            let path = old.directory.join(name);
            printer.detail_line(&format!("{}, {}", path.display(), size(*bytes)));
        }
    }
}

/// `--purge --subject X`: removes a subject who withdrew consent from all files of the state.
fn purge(context: &Context, args: &CleanArgs, printer: &mut Printer) -> Result<Exit> {
    let subject = label(args.subject.as_deref().unwrap_or_default())?;
    let (locked, mut state) =
        context.lock_or_read_state("clean", args.dry_run, &args.write, printer)?;
    let held = SubjectData::find(&context.store, &state, &context.config.log_file, &subject)?;
    // Refuses if the subject would reappear, or if its jobs still need its records.
    let refuse = |message: String, hint: &str| Err(Failure::usage(message, hint));
    if !state.is_stored() {
        let file = context.store.paths.state.display();
        return refuse(
            format!("the state file {file} does not exist, only copies beside it"),
            "rebuild it with `snbb-scheduler state repair --yes`, then purge",
        );
    }
    let is_own = |row: &&TaskRow| *row.key.subject == *subject.as_str() && row.is_in_flight();
    if let in_flight @ 1.. = state.rows().iter().filter(is_own).count() {
        return refuse(
            format!("{} of {subject} in flight", plural(in_flight, "task")),
            "run `snbb-scheduler cancel` for the subject, and purge when `snbb-scheduler monitor` has recorded the end of \
             the jobs",
        );
    }
    if let Some(file) = held.in_use(&context.store, &state) {
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
    if sessions.any(|session| session.subject == subject && !cohort.excludes(session)) {
        return refuse(
            format!("{subject} still has sessions: its tasks would be submitted again"),
            "remove its data, or list it in `exclude`; then purge",
        );
    }
    if held.is_nothing() {
        let keys = state.rows().iter().map(|row| &row.key);
        context.refuse_unknown(keys, (args.subject.as_slice(), &[]))?;
        printer.info(&format!("no file of the state mentions {subject}"));
        return Ok(Exit::Done);
    }
    if let Some(locked) = locked {
        held.remove(&locked, &mut state, &subject)?;
        let event = Event {
            detail: Some("a subject was removed (clean --purge)".to_owned()),
            extra: vec![
                ("rows", held.rows.into()),
                ("attempts", held.attempts.into()),
                ("events", held.events.into()),
            ],
            ..Event::new(sys::now(), EventKind::Pruned)
        };
        context.open_audit()?.append(&[event])?;
    }
    let verb = if args.dry_run {
        "would remove"
    } else {
        "removed"
    };
    printer.info(&format!(
        "{verb} {}, {}, {} of {subject}, {}, and its name from {}",
        plural(held.rows, "row"),
        plural(held.attempts, "earlier attempt"),
        plural(held.events, "event"),
        plural(held.copies.len(), "left-over file"),
        plural(held.texts.len(), "other file"),
    ));
    let texts = held.texts.iter().map(|(path, ..)| path);
    for path in texts.chain(&held.copies) {
        printer.detail_line(&path.display().to_string());
    }
    printer.hint("data, job logs and Slurm's accounting stay: see docs/cron.md");
    Ok(Exit::Done)
}

/// One complete label: a pattern could remove more than intended.
fn label(text: &str) -> Result<SubjectLabel> {
    SubjectLabel::new(&with_prefix(text, SubjectLabel::PREFIX)).map_err(|error| {
        Failure::usage(
            format!("--subject '{text}': {error}"),
            "--purge requires the complete label of one subject",
        )
    })
}
