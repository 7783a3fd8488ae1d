//! `state verify`, `state repair` and `state path`: checks, rebuilds and locates the state.
//!
//! Without `--yes`, nothing takes a lock or writes.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use clap::ValueEnum as _;
use itertools::Itertools as _;
use polars::prelude::DataFrame;

use super::args::{PathArgs, RepairArgs, StateArgs, StateCommand, StateFile, VerifyArgs};
use super::monitor::{exit_of, report_changes};
use super::run::report_strays;
use super::{Access, Context, Exit, Format, Printer, Result};
use crate::act::pass;
use crate::act::pass::{AttemptNumbers, Looked, listings, logged_tasks};
use crate::base::sys;
use crate::base::text::plural;
use crate::decide::reconcile::strays;
use crate::decide::reconcile::strays::{Records, Strays};
use crate::decide::safety;
use crate::model::state::{State, TaskKey, TaskRow};
use crate::show::tables::{TableError, frame, numbers, texts};
use crate::store::audit_log::{Event, EventKind};
use crate::store::repair::{Origin, Rebuilt};
use crate::store::sources::Sources;
use crate::store::state_file::LockedStore;
use crate::store::verify::{Finding, Level};
use crate::store::{repair, verify};

/// A row that a repair adds, changes or removes.
#[derive(Debug, Clone, PartialEq)]
struct Repaired {
    /// `+`, `~` or `-`.
    sign: &'static str,
    row: TaskRow,
    origin: &'static str,
}

pub(super) fn run(context: &Context, args: &StateArgs, printer: &mut Printer) -> Result<Exit> {
    match &args.command {
        StateCommand::Verify(args) => verify(context, args, printer),
        StateCommand::Repair(args) => repair(context, args, printer),
        StateCommand::Path(args) => print_paths(context, args, printer),
    }
}

fn verify(context: &Context, args: &VerifyArgs, printer: &mut Printer) -> Result<Exit> {
    let sources = Sources::read(&context.store, &context.config.log_file)
        .of_study(&context.default_project());
    let findings = verify::verify(&sources);
    printer.frame(&findings_frame(&findings)?, args.format, &[], &[])?;
    let count = |level| findings.iter().filter(|f| f.level == level).count();
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    if errors + warnings == 0 {
        printer.info("no problems found");
    } else {
        printer.info(&format!(
            "{}, {}",
            plural(errors, "error"),
            plural(warnings, "warning")
        ));
    }
    Ok(if errors == 0 { Exit::Done } else { Exit::Error })
}

fn repair(context: &Context, args: &RepairArgs, printer: &mut Printer) -> Result<Exit> {
    let locked = if args.yes {
        let timeout = args
            .write
            .lock_timeout
            .unwrap_or(context.config.lock_timeout);
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
        for note in &rebuilt.notes {
            printer.note(note);
        }
        printer.info("nothing to repair");
        if args.format != Format::Table {
            printer.frame(&repair_frame(&[])?, args.format, &[], &[])?;
        }
        return Ok(Exit::Done);
    }
    for problem in rebuilt.damage.iter().chain(&rebuilt.notes) {
        printer.warning(problem);
    }
    let looked = if args.no_slurm {
        None
    } else {
        Some(update(context, &sources, &mut rebuilt, printer)?)
    };
    let rows = compare(&rebuilt);
    show(&rebuilt, &rows, args.format, printer)?;
    match locked {
        None => {
            printer.info("nothing has been changed; to carry out the repair: snbb-scheduler state repair --yes");
        }
        Some(locked) => save(
            context,
            &locked,
            &mut rebuilt,
            &rows,
            looked.as_ref(),
            printer,
        )?,
    }
    Ok(looked.map_or(Exit::Done, |looked| exit_of(&looked)))
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
    let mut looked = pass::look(
        &context.config,
        state,
        executor.as_mut(),
        outputs.as_ref(),
        &sys::now,
    );
    report_changes(&looked, printer);
    let changed = looked.changed.iter();
    let mut touched: Vec<TaskKey> = changed.map(|(_, row)| row.key.clone()).collect();
    if let Some(strays) = find_strays(context, state, &looked, printer) {
        let attempts = sources
            .attempts
            .read()
            .map_or(&[][..], |contents| &contents.rows);
        let history = AttemptNumbers::new(attempts, state);
        looked
            .events
            .extend(pass::adopt(state, &strays.adopt, &history, sys::now()));
        report_strays(&strays, state, context, printer);
        touched.extend(strays.adopt.into_iter().map(|(key, _)| key));
    }
    for key in touched {
        // An update from Slurm does not change the origin of a row.
        rebuilt.origins.entry(key).or_insert(Origin::World);
    }
    Ok(looked)
}

fn find_strays(
    context: &Context,
    state: &State,
    looked: &Looked,
    printer: &mut Printer,
) -> Option<Strays> {
    let queue = looked.observation.queue.got()?;
    let sessions = match context.discover(printer) {
        Ok(found) => found.sessions,
        Err(failure) => {
            printer.warning(&format!(
                "{failure}; running jobs without a row are left to the next run"
            ));
            return None;
        }
    };
    let project = context.project(state);
    Some(strays::compare(
        queue,
        state,
        &context.config.procedures,
        &sessions,
        &project,
        false,
        &Records {
            task_of: &logged_tasks(&context.config.log_file, &project),
            listing: &listings(&context.store.paths.arrays),
        },
    ))
}

