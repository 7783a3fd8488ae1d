//! `manifest`: the tasks that are due now, by the stored rows and the disk. Writes nothing.

use super::args::ManifestArgs;
use super::context::Context;
use super::error::Failure;
use super::output::Printer;
use super::views;
use crate::base::exit::Exit;
use crate::decide::manifest::{Decision, Manifest, Skip};

pub fn run(context: &Context, args: &ManifestArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let selection = context.selection(&args.select)?;
    let (found, manifest) = context.plan(selection.clone(), printer)?;
    context.refuse_no_task(&found, &args.select, &selection)?;
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
