//! `outputs`: the outputs of complete tasks, for rsync, tar or DataLad. Writes nothing.
//!
//! Checks all paths before it prints the first, so that it never prints part of a wrong list.

use std::collections::HashSet;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use super::args::{ListFormat, OutputRoot, OutputsArgs};
use super::manifest::warn_unreadable;
use super::{Context, Exit, Failure, Printer, Result};
use crate::base::parallel;
use crate::base::text::few;
use crate::config::paths::absolute;
use crate::decide::manifest::{Decision, Planned, Skip};
use crate::show::outputs::Outputs;
use crate::show::tables;

/// A path of a task's outputs.
struct Listed<'a> {
    task: &'a Planned,
    path: PathBuf,
}

pub(super) fn run(context: &Context, args: &OutputsArgs, printer: &mut Printer) -> Result<Exit> {
    let selection = context.selection(&args.select)?;
    let (found, manifest, _) = context.decide(selection.clone(), true, printer)?;
    context.refuse_no_task(&found, &args.select, &selection)?;
    let is_complete = |task: &&Planned| {
        matches!(
            task.decision,
            Decision::Skip(Skip::Complete | Skip::Stale(_) | Skip::LateInput)
        )
    };
    let tasks: Vec<&Planned> = manifest.tasks.iter().filter(is_complete).collect();
    let mut exit = warn_unreadable(&manifest, &found, printer);
    let mut listed = Vec::new();
    let outputs = Outputs::new(&context.config);
    let looked = parallel::map(&tasks, context.config.scan_threads, |task| {
        outputs.list(task, args.files)
    });
    for (task, outcome) in tasks.into_iter().zip(looked) {
        match outcome {
            Ok(paths) => listed.extend(paths.into_iter().map(|path| Listed { task, path })),
            Err(error) => {
                printer.warning(&format!("{error}; the outputs of its task are omitted"));
                exit = Exit::Unreadable;
            }
        }
    }
    let listed = relative(context, args, listed)?;
    warn_of_writers(context, &listed, printer)?;
    print(context, args, &listed, printer)?;
    if listed.is_empty() {
        printer.note(
            "no selected task is complete, so there are no outputs to list; `snbb-scheduler session-status` shows the status of the tasks",
        );
    }
    Ok(exit)
}

/// Makes paths relative if requested.
fn relative<'a>(
    context: &Context,
    args: &OutputsArgs,
    listed: Vec<Listed<'a>>,
) -> Result<Vec<Listed<'a>>> {
    let config = &context.config;
    if let Some(root) = args.root {
        let root = match root {
            OutputRoot::Bids => &config.bids_root,
            OutputRoot::Derivatives => &config.derivatives_root,
        };
        let below = |listed: Listed<'a>| {
            let path = listed.path.strip_prefix(root).ok()?.to_owned();
            Some(Listed { path, ..listed })
        };
        return Ok(listed.into_iter().filter_map(below).collect());
    }
    let Some(base) = &args.relative_to else {
        return Ok(listed);
    };
    let here = std::env::current_dir().unwrap_or_default();
    let base = absolute(&here, base.as_os_str());
    let below = |listed: Listed<'a>| match listed.path.strip_prefix(&base) {
        Ok(path) => Ok(Listed {
            path: path.to_owned(),
            ..listed
        }),
        Err(_) => Err(Failure::usage(
            format!("{} is not below {}", listed.path.display(), base.display()),
            "use a directory above all outputs, select with --procedure, or use --root bids or --root derivatives",
        )),
    };
    listed.into_iter().map(below).collect()
}

/// Warns of directories of complete tasks to which a job of another task may be writing.
fn warn_of_writers(context: &Context, listed: &[Listed<'_>], printer: &mut Printer) -> Result<()> {
    let config = &context.config;
    let state = context.store.read()?;
    let roots = config.output_roots();
    let mut writers = Vec::new();
    let places: HashSet<PathBuf> = listed
        .iter()
        .map(|listed| {
            let procedure = config.procedures.get(listed.task.procedure);
            let task = listed.task;
            roots.output(procedure, task.subject.as_str(), task.session.as_str())
        })
        .collect();
    for row in state.rows().iter().filter(|row| row.is_in_flight()) {
        let Some(id) = config.procedures.find(&row.key.procedure) else {
            continue;
        };
        let procedure = config.procedures.get(id);
        let place = roots.output(procedure, &row.key.subject, &row.key.session);
        if places.contains(&place) {
            writers.push(row.key.to_string());
        }
    }
    if !writers.is_empty() {
        printer.warning(&format!(
            "jobs in flight may be writing to listed directories: {}",
            few(&writers, 1)
        ));
    }
    Ok(())
}

fn print(
    context: &Context,
    args: &OutputsArgs,
    listed: &[Listed<'_>],
    printer: &mut Printer,
) -> Result<()> {
    let mut bytes = Vec::new();
    match args.format {
        ListFormat::Lines => {
            let end = if args.null { b'\0' } else { b'\n' };
            for path in distinct(listed) {
                let path = path.as_os_str().as_bytes();
                if !args.null && path.contains(&b'\n') {
                    return Err(unprintable(path, "contains a line break"));
                }
                bytes.extend_from_slice(path);
                bytes.push(end);
            }
        }
        ListFormat::Json | ListFormat::Csv => {
            for listed in listed {
                let path = listed.path.as_os_str().as_bytes();
                std::str::from_utf8(path).map_err(|_| unprintable(path, "is not UTF-8"))?;
            }
            let rows = listed.iter().map(|one| (one.task, one.path.as_path()));
            let frame = tables::outputs(&rows.collect::<Vec<_>>(), &context.config.procedures)?;
            bytes = match args.format {
                ListFormat::Json => tables::to_json(&frame)?,
                _ => tables::to_csv(&frame)?,
            };
        }
    }
    printer.data(&bytes);
    Ok(())
}

/// Omits repeated paths and those below another listed one.
fn distinct<'a>(listed: &'a [Listed<'_>]) -> Vec<&'a Path> {
    let all: HashSet<&Path> = listed.iter().map(|listed| listed.path.as_path()).collect();
    let mut seen = HashSet::new();
    listed
        .iter()
        .map(|listed| listed.path.as_path())
        .filter(|path| seen.insert(*path))
        .filter(|path| !path.ancestors().skip(1).any(|above| all.contains(above)))
        .collect()
}

fn unprintable(path: &[u8], what: &str) -> Failure {
    Failure::usage(
        format!(
            "a name {what}: '{}'; nothing was listed",
            path.escape_ascii()
        ),
        "use `--null` to list any name (rsync --from0, tar --null, xargs -0)",
    )
}
