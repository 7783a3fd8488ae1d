//! `manifest`: the tasks that are due now, by the stored rows and the disk. Writes nothing.

use std::collections::BTreeSet;

use super::args::ManifestArgs;
use super::context::Context;
use super::error::Failure;
use super::output::Printer;
use super::views;
use crate::base::exit::Exit;
use crate::decide::manifest::{Decision, Manifest, Skip};

pub fn run(context: &Context, args: &ManifestArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let selection = context.selection(&args.select)?;
    let (found, manifest) = context.plan(selection.clone(), args.look.recheck, printer)?;
    context.refuse_no_task(&found, &args.select, &selection)?;
    views::print_manifest(printer, &manifest, &context.config.procedures, args.format)?;
    Ok(warn_unreadable(
        &manifest,
        found.unreadable.is_empty(),
        printer,
    ))
}

/// Warns of what could not be read; the exit code says so.
pub fn warn_unreadable(manifest: &Manifest, all_found: bool, printer: &mut Printer) -> Exit {
    let unreadable = manifest
        .tasks
        .iter()
        .filter_map(|task| match &task.decision {
            Decision::Skip(Skip::Unreadable(what)) => Some(what),
            _ => None,
        });
    let texts =
        unreadable.map(|what| format!("cannot read {}: {}", what.path.display(), what.error));
    let texts: Vec<String> = texts.collect::<BTreeSet<_>>().into_iter().collect();
    printer.warnings_of(&texts, "more path");
    Exit::Done.unless(!texts.is_empty() || !all_found, Exit::Unreadable)
}
