//! `graph`: a drawing of the pipeline and the status of its tasks. Writes nothing.

use super::args::GraphArgs;
use super::context::Context;
use super::error::Result;
use super::manifest::warn_unreadable;
use super::output::Printer;
use crate::base::exit::Exit;
use crate::show::graph::Graph;

pub(super) fn run(context: &Context, args: &GraphArgs, printer: &mut Printer) -> Result<Exit> {
    let (found, manifest) = context.plan_selected(&args.select, args.check.recheck, printer)?;
    let graph = Graph::new(manifest.tasks.iter(), &context.config.procedures);
    printer.data(graph.draw(args.format).as_bytes());
    Ok(warn_unreadable(&manifest, &found, printer))
}
