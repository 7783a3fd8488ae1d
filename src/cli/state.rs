//! `state verify`, `state repair` and `state path`: checks, rebuilds and locates the state.
//!
//! Without `--yes`, nothing takes a lock or writes.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use clap::ValueEnum as _;
use itertools::Itertools as _;
use polars::prelude::DataFrame;

use super::args::{PathArgs, RepairArgs, StateCommand, StateFile};
use super::context::exit_of;
use super::monitor::report_changes;
use super::run::report_strays;
use super::{Access, Context, Exit, Format, Printer, Result, TableError, TaskRow, plural, sys};
use crate::act::pass::{self, AttemptNumbers, Looked};
use crate::decide::safety;
use crate::model::state::TaskKey;
use crate::show::tables::{frame, rows_frame_of, texts, utc_time};
use crate::store::audit_log::{Event, EventKind};
use crate::store::repair::{Origin, Rebuilt};
use crate::store::sources::Sources;
use crate::store::verify::{Finding, Level};
use crate::store::{repair, verify};

/// A row that a repair adds (`+`), changes (`~`) or removes (`-`), and its origin.
type Repaired<'a> = (&'static str, &'a TaskRow, &'static str);

pub(super) fn run(
    context: &Context,
    command: &StateCommand,
    printer: &mut Printer,
) -> Result<Exit> {
    match command {
        StateCommand::Verify { format } => verify(context, *format, printer),
        StateCommand::Repair(args) => repair(context, args, printer),
        StateCommand::Path(args) => print_paths(context, args, printer),
    }
}

fn verify(context: &Context, format: Format, printer: &mut Printer) -> Result<Exit> {
    let sources = Sources::read(&context.store, &context.config.log_file)
        .of_study(&context.default_project());
    let findings = verify::verify(&sources);
    let text =
        |name: &str, get: fn(&Finding) -> Option<&str>| texts(name, findings.iter().map(get));
    let table = frame(vec![
        text("level", |f| Some(f.level.as_str())),
        text("part", |f| Some(f.part)),
        text("finding", |f| Some(&f.text)),
        text("todo", |f| f.todo.as_deref()),
    ])?;
    printer.frame(&table, format, &[], &[])?;
    let count = |level| findings.iter().filter(|f| f.level == level).count();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    let (found, more) = (plural(errors, "error"), plural(warnings, "warning"));
    printer.info(&match errors + warnings {
        0 => "no problems found".to_owned(),
        _ => format!("{found}, {more}"),
    });
    Ok(Exit::Done.unless(errors > 0, Exit::Error))
}

fn repair(context: &Context, args: &RepairArgs, printer: &mut Printer) -> Result<Exit> {
    let timeout = args.write.lock_timeout;
    let timeout = timeout.unwrap_or(context.config.lock_timeout);
    let locked = if args.yes {
        context.check_place()?;
        Some(context.store.clone().lock("state repair", timeout)?)
    } else {
        None
    };
    let sources = Sources::read(&context.store, &context.config.log_file)
        .of_study(&context.default_project())
        .require_usable()?;
    let mut rebuilt = repair::rebuild(&sources);
    context.check_ours(&rebuilt.state, &args.write)?;
    let is_marked = rebuilt.state.meta.begun_anew.is_some();
    if !rebuilt.is_needed() && !is_marked {
        printer.notes(&rebuilt.notes);
        printer.info("nothing to repair");
        if args.format != Format::Table {
            printer.frame(&repair_frame(&[])?, args.format, &[], &[])?;
        }
        return Ok(Exit::Done);
    }
    printer.warnings(rebuilt.damage.iter().chain(&rebuilt.notes));
    let looked = match args.no_slurm {
        true => Looked::default(),
        false => update(context, &sources, &mut rebuilt, printer)?,
    };
    let rows = show(&rebuilt, args.format, printer)?;
    let Some(locked) = locked else {
        printer.info("nothing was changed; `snbb-scheduler state repair --yes` repairs it");
        return Ok(exit_of(&looked));
    };
    let now = sys::now();
    let state = &mut rebuilt.state;
    state.meta.project = Some(context.project(state));
    state.meta.begun_anew = None;
    safety::drop::restore_session_count(state);
    safety::recheck::forget(&mut state.meta.baselines);
    let damage = Some(rebuilt.damage.join("; ")).filter(|damage| !damage.is_empty());
    let missing = || "rows were missing or broke a rule".to_owned();
    let mut events = looked.events.clone();
    events.push(Event {
        detail: Some(damage.unwrap_or_else(missing)),
        extra: vec![("rows", rows.into())],
        ..Event::new(now, EventKind::Repaired)
    });
    context.open_audit()?.append(&events)?;
    let stamp = now.format("%Y%m%dT%H%M%SZ").to_string();
    for path in locked.save_rebuilt(state, &rebuilt.files, &stamp)? {
        printer.note(&format!("the damaged file was kept as {}", path.display()));
    }
    printer.info(&format!(
        "repaired: {} contains {}",
        context.store.paths.state.display(),
        plural(state.len(), "row")
    ));
    Ok(exit_of(&looked))
}

