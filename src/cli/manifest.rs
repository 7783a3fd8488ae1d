//! `manifest` and `graph`: the tasks that are due now, and a drawing of the pipeline with the status of its tasks, from
//! the stored rows and the disk. Writes nothing.

use std::collections::BTreeSet;

use super::args::{GraphArgs, ManifestArgs};
use super::{Context, Exit, Printer, Result, views};
use crate::decide::manifest::{Decision, Manifest, Skip};
use crate::gather::sessions::discover::Discovery;
use crate::show::graph::Graph;

pub(super) fn run(context: &Context, args: &ManifestArgs, printer: &mut Printer) -> Result<Exit> {
    let (found, manifest) = context.plan_selected(&args.select, args.check.recheck, printer)?;
    views::print_manifest(printer, &manifest, &context.config.procedures, args.format)?;
    Ok(warn_unreadable(&manifest, &found, printer))
}

pub(super) fn graph(context: &Context, args: &GraphArgs, printer: &mut Printer) -> Result<Exit> {
    let (found, manifest) = context.plan_selected(&args.select, args.check.recheck, printer)?;
    let graph = Graph::new(manifest.tasks.iter(), &context.config.procedures);
    printer.data(graph.draw(args.format).as_bytes());
    Ok(warn_unreadable(&manifest, &found, printer))
}

/// Warns of unreadable paths, and returns the exit code for them.
pub(super) fn warn_unreadable(
    manifest: &Manifest,
    found: &Discovery,
    printer: &mut Printer,
) -> Exit {
    warn_of(unreadable(manifest), found, printer)
}

/// What [`warn_unreadable`] reports, for when the tasks are no longer needed otherwise.
pub(super) fn unreadable(manifest: &Manifest) -> BTreeSet<String> {
    let tasks = manifest.tasks.iter();
    let paths = tasks.filter_map(|task| match &task.decision {
        Decision::Skip(Skip::Unreadable(what)) => Some(what),
        _ => None,
    });
    paths
        .map(|what| format!("cannot read {}: {}", what.path.display(), what.error))
        .collect()
}

pub(super) fn warn_of(
    unreadable: BTreeSet<String>,
    found: &Discovery,
    printer: &mut Printer,
) -> Exit {
    let texts: Vec<String> = unreadable.into_iter().collect();
    printer.warnings_of(&texts, "more path");
    let is_partial = !texts.is_empty() || !found.unreadable.is_empty();
    Exit::Done.unless(is_partial, Exit::Unreadable)
}
