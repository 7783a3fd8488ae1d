//! `manifest`: the tasks that are due now, from the stored rows and the disk. Writes nothing.

use std::collections::BTreeSet;

use super::args::ManifestArgs;
use super::context::Context;
use super::error::Result;
use super::output::Printer;
use super::views;
use crate::base::exit::Exit;
use crate::decide::manifest::{Decision, Manifest, Skip};
use crate::gather::sessions::discover::Discovery;

pub(super) fn run(context: &Context, args: &ManifestArgs, printer: &mut Printer) -> Result<Exit> {
    let (found, manifest) = context.plan_selected(&args.select, args.check.recheck, printer)?;
    views::print_manifest(printer, &manifest, &context.config.procedures, args.format)?;
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
    let paths = manifest
        .tasks
        .iter()
        .filter_map(|task| match &task.decision {
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
    Exit::Done.unless(
        !texts.is_empty() || !found.unreadable.is_empty(),
        Exit::Unreadable,
    )
}
