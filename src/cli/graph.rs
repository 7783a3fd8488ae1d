//! `graph`: the pipeline as a picture, with what has become of its tasks. Writes nothing.

use super::args::GraphArgs;
use super::context::Context;
use super::error::Failure;
use super::manifest::warn_unreadable;
use super::output::Printer;
use crate::base::exit::Exit;
use crate::show::graph::Graph;

pub fn run(context: &Context, args: &GraphArgs, printer: &mut Printer) -> Result<Exit, Failure> {
    let selection = context.selection(&args.select)?;
    let (found, manifest) = context.plan(selection.clone(), args.look.recheck, printer)?;
    context.refuse_no_task(&found, &args.select, &selection)?;
    let graph = Graph::new(manifest.tasks.iter(), &context.config.procedures);
    printer.data(graph.draw(args.format).as_bytes());
    Ok(warn_unreadable(
        &manifest,
        found.unreadable.is_empty(),
        printer,
    ))
}