/// The rows that differ from those in the state file.
fn compare(rebuilt: &Rebuilt) -> Vec<Repaired> {
    let (before, after) = (&rebuilt.before, &rebuilt.state);
    let all = after.rows().iter().chain(before.rows());
    let changes = all.filter_map(|row| match (before.get(&row.key), after.get(&row.key)) {
        (None, Some(new)) => Some(("+", new)),
        (Some(old), None) => Some(("-", old)),
        (Some(old), Some(new)) if old != new => Some(("~", new)),
        _ => None,
    });
    let origin = |row: &TaskRow| rebuilt.origins.get(&row.key).copied();
    let rows = changes.unique_by(|(_, row)| &row.key);
    let mut rows = rows
        .map(|(sign, row)| Repaired {
            sign,
            row: row.clone(),
            origin: origin(row).unwrap_or(Origin::World).as_str(),
        })
        .collect_vec();
    rows.sort_by(|a, b| a.row.key.cmp(&b.row.key));
    rows
}

fn show(rebuilt: &Rebuilt, rows: &[Repaired], format: Format, printer: &mut Printer) -> Result<()> {
    let kept = || rows.iter().filter(|row| row.sign != "-");
    let origins = kept().counts_by(|row| row.origin).into_iter().sorted();
    let all = rebuilt.state.len();
    let unchanged = format!("unchanged from the {}", rebuilt.base);
    let mut lines = vec![(all.saturating_sub(kept().count()), unchanged)];
    lines.extend(origins.map(|(origin, count)| (count, format!("from the {origin}"))));
    let removed = "removed: cleared by retry, or never a job".to_owned();
    lines.push((rows.len() - kept().count(), removed));
    let earlier = "earlier attempts, for the attempts file".to_owned();
    lines.push((rebuilt.past, earlier));
    printer.info(&format!("rows of the repaired state: {all}"));
    for (count, what) in lines.into_iter().filter(|(count, _)| *count > 0) {
        printer.info(&format!("{count:>8}  {what}"));
    }
    if !rows.is_empty() || format != Format::Table {
        printer.frame(&repair_frame(rows)?, format, &["status"], &["attempt"])?;
    }
    Ok(())
}

fn save(
    context: &Context,
    locked: &LockedStore,
    rebuilt: &mut Rebuilt,
    rows: &[Repaired],
    looked: Option<&Looked>,
    printer: &mut Printer,
) -> Result<()> {
    let now = sys::now();
    let state = &mut rebuilt.state;
    state.meta.project = Some(context.project(state));
    state.meta.begun_anew = None;
    safety::drop::restore_session_count(state);
    safety::recheck::forget(&mut state.meta.baselines);
    let mut events = looked.map_or_else(Vec::new, |looked| looked.events.clone());
    let damage = Some(rebuilt.damage.join("; ")).filter(|damage| !damage.is_empty());
    let missing = || "rows were missing or broke a rule".to_owned();
    events.push(Event {
        detail: Some(damage.unwrap_or_else(missing)),
        extra: vec![("rows", rows.len().into())],
        ..Event::new(now, EventKind::Repaired)
    });
    context.open_audit()?.append(&events)?;
    let stamp = now.format("%Y%m%dT%H%M%SZ").to_string();
    let kept: Vec<PathBuf> = locked.save_rebuilt(state, &rebuilt.files, &stamp)?;
    for path in kept {
        printer.note(&format!("the damaged file was kept as {}", path.display()));
    }
    printer.info(&format!(
        "repaired: {} contains {}",
        context.store.paths.state.display(),
        plural(state.len(), "row")
    ));
    Ok(())
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

/// One row per finding: `level, part, finding, todo`.
fn findings_frame(findings: &[Finding]) -> Result<DataFrame, TableError> {
    let text =
        |name: &str, get: fn(&Finding) -> Option<&str>| texts(name, findings.iter().map(get));
    frame(vec![
        text("level", |f| Some(f.level.as_str())),
        text("part", |f| Some(f.part)),
        text("finding", |f| Some(&f.text)),
        text("todo", |f| f.todo.as_deref()),
    ])
}

/// One row per task: `change, procedure, subject, session, status, reason, attempt, job_id, from`.
fn repair_frame(rows: &[Repaired]) -> Result<DataFrame, TableError> {
    let text = |name: &str, get: fn(&Repaired) -> Option<&str>| texts(name, rows.iter().map(get));
    frame(vec![
        text("change", |r| Some(r.sign)),
        text("procedure", |r| Some(&r.row.key.procedure)),
        text("subject", |r| Some(&r.row.key.subject)),
        text("session", |r| Some(&r.row.key.session)),
        text("status", |r| Some(r.row.status.as_str())),
        text("reason", |r| r.row.reason.map(|reason| reason.as_str())),
        numbers("attempt", rows.iter().map(|r| r.row.attempt.map(i64::from))),
        text("job_id", |r| r.row.job_id.as_ref().map(|id| id.as_str())),
        text("from", |r| Some(r.origin)),
    ])
}