/// Updates the rows as `monitor` does, and adopts running jobs without a row.
fn update(
    context: &Context,
    sources: &Sources,
    rebuilt: &mut Rebuilt,
    printer: &mut Printer,
) -> Result<Looked> {
    let outputs = context.outputs(&rebuilt.state, printer)?;
    let state = &mut rebuilt.state;
    state.meta.project = Some(context.project(state));
    // Read-only even with `--yes`: a repair must not start local jobs.
    let mut executor = context.executor(Access::ReadOnly, state)?;
    let project = context.project(state);
    let mut pass = context.pass(executor.as_mut(), outputs.as_ref(), &project);
    let mut looked = pass.look(state);
    report_changes(&looked, printer);
    let changed = looked.changed.iter();
    let mut touched: Vec<TaskKey> = changed.map(|(_, row)| row.key.clone()).collect();
    let queue = looked.observation.queue.got();
    match queue.map(|queue| (queue, context.discover(printer))) {
        Some((queue, Ok(found))) => {
            let strays = pass.strays(&context.store, state, &found.sessions, queue, false);
            let attempts = sources.attempts.read();
            let attempts = attempts.map_or(&[][..], |contents| &contents.rows);
            let history = AttemptNumbers::new(attempts, state);
            let adopted = pass::adopt(state, &strays.adopt, &history, sys::now());
            looked.events.extend(adopted);
            report_strays(&strays, state, context, printer);
            touched.extend(strays.adopt.into_iter().map(|(key, _)| key));
        }
        Some((_, Err(failure))) => printer.warning(&format!(
            "{failure}; jobs without a row are left to the next run"
        )),
        None => {}
    }
    for key in touched {
        // An update from Slurm does not change the origin of a row.
        rebuilt.origins.entry(key).or_insert(Origin::World);
    }
    Ok(looked)
}

/// Shows the rows that differ from those in the state file, and returns their number.
fn show(rebuilt: &Rebuilt, format: Format, printer: &mut Printer) -> Result<usize> {
    let (before, after) = (&rebuilt.before, &rebuilt.state);
    let all = after.rows().iter().chain(before.rows());
    let changes = all.filter_map(|row| match (before.get(&row.key), after.get(&row.key)) {
        (None, Some(new)) => Some(("+", new)),
        (Some(old), None) => Some(("-", old)),
        (Some(old), Some(new)) if old != new => Some(("~", new)),
        _ => None,
    });
    let origin = |row: &TaskRow| rebuilt.origins.get(&row.key).copied();
    let changes = changes.unique_by(|(_, row)| &row.key);
    let changes = changes.sorted_by_key(|(_, row)| &row.key);
    let rows =
        changes.map(|(sign, row)| (sign, row, origin(row).unwrap_or(Origin::World).as_str()));
    let rows: Vec<Repaired<'_>> = rows.collect();
    let kept = || rows.iter().filter(|(sign, ..)| *sign != "-");
    let origins = kept().counts_by(|(.., origin)| origin);
    let removed = rows.len() - kept().count();
    let unchanged = after.len().saturating_sub(kept().count());
    let mut lines = vec![(unchanged, format!("unchanged from the {}", rebuilt.base))];
    let origins = origins.into_iter().sorted();
    lines.extend(origins.map(|(origin, count)| (count, format!("from the {origin}"))));
    lines.extend([
        (
            removed,
            "removed: cleared by retry, or never a job".to_owned(),
        ),
        (
            rebuilt.past,
            "earlier attempts, for the attempts file".to_owned(),
        ),
    ]);
    printer.info(&format!("rows of the repaired state: {}", after.len()));
    for (count, what) in lines.into_iter().filter(|(count, _)| *count > 0) {
        printer.info(&format!("{count:>8}  {what}"));
    }
    if !rows.is_empty() || format != Format::Table {
        printer.frame(&repair_frame(&rows)?, format, &["status"], &["attempt"])?;
    }
    Ok(rows.len())
}

/// Prints the paths of the state's files. Reads none of them.
fn print_paths(context: &Context, args: &PathArgs, printer: &mut Printer) -> Result<Exit> {
    match args.file {
        // A path need not be UTF-8.
        Some(file) => {
            let mut line = path_of(context, file).as_os_str().as_bytes().to_vec();
            line.push(b'\n');
            printer.data(&line);
        }
        None => {
            let all = StateFile::value_variants().iter();
            let name = |file: &StateFile| Some(file.to_possible_value()?.get_name().to_owned());
            let path = |file: &StateFile| Some(path_of(context, *file).to_string_lossy());
            let table = frame(vec![
                texts("file", all.clone().map(name)),
                texts("path", all.map(path)),
            ]);
            printer.frame(&table?, args.format, &[], &[])?;
        }
    }
    Ok(Exit::Done)
}

fn path_of(context: &Context, file: StateFile) -> &Path {
    let paths = &context.store.paths;
    match file {
        StateFile::State => &paths.state,
        StateFile::Attempts => &paths.attempts,
        StateFile::Audit => &context.config.log_file,
        StateFile::Backup => &paths.backup,
        StateFile::Journal => &paths.journal,
        StateFile::Control => &paths.control,
        StateFile::Calls => &paths.calls,
        StateFile::Lock => &paths.lock,
        StateFile::Local => &paths.local,
        StateFile::Arrays => &paths.arrays,
    }
}

const REPAIR_COLUMNS: &str = "procedure subject session status reason attempt job_id";

/// One row per task, with `change` before its columns and `from` after them.
fn repair_frame(rows: &[Repaired<'_>]) -> Result<DataFrame, TableError> {
    let own: Vec<&TaskRow> = rows.iter().map(|(_, row, _)| *row).collect();
    let columns: Vec<&str> = REPAIR_COLUMNS.split(' ').collect();
    let own = rows_frame_of(&own, None, &columns, utc_time)?;
    let mut columns = vec![texts("change", rows.iter().map(|(sign, ..)| Some(sign)))];
    columns.extend(own.into_columns());
    columns.push(texts("from", rows.iter().map(|(.., origin)| Some(origin))));
    frame(columns)
}
