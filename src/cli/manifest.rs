//! `manifest`: the tasks that are due now, by the stored rows and the disk. Writes nothing.

use super::args::ManifestArgs;
use super::context::Context;
use super::error::Failure;
use super::output::Printer;
use super::unknown::{self, Known};
use super::views::{self, RunSummary};
use crate::exit::Exit;
use crate::manifest::{Decision, Manifest, Skip};

pub fn run(context: &Context, args: &ManifestArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let selection = context.selection(&args.select)?;
    let is_everything = selection.is_everything();
    let (found, manifest) = context.plan(selection, printer)?;
    let is_told = unknown::tell(&Known::in_study(&found), &args.select, printer);
    if !is_told && !is_everything && RunSummary::of(0, &manifest).tasks == 0 {
        printer.warning("no task of the study matches the selection");
    }
    views::print_manifest(printer, &manifest, &context.config.procedures, args.format)?;
    Ok(warn_unreadable(
        &manifest,
        found.unreadable.is_empty(),
        printer,
    ))
}

/// Names what could not be read, and chooses the exit code accordingly.
pub fn warn_unreadable(manifest: &Manifest, all_found: bool, printer: &mut Printer) -> Exit {
    const SHOWN: usize = 10;
    let mut paths: Vec<String> = manifest
        .tasks
        .iter()
        .filter_map(|task| match &task.decision {
            Decision::Skip(Skip::Unreadable(what)) => {
                Some(format!("{}: {}", what.path.display(), what.error))
            }
            _ => None,
        })
        .collect();
    paths.sort();
    paths.dedup();
    for path in paths.iter().take(SHOWN) {
        printer.warning(&format!("cannot read {path}"));
    }
    if paths.len() > SHOWN {
        printer.warning(&format!("and {} more paths", paths.len() - SHOWN));
    }
    if paths.is_empty() && all_found {
        Exit::Done
    } else {
        Exit::Unreadable
    }
}
